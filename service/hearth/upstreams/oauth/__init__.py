"""Logging in to servers behind a url, once for every client: OAuth as MCP has it (2026-07-28, basic/authorization).

    metadata     challenges, and descriptions of a server and its authorization server   pure
    discovery    reading those descriptions
    tokens       requests to the authorization server: tokens, registration, end
    logins       a whole login: who this client is, the request, the tokens kept
    redirect     the authorization request, and the listener on loopback for the browser's return
    store        what is kept: tokens in the vault, the rest in a file
    invitation   a login by an address that a client shows
    overview     what is known of logins, and their end
    account      one server's login in a running daemon: tokens, refreshed by one for all

Imported with the first 401, or with a login that is kept: a daemon whose servers want none never loads it.
"""
