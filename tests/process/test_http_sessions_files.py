"""Sessions on disk: whose they are, how long they last, and what becomes of them where the disk is at fault."""

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import COMMAND, Scratch, server
from support.http.clients import LegacyHttp
from support.http.sessions import echoes, files, folder, go_out, http_sessions, kill
from support.mounts import full_mount, read_only_mount


@pytest.fixture
def client(scratch: Scratch) -> LegacyHttp:
    """One whose daemon has been killed."""
    daemon = scratch.serve({"echo": server("echo"), "other": server("echo")})
    found = LegacyHttp(scratch).opened()
    kill(daemon)
    return found


def test_a_file_tells_its_owner_only_and_not_the_id(scratch: Scratch, client: LegacyHttp) -> None:
    [file] = files(scratch)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder(scratch).stat().st_mode) == 0o700
    id = client.headers["Mcp-Session-Id"]
    assert id not in file.name and id not in file.read_text()


def test_half_an_hour_without_use_ends_it_whichever_daemon_there_is(scratch: Scratch, client: LegacyHttp) -> None:
    [file] = files(scratch)
    long_ago = time.time() - 30 * 60 - 1
    os.utime(file, (long_ago, long_ago))
    scratch.start()
    assert client.post("ping").status == 404
    assert files(scratch) == []


def test_its_time_runs_from_its_last_use(scratch: Scratch, client: LegacyHttp) -> None:
    [file] = files(scratch)
    a_while_ago = time.time() - 29 * 60
    os.utime(file, (a_while_ago, a_while_ago))
    daemon = scratch.start()
    assert echoes(client)
    assert file.stat().st_mtime < a_while_ago + 60
    go_out(daemon)
    # Said at the end, not with the request.
    assert file.stat().st_mtime > a_while_ago + 20 * 60


@pytest.mark.parametrize(("at", "value"), [(0, 4711), (3, "echo")])
@pytest.mark.quick
def test_a_session_of_another_user_or_of_another_address_is_not_there(
    scratch: Scratch, client: LegacyHttp, at: int, value: object
) -> None:
    [file] = files(scratch)
    record = json.loads(file.read_text())
    record["who"][at] = value
    file.write_text(json.dumps(record))
    scratch.start()
    for method in ("POST", "DELETE"):
        assert client.request(method, {"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 404
    # It is somebody's.
    assert files(scratch) == [file]


@pytest.mark.quick
def test_at_the_address_of_one_server_it_is_not_that_of_another(scratch: Scratch, client: LegacyHttp) -> None:
    scratch.start()
    assert client.request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, path="/mcp/echo").status == 404
    assert echoes(client)
    assert client.request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, path="/mcp/other").status == 404


@pytest.mark.quick
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/other"])
def test_a_session_for_one_server_is_unknown_at_other_addresses(scratch: Scratch, path: str, method: str) -> None:
    scratch.serve({"echo": server("echo"), "other": server("echo")})
    client = LegacyHttp(scratch, "/mcp/echo").opened()
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
    assert client.request(method, body, path=path).status == 404
    assert client.post("ping").status == 200


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def noise(file: Path) -> None:
    file.write_bytes(os.urandom(3000))


def no_opening(file: Path) -> None:
    record = json.loads(file.read_text())
    del record["lines"]["initialize"]
    file.write_text(json.dumps(record))


def no_message(file: Path) -> None:
    record = json.loads(file.read_text())
    record["lines"]["initialize"] = "{"
    file.write_text(json.dumps(record))


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("spoil", [half, noise, no_opening, no_message, a_folder])
def test_what_makes_no_sense_is_no_session_and_nobody_else_is_worse_off(
    scratch: Scratch, client: LegacyHttp, spoil: Callable[[Path], None]
) -> None:
    [file] = files(scratch)
    spoil(file)
    scratch.start()
    other = LegacyHttp(scratch).opened()
    assert client.post("ping").status == 404
    assert echoes(other)
    assert len(http_sessions(scratch)) == 1
    client.headers.clear()
    client.open()
    assert echoes(client)


@pytest.mark.parametrize("mount", [full_mount, read_only_mount])
def test_where_nothing_can_be_written_sessions_end_with_the_daemon_and_it_is_said_once(
    scratch: Scratch, mount: Callable[[], list[str]]
) -> None:
    scratch.configure({"echo": server("echo")})
    folder(scratch).mkdir(mode=0o700, parents=True)
    daemon = scratch.start(command=(*mount(), str(folder(scratch)), *COMMAND))
    clients = [LegacyHttp(scratch) for _ in range(3)]
    for each in clients:
        each.open()
        assert each.post("logging/setLevel", {"level": "error"}).json()["result"] == {}
        assert echoes(each)
    assert scratch.logged().count("sessions over HTTP cannot be written") == 1
    go_out(daemon)
    scratch.start()
    for each in clients:
        assert each.post("ping").status == 404


def test_a_daemon_that_nobody_spoke_http_to_leaves_no_folder(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    assert scratch.lines().ask("ping")["result"] == {}
    go_out(daemon)
    assert not folder(scratch).exists()
