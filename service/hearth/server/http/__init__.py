"""HTTP on the daemon's own socket. Loaded with the first connection that speaks it; nothing else imports it.

connection   one connection: uvicorn's parser, and limits on how long and how large a request may be
front        what all connections share: the sessions, the routes, the answers to `/status` and the like
mcp          POST, GET and DELETE of `/mcp`: which era a request is of, and what becomes of it
exchange     one request and its answer: JSON, or events until a stream ends
sse_old      the endpoints of the oldest revision: `GET /sse`, `POST /messages`
checks       what is refused before anybody looks into the message: addresses, origins, types. Pure
sessions     who is there: legacy sessions by their ids, modern clients by who they are
outlets      what the hub says to a session, sorted into streams
streams      the messages of one stream, and what a reader has missed
metrics      `/metrics`, loaded with the first scrape
responses    JSON and events as HTTP carries them
"""
