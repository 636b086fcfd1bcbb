"""Who is the person: commands and hooks of processes below agents, and ways to look like somebody else."""

import base64
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.clients import FramesClient, Message, frame, text_of
from support.daemon import COMMAND, Scratch, handing_over, server
from support.hook_payloads import tool_call
from support.http.clients import HttpClient, bearer, port_of
from support.kernel import until
from support.policies import TEAM, Team

AGENT = Path(__file__).parents[1] / "support" / "agent.py"
PERSON = AGENT.with_name("person.py")
STRICT = TEAM.replace("[roles.dev]\n", '[roles.dev]\notherwise = "deny"\n')
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
CALL = {"name": "count__once", "arguments": {"key": "k1"}}
HEARTH = (sys.executable, "-I", "-m", "hearth")
# Connects, hands the connection to its parent, and ends.
CONNECTOR = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
socket.send_fds(socket.socket(fileno=0), [b"x"], [connection.fileno()])
"""


@pytest.fixture
def team(scratch: Scratch) -> Team:
    found = Team(scratch, STRICT)
    found.serve()
    return found


def agent(team: Team, *command: str, stdin: bytes = b"") -> Message:
    """Run a command below an agent of the default role, which is below this test's own client."""
    words = [sys.executable, "-I", str(AGENT), str(team.scratch.socket), *command]
    done = subprocess.run(words, input=stdin, env=team.scratch.environment(), capture_output=True, check=True)
    return dict(json.loads(done.stdout))


def test_a_process_that_asks_and_leaves_is_no_person(team: Team) -> None:
    dev = team.client()
    dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    ours, theirs = socket.socketpair()
    subprocess.run([sys.executable, "-c", CONNECTOR, str(team.scratch.socket)], stdin=theirs.fileno(), check=True)
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    with socket.socket(fileno=descriptors[0]) as orphan, ours, theirs:
        orphan.settimeout(20)
        orphan.sendall(frame({"type": "decide", "seq": 1, "id": waiting["id"], "action": "approve"}))
        assert b"has ended, so nothing tells whether it is a person's" in orphan.recv(1 << 16)
    assert team.ran() == []


def test_a_hook_has_the_role_of_the_nearest_agent_and_not_of_the_lead_above_it(team: Team) -> None:
    team.client("tl")
    hook = (*HEARTH, "hook", "pre-tool-use", "--client", "claude")
    done = agent(team, *hook, stdin=tool_call("claude", "Bash", {"command": "make install"}))
    assert '"deny"' in done["stdout"], done


@pytest.mark.parametrize("server", ["hearth", "count"])
def test_a_tool_of_a_server_that_is_only_named_like_hearth_s_is_decided(team: Team, server: str) -> None:
    hook = [*HEARTH, "hook", "pre-tool-use", "--client", "claude"]
    tool = "count__once" if server == "hearth" else "once"
    given = tool_call("claude", f"mcp__{server}__{tool}", {"key": "k1"})
    done = subprocess.run(hook, input=given, env=team.scratch.environment(), capture_output=True, check=False)
    assert b'"deny"' in done.stdout, done
    # With a session of this very client the hub decides, and the hook has no opinion.
    hello: Message = {} if server == "hearth" else {"server": server}
    assert tool in team.scratch.frames(**hello).initialized().tools()
    done = subprocess.run(hook, input=given, env=team.scratch.environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    # A server's own name may go on like Hearth's.
    given = tool_call("claude", f"mcp__{server}__x__run", {"key": "k1"})
    done = subprocess.run(hook, input=given, env=team.scratch.environment(), capture_output=True, check=False)
    assert b'"deny"' in done.stdout, done


@pytest.mark.parametrize("words", [("stop", "--yes"), ("restart", "--yes"), ("reload", "--yes")])
def test_a_shell_below_an_agent_that_is_not_the_owner_gives_no_command(team: Team, words: tuple[str, ...]) -> None:
    team.client("tl")
    done = agent(team, *HEARTH, *words)
    assert done["code"] != 0 and "for a person" in done["stderr"], done
    assert team.scratch.status()["sessions"]


@pytest.mark.parametrize("path", ["shutdown", "reload", "servers/echo/restart"])
def test_a_process_below_an_agent_gives_no_command_by_http_on_the_socket(team: Team, path: str) -> None:
    team.client()
    found = HttpClient(team.scratch, f"/api/v1/{path}").request("POST", {})
    assert (found.status, "for a person" in found.text()) == (403, True)
    assert team.scratch.status()["sessions"]


@pytest.mark.parametrize("words", [("role", "token", "tl"), ("role", "revoke", "00"), ("policy", "init", "--force")])
def test_a_shell_below_an_agent_issues_no_token_and_writes_no_policy(team: Team, words: tuple[str, ...]) -> None:
    team.client()
    before = team.policy.read_bytes()
    done = team.scratch.hearth(*words)
    assert done.returncode == 5 and "for a person" in done.stderr, done
    assert team.policy.read_bytes() == before
    assert team.tokens.list() == []


CHANGES: list[tuple[str, ...]] = [
    ("config", "set", "idle_timeout", "5"),
    ("add", "shell", "--", "sh"),
    ("remove", "echo"),
    ("enable", "echo"),
    ("disable", "count"),
    ("pack", "enable", "hearth"),
    ("pack", "disable", "hearth"),
    ("tools", "block", "echo__add"),
    ("import", "servers.json", "--yes"),
    ("connect", "claude-code", "--yes"),
    ("connect", "claude-code", "--hooks", "--yes"),
    ("disconnect", "claude-code"),
]


@pytest.mark.parametrize("words", CHANGES, ids=" ".join)
def test_a_shell_below_an_agent_changes_no_config(team: Team, words: tuple[str, ...]) -> None:
    imported = team.scratch.home / "servers.json"
    imported.write_text(json.dumps({"mcpServers": {"more": {"command": "sh"}}}))
    client = team.scratch.home / ".claude.json"
    client.write_text("{}")
    team.client()
    before = team.scratch.config.read_bytes()
    done = team.scratch.hearth(*(str(imported) if word == imported.name else word for word in words))
    assert done.returncode == 5 and "for a person, and runs below 'test-client'" in done.stderr, done
    assert (team.scratch.config.read_bytes(), client.read_text()) == (before, "{}")
    shown = team.scratch.hearth("config", "set", "idle_timeout", "5", "--dry-run")
    assert shown.returncode == 0, shown


def test_a_shell_below_an_agent_is_refused_before_it_edits_the_config(team: Team) -> None:
    team.client()
    opened = team.scratch.home / "opened"
    environment = {**team.scratch.environment(), "VISUAL": f"touch {opened}"}
    done = subprocess.run([*HEARTH, "config", "edit"], env=environment, capture_output=True, check=False)
    assert done.returncode == 5 and b"for a person" in done.stderr, done
    assert not opened.exists()


def test_a_person_changes_the_config_under_a_policy(team: Team) -> None:
    team.client()
    assert team.person("config", "set", "idle_timeout", "5").returncode == 0
    assert team.person("disable", "count").returncode == 0
    text = team.scratch.config.read_text()
    assert "idle_timeout = 5" in text and "disabled = true" in text


def test_without_a_policy_the_config_is_changed_from_anywhere(scratch: Scratch) -> None:
    team = Team(scratch, policy="")
    team.serve()
    team.client()
    assert scratch.hearth("config", "set", "idle_timeout", "5").returncode == 0


def test_a_person_issues_and_revokes_tokens(team: Team) -> None:
    team.client()
    assert team.person("role", "token", "tl").returncode == 0
    (issued,) = team.tokens.list()
    assert team.person("role", "revoke", issued.id).returncode == 0


def test_a_session_of_an_agent_is_never_the_owner_and_stops_nothing(team: Team) -> None:
    Path(team.tokens.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    worker = team.scratch.frames(roleToken=team.tokens.issue("dev", "worker-1"))
    assert worker.session["isOwner"] is False
    worker.initialize()
    answer, _ = worker.control("shutdown")
    assert answer["ok"] is False and "never the owner" in answer["message"]


def test_a_session_is_not_resumed_in_another_role(team: Team) -> None:
    dev = team.client()
    former = {"sessionId": dev.session["sessionId"], "secret": dev.session["secret"]}
    lead = team.scratch.frames(roleToken=team.token("tl"), resume=former)
    assert lead.session["sessionId"] != former["sessionId"]
    dev.close()
    until(lambda: len(team.scratch.status()["sessions"]) == 1, "the session has left")
    lead = team.scratch.frames(roleToken=team.token("tl"), resume=former)
    assert lead.session["sessionId"] != former["sessionId"] and lead.session["secret"] != former["secret"]
    again = FramesClient(team.scratch.socket, {"resume": former})
    assert again.session["sessionId"] == former["sessionId"]
    again.close()


def test_a_connection_without_a_token_from_below_an_agent_is_refused(team: Team) -> None:
    Path(team.tokens.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = team.tokens.issue("dev", "worker-1")
    team.scratch.frames(roleToken=token).initialize()
    client = team.scratch.own(FramesClient(team.scratch.socket))
    client.send_frame({"type": "hello", "seq": 1, "protocol": 1, "role": "dev"})
    assert "needs the agent's token" in client.receive_type("error")[0]["message"]
    assert HttpClient(team.scratch).request("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 403
    lines = team.scratch.lines()
    lines.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert "needs the agent's token" in lines.receive()["error"]["message"]
    assert team.scratch.frames(roleToken=token).session["sessionId"]


def test_a_client_that_starts_its_bridge_by_a_shell_is_no_person(team: Team) -> None:
    # The command after the bridge keeps the shell from becoming the bridge.
    command = ["sh", "-c", '"$0" -I -m hearth bridge --no-start; :', sys.executable]
    with subprocess.Popen(
        command, env=team.scratch.environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as bridge:
        assert bridge.stdin
        for id, method, params in ((1, "initialize", HANDSHAKE), (2, "tools/call", CALL)):
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            bridge.stdin.write(json.dumps(message).encode() + b"\n")
            bridge.stdin.flush()
        (waiting,) = team.wait_pending()
        done = team.scratch.hearth("approve", str(waiting["id"]))
        assert done.returncode == 5 and "for a person" in done.stderr, done
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        bridge.stdin.write(json.dumps(cancel).encode() + b"\n")
    assert team.ran() == []


# --- tools of MCP servers

SHELL = TEAM.replace('"count__*"', '"count__*", "shell__*"')


def with_shell(scratch: Scratch, isolation: str = "shared") -> Team:
    """A team whose devs have a server that runs commands; the daemon is not started yet."""
    team = Team(scratch, SHELL)
    env = {name: scratch.environment()[name] for name in ("HOME", "XDG_RUNTIME_DIR")}
    shell = server("shell", isolation=isolation, env=env)
    scratch.configure({"count": server("counting", team.ledger), "shell": shell})
    return team


def by_tool(client: FramesClient, *command: str) -> Message:
    """Run a command by the tool of the server, and return its outcome."""
    key = base64.b64encode(json.dumps(command).encode()).decode()
    return dict(json.loads(text_of(client.call("shell__run", key=key))))


def left_behind(team: Team, client: FramesClient, *command: str) -> Message:
    """Run a command by the tool in a process that leaves the server's processes, and return its outcome."""
    out = team.scratch.home / "left.json"
    by_tool(client, sys.executable, "-I", str(PERSON), str(out), *command)
    until(out.exists, "the command ends")
    return dict(json.loads(out.read_text()))


@pytest.mark.parametrize(
    ("isolation", "reason"), [("shared", "runs below an MCP server"), ("session", "runs below 'test-client'")]
)
@pytest.mark.parametrize(
    "words",
    [
        ("approve", "ID"),
        ("deny", "ID"),
        ("role", "token", "tl"),
        ("policy", "init", "--force"),
        ("approvals", "--revoke", "ID"),
        ("stop", "--yes"),
        ("restart", "--yes"),
    ],
    ids=" ".join,
)
def test_a_command_of_a_server_s_tool_is_no_person_s(
    scratch: Scratch, isolation: str, reason: str, words: tuple[str, ...]
) -> None:
    team = with_shell(scratch, isolation)
    scratch.start()
    dev = team.client()
    dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    done = by_tool(dev, *HEARTH, *(word.replace("ID", str(waiting["id"])) for word in words))
    assert done["code"] != 0 and reason in done["stderr"], done
    assert (team.ran(), team.tokens.list(), len(team.pending())) == ([], [], 1)
    assert team.person("approve", str(waiting["id"])).returncode == 0


@pytest.mark.parametrize("wrapper", [(), ("env", "-u", "HEARTH_SERVER")], ids=["marked", "unmarked"])
def test_a_command_that_leaves_its_server_is_no_person_s(scratch: Scratch, wrapper: tuple[str, ...]) -> None:
    team = with_shell(scratch)
    scratch.start()
    dev = team.client()
    dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    done = left_behind(team, dev, *wrapper, *HEARTH, "approve", str(waiting["id"]))
    assert done["code"] == 5 and "runs below an MCP server" in done["stderr"], done
    assert team.ran() == []


def test_a_command_that_leaves_the_processes_of_the_daemon_is_known_by_its_environment(scratch: Scratch) -> None:
    team = with_shell(scratch)
    Path(scratch.socket).parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(scratch.socket)
        listener.listen()
        # Such a daemon does not adopt the orphans of its servers: a service manager does.
        scratch.start(command=handing_over(listener, COMMAND), fds=(listener.fileno(),))
        dev = team.client()
        dev.begin_call("count__once", key="k1")
        (waiting,) = team.wait_pending()
        done = left_behind(team, dev, *HEARTH, "approve", str(waiting["id"]))
        assert done["code"] == 5 and "runs below an MCP server" in done["stderr"], done
        assert team.ran() == []
        assert team.person("approve", str(waiting["id"])).returncode == 0


def test_a_hook_below_a_shared_server_has_the_default_role(scratch: Scratch) -> None:
    team = with_shell(scratch)
    scratch.start()
    lead = team.client("tl")
    given = base64.b64encode(tool_call("claude", "Bash", {"command": "make install"})).decode()
    hook = "echo {} | base64 -d | {} hook pre-tool-use --client claude".format(given, " ".join(HEARTH))
    team.apply(SHELL.replace("[roles.dev]\n", '[roles.dev]\notherwise = "deny"\n'))
    done = by_tool(lead, "sh", "-c", hook)
    assert '"deny"' in done["stdout"], done


# --- clients over HTTP


def with_port(scratch: Scratch) -> tuple[Team, tuple[str, int]]:
    """A team whose daemon serves a port, too."""
    team = Team(scratch, STRICT)
    scratch.configure({"count": server("counting", team.ledger)})
    scratch.start("--http", "127.0.0.1:0")
    return team, port_of(scratch)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("way", ["socket", "port"])
def test_a_shell_below_a_client_over_http_is_no_person(scratch: Scratch, way: str, era: str) -> None:
    team, (host, port) = with_port(scratch)
    where, headers = (scratch.socket, {}) if way == "socket" else (f"{host}:{port}", bearer(scratch))
    for words in (
        ("approve", "00"),
        ("role", "token", "tl"),
        ("config", "set", "idle_timeout", "5"),
        ("stop", "--yes"),
    ):
        command = [sys.executable, "-I", str(AGENT.with_name("agent_http.py")), where, era, *HEARTH, *words]
        done = subprocess.run(
            command, input=json.dumps(headers).encode(), env=scratch.environment(), capture_output=True, check=True
        )
        outcome = json.loads(done.stdout)
        assert outcome["code"] == 5 and "for a person, and runs below" in outcome["stderr"], (words, outcome)
    assert team.tokens.list() == []
    assert team.person("role", "token", "tl").returncode == 0


@pytest.mark.parametrize("path", ["approvals/00/approve", "shutdown", "reload"])
def test_a_process_below_an_agent_gives_no_command_by_http_at_a_port(scratch: Scratch, path: str) -> None:
    team, address = with_port(scratch)
    team.client()
    found = HttpClient(scratch, f"/api/v1/{path}", address).request("POST", {}, bearer(scratch))
    assert (found.status, "for a person" in found.text()) == (403, True)


def test_a_hook_at_a_port_has_the_role_of_the_client_that_it_runs_below(scratch: Scratch) -> None:
    team, address = with_port(scratch)
    given = json.loads(tool_call("claude", "Bash", {"command": "make"}))
    client = HttpClient(scratch, "/hooks/pre-tool-use?client=claude", address)
    assert '"deny"' in client.request("POST", given, bearer(scratch)).text()
    team.client("tl")
    assert (
        '"allow"'
        in HttpClient(scratch, "/hooks/pre-tool-use?client=claude", address)
        .request("POST", given, bearer(scratch))
        .text()
    )


def test_a_client_of_a_daemon_on_tcp_is_no_person(scratch: Scratch) -> None:
    team = Team(scratch, STRICT)
    scratch.serve({"count": server("counting", team.ledger)}, listen="tcp:127.0.0.1:0")
    # This process is the bridge's client.
    command = [*HEARTH, "bridge", "--no-start"]
    with subprocess.Popen(
        command, env=team.scratch.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as bridge:
        assert bridge.stdin and bridge.stdout
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
        bridge.stdin.write(json.dumps(message).encode() + b"\n")
        bridge.stdin.flush()
        assert b"result" in bridge.stdout.readline()
        assert "for a person" in scratch.hearth("approve", "00").stderr
        done = scratch.hearth("role", "token", "tl")
        assert done.returncode == 5 and "runs below 'agent'" in done.stderr, done
        assert team.tokens.list() == []
        assert team.person("role", "token", "tl").returncode == 0
