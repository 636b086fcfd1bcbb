"""What is said of a setup."""

import pytest

from hearth.cli.clients import setup as verb
from hearth.clients.bridge_entries import EntryChange, TableOutcome
from hearth.host.install.service_files import Outcome as Units
from hearth.host.install.service_files import Plan as UnitPlan
from hearth.ops import connect_clients, import_servers, tool_caller
from hearth.ops.connect_clients import Links, TablePlan
from hearth.ops.import_servers import Gathered
from hearth.ops.setup_plan import ServiceStep, SetupPlan
from hearth.ops.tool_caller import Trial
from hearth.paths import Places
from unit.clients.imports import Shell, found, table

HOME = "/home/me"
TIME = found("time", {"command": "uvx", "args": ["mcp-server-time"]})


def setup(service: ServiceStep, *outcomes: TableOutcome, problems: tuple[str, ...] = ()) -> SetupPlan:
    links = Links([], list(outcomes), list(problems))
    return SetupPlan(Gathered([TIME.table, table("gemini")], [TIME], []), Shell().plan(TIME), service, links)


def lines(planned: SetupPlan) -> list[str]:
    return verb.plan_lines(planned, Places(), HOME, 200)


def test_the_plan_names_clients_servers_files_and_units() -> None:
    replaced = TableOutcome(TIME.table, [EntryChange("time", "{}", "{}", {}, {})], [])
    added = TableOutcome(table("gemini"), [EntryChange("hearth", None, "{}", None, {})], [])
    unchanged = TableOutcome(table("codex"), [], [])
    units = Units(f"{HOME}/.config/systemd/user", UnitPlan(write=("mcp.socket", "mcp.service")), "systemd")
    said = lines(setup(ServiceStep(units), replaced, added, unchanged, problems=("x.json: is broken",)))
    assert said[0] == "Clients: Claude Code, Gemini CLI"
    assert "  ~/.claude-code.json: time through Hearth" in said
    assert "  ~/.gemini.json: hearth added, which offers every server" in said
    assert "Service: systemd is to hold the socket: mcp.socket, mcp.service in ~/.config/systemd/user." in said
    assert said[said.index("Not to be connected:") + 1] == "  x.json: is broken"
    assert not any("codex" in line for line in said)


def test_a_service_that_is_there_or_left_out_is_said() -> None:
    there = Units("/units", UnitPlan(keep=("mcp.socket",)), "systemd")
    assert lines(setup(ServiceStep(there)))[-1] == "Service: systemd holds the socket; nothing changes."
    assert lines(setup(ServiceStep(None, "left out, as you said")))[-1] == "Service: left out, as you said."


def test_nothing_is_left_to_do_only_when_nothing_would_change() -> None:
    there = ServiceStep(Units("/units", UnitPlan(keep=("mcp.socket",)), "systemd"))
    shell = Shell()
    shell.adopt(shell.plan(TIME))
    done = setup(there)._replace(imports=shell.plan(TIME))
    assert done.is_done()
    assert not setup(there).is_done()
    assert not done._replace(service=ServiceStep(Units("/units", UnitPlan(write=("mcp.socket",)), "systemd"))).is_done()
    changed = TableOutcome(TIME.table, [EntryChange("time", "{}", "{}", {}, {})], [])
    assert not done._replace(links=Links([], [changed], [])).is_done()


def test_a_server_that_failed_is_said_with_what_to_do() -> None:
    alone = setup(ServiceStep(None))

    def said(*trials: Trial, logged: tuple[str, ...] = ()) -> list[str]:
        return verb.trial_lines(alone, list(trials), 200, logged)

    missing = Trial("a", None, "its command 'x' was not found on the daemon's PATH")
    several = said(Trial("time", 1), missing, Trial("b", None, "!"), logged=("b",))
    assert several[:2] == ["Tried as a client would:", "  time  1 tool"]
    assert several[2].startswith("  a: its command")
    assert "`hearth setup` again" in several[3]
    assert "`hearth logs b`" in several[5]
    assert said(Trial("far", None, "!"))[2:] == ["    `hearth call far` tries it again."]
    wants = Trial("c", None, "log in first: `hearth auth login c`")
    assert said(wants)[1:] == ["  c: log in first: `hearth auth login c`"]
    assert said() == []


def test_the_summary_counts_what_was_moved_and_what_was_left_with_each_reason() -> None:
    gone, same = found("gone", {"command": "gone"}), found("gone", {"command": "gone"}, "cursor")
    entries = [TIME, gone, same, found("off", {"command": "uvx", "disabled": True})]
    tables = {each.table: [found for found in entries if found.table == each.table] for each in entries}
    plans = [TablePlan(table, {each.name: each.name for each in mine}, False, []) for table, mine in tables.items()]
    trials = [Trial("time", 1), Trial("gone", None, "it\x1b ended with code 3")]
    kept, failed = connect_clients.without_failed(plans, entries, trials)
    assert [plan.replace for plan in kept] == [{"time": "time", "off": "off"}, {}]
    outcome = TableOutcome(TIME.table, [EntryChange("time", "{}", "{}", {}, {})], [])
    finished = SetupPlan(
        Gathered(list(tables), entries, []),
        Shell().plan(*entries),
        ServiceStep(None),
        Links(kept, [outcome], []),
        failed,
    )
    assert verb.trial_lines(finished, trials, 200, {"gone"}) == ["Tried as a client would:", "  time  1 tool"]
    assert verb.summary_lines(finished, trials, {"gone"}) == [
        "1 entry moved to Hearth, 3 left as they were:",
        "  off (Claude Code): is disabled there; --disabled takes it all the same",
        "  gone (Claude Code), gone (Cursor): no answer through Hearth: it\ufffd ended with code 3",
        "    `hearth logs gone` has what it said; `hearth call gone` tries it again.",
    ]
    document = verb.as_document(finished, Places(), trials, [], done=True)
    assert [each["name"] for each in document["moved"]] == ["time"]
    assert [each["name"] for each in document["left"]] == ["off", "gone", "gone"]


def test_a_bridge_is_written_again_whatever_its_server_says() -> None:
    bridge = found("time", {"command": "hearth", "args": ["bridge", "--server", "time"]})
    plan = TablePlan(bridge.table, {"time": "time"}, False, [])
    assert connect_clients.without_failed([plan], [bridge], [Trial("time", None, "!")]) == ([plan], [])


def test_a_trial_has_only_what_clients_hand_on() -> None:
    environ = {"HOME": "/h", "PATH": "/p", "XDG_RUNTIME_DIR": "/r", "GITHUB_TOKEN": "x", "HEARTH_CONFIG": "/c"}
    assert tool_caller.environment(environ) == {"HOME": "/h", "PATH": "/p", "XDG_RUNTIME_DIR": "/r"}


@pytest.mark.parametrize(
    ("scopes", "chosen"),
    [((), ("user", "local")), (("project",), ("project",)), (("user", "all"), ("user", "local", "project"))],
)
def test_a_projects_files_are_taken_only_when_asked_for(scopes: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    assert import_servers.chosen_scopes(scopes) == chosen
