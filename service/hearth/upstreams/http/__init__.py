"""MCP servers that are reached by a url: Streamable HTTP of both eras, and the HTTP+SSE of 2024-11-05.

    connection   the connection itself, over one of two carriers
    streamable   a POST for each message, its answer on the POST's own stream; sessions in the legacy era
    conversation state and replies of one conversation, without I/O
    streams      streams of events that break and are resumed; HTTP+SSE, with one stream for all messages of the server
    target       the server that one session names (`hearth bridge --to`)
    credentials  headers and logins that requests carry
    client       requests over httpx, which `client_setup` constructs: loaded when the first such server is started

Importing this package loads no HTTP library.
"""
