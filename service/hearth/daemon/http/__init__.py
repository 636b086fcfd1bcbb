"""HTTP on the daemon's own socket. Loaded with the first connection that speaks it; nothing else imports it.

connection   one connection: uvicorn's parser, and limits on how long and how large a request may be
incoming     what comes on it, one request at a time
outgoing     what goes out on it, and its end
settings     what uvicorn is told
front        what all connections share: the sessions, the routes, the answers to `/status` and the like
mcp          POST, GET and DELETE of `/mcp`: which era a request is of, and what becomes of it
exchange     one request and its answer: JSON, or events until a stream ends
sse_old      the endpoints of the oldest revision: `GET /sse`, `POST /messages`
checks       what is refused before anybody looks into the message: addresses, origins, types. Pure
guests       who has shown the token at a port, and is let in for as long as it is the token
gates        how much a session may send
sessions     who is there: legacy sessions by their ids, modern clients by who they are
who          who sends a request, as far as it tells
kept         legacy sessions on disk, which outlive the daemon
outlets      what the hub says to a session, sorted into streams
streams      the messages of one stream, and what a reader has missed
finished     streams that have ended, kept for who comes back: how many of all sessions together
event_ids    what an event's id says, to this daemon and to the next. Pure
metrics      `/metrics`, loaded with the first scrape
responses    JSON and events as HTTP carries them
"""
