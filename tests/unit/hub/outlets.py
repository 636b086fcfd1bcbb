"""An outlet that keeps what it was given, for tests of the hub without a socket."""

from hearth.hub.sessions import Session


class Kept:
    """Everything that a session's client would have got, in order: (what, …)."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def answer(self, tag: int, payload: bytes, keep: str | None = None) -> None:
        self.said.append(("answer", tag, payload))

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self.said.append(("finish", tag))

    def notify(self, payload: bytes, topic: str | None = None) -> None:
        self.said.append(("notify", payload, topic))

    def tell(self, payload: bytes) -> None:
        self.said.append(("tell", payload))

    def ask(self, question: str, payload: bytes) -> None:
        self.said.append(("ask", question, payload))

    def settled(self, question: str) -> None:
        self.said.append(("settled", question))

    def owner_changed(self, owner: str, is_owner: bool) -> None:
        self.said.append(("owner", owner, is_owner))

    def owes(self) -> bool:
        return False

    def close(self) -> None:
        self.said.append(("close",))

    def heard(self, what: str) -> list[tuple[object, ...]]:
        return [item for item in self.said if item[0] == what]


def session() -> tuple[Session, Kept]:
    """A session and its outlet."""
    outlet = Kept()
    return Session(outlet, "lines"), outlet
