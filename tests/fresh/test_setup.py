"""`hearth setup` on a fresh Debian with four real clients of three real servers each, and the way back.

Installed as the Debian package and as the wheel. The machine is a root that was made for this (`make setup-test`),
booted with real systemd; everything is done as an ordinary user would, by the clients' own commands.
"""

import importlib.util
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.systemd.client import Client as Talk
from e2e.systemd.machine import Machine, missing_requirement, until
from fresh.clients import CLIENTS, CODEX, COMMANDS, MEMORY_FILE, SERVERS, Client, Listed
from fresh.desk import COLUMNS, Desk
from fresh.layers import CLIENTS as CLIENTS_LAYER
from fresh.layers import PACKAGES, PACKAGES_INSIDE, REPOSITORY, ROOT
from process.requirements import needs

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
# One call of each server's; what it says shows that it was made.
CALLS = {
    "memory": ("read_graph", {}, "entities"),
    "notes": ("read_query", {"query": "SELECT 6 * 7 AS answer"}, "42"),
    "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
}


@pytest.fixture
def desk() -> Iterator[Desk]:
    """The machine, booted; the user has just logged in."""
    reason = missing_requirement()
    needs(not reason, reason or "")
    for layer in (ROOT, CLIENTS_LAYER, PACKAGES):
        needs(layer.exists(), f"{layer} (`make setup-test` makes it)")
    with Machine(over=[PACKAGES, CLIENTS_LAYER, ROOT]) as machine:
        yield Desk(machine)


def package(pattern: str) -> str:
    """One of the packages, as it is called inside."""
    found = list((PACKAGES / PACKAGES_INSIDE.lstrip("/")).glob(pattern))
    needs(found, f"{pattern} among the built packages")
    return f"{PACKAGES_INSIDE}/{found[0].name}"


def install_deb(desk: Desk) -> None:
    """As root; what it depends on is there, and there is no network."""
    desk.machine.check("apt-get", "install", "--yes", package("*.deb"))


def install_wheel(desk: Desk) -> None:
    """As the user, by pipx."""
    # By variables: pipx also has pip look for newer versions of itself, and tries long where there is a network to try.
    desk.run("pipx", "install", package("mcp_hearth-*.whl"), PIP_NO_INDEX="1", PIP_FIND_LINKS=PACKAGES_INSIDE)


INSTALL = {"deb": install_deb, "wheel": install_wheel}


# --- what is compared


def photograph(desk: Desk) -> dict[str, tuple[bytes, int]]:
    """Every client's file: its bytes and its permissions."""
    files = {client.file: desk.at_home(client.file) for client in CLIENTS}
    return {name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for name, path in files.items()}


def link(desk: Desk) -> str:
    """Where the link of Codex's file leads."""
    return os.readlink(desk.at_home(CODEX.link))


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


def connected(desk: Desk, client: Client) -> dict[str, Listed]:
    """What a client says, which has to be that it is connected to all of them."""
    listed = client.listing(desk)
    assert {name: entry.said for name, entry in listed.items() if not entry.connected} == {}, client.name
    assert set(listed) == set(SERVERS), client.name
    return listed


def settle(desk: Desk) -> dict[str, tuple[bytes, int]]:
    """Run every client until running it changes nothing in its file: some add to it when they are first run."""
    for client in CLIENTS:
        client.listing(desk)
    before = photograph(desk)
    for client in CLIENTS:
        listed = connected(desk, client)
        assert {name: entry.command for name, entry in listed.items()} == COMMANDS, client.name
    assert photograph(desk) == before
    return before


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
    assert CODEX.tools(desk) == codex_before
    counted = twelve_bridges_share_three_servers(desk, commands, direct)
    nothing_is_left_after_the_idle_time(desk)

    desk.run("hearth", "disconnect", "--all")
    assert photograph(desk) == before
    assert link(desk) == f"../{CODEX.file}"
    for client in CLIENTS:
        listed = connected(desk, client)
        assert {name: entry.command for name, entry in listed.items()} == COMMANDS, client.name
    assert photograph(desk) == before
    if kind == "wheel":
        the_readme_shows_it([("hearth setup --yes", said), ("hearth upstreams", counted)])


def every_client_is_on_hearth(desk: Desk) -> list[tuple[str, list[str]]]:
    """Each client, asked in its own way, is connected to each server, by a bridge; what they start for it."""
    commands = []
    for client in CLIENTS:
        listed = connected(desk, client)
        for name, entry in listed.items():
            assert "bridge" in " ".join(entry.command), (client.name, entry)
            assert entry.command[-2:] == ["--server", name], (client.name, entry)
            commands.append((name, entry.command))
    assert len(commands) == len(CLIENTS) * len(SERVERS)
    return commands


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
    shots = [picture.Shot(command, picture.shown(output)) for command, output in run]
    drawn = picture.draw(shots, COLUMNS)
    if os.environ.get("HEARTH_WRITE_PICTURE"):
        PICTURE.write_text(drawn, encoding="utf-8")
    kept = PICTURE.read_text(encoding="utf-8")
    assert picture.likeness(picture.text_of(kept)) == picture.likeness(picture.text_of(drawn)), "`make picture`"
