"""One server's tools beside what is known of them: what has changed, and what nobody may have before it is approved."""

from hearth.mcp import capabilities
from hearth.mcp.catalog import ServerCatalog
from hearth.paths import digest
from hearth.upstreams.pin_store import PinStore
from hearth.upstreams.server_catalogs import ServerCatalogs


class ToolPinning:
    """That of one server. Without pins nothing is known, and nothing withheld."""

    def __init__(self, server: str, offerings: ServerCatalogs, pins: PinStore | None) -> None:
        self._server = server
        self._catalogs = offerings
        self._pins = pins

    def see(self, profile: bytes, offering: ServerCatalog, is_pinned: bool, is_per_era: bool = False) -> None:
        """Compare what the server offers to such clients with what is known.

        The era counts only where the clients of each era have a process of their own: elsewhere it is the one that
        came first, or was tried later.
        """
        if self._pins:
            variant = digest(profile.decode("utf-8", "replace"))
            if is_per_era:
                variant = f"{offering.era} {variant}"
            self._pins.see(self._server, variant, offering, is_pinned)

    def withheld(self, offering: ServerCatalog) -> frozenset[str]:
        """The tools among those offered by a pinned server that nobody has approved."""
        if self._pins is None:
            return frozenset()
        if self._pins.is_garbled(self._server):
            # It may never be started, with nothing that could be called: what it offered last is there to be approved.
            known = self._catalogs.known.items()
            profile = next((profile for profile, each in known if each is offering), capabilities.FULL)
            self.see(profile, offering, is_pinned=True)
        return self._pins.withheld(self._server, offering)

    def describe(self, is_pinned: bool) -> dict[str, object]:
        """Its part of the server in `hearth status --json`."""
        if self._pins is None:
            return {}
        return {
            "pin": is_pinned,
            "pinError": self._pins.problem(self._server),
            "changedTools": [change.tool for change in self._pins.changes(self._server) if change.offered],
        }
