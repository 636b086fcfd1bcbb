"""A program that opens session after session over HTTP, and never uses one: who works with the daemon loses nothing."""

import json

from support.daemon import Scratch, server
from support.http.clients import BOTH, Connection, LegacyHttp
from support.http.sessions import echoes, files, http_sessions, kill

# More than may be there at once (max_connections), and more than are kept on disk.
OPENINGS = 1300
OPENING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}},
}


def flood(connection: Connection, count: int) -> None:
    """Open so many sessions, and do nothing with them."""
    headers = {"Content-Type": "application/json", "Accept": BOTH}
    for _ in range(count):
        connection.request("POST", "/mcp", json.dumps(OPENING), headers)
        response = connection.getresponse()
        assert response.status == 200 and response.headers["Mcp-Session-Id"]
        response.read()


def test_a_session_in_use_outlasts_a_flood_of_openings(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    busy, quiet = LegacyHttp(scratch), LegacyHttp(scratch)
    for client in (busy, quiet):
        client.open()
        assert echoes(client)
    connection = scratch.own(Connection(scratch.socket))
    for turn in range(10):
        flood(connection, OPENINGS // 10)
        assert echoes(busy, text=f"turn {turn}")
    # One that was used before it, and not since, is still there too: it need not come back from disk.
    assert echoes(quiet)
    assert "the session goes on here" not in scratch.logged()
    assert len(http_sessions(scratch)) == 1024 and len(files(scratch)) <= 1000
    assert "make room for others" in scratch.logged() and "sessions over HTTP are over" in scratch.logged()
    kill(daemon)
    scratch.start()
    assert echoes(busy) and echoes(quiet)
