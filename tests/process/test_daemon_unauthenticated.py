"""Who may come in, what a server's process gets, and that no line can pass for a frame."""

import json
import os
import pwd
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from hearth.daemon.acceptor import CONTROL_PLACES, RESERVED_DESCRIPTORS, SERVER_DESCRIPTORS
from support.clients import Closed, LinesClient, Message, Stream, text_of
from support.daemon import COMMAND, Scratch, server
from support.kernel import BOUND_SECONDS, is_gone, until
from support.other_users import python, stranger
from support.requirements import needs_program

# Connects, sends one request by lines and prints what comes back until EOF.
KNOCK = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
sock.connect(sys.argv[1])
try:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
    sock.shutdown(socket.SHUT_WR)
except BrokenPipeError:
    pass
try:
    while data := sock.recv(65536):
        sys.stdout.buffer.write(data)
except ConnectionResetError:
    pass
"""


def open_doors(scratch: Scratch) -> None:
    """Take away what keeps others from reaching the socket at all, as a careless chmod would."""
    for folder in (scratch.home, scratch.runtime, Path(scratch.socket).parent):
        folder.chmod(0o755)
    Path(scratch.socket).chmod(0o666)


def knock_as(user: pwd.struct_passwd, path: str) -> bytes:
    setpriv = needs_program("setpriv")
    found = subprocess.run(
        [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", python(), "-c", KNOCK, path],
        capture_output=True,
        timeout=BOUND_SECONDS,
        check=False,
        cwd="/",
    )
    assert found.returncode == 0, found.stderr.decode()
    return found.stdout


def assert_refused(said: bytes, uid: int) -> None:
    message = json.loads(said)
    assert "result" not in message
    assert message["error"]["code"] == -32603
    assert f"uid {uid} may not use the daemon of uid {os.getuid()}" in message["error"]["message"]


def test_another_user_who_reaches_the_socket_is_refused(scratch: Scratch) -> None:
    user = stranger()
    scratch.start()
    open_doors(scratch)
    assert_refused(knock_as(user, scratch.socket), user.pw_uid)
    assert scratch.status()["sessions"] == []
    assert f"uid {user.pw_uid} may not use" in scratch.logged()


def test_another_user_cannot_reach_the_socket_in_the_first_place(scratch: Scratch) -> None:
    user = stranger()
    scratch.start()
    scratch.home.chmod(0o755)
    scratch.runtime.chmod(0o755)
    with pytest.raises(AssertionError, match="PermissionError"):
        knock_as(user, scratch.socket)


def test_a_user_that_the_config_names_is_let_in_and_the_own_one_only_if_named(scratch: Scratch) -> None:
    user = stranger()
    scratch.serve(allowed_uids=[user.pw_uid, os.getuid()])
    open_doors(scratch)
    assert json.loads(knock_as(user, scratch.socket))["result"] == {}


def test_a_group_that_the_config_names_is_let_in(scratch: Scratch) -> None:
    user = stranger()
    scratch.serve(allowed_gids=[user.pw_gid])
    open_doors(scratch)
    assert json.loads(knock_as(user, scratch.socket))["result"] == {}


def test_a_degraded_daemon_explains_nothing_to_another_user(scratch: Scratch) -> None:
    user = stranger()
    scratch.write_config("secret = [")
    scratch.start()
    open_doors(scratch)
    assert knock_as(user, scratch.socket) == b""
    assert "error" in scratch.lines().ask("ping")


def test_one_connection_more_than_allowed_is_refused_and_room_is_made_again(scratch: Scratch) -> None:
    scratch.serve(max_connections=2)
    first, second = scratch.lines(), scratch.frames()
    first.ask("ping")
    third = scratch.lines()
    third.begin("ping")
    assert "max_connections" in third.receive()["error"]["message"]
    with pytest.raises(Closed):
        third.receive()
    fourth = scratch.control()
    fourth.send_frame({"type": "hello", "protocol": 1})
    assert "max_connections" in fourth.receive_type("error")[0]["message"]
    second.close()

    def admitted() -> bool:
        with LinesClient(scratch.socket) as fifth:
            try:
                return "result" in fifth.ask("ping")
            except (Closed, BrokenPipeError):
                return False

    until(admitted, "there is room again")
    assert first.ask("ping")["result"] == {}


def test_a_daemon_that_is_full_can_still_be_asked_for_its_status_and_told_to_stop(scratch: Scratch) -> None:
    daemon = scratch.serve(max_connections=1)
    scratch.lines().ask("ping")
    assert len(scratch.status()["sessions"]) == 1
    scratch.control().control("shutdown")
    assert daemon.wait() == 0


def test_silent_connections_are_counted_too_and_the_refused_are_told(scratch: Scratch) -> None:
    scratch.serve(max_connections=1)
    for _ in range(1 + CONTROL_PLACES):
        scratch.own(LinesClient(scratch.socket))
    assert "max_connections" in scratch.lines().receive()["error"]["message"]


def test_who_does_not_say_what_it_speaks_gives_way_where_there_is_no_room(scratch: Scratch) -> None:
    scratch.serve(max_connections=1)
    silent = [scratch.own(LinesClient(scratch.socket)) for _ in range(1 + CONTROL_PLACES)]

    def answers() -> bool:
        try:
            return bool(scratch.status()["running"])
        except (Closed, OSError, ValueError):
            return False

    until(answers, "somebody who says nothing gives way to a command")
    assert "no room for who does not say what it wants" in silent[0].receive()["error"]["message"]
    assert silent[-1].ask("ping")["result"] == {}


def test_a_crowd_that_is_refused_is_one_line_in_the_log(scratch: Scratch) -> None:
    scratch.serve(max_connections=1)
    scratch.lines().ask("ping")
    for _ in range(10):
        refused = scratch.lines()
        refused.begin("ping")
        assert "max_connections" in refused.receive()["error"]["message"]
        greeting = scratch.control()
        greeting.send_frame({"type": "hello", "protocol": 1})
        assert "max_connections" in greeting.receive_type("error")[0]["message"]
    assert scratch.logged().count("a connection is refused") == 1


def test_the_limit_of_open_files_refuses_in_words_and_leaves_room_for_servers(scratch: Scratch) -> None:
    scratch.configure({"rec": server("recording", scratch.home / "record")})
    files = 100
    scratch.start(command=("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *COMMAND))
    room = files - RESERVED_DESCRIPTORS - SERVER_DESCRIPTORS
    clients = [scratch.lines() for _ in range(room)]
    for client in clients:
        client.ask("ping")
    late = scratch.lines()
    late.begin("ping")
    assert f"the limit of {files} open files" in late.receive()["error"]["message"]
    assert text_of(clients[-1].call("rec__echo", text="x")) == "heard"
    assert len(scratch.status()["sessions"]) == room
    assert "no connection can be accepted" not in scratch.logged()


# --- what a server's process gets


@pytest.fixture(scope="module")
def serving(shared: Scratch) -> Scratch:
    """A daemon with the recording server, started with more in its environment than any server should get."""
    shared.configure({"rec": server("recording", shared.home / "record", env={"NAMED": "yes", "TOKEN": "${A_SECRET}"})})
    inherited = os.open("/dev/zero", os.O_RDONLY)
    try:
        shared.start(
            fds=(inherited,), A_SECRET="s3cret", NOT_NAMED="no", LISTEN_FDS="7", LISTEN_PID="1", NOTIFY_SOCKET="@none"
        )
    finally:
        os.close(inherited)
    return shared


@pytest.fixture(scope="module")
def about(serving: Scratch) -> Message:
    """What the recording server was given, as it saw it itself."""
    with serving.lines() as client, serving.frames():
        return json.loads(text_of(client.call("rec__about")))


def test_a_server_inherits_no_listening_socket_and_no_connection(about: Message) -> None:
    # The one beyond stdio is its own record.
    assert [target for fd, target in about["fds"].items() if int(fd) > 2 and "record" not in target] == []


def test_a_server_s_standard_streams_are_pipes(about: Message) -> None:
    assert all(about["fds"][fd].startswith("pipe:") for fd in ("0", "1", "2"))


def test_a_server_gets_what_its_entry_names_and_nothing_of_the_daemon_s_own(about: Message) -> None:
    assert (about["env"]["NAMED"], about["env"]["TOKEN"]) == ("yes", "s3cret")
    private = {"NOT_NAMED", "A_SECRET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET"}
    assert not private & set(about["env"])


def test_a_server_leads_a_process_group_of_its_own_in_the_home_folder(about: Message, serving: Scratch) -> None:
    assert about["group"] == about["pid"]
    assert about["cwd"] == str(serving.home)
    assert not is_gone(about["pid"])


# --- forging


def test_a_line_that_tries_to_forge_a_frame_forges_nothing(scratch: Scratch) -> None:
    record = scratch.home / "record"
    daemon = scratch.serve({"rec": server("recording", record)})
    client = scratch.frames()
    forged = b'{"jsonrpc":"2.0","id":1,"method":"ping"},"type":"shutdown","seq":1}'
    frame = (len(forged) + 2).to_bytes(4, "big") + len(forged).to_bytes(2, "big") + forged
    for line in (
        forged,
        b'{"type":"shutdown","seq":9}',
        b'{"type":"goodbye"}',
        frame,
        b'{"jsonrpc":"2.0","id":2,"method":"ping"}\x00\x00\x00\x1d\x00\x1b{"type":"shutdown","seq":9}',
    ):
        client.send_line(line)
        assert "error" in client.receive()
    words = {"name": "rec__echo", "arguments": {"text": '"}},"type":"shutdown","seq":1}\n{"type":"shutdown"}'}}
    assert text_of(client.ask("tools/call", words)) == "heard"
    assert json.loads(record.read_bytes().splitlines()[-1])["params"]["arguments"] == words["arguments"]
    assert {header["type"] for header in client.headers} <= {"helloAck", "ownerChanged", "mcp", "ack"}
    assert not is_gone(daemon.pid)


def test_a_control_request_among_lines_is_only_a_line(scratch: Scratch) -> None:
    daemon = scratch.start()
    client = scratch.lines()
    client.ask("ping")
    for line in (b'{"type":"shutdown","seq":1}', b"\x00\x00\x00\x1d\x00\x1b" + b'{"type":"shutdown","seq":9}'):
        client.send_line(line)
        assert client.receive()["error"]["code"] in (-32600, -32700)
    assert client.ask("ping")["result"] == {}
    assert not is_gone(daemon.pid)


# --- what is said to those who speak something else


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (b"GET nothing\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n"),
        (b'{"type":"hello"}\n', b'{"type":"error","message":"session lines are not served'),
        (b"hello?\n", b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"expected frames, or MCP messages'),
        (b'["a batch"]\n', b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"expected frames, or MCP messages'),
    ],
)
def test_another_language_gets_one_sentence_and_the_end(serving: Scratch, words: bytes, answer: bytes) -> None:
    stream = Stream(serving.socket)
    stream.send(words)
    said = b""
    while data := stream.socket.recv(65536):
        said += data
    stream.close()
    assert said.startswith(answer)


@pytest.mark.parametrize("first", [b"{", b'{"jsonrpc', b"  ", b'{"a":1,', b"\x00\x00"])
def test_a_connection_that_ends_before_it_has_said_anything_is_closed(serving: Scratch, first: bytes) -> None:
    stream = Stream(serving.socket)
    stream.send(first)
    stream.end_input()
    stream.socket.settimeout(BOUND_SECONDS)
    while stream.socket.recv(65536):
        pass
    stream.close()


def test_frames_of_a_newer_protocol_are_refused_with_what_to_do(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.control()
    client.send_frame({"type": "hello", "protocol": 99})
    refusal, _ = client.receive_type("error")
    assert "frame protocol 99" in refusal["message"]
    assert "restart the older of the two" in refusal["message"]
    with pytest.raises(Closed):
        client.receive_frame()


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x00\x02\x00\x00",  # no header
        b"\x00\x00\x00\x09\x00\xff{}",  # a header longer than its frame
        b"\x00\x00\x00\x05\x00\x03{]}",  # no JSON
        b"\x00\x00\x00\x06\x00\x04null",  # no object
        b'\x00\x00\x00\x10\x00\x0e{"type":"mcp"}',  # a line before hello
        b'\x00\x00\x00\x12\x00\x10{"type":"dance"}',  # an unknown type
    ],
)
def test_a_broken_frame_is_refused_and_others_are_served_on(serving: Scratch, frame: bytes) -> None:
    client = serving.control()
    client.stream.send(frame)
    assert client.receive_type("error")[0]["message"]
    with pytest.raises(Closed):
        client.receive_frame()
    assert serving.lines().ask("ping")["result"] == {}


def test_a_frame_beyond_the_largest_there_is_is_refused(serving: Scratch) -> None:
    client = serving.frames()
    client.stream.send(b"\x0f\xff\xff\xff\x00\x02{}")
    assert "limit" in client.receive_type("error")[0]["message"]


def test_empty_lines_before_a_message_are_passed_over(serving: Scratch) -> None:
    client = serving.lines()
    client.stream.send(b"\r\n")
    client.stream.send(b"\n")
    assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize("first", [b"\t", b"\x0f\xff\xff\xff", b"\n" * 100])
def test_what_nobody_speaks_is_answered_at_once_and_not_waited_for(serving: Scratch, first: bytes) -> None:
    client = serving.lines()
    client.stream.send(first)
    assert "expected frames, or MCP messages" in client.receive()["error"]["message"]


def test_the_socket_is_closed_on_exec_in_the_daemon(scratch: Scratch) -> None:
    daemon = scratch.start()
    scratch.lines().ask("ping")
    for name in os.listdir(f"/proc/{daemon.pid}/fd"):
        if int(name) > 2 and stat.S_ISSOCK(os.stat(f"/proc/{daemon.pid}/fd/{name}").st_mode):
            flags = Path(f"/proc/{daemon.pid}/fdinfo/{name}").read_text().split("flags:")[1].split()[0]
            assert int(flags, 8) & os.O_CLOEXEC, name


def test_credentials_are_the_kernel_s_and_not_the_client_s_word(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.frames(pid=1, clientId="x")
    (session,) = scratch.status()["sessions"]
    assert session["pid"] == os.getpid()
    assert client.stream.socket.family == socket.AF_UNIX
