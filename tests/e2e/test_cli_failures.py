"""A server that failed: one state and one cause everywhere, whoever is attached; and what the log has of it."""

import os
import shlex
import sys
from typing import Any

from e2e.cli_home import Bridge, Home, write

VARIABLE_CAUSE = "ended (exit code 3) before it answered; its last words: GITHUB_TOKEN is not set"
STDOUT_CAUSE = "printed to stdout, which is for MCP only: Listening with ***"
SECRET = "hunter2hunter2"


def shell_server(name: str, script: str, more: str = "") -> str:
    # The daemon is to stay, and to drop what nobody uses at once: the failure is remembered all the same.
    return (
        f'[mcpServers.{name}]\ncommand = "/bin/sh"\nargs = ["-c", """{script}"""]\n'
        f"start_timeout = 1\ninstance_idle = 0\n{more}\n"
    )


def configure(home: Home) -> None:
    demo = shlex.join([sys.executable, "-I", "-m", "hearth.demo.server"])
    home.write_config(
        "idle_timeout = 0\n"
        + shell_server("lacking", "echo GITHUB_TOKEN is not set >&2; exit 3")
        + shell_server("noisy", f"echo Listening with {SECRET}; exec sleep 1000", f'env = {{ A_TOKEN = "{SECRET}" }}')
        + shell_server("banner", f"echo Welcome; exec {demo}", "isolation = 'shared'").replace(
            "start_timeout = 1\ninstance_idle = 0", "start_timeout = 30"
        )
    )


def fail(home: Home) -> None:
    for name in ("lacking", "noisy"):
        assert home.run("call", name, "anything").returncode == 1


def states(found: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    return {each["name"]: (each["state"], each["error"]) for each in found if each["state"] == "failed"}


def assert_alike(home: Home) -> None:
    told = states(home.json("upstreams", "--json"))
    assert told["lacking"] == ("failed", VARIABLE_CAUSE)
    state, cause = told["noisy"]
    assert (state, cause and cause.count("\n"), cause and STDOUT_CAUSE in cause) == ("failed", 0, True)
    assert states(home.json("status", "--json")["upstreams"]) == told
    for verb in ("status", "upstreams", "sessions"):
        shown = home.run(verb).stdout
        for name, (_, why) in told.items():
            assert f"{name} failed: {why}" in shown, verb
    found = home.run("doctor", "--json").stdout
    for name, (_, why) in told.items():
        assert f"{name} failed: {why}" in found


def test_a_failure_is_told_alike_with_a_client_without_one_and_without_a_daemon(home: Home) -> None:
    configure(home)
    with Bridge(home, "--server", "banner"):
        fail(home)
        assert_alike(home)
        (session,) = home.json("sessions", "--json")
        assert session["failed"] == []
    assert_alike(home)
    assert home.run("stop", "--yes").returncode == 0
    assert not os.path.exists(home.registry)
    assert_alike(home)


def test_a_session_is_told_the_failure_of_its_server(home: Home) -> None:
    configure(home)
    with Bridge(home, "--server", "lacking") as bridge:
        bridge.ask("tools/call", name="anything", arguments={})
        (session,) = home.json("sessions", "--json")
        assert session["failed"] == [{"name": "lacking", "error": VARIABLE_CAUSE}]


def test_a_server_that_works_again_has_failed_no_longer(home: Home) -> None:
    demo = shlex.join([sys.executable, "-I", "-m", "hearth.demo.server"])
    server = shell_server("flaky", f"test -e $HOME/mended || exit 3; exec {demo}")
    home.write_config("idle_timeout = 0\n" + server.replace("start_timeout = 1\n", ""))
    assert home.run("call", "flaky", "count").returncode == 1
    assert states(home.json("upstreams", "--json")).keys() == {"flaky"}
    write(os.path.join(home.home, "mended"), "")
    assert home.run("call", "flaky", "count").returncode == 0
    assert states(home.json("upstreams", "--json")) == {}
    assert home.run("stop", "--yes").returncode == 0
    assert states(home.json("upstreams", "--json")) == {}


def test_a_reload_forgives_a_failure(home: Home) -> None:
    configure(home)
    fail(home)
    assert home.run("reload", "--yes").returncode == 0
    assert states(home.json("upstreams", "--json")) == {}


def test_doctor_names_the_missing_variable_and_the_stdout_of_servers(home: Home) -> None:
    configure(home)
    fail(home)
    assert home.run("call", "banner", "count").returncode == 0
    found = {(each["id"], each["subject"]): each for each in home.findings()}
    assert "hearth secret set GITHUB_TOKEN" in found["servers.variable", "lacking"]["fix"]
    assert found["servers.stdout", "noisy"]["state"] == "broken"
    assert found["servers.stdout", "banner"]["state"] == "note"
    assert "Welcome" in found["servers.stdout", "banner"]["message"]


def test_a_variable_that_is_set_nowhere_is_found_once_before_and_after_a_call(home: Home) -> None:
    home.write_config(
        'idle_timeout = 0\n[mcpServers.a]\nurl = "http://127.0.0.1:9/mcp"\nheaders = { X = "${NOT_SET_ANYWHERE}" }\n'
    )
    for _ in range(2):
        found = [each for each in home.findings() if each["subject"] == "a"]
        assert [(each["id"], each["state"]) for each in found] == [("servers.reference", "broken")]
        assert "NOT_SET_ANYWHERE" in found[0]["message"]
        assert home.run("call", "a", "anything").returncode == 1


def test_the_line_on_stdout_is_in_both_logs_cut_and_masked(home: Home) -> None:
    long = "x" * 3000
    home.write_config(
        "idle_timeout = 0\n"
        + shell_server("noisy", f"echo Token {SECRET} {long}; exec sleep 1000", f'env = {{ A_TOKEN = "{SECRET}" }}')
    )
    assert home.run("call", "noisy", "anything").returncode == 1
    log, own = home.run("logs").stdout, home.run("logs", "noisy").stdout
    assert "line='Token *** xxx" in log
    assert long not in log
    assert f"stdout, not MCP: Token *** {long}" in own
    assert SECRET not in log + own


def test_on_a_narrow_terminal_a_session_has_its_server_role_and_agent_on_one_line(home: Home) -> None:
    home.configure_demo()
    with Bridge(home, "--server", "demo", "--role", "reviewer", "--agent-id", "agent-7"):
        lines = home.at_terminal(0, "sessions", COLUMNS="80").splitlines()
        (row,) = [line for line in lines if "test-agent" in line]
        assert all(len(line) <= 80 for line in lines)
        session = home.json("sessions", "--json")[0]["id"]
        assert row.split()[1:][:5] == [session, "test-agent", "1.0", "demo", "reviewer"]
        assert "agent-7" in row


def test_a_broken_config_is_told_with_its_line_when_no_daemon_runs(home: Home) -> None:
    path = home.write_config('[mcpServers.a]\ncommand = "a"\ncomand = "b"\n')
    told = home.json("status", "--json")
    assert told["running"] is False
    assert told["configError"].startswith(f"{path}:3: ")
    for verb in ("status", "upstreams"):
        done = home.run(verb)
        assert (done.returncode, f"{path}:3: " in done.stdout) == (0, True)
        assert "No MCP server is configured" not in done.stdout
    assert not os.path.exists(home.registry)


def test_starts_stops_and_restarts_of_servers_are_logged(home: Home) -> None:
    home.configure_demo()
    assert home.run("call", "demo", "count").returncode == 0
    (found,) = home.json("upstreams", "--json")
    (pid,) = found["pids"]
    assert home.run("restart", "demo", "--yes").returncode == 0
    assert home.run("call", "demo", "count").returncode == 0
    (next_pid,) = home.json("upstreams", "--json")[0]["pids"]
    assert home.run("stop", "--yes").returncode == 0
    log = home.run("logs").stdout
    for line in (
        f"process started pid={pid} [upstream=demo]",
        "restart requested [upstream=demo]",
        f"process ended pid={pid} exit code 0 [upstream=demo]",
        f"process started pid={next_pid} [upstream=demo]",
        f"process ended pid={next_pid} ",
    ):
        assert line in log
