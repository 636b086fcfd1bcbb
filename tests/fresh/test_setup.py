"""`hearth setup` on a fresh Debian with four real clients of three real servers each, and the way back.

Installed as the Debian package and as the wheel. The machine is a root that was made for this (`make setup-test`),
booted with real systemd; everything is done as an ordinary user would, by the clients' own commands.
"""

import importlib.util
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.systemd.client import Client as Talk
from e2e.systemd.client import text_of
from e2e.systemd.machine import until
from fresh.layers import REPOSITORY
from support.fresh.clients import CLIENTS, CODEX, COMMANDS, MEMORY_FILE, SERVERS
from support.fresh.desk import COLUMNS, SERVICE, Desk
from support.fresh.steps import (
    INSTALL,
    connected,
    every_client_has_its_own_servers,
    every_client_is_on_hearth,
    photograph,
    settle,
)

_spec = importlib.util.spec_from_file_location("picture", REPOSITORY / "packaging" / "picture.py")
assert _spec and _spec.loader
picture = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(picture)
PICTURE = REPOSITORY / "docs" / "terminal.svg"

# Four clients, each started three times over; node and Python servers started by every one of them at first.
pytestmark = [pytest.mark.real, pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(600)]

# Above the time that a server needs to start on a busy machine, so that it is still there when it is counted.
IDLE_SECONDS = 5
CONFIG = f"""\
# Mine, from before
idle_timeout = {IDLE_SECONDS}
"""
# The envelope of a request of the modern era.
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "e2e", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# One call of each server's; what it says shows that it was made.
CALLS = {
    "memory": ("read_graph", {}, "entities"),
    "notes": ("read_query", {"query": "SELECT 6 * 7 AS answer"}, "42"),
    "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
}


# --- what is compared


def direct_tools(desk: Desk) -> dict[str, dict[str, dict[str, object]]]:
    """What each server offers when it is started by hand."""
    found = {}
    for name, command in COMMANDS.items():
        with desk.start("env", f"MEMORY_FILE_PATH={MEMORY_FILE}", *command) as server:
            server.initialize()
            found[name] = tools(server)
    return found


def tools(talk: Talk) -> dict[str, dict[str, object]]:
    """The tools at the other end, by name: Hearth has an order of its own for them."""
    return {tool["name"]: tool for tool in talk.request("tools/list")["tools"]}


# --- the test


@pytest.mark.parametrize("kind", ["deb", "wheel"])
def test_one_command_puts_every_client_on_hearth_and_another_one_takes_it_back(desk: Desk, kind: str) -> None:
    for client in CLIENTS:
        client.configure(desk)
    desk.write(".config/hearth/config.toml", CONFIG)
    before = settle(desk)
    codex_before, direct = CODEX.tools(desk), direct_tools(desk)
    assert set(codex_before) == set(SERVERS)
    assert not desk.everywhere("mcp-server-"), "a client has left its servers behind"

    INSTALL[kind](desk)
    said = desk.on_terminal("hearth setup --yes")
    print("\n".join(picture.shown(said)))
    assert "hearth disconnect" in said, said
    assert {name: text for name, (text, _) in photograph(desk).items()}.items().isdisjoint(
        {name: text for name, (text, _) in before.items()}.items()
    )
    assert CONFIG in desk.at_home(".config/hearth/config.toml").read_text(encoding="utf-8")

    commands = every_client_is_on_hearth(desk)
    four_clients_of_both_eras_share_three_servers(desk, commands)
    assert CODEX.tools(desk) == codex_before
    counted = twelve_bridges_share_three_servers(desk, commands, direct)
    nothing_is_left_after_the_idle_time(desk)

    desk.run("hearth", "disconnect", "--all")
    every_client_has_its_own_servers(desk, before)
    if kind == "wheel":
        the_readme_shows_it([("hearth setup --yes", said), ("hearth upstreams", counted)])


def four_clients_of_both_eras_share_three_servers(desk: Desk, commands: list[tuple[str, list[str]]]) -> None:
    """Run all clients at once, beside calls of both eras: while one of them runs, three processes are ever seen."""
    seen: dict[int, str] = {}
    with ExitStack() as stack, ThreadPoolExecutor(len(CLIENTS)) as pool:
        # The bridges of two clients, which call where a client only lists: without a call no process has to be there.
        held = [(name, stack.enter_context(desk.start_bare(*each))) for name, each in commands[: 2 * len(SERVERS)]]
        old, new = held[: len(SERVERS)], held[len(SERVERS) :]
        for _, talk in old:
            talk.initialize()
        call_in_both_eras(old, new)
        listings = [pool.submit(connected, desk, client) for client in CLIENTS]
        while not all(listing.done() for listing in listings):
            call_in_both_eras(old, new)
            seen |= {pid: line for pid, line in desk.servers().items() if "mcp-server-" in line}
        for listing in listings:
            listing.result()
        # The test's own bridges are attached still.
        eras = eras_of_clients(desk)
    assert len(eras) == len(CLIENTS), eras
    assert set(eras.values()) == {"legacy", "modern"}, eras
    names = [Path(word).name for line in seen.values() for word in line.split()]
    programs = sorted(name for name in names if name.startswith("mcp-server-"))
    assert len(seen) == len(SERVERS), seen
    assert programs == sorted(command[0] for command in COMMANDS.values()), seen


def eras_of_clients(desk: Desk) -> dict[str, str]:
    """Return the era of each client whose session has ended, by its name, as the journal has it; not `hearth call`."""
    desk.machine.check("journalctl", "--sync")
    matches = [f"_UID={desk.user.uid}", f"_SYSTEMD_USER_UNIT={SERVICE}"]
    lines = desk.machine.check("journalctl", "-q", "-o", "cat", "--no-pager", *matches)
    return dict(re.findall(r"session ended client=(?!None |hearth)(.+?) era=(legacy|modern) ", lines))


def call_in_both_eras(old: list[tuple[str, Talk]], new: list[tuple[str, Talk]]) -> None:
    """Call each server as a client of each era does."""
    for name, talk in old:
        tool, arguments, part = CALLS[name]
        assert part in talk.call(tool, **arguments)
    for name, talk in new:
        tool, arguments, part = CALLS[name]
        assert part in text_of(talk.request("tools/call", {"name": tool, "arguments": arguments, "_meta": MODERN}))


def twelve_bridges_share_three_servers(
    desk: Desk, commands: list[tuple[str, list[str]]], direct: dict[str, dict[str, dict[str, object]]]
) -> str:
    """All that the clients start, at once and with the bare environment that clients give; each makes a call.

    Returns what `hearth upstreams` shows of it.
    """
    with ExitStack() as stack:
        talks: list[tuple[str, Talk]] = [
            (name, stack.enter_context(desk.start_bare(*command))) for name, command in commands
        ]
        for name, talk in talks:
            talk.initialize()
            assert tools(talk) == direct[name]
            tool, arguments, part = CALLS[name]
            assert part in talk.call(tool, **arguments)
        status = json.loads(desk.run("hearth", "status", "--json"))
        assert (status["activation"], len(status["sessions"])) == ("systemd", len(commands))
        servers = desk.servers()
        # Interpreters stand before them.
        names = [Path(word).name for line in servers.values() for word in line.split()]
        programs = sorted(name for name in names if name.startswith("mcp-server-"))
        assert programs == sorted(command[0] for command in COMMANDS.values()), servers
        assert len(servers) == len(SERVERS), servers
        # Nor does any run outside of the service.
        assert len(desk.everywhere("mcp-server-")) == len(SERVERS)
        return desk.on_terminal("hearth upstreams")


def nothing_is_left_after_the_idle_time(desk: Desk) -> None:
    """The daemon goes, its servers before it, and systemd listens."""
    until(lambda: desk.service("ActiveState") == "inactive", "the daemon has gone")
    assert desk.everywhere("mcp-server-") == []
    assert desk.everywhere("hearth") == []
    assert desk.run("systemctl", "--user", "is-active", "mcp.socket").strip() == "active"


def the_readme_shows_it(run: list[tuple[str, str]]) -> None:
    """README's picture is of this run, numbers aside; `make picture` draws it anew."""
    drawn = picture.draw([picture.Shot(command, picture.shown(output)) for command, output in run], COLUMNS)
    if os.environ.get("HEARTH_WRITE_PICTURE"):
        PICTURE.write_text(drawn, encoding="utf-8")
    kept = PICTURE.read_text(encoding="utf-8")
    assert picture.likeness(picture.text_of(kept)) == picture.likeness(picture.text_of(drawn)), "`make picture`"
