"""OAuth logins to servers behind a url, one for all clients, as MCP specifies (2026-07-28, basic/authorization).

    metadata     challenges, descriptions of a server and its authorization server, the addresses that those may name
    tokens       discovery of the authorization server, and requests to it: tokens, registration, revocation
    logins       a complete login: client identity, request, stored tokens; invitations, status, logout
    redirect     the authorization request, and the listener on loopback for the browser's return
    store        storage: tokens in the vault, the rest in files
    account      one server's login in a running daemon: tokens, refreshed once for all connections

Imported with the first 401, or with a stored login: a daemon whose servers need no login never loads it.
"""
