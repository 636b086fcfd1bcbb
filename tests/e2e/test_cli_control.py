"""Verbs that speak to a running daemon, with real bridges attached to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from e2e.cli_home import HEARTH, PATIENCE_SECONDS, Bridge, Home, attached_bridge, following, read, scratch_home, write
from e2e.terminal import Terminal
from hearth.host import processes
from support.kernel import until


def daemon_pid(home: Home) -> int:
    document = home.json("status", "--json")
    assert document["running"]
    return int(document["pid"])


def runs(pid: int) -> bool:
    return processes.is_alive(pid, processes.UNKNOWN_START_TIME)


@contextmanager
def stopped(home: Home) -> Iterator[int]:
    """Have the daemon stand still; yield its pid."""
    pid = daemon_pid(home)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_status_describes_the_daemon_its_sessions_and_its_servers(home: Home, bridge: Bridge) -> None:
    names = [tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]]
    document = home.json("status", "--json")
    assert runs(document["pid"])
    assert document["endpoint"] == home.socket
    assert document["uptimeSeconds"] >= 0
    (session,) = document["sessions"]
    assert document["owner"] == session["id"]
    assert session.keys() >= {"id", "client", "era", "connectedAt", "isOwner", "active", "pid", "cwd", "wire"}
    assert session["pid"] == bridge.process.pid
    (server,) = document["upstreams"]
    assert (server["name"], server["tools"]) == ("demo", len(names))
    assert all(runs(pid) for pid in server["pids"])
    shown = home.run("status").stdout
    assert f"pid {document['pid']}" in shown
    assert "demo" in shown


def test_sessions_shows_who_is_attached(home: Home, bridge: Bridge) -> None:
    (session,) = home.json("sessions", "--json")
    assert session["isOwner"] is True
    shown = home.run("sessions").stdout
    assert "test-agent" in shown
    assert session["id"] in shown


def test_asking_is_no_session_and_holds_nothing(home: Home, bridge: Bridge) -> None:
    before = home.json("sessions", "--json")
    assert home.json("sessions", "--json") == before


@pytest.mark.parametrize("verb", ["stop", "restart", "reload"])
def test_with_somebody_attached_and_no_terminal_it_refuses_and_says_who(home: Home, bridge: Bridge, verb: str) -> None:
    pid = daemon_pid(home)
    said = home.fails(5, verb)
    assert "test-agent" in said
    assert "--yes" in said
    assert daemon_pid(home) == pid


def test_stop_returns_when_the_process_has_gone_and_the_bridge_survives(home: Home, bridge: Bridge) -> None:
    pid = daemon_pid(home)
    home.ok("stop", "--yes")
    assert not runs(pid)
    assert bridge.process.poll() is None
    assert "error" not in bridge.ask("ping")
    assert daemon_pid(home) != pid


def test_restart_lights_a_new_daemon_without_a_call(home: Home, bridge: Bridge) -> None:
    pid = daemon_pid(home)
    home.ok("restart", "--yes")
    assert not runs(pid)
    until(lambda: home.json("status", "--json")["running"], "a daemon runs")
    assert daemon_pid(home) != pid
    assert "error" not in bridge.ask("ping")


def test_a_restart_when_quiet_lets_a_call_finish_that_the_drain_would_have_cut_off(home: Home) -> None:
    started, release = os.path.join(home.home, "started"), os.path.join(home.home, "release")
    arguments = json.dumps(["-I", os.path.join(os.path.dirname(__file__), "fixtures", "desk.py")])
    home.write_config(
        "idle_timeout = 0\ndrain_timeout = 0.1\n"
        f"[mcpServers.desk]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n"
    )
    with Bridge(home) as bridge:
        pid = daemon_pid(home)
        bridge.begin("tools/call", name="desk__hold", arguments={"started": started, "release": release})
        until(lambda: os.path.exists(started), "the call has begun")
        said = home.ok("restart", "--when-quiet")
        assert f"pid {pid} (mcp): shutting down as soon as no call is in flight and no agent at work." in said
        assert daemon_pid(home) == pid
        write(release, "")
        assert not bridge.answer()["result"].get("isError")
        until(lambda: not runs(pid), "the daemon has ended")
        assert "error" not in bridge.ask("ping")
        assert daemon_pid(home) != pid


def test_all_means_the_daemons_of_every_profile_and_config_of_this_installation(home: Home, bridge: Bridge) -> None:
    config = home.write_config("idle_timeout = 0\n", profile="work")
    others = [Bridge(home, "--profile", "work"), Bridge(home, "--config", config)]
    try:
        for other in others:
            other.open()
        lit = [home.json("status", "--json", *words) for words in ([], ["--profile", "work"], ["--config", config])]
        pids = [each["pid"] for each in lit]
        assert len(set(pids)) == 3
        home.ok("stop", "--all", "--yes")
        assert [runs(pid) for pid in pids] == [False] * 3
        assert "hearth is not running" in home.run("restart", "--all", "--when-quiet").stdout
    finally:
        for other in others:
            other.end()


def test_a_daemon_of_another_installation_is_not_meant_by_all(home: Home, bridge: Bridge) -> None:
    pid = daemon_pid(home)
    # The same package by another interpreter's name.
    elsewhere = os.path.join(home.folder, "elsewhere")
    os.symlink(os.path.dirname(os.path.dirname(HEARTH)), elsewhere)
    done = subprocess.run(
        [os.path.join(elsewhere, "bin", "python"), "-I", "-m", "hearth", "stop", "--all", "--yes"],
        env=home.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "hearth is not running.\n")
    assert runs(pid)


def test_a_server_is_not_restarted_with_the_options_of_daemons(home: Home) -> None:
    home.configure_demo()
    assert home.run("restart", "demo", "--all").returncode == 2
    assert home.run("restart", "demo", "--when-quiet").returncode == 2


@pytest.mark.parametrize(("answer", "code"), [("n\n", 5), ("y\n", 0)])
def test_at_a_terminal_the_person_is_asked_and_decides(home: Home, bridge: Bridge, answer: str, code: int) -> None:
    pid = daemon_pid(home)
    assert "test-agent" in home.at_terminal(code, "stop", answers={"[y/N]": answer}).partition("[y/N]")[0]
    assert runs(pid) == (code == 5)


def test_an_interrupted_question_ends_its_line(home: Home, bridge: Bridge) -> None:
    terminal = Terminal([HEARTH, "stop"], home.environment)
    terminal.read_until("[y/N]: ")
    assert terminal.interrupt() == 130
    assert "hearth: interrupted." in terminal.seen.splitlines()


def test_nobody_is_asked_when_nobody_is_attached(home: Home, bridge: Bridge) -> None:
    bridge.leave()
    pid = daemon_pid(home)
    until(lambda: not home.json("sessions", "--json"), "the session has ended")
    home.ok("stop")
    assert not runs(pid)


def test_reload_takes_a_good_config(home: Home, bridge: Bridge) -> None:
    home.write_config(read(home.configure_demo()).replace("mcpServers.demo", "mcpServers.other"))
    home.ok("reload", "--yes")
    assert [server["name"] for server in home.json("status", "--json")["upstreams"]] == ["other"]


def test_reload_prints_what_is_wrong_with_a_bad_config_and_the_old_one_goes_on(home: Home, bridge: Bridge) -> None:
    path = home.write_config('idle_timeout = "soon"\n')
    said = home.fails(2, "reload", "--yes")
    assert path in said
    assert "idle_timeout" in said
    document = home.json("status", "--json")
    assert [server["name"] for server in document["upstreams"]] == ["demo"]
    assert "idle_timeout" in document["configError"]


# Pid of the daemon, and the exit code and the message of each verb.
Hanging = tuple[int, dict[str, tuple[int, str]]]
# Not `reload --yes`, which waits long for slow disks.
WITHOUT_ANSWER = {"status": [], "stop": ["--yes"], "restart": ["--yes"], "reload": []}


@pytest.fixture(scope="module")
def hanging() -> Iterator[Hanging]:
    """Type each verb while a daemon hangs; yield its pid, and each exit code with what was said.

    All are typed at once: each waits some seconds for an answer.
    """
    for home in scratch_home():
        for _ in attached_bridge(home):
            with stopped(home) as pid, ThreadPoolExecutor() as pool:
                typed = {verb: pool.submit(home.run, verb, *words) for verb, words in WITHOUT_ANSWER.items()}
                yield pid, {verb: (each.result().returncode, each.result().stderr) for verb, each in typed.items()}


def test_a_daemon_that_does_not_answer_is_told_from_one_that_is_out(hanging: Hanging) -> None:
    code, said = hanging[1]["status"]
    assert (code, "did not answer" in said) == (4, True), said


@pytest.mark.parametrize("verb", ["stop", "restart", "reload"])
def test_a_daemon_that_hangs_is_named_with_what_ends_it(hanging: Hanging, verb: str) -> None:
    pid, found = hanging
    code, said = found[verb]
    assert (code, f"kill -9 {pid}" in said) == (4, True), said


def test_a_bridge_whose_client_left_does_not_outstay_its_last_answer(home: Home, bridge: Bridge) -> None:
    with stopped(home):
        done = subprocess.run(
            [HEARTH, "bridge"],
            env=home.environment | {"HEARTH_BRIDGE_PATIENCE": "0.5"},
            input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
            capture_output=True,
            text=True,
            # Half of what a bridge would wait for answers that are still owed.
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 0
    assert '"id":1' in done.stdout.replace(" ", "")
    assert "said nothing" in done.stdout


def test_a_second_daemon_is_refused_with_code_3_and_names_the_first(home: Home, bridge: Bridge) -> None:
    assert str(daemon_pid(home)) in home.fails(3, "serve")


def test_serve_runs_in_the_foreground_until_it_is_interrupted(home: Home) -> None:
    home.configure_demo()
    terminal = Terminal([HEARTH, "serve"], home.environment)
    until(lambda: home.json("status", "--json")["running"], "a daemon runs")
    assert terminal.process.poll() is None
    terminal.type("\x03")
    assert terminal.finish() == 0
    assert not os.path.exists(home.registry)


def test_logs_shows_the_end_of_the_file_and_follows_it(home: Home, bridge: Bridge) -> None:
    daemon_pid(home)
    whole = home.ok("logs", "-n", "1000").splitlines(keepends=True)
    assert home.run("logs", "-n", "1").stdout == whole[-1]
    with following(home, "-n", "1") as lines:
        assert lines.next().decode() == whole[-1].rstrip("\n")
        home.write_config("nonsense = 1\n")
        assert home.run("reload", "--yes").returncode == 2
        assert b"nonsense" in lines.next()


def test_logs_follows_the_file_over_a_rotation(home: Home) -> None:
    path = write(os.path.join(home.home, ".local", "state", "hearth", "logs", "mcp.log"), "first\n")
    with following(home) as lines:
        assert lines.next() == b"first"
        with open(path, "a", encoding="utf-8") as file:
            file.write("second\n")
        os.rename(path, path + ".1")
        write(path, "third\n")
        assert [lines.next(), lines.next()] == [b"second", b"third"]


def test_a_profile_that_was_typed_is_served_also_where_the_environment_names_a_config(home: Home) -> None:
    home.environment["HEARTH_CONFIG"] = home.write_config("", "other")
    with Bridge(home, "--profile", "work"):
        assert home.json("status", "--profile", "work", "--json")["running"] is True
