"""Store of tool definitions as first seen or last approved, kept from one daemon to the next.

There is one private file for each server of a profile, by its name: another token or another version of the program is
no reason to trust it again. The daemon writes a file when something is new, the command line when something is
approved; a lock serializes the two. An unreadable file grants nothing: all tools of a pinned server are withheld then.
`ToolPinning` withholds the tools of one server that are not approved.
"""

import logging
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.host.folders import make_private
from hearth.host.locks import Lock
from hearth.mcp import capabilities
from hearth.mcp.catalog import ServerCatalog
from hearth.mcp.pinning import Change, Pinned, definitions
from hearth.paths import digest, safe_name
from hearth.upstreams.traits import WarnOnce

if TYPE_CHECKING:
    from hearth.upstreams.catalog_cache import ServerCatalogs

log = logging.getLogger(__name__)

_VERSION = 1
# A message from a server is no longer than this (message_limit), and hardly ever near it.
FILE_LIMIT_BYTES = 64 * 1024 * 1024
# Cached results of comparing a catalog with its pins; above this number the oldest is dropped.
VETTED_LIMIT = 32


class Unusable(Exception):
    """Error for a file that cannot be used. `is_garbage`: it can be read, but its content is invalid."""

    def __init__(self, reason: str, is_garbage: bool) -> None:
        super().__init__(reason)
        self.is_garbage = is_garbage


class PinPage(NamedTuple):
    """One server's file as read: its content, None if there is no file, or the problem with it."""

    stamp: private_files.Stamp
    pinned: Pinned | None = None
    problem: Unusable | None = None


class PinStore:
    """Pins of one profile (Places.pins)."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = Lock(os.path.join(folder, "lock"))
        self._pages: dict[str, PinPage] = {}
        self._vetted: dict[tuple[object, ...], frozenset[str]] = {}
        self._warn = WarnOnce(log, "pinned tools")

    # --- for the daemon: nothing here raises

    def see(self, server: str, variant: str, offering: ServerCatalog, is_pinned: bool) -> None:
        """Compare a server's catalog for one kind of client with its pins, and store new definitions.

        The very first list is trusted. For a server that is not pinned, so is the first list for each kind of client:
        some servers show more to clients with more capabilities.
        """
        try:
            locked = self._lock.acquire(blocking=False)
        except FileAccessError as exc:
            self._warn("written", self._path(server), exc, server)
            locked = False
        try:
            page = self._page(server)
            if page.problem and not page.problem.is_garbage:
                return
            pinned = page.pinned or Pinned()
            is_first = page.pinned is None and not (page.problem and is_pinned)
            trusts = is_first or (not is_pinned and variant not in pinned.listed)
            if pinned.see(variant, definitions(offering), trusts) or page.pinned is None:
                self._remember(server, pinned, locked)
        finally:
            self._lock.release()

    def withheld(self, server: str, offering: ServerCatalog) -> frozenset[str]:
        """Return the tools of a catalog that are not known; all tools if the file cannot be used."""
        page = self._page(server)
        key = (server, offering.key)
        if key not in self._vetted:
            if len(self._vetted) >= VETTED_LIMIT:
                del self._vetted[next(iter(self._vetted))]
            offered = definitions(offering)
            pinned = page.pinned
            unknown = [tool for tool, text in offered.items() if pinned and not pinned.knows(tool, text)]
            self._vetted[key] = frozenset(offered if page.problem else unknown)
        return self._vetted[key]

    def changes(self, server: str) -> list[Change]:
        """Return the differences between the server's tools and its pins."""
        pinned = self._page(server).pinned
        return pinned.changes() if pinned else []

    def is_garbled(self, server: str) -> bool:
        """Tell whether the server's file can be read but is invalid."""
        found = self._page(server).problem
        return found is not None and found.is_garbage

    def problem(self, server: str) -> str | None:
        """Return the problem with the server's file, if any; a server that was never seen has none."""
        found = self._page(server).problem
        return f"{self._path(server)}: {found}" if found else None

    # --- for the command line

    def servers(self) -> list[str]:
        """Return the names of the servers that have files."""
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json"))
        except OSError:
            return []
        found = []
        for name in names:
            try:
                found.append(str(_document(os.path.join(self.folder, name))["server"]))
            except Unusable:
                continue
        return sorted(found)

    def approve(self, server: str, changes: list[Change]) -> None:
        """Accept these changes permanently. Raises FileAccessError, OSError."""
        self._lock.acquire()
        try:
            pinned = self._page(server).pinned or Pinned()
            pinned.approve(changes)
            self._write(server, pinned, durable=True)
        finally:
            self._lock.release()

    # --- files

    def _page(self, server: str) -> PinPage:
        """Return the current content of the file, which another process may have written since."""
        path = self._path(server)
        stamp = private_files.stamp(path)
        page = self._pages.get(server)
        if page is None or page.stamp != stamp:
            page = self._turn(server, self._read(path, stamp))
            if page.problem:
                self._warn("read", self._path(server), page.problem, server)
        return page

    def _turn(self, server: str, page: PinPage) -> PinPage:
        self._vetted.clear()
        self._pages[server] = page
        return page

    def _read(self, path: str, stamp: private_files.Stamp) -> PinPage:
        if stamp is None:
            return PinPage(None)
        try:
            return PinPage(stamp, _pinned(_document(path)))
        except Unusable as exc:
            return PinPage(stamp, problem=exc)

    def _remember(self, server: str, pinned: Pinned, is_locked: bool) -> None:
        if is_locked:
            try:
                self._write(server, pinned)
                return
            except (OSError, FileAccessError) as exc:
                self._warn("written", self._path(server), exc, server)
        # Remembered for the life of this daemon; the next one compares for itself.
        self._turn(server, PinPage(private_files.stamp(self._path(server)), pinned))

    def _write(self, server: str, pinned: Pinned, durable: bool = False) -> None:
        import json

        make_private(self.folder)
        document = {"version": _VERSION, "server": server, **msgspec.to_builtins(pinned)}
        path = self._path(server)
        # Without an indent, which makes the standard library ten times slower while the loop waits.
        private_files.write(path, json.dumps(document).encode() + b"\n", durable)
        self._turn(server, PinPage(private_files.stamp(path), pinned))

    def _path(self, server: str) -> str:
        return os.path.join(self.folder, safe_name(server) + ".json")


def _document(path: str) -> dict[str, Any]:
    """Read a file as a document. Raises Unusable."""
    import json

    try:
        data = private_files.read(path, FILE_LIMIT_BYTES)
    except OSError as exc:
        raise Unusable((exc.strerror or str(exc)).lower(), is_garbage=False) from exc
    except ValueError as exc:
        raise Unusable(str(exc), is_garbage=False) from exc
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise Unusable("it is not a file of Hearth's", is_garbage=True) from exc
    if not isinstance(tree, dict) or tree.get("version") != _VERSION or not isinstance(tree.get("server"), str):
        raise Unusable("it is not a file of this version's", is_garbage=True)
    return tree


def _pinned(tree: dict[str, Any]) -> Pinned:
    """Return the pins in a document. Raises Unusable."""
    try:
        return msgspec.convert({member: tree.get(member) for member in Pinned.__struct_fields__}, Pinned)
    except msgspec.ValidationError as exc:
        raise Unusable("it has not what a file of this version has", is_garbage=True) from exc


class ToolPinning:
    """Comparison of one server's tools with its pins. Without a pin store, nothing is known and nothing withheld."""

    def __init__(self, server: str, catalogs: "ServerCatalogs", pins: PinStore | None) -> None:
        self._server = server
        self._catalogs = catalogs
        self._pins = pins

    def see(self, profile: bytes, catalog: ServerCatalog, is_pinned: bool, is_per_era: bool = False) -> None:
        """Compare the catalog for such clients with the known tools.

        The era counts only if the clients of each era have a process of their own: otherwise it is merely the era that
        came first, or was tried later.
        """
        if self._pins:
            variant = digest(profile.decode("utf-8", "replace"))
            if is_per_era:
                variant = f"{catalog.era} {variant}"
            self._pins.see(self._server, variant, catalog, is_pinned)

    def withheld(self, catalog: ServerCatalog) -> frozenset[str]:
        """Return the unapproved tools of a pinned server."""
        if self._pins is None:
            return frozenset()
        if self._pins.is_garbled(self._server):
            # With every tool withheld the server may never be started: record its last catalog, which can be approved.
            known = self._catalogs.known.items()
            profile = next((profile for profile, each in known if each is catalog), capabilities.FULL)
            self.see(profile, catalog, is_pinned=True)
        return self._pins.withheld(self._server, catalog)

    def describe(self, is_pinned: bool) -> dict[str, object]:
        """Describe the pins in `hearth status --json`."""
        if self._pins is None:
            return {}
        return {
            "pin": is_pinned,
            "pinError": self._pins.problem(self._server),
            "changedTools": [change.tool for change in self._pins.changes(self._server) if change.offered],
        }
