"""A port for HTTP that a real systemd holds: off until somebody enables it; then it lights the daemon, too."""

import pytest

from e2e.systemd.seat import SOCKET, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

PORT_UNIT = "mcp-http.socket"
ADDRESS = "http://127.0.0.1:3847/status"
# The status and the body of an answer; the rest of the machine has no curl.
ASK = """
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""

# Posts a message of MCP's; prints the status, the session's id and the body.
POST = """
import sys, urllib.error, urllib.request
url, token, session, body = sys.argv[1:]
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "*/*"}
if session:
    headers["Mcp-Session-Id"] = session
try:
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=30) as answer:
        print(answer.status, answer.headers["mcp-session-id"], answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, session, error.read().decode())
"""
OPENING = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"t","version":"1"}}}'
)


def test_the_port_lights_the_daemon_for_who_has_the_token_and_goes_with_uninstall(seat: Seat) -> None:
    assert seat.show("UnitFileState", PORT_UNIT) == "disabled"
    seat.configure(idle_timeout=1)
    seat.systemctl("enable", "--now", PORT_UNIT)
    token = seat.hearth("token", "show").stdout.strip()
    assert seat.state() == "inactive"
    assert seat.check("python3", "-c", ASK, ADDRESS, "wrong").startswith("401 ")
    told = seat.check("python3", "-c", ASK, ADDRESS, token)
    assert told.startswith("200 ") and '"activation":"systemd"' in told and "127.0.0.1:3847" in told
    seat.await_state("inactive")
    assert (seat.state(PORT_UNIT), seat.state(SOCKET)) == ("active", "active")
    assert seat.check("python3", "-c", ASK, ADDRESS, token).startswith("200 ")
    assert seat.starts() == 2
    seat.ok("uninstall")
    assert seat.state(PORT_UNIT) == "inactive"


def test_a_session_goes_on_in_the_daemon_that_systemd_lights_next(seat: Seat) -> None:
    seat.configure(idle_timeout=1)
    seat.systemctl("enable", "--now", PORT_UNIT)
    token = seat.hearth("token", "show").stdout.strip()
    url = ADDRESS.replace("/status", "/mcp")
    opened, session, _ = seat.check("python3", "-c", POST, url, token, "", OPENING).split(" ", 2)
    assert opened == "200"
    seat.await_state("inactive")
    ping = '{"jsonrpc":"2.0","id":"again","method":"ping"}'
    told = seat.check("python3", "-c", POST, url, token, session, ping)
    assert told.startswith("200 ") and '"id":"again","result":{}' in told
    assert seat.starts() == 2
    assert seat.check("python3", "-c", POST, url, token, "0" * 48, ping).startswith("404 ")
