"""The matrix's one daemon: a server of each revision behind it, and a client of each revision on each wire in front."""

import sys
from pathlib import Path

from support.conformance.clients import Client, client_of
from support.conformance.features import Desk
from support.conformance.revisions import REVISIONS
from support.conformance.wires import SERVER, Child, Lines, Wire
from support.daemon import Scratch

WIRES = ("bridge", "lines")


class Stage:
    """Clients are opened when they are first needed, and used until something went wrong with them."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self._complaints = scratch.home / "complaints"
        self._clients: dict[tuple[str, str, bool], Client] = {}
        words = ["-I", "-S", str(SERVER)]
        self.daemon = scratch.serve(
            {
                revision: {"command": sys.executable, "args": [*words, revision, str(self._complaints)]}
                for revision in REVISIONS
            }
        )

    def desk(self, client: str, upstream: str, wire: str) -> Desk:
        """A client of that revision on that wire, turned to the server of that revision."""
        return Desk(self.client(client, wire), self.client(client, wire, bare=True), upstream, f"{upstream}__")

    def client(self, revision: str, wire: str, bare: bool = False) -> Client:
        """The client of that kind; one that declares nothing is `bare`."""
        key = revision, wire, bare
        if key not in self._clients:
            name = f"{'bare-' if bare else ''}{wire}-{revision}"
            self._clients[key] = client = client_of(self._wire(wire, name), revision, name, bare)
            client.open()
        return self._clients[key]

    def _wire(self, wire: str, name: str) -> Wire:
        if wire == "lines":
            return Lines(self.scratch.socket)
        folder: Path = self.scratch.home / name
        folder.mkdir(exist_ok=True)
        return Child(folder, self.scratch.environment())

    def dismiss(self, revision: str, wire: str) -> None:
        """What these clients still have open must not spoil another cell."""
        for bare in (False, True):
            client = self._clients.pop((revision, wire, bare), None)
            if client is not None:
                client.close()

    def complaints(self) -> str:
        """What the servers have got that nobody may send them."""
        return self._complaints.read_text() if self._complaints.exists() else ""

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
