"""`hearth bridge --to`: one MCP client on standard input and output, one Streamable HTTP server of either era.

    carrying   what the client says: which way each message takes, and in which order
    aside      what the bridge asks for itself: a new session, the tools whose headers it does not know
    asking     one request, from its POST to its answer
    streams    what a server says as events; streams that are taken up again
    session    what a legacy server was told, and is told again after it forgot (pure)
    refusals   what an HTTP status means (pure)
    headers    what goes into the headers of a request (pure)
    messages   what a line, a body or an event says (pure)
    http1      HTTP/1.1, bytes to responses (pure)
    web, wires requests over connections; sockets
    proxies    the proxy on the way, if the environment names one
    target     the address (pure)
    errands    logins and references, asked of a process that has more than the standard library

Messages pass as they are. As in the bridge to the daemon: standard library only, no asyncio, threads that block; of the
standard library neither `http.client` nor `socket`, `json`, `re` or `typing`, each of which takes longer to load than
everything here. TLS loads `ssl`.
"""
