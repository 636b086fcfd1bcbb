"""Steps that the tests of the fresh machine share: installing Hearth, and asking every client for its servers."""

import os
import stat
from collections.abc import Callable

from fresh.layers import PACKAGES, PACKAGES_INSIDE
from support.fresh.clients import CLIENTS, CODEX, COMMANDS, SERVERS, Client, Listed
from support.fresh.desk import Desk
from support.requirements import needs


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


INSTALL: dict[str, Callable[[Desk], None]] = {"deb": install_deb, "wheel": install_wheel}


# --- client files


def photograph(desk: Desk) -> dict[str, tuple[bytes, int]]:
    """Every client's file: its bytes and its permissions."""
    files = {client.file: desk.at_home(client.file) for client in CLIENTS}
    return {name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for name, path in files.items()}


def link(desk: Desk) -> str:
    """Where the link of Codex's file leads."""
    return os.readlink(desk.at_home(CODEX.link))


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
        assert {name: entry.command for name, entry in connected(desk, client).items()} == COMMANDS, client.name
    assert photograph(desk) == before
    return before


def every_client_is_on_hearth(desk: Desk) -> list[tuple[str, list[str]]]:
    """Each client, asked in its own way, is connected to each server, by a bridge; what they start for it."""
    commands = []
    for client in CLIENTS:
        for name, entry in connected(desk, client).items():
            assert "bridge" in " ".join(entry.command), (client.name, entry)
            assert entry.command[-2:] == ["--server", name], (client.name, entry)
            commands.append((name, entry.command))
    assert len(commands) == len(CLIENTS) * len(SERVERS)
    return commands


def every_client_has_its_own_servers(desk: Desk, before: dict[str, tuple[bytes, int]]) -> None:
    """Each file is as it was, byte for byte, and each client is connected to the servers that it starts itself."""
    assert photograph(desk) == before
    assert link(desk) == f"../{CODEX.file}"
    for client in CLIENTS:
        assert {name: entry.command for name, entry in connected(desk, client).items()} == COMMANDS, client.name
    assert photograph(desk) == before
