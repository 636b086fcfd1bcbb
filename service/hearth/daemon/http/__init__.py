"""HTTP on the daemon's socket and ports. Loaded with the first HTTP connection; nothing else imports it.

connection        one connection: limits on the duration and size of a request
uvicorn_protocol  the only module that reaches into uvicorn, and why; incoming data cut into requests, and its transport
app               the app that all connections share: sessions, routes, request guard, `/status` and the like
mcp               POST, GET and DELETE of `/mcp`: the era of a request, and its handling; `/sse` of the oldest revision
api               `/api/v1/…`, loaded with the first request to it
exchange          one request and its answer: JSON, or events until a stream ends
http_messages     addresses, origins and types of requests; parts of responses; event ids. Pure
admission         connections at a port that have shown the token, rate limits of sessions, bodies of requests
sessions          legacy sessions by their ids, modern clients by their identity
session_store     legacy sessions on disk, which outlive the daemon
sink              the client sink of a session: messages of the hub, sorted into streams
streams           the messages of one stream, and those that a reader has missed; replay buffers
metrics           `/metrics`, loaded with the first scrape
"""
