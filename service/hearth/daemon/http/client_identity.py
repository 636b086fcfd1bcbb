"""Who sends a request over HTTP, as far as it tells."""

from typing import NamedTuple


class ClientIdentity(NamedTuple):
    """The user, what its agent claims to be, and what of the daemon it wants to see."""

    uid: int
    role: str | None = None
    agent: str | None = None
    server: str | None = None
    mode: str | None = None

    def may_use(self, session: "ClientIdentity") -> bool:
        """Whether a session that was opened like that is this one's: the same user, at the same address."""
        return (self.uid, self.server) == (session.uid, session.server)
