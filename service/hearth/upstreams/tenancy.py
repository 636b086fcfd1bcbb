"""Who uses an instance, as far as the choice of one depends on it. Knows nothing of sessions."""

import os
from typing import NamedTuple

from hearth.mcp import eras
from hearth.wire import json


class Tenant(NamedTuple):
    """One client's claim to an instance."""

    session: str
    era: str = eras.MODERN
    cwd: str | None = None
    # Raw `Root` objects, as the client listed them; None where it lists none.
    roots: tuple[bytes, ...] | None = None
    # Raw, as the client declared them.
    capabilities: bytes = b"{}"

    @property
    def workspace(self) -> str:
        """Equal for clients that work in the same place; a client that works nowhere shares with nobody."""
        if self.roots:
            return " ".join(sorted(root.decode("utf-8", "replace") for root in self.roots))
        place = self.cwd or f"session {self.session}"
        # One that says that it has no roots is not told those of one that cannot say.
        return place if self.roots is None else f"{place} (no roots)"

    def root_list(self) -> bytes:
        """The result of `roots/list` for this place."""
        roots = self.roots
        if roots is None:
            roots = (_root(self.cwd),) if self.cwd and os.path.isabs(self.cwd) else ()
        return b'{"roots":[%b]}' % b",".join(roots)


def _root(folder: str) -> bytes:
    from pathlib import Path

    return json.dumps({"uri": Path(folder).as_uri(), "name": os.path.basename(folder) or folder})
