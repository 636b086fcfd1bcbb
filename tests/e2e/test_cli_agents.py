"""`hearth agents` and `hearth agent` as typed, with a real daemon and the scripted agent of tests/support/agents."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.cli_home import HEARTH, PATIENCE_SECONDS, Home, Lines, read
from e2e.terminal import Terminal
from hearth.host import processes
from support.kernel import is_gone, until

ECHO_AGENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support/agents/echo_agent.py")


def configure(home: Home, *options: str) -> None:
    """Enable agents, with the scripted one as the only provider that is needed."""
    arguments = ["-S", ECHO_AGENT, "--modes", "--resume", "--state", f"{home.folder}/sessions.json", *options]
    home.write_config(
        'idle_timeout = 0\n[packs.agents]\nenabled = true\n[agents]\ndefault_provider = "echo"\n'
        f"[agents.providers.echo]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(arguments)}\n"
    )


@pytest.fixture
def agents(home: Home) -> Home:
    """A home in which agents can be started; no daemon runs yet."""
    configure(home)
    return home


def begin(home: Home, *prompt: str) -> str:
    """Start an agent in the background; return its id."""
    return home.ok("agent", "run", "--background", "\n".join(prompt)).strip()


def snapshot(home: Home, id: str) -> dict[str, object]:
    found: dict[str, object] = home.json("agent", "show", id, "--json")["snapshot"]
    return found


def pid_of(home: Home, id: str) -> int:
    found = snapshot(home, id)["pid"]
    assert isinstance(found, int)
    return found


@contextmanager
def typed(home: Home, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `hearth` besides the test, with pipes."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([HEARTH, *words], env=home.environment, cwd=home.home, **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def approval_in(lines: Lines) -> str:
    """Return the id in the first line that says what to type."""
    while b"hearth approve " not in (line := lines.next()):
        assert line, "nothing was asked"
    return line.split(b"hearth approve ")[1].split(b",")[0].decode()


# --- the end of the daemon


def test_a_stop_asks_about_turns_that_would_be_lost_although_nobody_is_attached(agents: Home) -> None:
    id = begin(agents, "sleep")
    for verb in ("stop", "restart"):
        said = agents.fails(5, verb)
        assert "1 agent at work, whose turns would be lost (`hearth agents`)" in said
        assert "--yes" in said
    assert "1 at work (`hearth agents`)" in agents.ok("status")
    agents.ok("reload")
    assert snapshot(agents, id)["status"] == "running"
    agents.ok("agent", "cancel", id)
    agents.ok("stop")


def test_a_restart_when_quiet_waits_for_the_turn_of_an_agent(agents: Home) -> None:
    id = begin(agents, "sleep")
    pid = agents.json("status", "--json")["pid"]
    assert "no agent at work" in agents.ok("restart", "--when-quiet")
    until(lambda: "no agent at work" in agents.ok("logs"), "the daemon waits")
    agents.ok("agent", "send", id, "say done")
    until(lambda: is_gone(pid), "the daemon has ended")
    assert agents.run("agent", "send", id, "say more").stdout == "more\n"
    assert snapshot(agents, id)["lastError"] is None


def test_a_pack_that_is_switched_off_takes_its_agents_with_it_and_brings_them_back(agents: Home) -> None:
    id = begin(agents, "sleep")
    pid = pid_of(agents, id)
    agents.ok("pack", "disable", "agents")
    agents.ok("reload")
    until(lambda: is_gone(pid), "its process has ended")
    assert "the pack 'agents' is off" in agents.fails(5, "agents")
    agents.ok("pack", "enable", "agents")
    agents.ok("reload")
    found = snapshot(agents, id)
    assert (found["status"], "the turn is lost" in str(found["lastError"])) == ("error", True)
    assert agents.ok("agent", "send", id, "say again") == "again\n"


# --- run


@pytest.mark.quick
def test_run_starts_the_daemon_and_prints_the_agents_text(agents: Home) -> None:
    done = agents.run("agent", "run", "hello")
    assert (done.returncode, done.stdout) == (0, "echo: hello\n"), done.stderr
    (found,) = agents.json("agents", "--json")["agents"]
    assert (found["title"], found["provider"], found["status"]) == ("hello", "echo", "idle")
    assert found["cwd"] == agents.home
    assert found["id"] in done.stderr
    assert found["id"] in agents.ok("agents")


def test_a_prompt_comes_from_standard_input_and_may_be_longer_than_a_header(agents: Home) -> None:
    # The text has no line end, and all of it is said in one piece.
    shown = agents.ok_with("x" * 200_000, "agent", "run", "-")
    assert shown.strip("x\n") == "echo: "
    assert len(shown) > 60_000


def test_a_prompt_that_is_too_long_is_one_sentence(agents: Home) -> None:
    with open(f"{agents.folder}/prompt", "w+", encoding="utf-8") as file:
        file.write("x" * 10_000_000)
        file.seek(0)
        done = agents.run_in(agents.home, "agent", "run", "-", stdin=file)
    assert done.returncode == 5
    assert "the prompt has 10000000 bytes" in done.stderr
    assert agents.json("agents", "--all", "--json")["agents"] == []


def test_thoughts_and_tools_go_to_standard_error(agents: Home) -> None:
    done = agents.run("agent", "run", "think hm\ntool execute\nsay done")
    assert done.stdout == "done\n"
    assert "hm" in done.stderr
    assert "[git push origin main]" in done.stderr


def test_a_turn_that_fails_is_exit_code_1_with_the_reason(agents: Home) -> None:
    assert "the model is overloaded" in agents.fails(1, "agent", "run", "fail")
    (found,) = agents.json("agents", "--json")["agents"]
    assert found["status"] == "error"


def test_run_can_print_the_outcome_as_json(agents: Home) -> None:
    found = agents.json("agent", "run", "hello", "--json")
    assert (found["status"], found["lastMessage"], found["turn"]) == ("idle", "echo: hello", 1)
    assert found["agentId"].startswith("a")


def test_in_the_background_only_the_id_is_printed_and_wait_brings_the_message(agents: Home) -> None:
    id = begin(agents, "sleep 0.2", "say done")
    assert agents.ok("agent", "wait", id) == "done\n"
    assert agents.json("agent", "wait", id, "--json")["lastMessage"] == "done"


def test_wait_gives_up_after_its_time_and_the_agent_goes_on(agents: Home) -> None:
    id = begin(agents, "sleep")
    assert "still works" in agents.fails(124, "agent", "wait", id, "--timeout", "0.1")
    assert snapshot(agents, id)["status"] == "running"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--provider", "ecko"), 5, "did you mean 'echo'?"),
        (("--provider", "claude"), 5, "not installed"),
        (("--cwd", "/nowhere/at/all"), 5, "does not exist"),
        (("--worktree", "login", "--base", "main"), 5, "git"),
        (("--role", "dev"), 5, "policy"),
        (("--mode", "yolo"), 5, "default"),
    ],
)
def test_what_cannot_be_started_is_one_sentence_and_leaves_no_agent(
    agents: Home, words: tuple[str, ...], code: int, said: str
) -> None:
    agents.environment["PATH"] = os.path.dirname(sys.executable) + ":/usr/bin:/bin"
    error = agents.refuses(code, "agent", "run", *words, "hello")
    assert said in error
    assert error.count("\n") == 1
    assert agents.json("agents", "--all", "--json")["agents"] == []


def test_a_worktree_without_a_base_is_a_usage_error(agents: Home) -> None:
    assert "--base" in agents.refuses(2, "agent", "run", "--worktree", "login", "hello")
    assert agents.processes() == []


def test_ctrl_c_leaves_the_agent_at_work(agents: Home) -> None:
    terminal = Terminal([HEARTH, "agent", "run", "say begun\nsleep"], agents.environment)
    terminal.read_until("begun")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert "goes on" in terminal.seen
    (found,) = agents.json("agents", "--json")["agents"]
    assert found["status"] == "running"


# --- send


def test_send_prints_the_text_of_the_new_turn_only(agents: Home) -> None:
    id = agents.json("agent", "run", "hello", "--json")["agentId"]
    assert agents.ok("agent", "send", id, "again") == "echo: again\n"
    assert snapshot(agents, id)["turn"] == 2


@pytest.mark.quick
def test_send_replaces_a_turn_that_runs_and_its_waiter_is_told(agents: Home) -> None:
    id = begin(agents, "say begun", "sleep")
    with typed(agents, "agent", "logs", "-f", id) as follower:
        assert follower.stdout
        lines = Lines(follower.stdout.fileno())
        while b"begun" not in lines.next():
            pass
        assert agents.ok("agent", "send", id, "say other") == "other\n"


def test_an_agent_is_resumed_by_a_prompt_in_a_new_daemon(agents: Home) -> None:
    id = agents.json("agent", "run", "hello", "--json")["agentId"]
    agents.ok("stop", "--yes")
    assert agents.ok("agent", "send", id, "again") == "echo: again\n"
    shown = agents.ok("agent", "logs", id)
    assert [line for line in shown.splitlines() if line] == ["> hello", "echo: hello", "> again", "echo: again"]


# --- permissions


def test_without_a_terminal_it_is_said_how_to_answer_and_the_answer_is_heard(agents: Home) -> None:
    with typed(agents, "agent", "run", "ask execute") as process:
        assert process.stderr and process.stdout
        id = approval_in(Lines(process.stderr.fileno()))
        shown = agents.ok("agents")
        assert "1 permission waits for a decision" in shown
        assert f"hearth approve {id}" in shown
        assert id in agents.ok("approvals")
        agents.ok("approve", id)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stdout.read() == b"selected allow\n"


def test_a_permission_that_is_denied_is_told_to_the_agent(agents: Home) -> None:
    with typed(agents, "agent", "run", "ask execute") as process:
        assert process.stderr and process.stdout
        agents.ok("deny", approval_in(Lines(process.stderr.fileno())))
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stdout.read() == b"selected reject\n"


@pytest.mark.parametrize(("answer", "outcome"), [("y\n", "selected allow"), ("n\n", "selected reject")])
def test_at_a_terminal_permissions_are_asked(agents: Home, answer: str, outcome: str) -> None:
    shown = agents.at_terminal(0, "agent", "run", "ask execute", answers={"Allow?": answer})
    assert "git push origin main" in shown
    assert outcome in shown


def test_with_a_policy_a_permission_is_an_approval_like_any_other(agents: Home) -> None:
    policy = os.path.join(agents.home, ".config", "hearth", "policy.toml")
    with open(policy, "w", encoding="utf-8") as file:
        file.write('default_role = "dev"\n[roles.dev]\ntools = ["**"]\notherwise = "ask"\n')
    with typed(agents, "agent", "run", "ask execute") as process:
        assert process.stderr and process.stdout
        id = approval_in(Lines(process.stderr.fileno()))
        (found,) = agents.json("agents", "--json")["agents"]
        assert (found["role"], [each["id"] for each in found["pendingPermissions"]]) == ("dev", [id])
        agents.ok("approve", id)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stdout.read() == b"selected allow\n"


# --- show, logs


def test_logs_have_what_an_agent_did(agents: Home) -> None:
    prompt = "think hm\nplan\ntool execute\nsay done"
    id = agents.json("agent", "run", prompt, "--json")["agentId"]
    shown = agents.ok("agent", "logs", id)
    for part in ("> think hm", "- [x] read the code", "[git push origin main]", "done"):
        assert part in shown
    kinds = [json.loads(line)["kind"] for line in agents.ok("agent", "logs", id, "--json").splitlines()]
    assert kinds == ["user", "thought", "plan", "tool", "message"]
    assert agents.ok("agent", "logs", "-n", "1", id) == "done\n"


def test_logs_that_are_followed_as_json_show_text_before_the_turn_ends(agents: Home) -> None:
    id = begin(agents, "say begun", "sleep")
    with typed(agents, "agent", "logs", "-f", "--json", id) as follower:
        assert follower.stdout
        lines = Lines(follower.stdout.fileno())
        while (entry := json.loads(lines.next()))["kind"] != "message":
            pass
        assert entry["text"] == "begun"
        assert snapshot(agents, id)["status"] == "running"
        agents.ok("agent", "cancel", id)
        while (entry := json.loads(lines.next())).get("status") != "idle":
            pass
        agents.ok("agent", "kill", id)
        assert follower.wait(PATIENCE_SECONDS) == 0


def test_logs_that_are_followed_end_with_the_agent(agents: Home) -> None:
    id = begin(agents, "say begun", "sleep")
    with typed(agents, "agent", "logs", "-f", id) as follower:
        assert follower.stdout
        lines = Lines(follower.stdout.fileno())
        while b"begun" not in lines.next():
            pass
        agents.ok("agent", "kill", id)
        assert follower.wait(PATIENCE_SECONDS) == 0


def test_an_agents_text_does_not_control_the_terminal(agents: Home) -> None:
    hostile = "say \x1b]0;owned\x07\x1b[2Jtext"
    id = agents.json("agent", "run", hostile, "--json")["agentId"]
    for words in (("agents",), ("agent", "show", id), ("agent", "logs", id)):
        seen = agents.at_terminal(0, *words)
        assert "\x1b]0;" not in seen
        assert "\x1b[2J" not in seen


def test_show_tells_modes_folder_and_status(agents: Home) -> None:
    id = begin(agents, "sleep")
    shown = agents.ok("agent", "show", id)
    for part in (id, "running", "echo", "~", "default (also:"):
        assert part in shown


# --- cancel, kill, mode, prune


def test_cancel_ends_the_turn_and_the_agent_stays(agents: Home) -> None:
    id = begin(agents, "sleep")
    with typed(agents, "agent", "wait", id, "--json") as waiter:
        assert "is cancelled" in agents.ok("agent", "cancel", id)
        assert waiter.wait(PATIENCE_SECONDS) in (0, 1)
    assert snapshot(agents, id)["status"] == "idle"
    assert "works on nothing" in agents.ok("agent", "cancel", id)
    assert agents.ok("agent", "send", id, "again") == "echo: again\n"


def test_cancel_and_kill_print_their_outcome_as_json(agents: Home) -> None:
    id = begin(agents, "sleep")
    assert agents.json("agent", "cancel", id, "--json") == {"success": True}
    assert agents.json("agent", "cancel", id, "--json") == {"success": False}
    assert agents.json("agent", "kill", id, "--json") == {"success": True}
    assert "Agent a1 not found" in agents.refuses(5, "agent", "kill", "a1", "--json")


@pytest.mark.quick
def test_kill_ends_every_process_and_the_agent_is_listed_with_all_only(agents: Home) -> None:
    id = begin(agents, "sleep")
    pid = pid_of(agents, id)
    agents.ok("agent", "kill", id)
    assert not processes.is_alive(pid, processes.UNKNOWN_START_TIME)
    assert agents.json("agents", "--json")["agents"] == []
    (found,) = agents.json("agents", "--all", "--json")["agents"]
    assert (found["id"], found["status"]) == (id, "closed")
    assert "closed" in agents.refuses(5, "agent", "send", id, "again")


def test_modes_are_listed_and_changed(agents: Home) -> None:
    id = begin(agents, "say ok")
    agents.ok("agent", "wait", id)
    assert "acceptEdits" in agents.ok("agent", "mode", id)
    assert "is plan" in agents.ok("agent", "mode", id, "plan")
    assert agents.json("agent", "mode", id, "--json")["currentModeId"] == "plan"
    assert "its modes: default" in agents.refuses(5, "agent", "mode", id, "yolo")


def test_prune_forgets_closed_agents_only(agents: Home) -> None:
    closed, living = begin(agents, "say a"), begin(agents, "say b")
    agents.ok("agent", "kill", closed)
    agents.ok("agent", "prune")
    assert [each["id"] for each in agents.json("agents", "--all", "--json")["agents"]] == [living]
    assert "nothing to remove" in agents.ok("agent", "prune")


def test_prune_keeps_worktrees_until_it_is_told_and_those_with_work(agents: Home) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", agents.home]
    for words in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *words], check=True, env=agents.environment)
    words = ("--worktree", "login", "--base", "main", "--background")
    id = agents.ok("agent", "run", *words, "say ok").strip()
    agents.ok("agent", "wait", id)
    worktree = snapshot(agents, id)["worktree"]
    assert isinstance(worktree, dict) and worktree["branch"] == "login"
    with open(os.path.join(worktree["path"], "notes"), "w", encoding="utf-8") as file:
        file.write("work")
    agents.ok("agent", "kill", id)
    kept = agents.json("agent", "prune", "--worktrees", "--json")
    assert [each["id"] for each in kept["kept"]] == [id]
    assert "--yes" in agents.refuses(5, "agent", "prune", "--worktrees", "--force")
    assert read(os.path.join(worktree["path"], "notes")) == "work"
    agents.ok("agent", "prune", "--worktrees", "--force", "--yes")
    assert not os.path.exists(worktree["path"])


# --- without a daemon, without the pack


@pytest.mark.parametrize(
    "words",
    [("show", "a1"), ("logs", "a1"), ("wait", "a1"), ("cancel", "a1"), ("kill", "a1"), ("mode", "a1"), ("prune",)],
)
def test_no_verb_that_looks_or_ends_starts_a_daemon(agents: Home, words: tuple[str, ...]) -> None:
    assert "hearth is not running" in agents.refuses(5, "agent", *words)
    assert agents.processes() == []


def test_the_list_says_that_no_daemon_runs(agents: Home) -> None:
    assert "hearth is not running" in agents.ok("agents")
    assert agents.json("agents", "--json") == {"running": False, "agents": []}
    assert agents.complete("hearth agent show a") == []
    assert agents.processes() == []


@pytest.mark.parametrize("words", [("agents",), ("agent", "run", "hello"), ("agent", "show", "a1")])
def test_without_the_pack_it_is_said_how_to_enable_it(home: Home, words: tuple[str, ...]) -> None:
    home.configure_demo()
    home.ok("call", "demo")
    assert "hearth pack enable agents" in home.refuses(5, *words)


def test_no_daemon_is_started_only_to_say_that_the_pack_is_off(home: Home) -> None:
    assert "hearth pack enable agents" in home.refuses(5, "agent", "run", "hello")
    assert home.processes() == []


def test_a_daemon_that_cannot_serve_says_why_at_once(home: Home) -> None:
    home.write_config("this is no TOML")
    for words in (("agent", "run", "hello"), ("agents",), ("agent", "logs", "a1")):
        assert "is not valid TOML" in home.refuses(5, *words)


def test_an_unknown_id_is_one_sentence(agents: Home) -> None:
    begin(agents, "say ok")
    assert "Agent a1 not found" in agents.refuses(5, "agent", "show", "a1")


# --- completion, watching, attribution


def test_ids_and_modes_are_completed_by_a_running_daemon(agents: Home) -> None:
    id = begin(agents, "say ok")
    agents.ok("agent", "wait", id)
    assert agents.complete(f"hearth agent show {id[:4]}") == [id]
    assert agents.complete(f"hearth agent mode {id} p") == ["plan"]


def test_watch_shows_each_change(agents: Home) -> None:
    begin(agents, "say ok")
    with typed(agents, "agents", "--watch", "--json") as watcher:
        assert watcher.stdout
        lines = Lines(watcher.stdout.fileno())
        assert len(json.loads(lines.next())["agents"]) == 1
        begin(agents, "say more")
        while len(json.loads(lines.next())["agents"]) != 2:
            pass


def test_watch_shows_a_person_the_table_again_until_ctrl_c(agents: Home) -> None:
    first = begin(agents, "say ok")
    terminal = Terminal([HEARTH, "agents", "--watch"], agents.environment)
    terminal.read_until(first)
    second = begin(agents, "sleep")
    terminal.read_until(second)
    terminal.read_until("running")
    assert len(agents.json("agents", "--json")["agents"]) == 2
    assert terminal.interrupt() == 0


def test_below_an_agent_the_verbs_act_as_that_agent(home: Home) -> None:
    # The agent's process lists agents, and tries to end another one, before it begins to serve.
    script = os.path.join(home.folder, "nested.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            f'cd "$0.d" && "{HEARTH}" agents --json > list 2> list.err\n'
            f'"{HEARTH}" agent kill "$(cat victim)" > kill 2>&1; echo $? > code\n'
            f'"{HEARTH}" agent prune --worktrees --force --yes > prune 2>&1\n'
            f'"{HEARTH}" agent run --provider echo --background hi > child 2> child.err\n'
            f'exec "{sys.executable}" -S "{ECHO_AGENT}"\n'
        )
    os.mkdir(f"{script}.d")
    configure(home)
    with open(os.path.join(home.home, ".config/hearth/config.toml"), "a", encoding="utf-8") as config:
        env = {name: home.environment[name] for name in ("HOME", "XDG_RUNTIME_DIR")}
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
        config.write(
            f'[agents.providers.nested]\ncommand = "/bin/sh"\nargs = [{json.dumps(script)}]\nenv = {{ {pairs} }}\n'
        )
    victim = begin(home, "sleep")
    with open(f"{script}.d/victim", "w", encoding="utf-8") as file:
        file.write(victim)
    parent = home.json("agent", "run", "--provider", "nested", "--json", "hello")["agentId"]
    assert json.loads(read(f"{script}.d/list"))["agents"] == [], read(f"{script}.d/list.err")
    assert read(f"{script}.d/code") == "5\n"
    assert "descendant" in read(f"{script}.d/kill")
    assert snapshot(home, victim)["status"] == "running"
    assert "for a person" in read(f"{script}.d/prune")
    child = read(f"{script}.d/child").strip()
    assert snapshot(home, child)["parentAgentId"] == parent, read(f"{script}.d/child.err")


def test_nothing_is_left_when_the_daemon_stops(agents: Home) -> None:
    begin(agents, "sleep")
    agents.ok("stop", "--yes")
    until(lambda: agents.processes() == [], "every process has ended", PATIENCE_SECONDS)
