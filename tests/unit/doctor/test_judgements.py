"""What doctor makes of facts that cannot be had on this machine, or not quickly."""

import threading
import time

import pytest

from hearth.clients.table import Table
from hearth.doctor import checks, clients, context, endpoints, environment, servers, units
from hearth.doctor.context import CheckContext, ServiceEnvironment
from hearth.doctor.daemon import failures, find_cause, missing_variable
from hearth.doctor.units import interpreter
from hearth.findings import Finding, FixRequest, requested_fixes, verdict
from hearth.host.linux.units import exec_word
from hearth.paths import Places
from hearth.upstreams.stdio import STRAY_MARK

PLAIN = environment.EnvironmentFacts(
    shell={"HOME": "/home/a"}, service=ServiceEnvironment({"HOME": "/home/a"}, "the service", True),
    runtime_owner=1000, runtime_writable=True, runtime_used=True, stand_in="", me=1000, home_owner=1000,
    now=time.time(), newest=(time.time() - 5, "/f"), open_files=1024, open_files_whose="this shell",
    is_wsl=False, has_systemd=True,
)  # fmt: skip


LISTENING = endpoints.PortFacts(
    "mcp-http.socket", {"ActiveState": "active", "UnitFileState": "enabled", "Listen": "127.0.0.1:3847 (Stream)"},
    "systemctl --user", (), has_token=True, problem="",
)  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "state", "part"),
    [
        (LISTENING, "port.state", "mcp-http.socket listens on 127.0.0.1:3847"),
        (LISTENING._replace(served=["http://127.0.0.1:3848"]), "port.state", "HTTP on http://127.0.0.1:3848"),
        (LISTENING._replace(unit={}, has_token=False, problem="x"), "port.state", "on the daemon's socket only"),
        (LISTENING._replace(unit={**LISTENING.unit, "ActiveState": "failed"}), "port.failed", "127.0.0.1:3847"),
        (LISTENING._replace(unit={**LISTENING.unit, "ActiveState": "inactive"}), "port.stopped", "not started"),
        (LISTENING._replace(unit={**LISTENING.unit, "Listen": "[::]:3847 (Stream)"}), "port.remote", "[::]:3847"),
        (LISTENING._replace(unit={**LISTENING.unit, "Listen": "[::1]:3847 (Stream)"}), "port.state", "[::1]:3847"),
        (
            LISTENING._replace(lost=["http://127.0.0.1:3847 (gone)"]),
            "port.lost",
            "any more on http://127.0.0.1:3847 (gone)",
        ),
        (LISTENING._replace(has_token=False), "port.token", "no token yet"),
        (LISTENING._replace(unit={}, served=["http://x"], problem="it is no token"), "port.token", "it is no token"),
    ],
)
def test_a_port_is_named_with_what_is_the_matter_with_it(facts: endpoints.PortFacts, state: str, part: str) -> None:
    [finding] = endpoints.judge_port(facts)
    assert (finding.id, part in finding.message) == (state, True), finding


def sight(socket: str, service: str, result: str) -> context.ManagerState:
    units = [{"ActiveState": socket, "UnitFileState": "enabled"}, {"ActiveState": service, "Result": result}]
    return context.ManagerState("answers", socket=units[0], service=units[1])


@pytest.mark.parametrize(
    ("socket", "result", "check", "state"),
    [
        ("active", "signal", "units.killed", "note"),
        ("active", "oom-kill", "units.killed", "note"),
        ("active", "exit-code", "units.failed", "broken"),
        ("failed", "signal", "units.failed", "broken"),
        ("active", "start-limit-hit", "units.start_limit", "broken"),
    ],
)
def test_a_killed_service_is_not_broken_while_its_socket_listens(
    socket: str, result: str, check: str, state: str
) -> None:
    found = units._states(("mcp.socket", "mcp.service"), sight(socket, "failed", result))
    assert (found[-1].id, found[-1].state) == (check, state)


def test_plain_surroundings_are_well() -> None:
    assert [finding.id for finding in environment.judge(PLAIN)] == ["environment.well"]


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        (PLAIN._replace(is_wsl=True, has_systemd=False), "environment.wsl"),
        (PLAIN._replace(stand_in="/tmp/hearth-1000"), "environment.no_login"),
        (PLAIN._replace(home_owner=1001), "environment.home"),
        (PLAIN._replace(newest=(time.time() + 90_000, "/f")), "environment.clock"),
        (PLAIN._replace(shell={"HEARTH_CONFIG": "/x", "HOME": "/home/a"}), "environment.variable"),
        (PLAIN._replace(service=PLAIN.service._replace(values={"XDG_STATE_HOME": "/x"})), "environment.differs"),
    ],
)
def test_odd_surroundings_are_named(facts: environment.EnvironmentFacts, check: str) -> None:
    assert [finding.id for finding in environment.judge(facts)] == [check]


def test_a_variable_with_the_default_value_is_no_difference() -> None:
    same = PLAIN._replace(service=PLAIN.service._replace(values={"XDG_CONFIG_HOME": "/home/a/.config/"}))
    assert [finding.id for finding in environment.judge(same)] == ["environment.well"]


@pytest.mark.parametrize(
    ("no_proxy", "exempt"),
    [("", False), ("localhost,127.0.0.1", True), ("*", True), (".invalid", False), ("example.org, 127.0.0.1", True)],
)
def test_what_no_proxy_exempts_is_not_caught(no_proxy: str, exempt: bool) -> None:
    assert environment.is_exempt("127.0.0.1", no_proxy) == exempt


def test_the_small_variable_of_a_proxy_wins_as_with_curl() -> None:
    assert environment.proxy_variables({"http_proxy": "a", "HTTP_PROXY": "b"}) == {"HTTP_PROXY": "a"}


def test_a_stand_in_is_trouble_only_where_it_needs_what_the_service_lacks() -> None:
    path = "/home/a/.asdf/shims/npx"
    assert servers.shim_trouble(path, {}, {}) is None
    assert servers.shim_trouble(path, {"ASDF_DIR": "/x"}, {"ASDF_DIR": "/x"}) is None
    found = servers.shim_trouble(path, {}, {"ASDF_DIR": "/x"})
    assert found and "ASDF_DIR" in found.message and "asdf which npx" in found.fix
    assert servers.shim_trouble("/usr/bin/npx", {}, {"ASDF_DIR": "/x"}) is None
    assert servers.shim_trouble("/run/user/1/fnm_multishells/1_2/bin/npx", {}, {})


def test_servers_that_failed_and_were_given_up_are_told_by_the_daemon_s_word() -> None:
    told = [
        {"name": "a", "state": "given up", "error": "exit code 1"},
        {"name": "b", "state": "failed"},
        {"name": "c", "state": "ready"},
        {"name": "d", "state": "stopped"},
    ]
    found = failures(told, {"a"})
    assert [(each.id, each.subject) for each in found] == [("servers.given_up", "a"), ("servers.failed", "b")]
    assert [("hearth logs" in each.fix, "hearth restart" in each.fix) for each in found] == [
        (True, True),
        (False, True),
    ]


@pytest.mark.parametrize("path", ["/usr/bin/python3", "/home/a b/bin/python", "/opt/50%/python", "/opt/$x/python"])
def test_the_interpreter_of_a_unit_is_read_as_it_was_written(path: str) -> None:
    assert interpreter(f"[Service]\nExecStart={exec_word(path)} -I -m hearth.daemon\n") == path


def test_the_environment_of_a_service_is_the_manager_s_and_then_the_unit_s() -> None:
    seen = context.ManagerState(
        "answers", service={"Environment": 'PATH=/a:/b "X=1 2"'}, variables={"PATH": "/c", "Y": "z"}
    )
    assert context.service_environment(seen) == {"PATH": "/a:/b", "X": "1 2", "Y": "z"}
    assert context.parse_environment("not json") == {}


def test_a_bridge_entry_says_what_it_needs_and_which_daemon_it_leads_to() -> None:
    words = ["/v/bin/python", "-I", "-S", "/v/lib/hearth/bridge/main.py", "--profile", "work", "--server", "x"]
    assert clients.needed_files(words) == ["/v/bin/python", "/v/lib/hearth/bridge/main.py"]
    assert clients.daemon_arguments(words) == ["--profile", "work"]
    assert clients.daemon_arguments(words[:4]) == clients.daemon_arguments([*words[:4], "--profile=mcp"]) == []
    table = Table("codex", "/home/a/.codex/config.toml", ("mcp_servers",), "user", None)
    assert clients.unpack_entry(clients.pack_entry(table, "n", "s")) == (table, "n", "s")


def test_what_two_findings_want_is_done_once() -> None:
    install = FixRequest("install")
    found = [
        Finding("units.outdated", "note", "", request=install),
        Finding("servers.path", "broken", "", request=install),
    ]
    assert list(requested_fixes([*found, Finding("socket.file", "ok", "", request=FixRequest("close", "/x"))])) == [
        install
    ]
    assert verdict(found) == "1 thing is broken, 1 note."


def test_a_look_that_hangs_is_told_and_does_not_hold_up_the_rest() -> None:
    over = threading.Event()
    group = checks.CheckGroup("folders", lambda context: [][: over.wait(60)])
    (found,) = checks.within(group, CheckContext(Places(), {}), 0.01)
    over.set()
    assert (found.id, found.subject, found.state) == ("doctor.unfinished", "folders", "broken")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("its last words: KeyError: 'TOKEN'", "TOKEN"),
        ("Error: GITHUB_PERSONAL_ACCESS_TOKEN environment variable is required", "GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("BRAVE_API_KEY is not set", "BRAVE_API_KEY"),
        ("Missing required environment variable: SLACK_BOT_TOKEN", "SLACK_BOT_TOKEN"),
        ("Please set `NOTION_TOKEN` | at main.js:3", "NOTION_TOKEN"),
        ("the variable NOT_SET is not set in the daemon's environment", "NOT_SET"),
        ("ended (exit code 1) before it answered; its last words: ERR_MODULE_NOT_FOUND", ""),
        ("connect ECONNREFUSED 127.0.0.1:80", ""),
        ("API_KEY was rejected", ""),
    ],
)
def test_a_missing_variable_is_named(error: str, name: str) -> None:
    assert missing_variable(error) == name
    kind = find_cause(error)
    assert (kind.check if kind else "") == ("servers.variable" if name else "")


def test_output_in_place_of_mcp_is_recognised() -> None:
    kind = find_cause(f"did not answer within 1 s; its last words: {STRAY_MARK}Listening")
    assert kind
    assert kind.check == "servers.stdout"
