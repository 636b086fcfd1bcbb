"""`hearth hook` as a process: what it sends, what it answers, and that whatever goes wrong is a deny."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Scratch
from support.hook_payloads import payload
from support.http.clients import Connection
from support.kernel import until
from support.scripted_daemon import SCRIPT, BridgeProcess, ScriptedDaemon, Stage

HOOK_DAEMON = (sys.executable, "-I", str(Path(__file__).parents[1] / "support" / "hook_daemon.py"))
BASH = payload("claude", "pre-tool-use")
DENIED = 2
# Longer than anything here takes; the hook's own limit is what some tests wait for.
WAIT = ("--wait", "25")


def write_policy(home: Path, text: str = "") -> Path:
    """A policy file where the hook looks for one."""
    path = home / ".config" / "hearth" / "policy.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'default_role = "dev"\n{text}')
    return path


class Hooks:
    """Hook processes before a scripted daemon."""

    def __init__(self, scene: Stage) -> None:
        self.scene = scene
        self.policy = write_policy(scene.home)

    def start(self, *words: str, given: bytes | None = BASH) -> BridgeProcess:
        """Start one; it is given its input unless that is None."""
        hook = self.scene.bridge("hook", *(words or ("pre-tool-use", "--client", "claude", *WAIT)))
        if given is not None:
            # In a thread: a pipe holds 64 KiB, and a hook that denies at once does not read the rest.
            threading.Thread(target=self._feed, args=(hook, given), daemon=True).start()
        return hook

    @staticmethod
    def _feed(hook: BridgeProcess, given: bytes) -> None:
        try:
            hook.write(given)
            hook.end_input()
        except OSError:
            pass


@pytest.fixture
def hooks(scene: Stage) -> Hooks:
    return Hooks(scene)


@pytest.fixture
def daemon(hooks: Hooks) -> ScriptedDaemon:
    return hooks.scene.daemon()


def output(hook: BridgeProcess) -> bytes:
    found = hook.output.read()
    assert found is not None
    return found


# --- the question and its answer


def test_the_clients_json_goes_to_the_daemon_as_it_came_and_the_answer_comes_back(
    hooks: Hooks, daemon: ScriptedDaemon
) -> None:
    hook = hooks.start()
    wire = daemon.accept()
    header, given = wire.read()
    assert (header, given) == ({"type": "hook", "seq": 1, "event": "pre-tool-use", "client": "claude"}, BASH)
    wire.send({"type": "hookAnswer", "re": 1, "exitCode": 0}, b'{"a":1}\n')
    assert (hook.wait(), output(hook), hook.stderr()) == (0, b'{"a":1}\n', "")


def test_exit_code_and_standard_error_are_the_daemons(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start()
    wire = daemon.accept()
    wire.read()
    wire.send({"type": "hookAnswer", "re": 1, "exitCode": 2, "stderr": "no such event\n"})
    assert (hook.wait(), output(hook), hook.stderr()) == (2, b"", "no such event\n")


def test_the_role_token_travels_in_the_frame_alone(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    file = hooks.scene.home / "token"
    file.write_text("t0ken\n")
    file.chmod(0o600)
    hook = hooks.start("stop", "--client=codex", f"--token-file={file}")
    wire = daemon.accept()
    assert wire.read()[0] == {"type": "hook", "seq": 1, "event": "stop", "client": "codex", "roleToken": "t0ken"}
    assert b"t0ken" not in Path(f"/proc/{hook.child.pid}/cmdline").read_bytes()
    assert b"t0ken" not in Path(f"/proc/{hook.child.pid}/environ").read_bytes()
    wire.send({"type": "hookAnswer", "re": 1, "exitCode": 0})
    assert hook.wait() == 0


def test_a_daemon_that_ends_in_mid_decision_is_followed_by_the_next(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start()
    first = daemon.accept()
    first.read()
    first.close()
    second = daemon.accept()
    assert second.read()[1] == BASH
    second.send({"type": "hookAnswer", "re": 1, "exitCode": 0}, b"{}\n")
    assert (hook.wait(), output(hook)) == (0, b"{}\n")


# --- no policy


def test_without_a_policy_nothing_is_read_started_or_said(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hooks.policy.unlink()
    hook = hooks.start(given=None)
    assert (hook.wait(), output(hook), hook.stderr()) == (0, b"", "")
    assert daemon.is_left_alone()


def test_a_policy_that_is_removed_meanwhile_is_none(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start()
    wire = daemon.accept()
    wire.read()
    hooks.policy.unlink()
    wire.send({"type": "hookAnswer", "re": 1, "exitCode": 0, "policy": False})
    assert (hook.wait(), output(hook), hook.stderr()) == (0, b"", "")


def dangling(hooks: Hooks) -> None:
    hooks.policy.unlink()
    hooks.policy.symlink_to("nowhere")


def removed_while_changes_wait(hooks: Hooks) -> None:
    last = hooks.scene.home / ".local" / "state" / "hearth" / "policy" / "mcp"
    last.parent.mkdir(parents=True)
    hooks.policy.rename(last)
    last.write_text('apply = "manual"')


@pytest.mark.parametrize("become", [dangling, removed_while_changes_wait])
def test_what_the_daemon_counts_as_a_policy_is_one(
    hooks: Hooks, daemon: ScriptedDaemon, become: Callable[[Hooks], None]
) -> None:
    become(hooks)
    hook = hooks.start()
    wire = daemon.accept()
    wire.read()
    wire.send({"type": "hookAnswer", "re": 1, "exitCode": 0, "policy": False})
    assert (hook.wait(), output(hook)) == (2, b"")
    assert "the daemon has not loaded" in hook.stderr()


# --- whatever goes wrong


def dies(daemon: ScriptedDaemon) -> None:
    for _ in range(3):
        wire = daemon.accept()
        wire.read()
        wire.close()


def refuses(daemon: ScriptedDaemon) -> None:
    daemon.accept().send({"type": "error", "message": "unknown frame type 'hook'"})


def babbles(daemon: ScriptedDaemon) -> None:
    wire = daemon.accept()
    wire.read()
    wire.socket.sendall(b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"Hearth refused the connection: full"}}\n')


def has_no_policy(daemon: ScriptedDaemon) -> None:
    wire = daemon.accept()
    wire.read()
    wire.send({"type": "hookAnswer", "re": 1, "exitCode": 0, "policy": False})


def floods(daemon: ScriptedDaemon) -> None:
    wire = daemon.accept()
    wire.read()
    with contextlib.suppress(OSError):
        wire.send({"type": "hookAnswer", "re": 1, "exitCode": 0}, b" " * 2_000_000)


TROUBLE = {
    dies: "3 daemons ended",
    refuses: "unknown frame type",
    babbles: "full",
    has_no_policy: "has not loaded",
    floods: "over the limit",
}


@pytest.mark.parametrize("trouble", TROUBLE, ids=lambda each: each.__name__)
@pytest.mark.parametrize("client", ["claude", "codex", "gemini"])
def test_a_daemon_in_trouble_is_a_deny_with_the_reason(
    hooks: Hooks, daemon: ScriptedDaemon, trouble: Any, client: str
) -> None:
    hook = hooks.start("pre-tool-use", "--client", client, *WAIT)
    trouble(daemon)
    assert (hook.wait(), output(hook)) == (DENIED, b"")
    said = hook.stderr()
    assert TROUBLE[trouble] in said and "The tool was not run." in said


def test_a_daemon_that_does_not_answer_is_a_deny_after_the_wait(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start("before-tool", "--client", "gemini", "--wait", "0.3")
    daemon.accept().read()
    assert (hook.wait(), output(hook)) == (DENIED, b"")
    assert "no answer within 0.3 s" in hook.stderr()


def test_an_input_that_does_not_end_is_a_deny_after_the_wait(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start("pre-tool-use", "--client", "claude", "--wait", "0.3", given=None)
    assert (hook.wait(), output(hook)) == (DENIED, b"")


def test_a_huge_input_is_a_deny_and_reaches_no_daemon(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start(given=b" " * 5_000_000)
    assert hook.wait() == DENIED
    assert "over the limit of 4194304 bytes" in hook.stderr()
    assert daemon.is_left_alone()


def test_a_socket_that_is_none_is_a_deny(hooks: Hooks) -> None:
    hooks.scene.socket.parent.mkdir(mode=0o700)
    hooks.scene.socket.write_text("")
    hook = hooks.start()
    assert hook.wait() == DENIED
    assert "cannot be reached" in hook.stderr()


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (None, 0o600, "does not exist; `hearth role token"),
        ("", 0o600, "has no token in it; `hearth role token"),
        ("x" * 300, 0o600, "has no token in it; `hearth role token"),
        ("x" * 5000, 0o600, "too many for a token"),
        ("t0ken", 0o640, "is open to other users (mode 0640); type `chmod 600"),
    ],
)
def test_a_role_token_that_cannot_be_used_is_a_deny(
    hooks: Hooks, daemon: ScriptedDaemon, content: str | None, mode: int, reason: str
) -> None:
    file = hooks.scene.home / "token"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    hook = hooks.start("pre-tool-use", "--client", "claude", "--token-file", str(file))
    assert hook.wait() == DENIED
    assert reason in hook.stderr() and daemon.is_left_alone()
    assert not content or content not in hook.stderr()


def test_a_pipe_in_place_of_the_role_token_is_a_deny_and_nothing_waits_for_it(
    hooks: Hooks, daemon: ScriptedDaemon
) -> None:
    os.mkfifo(file := hooks.scene.home / "token", 0o600)
    hook = hooks.start("pre-tool-use", "--client", "claude", "--token-file", str(file))
    assert hook.wait() == DENIED
    assert "is not a regular file" in hook.stderr() and daemon.is_left_alone()


def test_an_interrupted_hook_is_a_deny(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hook = hooks.start()
    daemon.accept().read()
    hook.child.send_signal(signal.SIGINT)
    assert hook.wait() == DENIED


@pytest.mark.parametrize(
    "words",
    [
        ("pre-tool-use",),
        ("--client", "claude"),
        ("pre-tool-use", "--client", "cursor"),
        ("pre-tool-use", "--client"),
        ("pre-tool-use", "--client", "claude", "--wait", "soon"),
        ("pre-tool-use", "--client", "claude", "--wait", "nan"),
        ("pre-tool-use", "again", "--client", "claude"),
    ],
)
def test_a_mistyped_hook_is_a_deny_that_says_what_to_type(hooks: Hooks, words: tuple[str, ...]) -> None:
    hook = hooks.start(*words)
    assert hook.wait() == DENIED
    assert "hearth hook --help" in hook.stderr()


@pytest.mark.parametrize("trouble", TROUBLE, ids=lambda each: each.__name__)
def test_a_policy_that_passes_errors_opens_every_one_of_them(
    hooks: Hooks, daemon: ScriptedDaemon, trouble: Any
) -> None:
    write_policy(hooks.scene.home, '[hooks]\non_error = "pass"\n')
    hook = hooks.start()
    trouble(daemon)
    assert (hook.wait(), output(hook)) == (0, b"")
    assert "The tool was not run." not in hook.stderr()


def test_a_policy_that_cannot_be_read_passes_no_errors(hooks: Hooks, daemon: ScriptedDaemon) -> None:
    hooks.policy.write_text('[hooks]\non_error = "pass"\n[broken')
    hook = hooks.start()
    dies(daemon)
    assert hook.wait() == DENIED


@pytest.mark.parametrize("event", ["stop", "session-start", "post-tool-use", "session-end"])
def test_an_event_that_decides_nothing_fails_in_peace(hooks: Hooks, daemon: ScriptedDaemon, event: str) -> None:
    hook = hooks.start(event, "--client", "claude")
    dies(daemon)
    assert (hook.wait(), output(hook)) == (0, b"")


# --- a real daemon


class Asked:
    """A daemon that decides by words, and hooks that ask it."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        write_policy(scratch.home)
        scratch.configure({})
        self.daemon = scratch.start(command=HOOK_DAEMON)

    def popen(self, event: str, client: str, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(SCRIPT), "hook", event, "--client", client, *WAIT, *words],
            env=self.scratch.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def answer(self, event: str, client: str, given: bytes) -> tuple[int, bytes, bytes]:
        hook = self.popen(event, client)
        found, errors = hook.communicate(given, timeout=30)
        return hook.returncode, found, errors

    def log(self) -> list[str]:
        file = self.scratch.home / "hooks.log"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def asked(scratch: Scratch) -> Iterator[Asked]:
    yield Asked(scratch)


def command(client: str, text: str) -> tuple[str, bytes]:
    """The deciding event of a client, and its input for a shell command."""
    event = "before-tool" if client == "gemini" else "pre-tool-use"
    return event, payload(client, event, tool_input={"command": text})


@pytest.mark.parametrize("client", ["claude", "codex", "gemini"])
def test_a_real_daemon_allows_denies_and_waits_for_a_person(asked: Asked, client: str) -> None:
    event, given = command(client, "ls")
    code, found, errors = asked.answer(event, client, given)
    assert (code, errors) == (0, b"") and b"deny" not in found
    code, found, _ = asked.answer(event, client, command(client, "forbidden")[1])
    assert code == 0 and b"the word forbids it" in found
    hook = asked.popen(event, client)
    assert hook.stdin
    hook.stdin.write(command(client, "asked")[1])
    hook.stdin.close()
    until(lambda: any("asked" in line for line in asked.log()), "the question")
    assert hook.poll() is None
    (asked.scratch.home / "approved").touch()
    assert hook.wait(30) == 0
    hook.stdin = None
    assert b"deny" not in hook.communicate()[0]


@pytest.mark.parametrize("given", [b"", b"{", BASH[:-9], b"\0" * 1000, b"[" * 60_000], ids=lambda each: repr(each[:8]))
def test_an_input_that_is_no_json_is_denied_in_the_clients_form(asked: Asked, given: bytes) -> None:
    code, found, _ = asked.answer("pre-tool-use", "claude", given)
    assert code == 0
    assert json.loads(found)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert asked.log() == []


def test_a_daemon_that_is_killed_while_it_decides_leaves_the_command_denied(asked: Asked) -> None:
    hook = asked.popen("pre-tool-use", "claude", "--wait", "3")
    assert hook.stdin
    hook.stdin.write(command("claude", "hanging")[1])
    hook.stdin.close()
    until(lambda: any("hanging" in line for line in asked.log()), "the question")
    os.kill(json.loads(asked.scratch.registry.read_text())["pid"], signal.SIGKILL)
    code = hook.wait(30)
    hook.stdin = None
    found, _ = hook.communicate()
    # The hook starts another daemon, one that knows nothing of words.
    assert code == DENIED or b'"deny"' in found
    asked.scratch.hearth("stop")


def test_a_hook_starts_a_daemon_when_none_runs(scratch: Scratch) -> None:
    write_policy(scratch.home)
    words = [sys.executable, "-I", "-S", str(SCRIPT), "hook", "session-start", "--client", "claude"]
    given = payload("claude", "session-start")
    subprocess.run(words, input=given, env=scratch.environment(), check=True, timeout=30)
    assert scratch.registry.exists()
    assert scratch.hearth("stop").returncode == 0


def test_a_stop_is_blocked_until_the_tree_is_committed(asked: Asked, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=u", "-c", "user.email=u@h"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "file").write_text("x")
    given = payload("claude", "stop", cwd=str(tmp_path))
    _, found, _ = asked.answer("stop", "claude", given)
    assert json.loads(found) == {"decision": "block", "reason": "commit your work first"}
    subprocess.run([*git, "add", "file"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=tmp_path, check=True)
    assert asked.answer("stop", "claude", given) == (0, b"", b"")


def test_hearth_hook_and_the_bridges_own_script_are_one_program(asked: Asked) -> None:
    event, given = command("claude", "forbidden")
    words = [sys.executable, "-I", "-m", "hearth", "hook", event, "--client", "claude"]
    found = subprocess.run(
        words, input=given, env=asked.scratch.environment(), capture_output=True, check=True, timeout=30
    )
    assert found.stdout == asked.answer(event, "claude", given)[1]


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_over_tcp_the_token_comes_before_an_input_of_any_size(scratch: Scratch, size: int) -> None:
    """The first frame over TCP is bounded, because any user of the machine can send one."""
    write_policy(scratch.home)
    scratch.configure({}, listen="tcp:127.0.0.1:0")
    scratch.start(command=HOOK_DAEMON)
    given = payload("claude", "pre-tool-use", tool_input={"command": "forbidden" + "x" * size})
    words = [sys.executable, "-I", "-S", str(SCRIPT), "hook", "pre-tool-use", "--client", "claude"]
    found = subprocess.run(words, input=given, env=scratch.environment(), capture_output=True, check=True, timeout=30)
    assert b"the word forbids it" in found.stdout


def test_a_daemon_that_cannot_serve_is_a_deny(scratch: Scratch) -> None:
    write_policy(scratch.home)
    scratch.write_config("this is no TOML")
    words = [sys.executable, "-I", "-S", str(SCRIPT), "hook", "pre-tool-use", "--client", "claude", *WAIT]
    found = subprocess.run(words, input=BASH, env=scratch.environment(), capture_output=True, check=False, timeout=30)
    assert (found.returncode, found.stdout) == (DENIED, b"")
    assert b"The tool was not run." in found.stderr
    scratch.hearth("stop")


# --- by HTTP


class PostedHooks:
    """Hooks that are posted to the daemon's socket."""

    def __init__(self, socket: str) -> None:
        self.connection = Connection(socket)

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes, str | None]:
        """Status, body and exit code of the answer."""
        kind = {"Content-Type": "application/json"}
        self.connection.request("POST", path, body, {**kind, **headers})
        found = self.connection.getresponse()
        return found.status, found.read(), found.getheader("Hearth-Exit-Code")


@pytest.fixture
def posted(asked: Asked) -> Iterator[PostedHooks]:
    found = PostedHooks(asked.scratch.socket)
    yield found
    found.connection.close()


@pytest.mark.parametrize("client", ["claude", "codex", "gemini"])
def test_a_posted_hook_gets_what_the_process_would_print(asked: Asked, posted: PostedHooks, client: str) -> None:
    for words in ("ls", "forbidden"):
        event, given = command(client, words)
        _, printed, _ = asked.answer(event, client, given)
        assert posted.post(f"/hooks/{event}?client={client}", given) == (200, printed, "0")


def test_a_posted_hook_that_nobody_knows_is_refused(posted: PostedHooks) -> None:
    status, body, code = posted.post("/hooks/pre-tool-use?client=cursor", BASH)
    assert (status, code) == (400, "2") and b"no client 'cursor'" in body
    assert posted.post("/hooks/nonsense?client=claude", BASH)[0] == 400


def test_a_hook_is_posted_as_json_only(posted: PostedHooks) -> None:
    """A page of a browser can send other types without asking first."""
    assert posted.post("/hooks/stop?client=claude", BASH, **{"Content-Type": "text/plain"})[0] == 415
    posted.connection.request("GET", "/hooks/stop?client=claude")
    found = posted.connection.getresponse()
    assert (found.status, found.getheader("Allow")) == (405, "POST")
    found.read()


def test_a_caller_that_leaves_withdraws_its_question(asked: Asked, posted: PostedHooks) -> None:
    posted.connection.request(
        "POST",
        "/hooks/pre-tool-use?client=claude",
        command("claude", "hanging")[1],
        {"Content-Type": "application/json"},
    )
    until(lambda: any("hanging" in line for line in asked.log()), "the question")
    posted.connection.close()
    until(lambda: "withdrawn" in asked.log(), "the withdrawal")


def test_without_a_policy_a_posted_hook_is_answered_by_silence(scratch: Scratch) -> None:
    scratch.serve()
    posted = PostedHooks(scratch.socket)
    assert posted.post("/hooks/pre-tool-use?client=claude", BASH) == (200, b"", "0")
    posted.connection.close()
    with scratch.control() as control:
        control.begin_control("hook", event="pre-tool-use", client="claude")
        header, found = control.receive_type("hookAnswer")
    assert (header["policy"], header["exitCode"], found) == (False, 0, b"")


# --- the worked example of docs/hooks.md


def test_the_worked_example_of_the_page_is_what_happens(scratch: Scratch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
    example = page.partition("## A worked example")[2]
    scratch.configure({})
    policy = scratch.config.parent / "policy.toml"
    policy.write_text(example.partition("```toml\n")[2].partition("```")[0])
    scratch.start()
    shown = example.partition("$ echo '")[2]
    given, _, rest = shown.partition("' |\n")
    words, _, expected = rest.partition("\n")
    words = words.strip().removeprefix("hearth ")
    command = [sys.executable, "-I", "-m", "hearth", *words.split()]
    found = subprocess.run(
        command, input=given, env=scratch.environment(), capture_output=True, text=True, check=True, timeout=30
    )
    assert found.stdout == expected.partition("```")[0]
    allowed = given.replace("make release", "make test")
    found = subprocess.run(
        command, input=allowed, env=scratch.environment(), capture_output=True, text=True, check=True, timeout=30
    )
    assert '"permissionDecision":"allow"' in found.stdout
