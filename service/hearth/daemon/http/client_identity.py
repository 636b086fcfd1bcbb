"""Identity of the client that sends an HTTP request, as far as the request tells."""

from typing import NamedTuple


class ClientIdentity(NamedTuple):
    """Identity of a client: the user, the role and agent that it claims, and the server and mode that it asks for."""

    uid: int
    role: str | None = None
    agent: str | None = None
    server: str | None = None
    mode: str | None = None

    def may_use(self, session: "ClientIdentity") -> bool:
        """Tell whether this client may use a session of that identity: the same user, and the same server's URL."""
        return (self.uid, self.server) == (session.uid, session.server)
