"""An outlet that keeps what it was given, for tests of the hub without a socket."""

from typing import Any

from hearth.hub.sessions import Session
from hearth.wire import json


class Kept:
    """Everything that a session's client would have got, in order: (what, …)."""

    hears_of_owner = True

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []
        # The keys of what the bridge is to keep, and no longer.
        self.kept: list[str] = []
        self.dropped: list[str] = []

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        self.said.append(("answer", tag, payload))
        self._note(keep, drop)

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self.said.append(("finish", tag))
        self._note(keep, drop)

    def keep_line(self, tag: int, key: str, line: bytes) -> None:
        self._note(key, None)

    def attend(self, tag: int, keep: str) -> None:
        self.finish(tag, keep)

    def drop_line(self, key: str) -> None:
        self._note(None, key)

    def _note(self, keep: str | None, drop: str | None) -> None:
        self.kept += [keep] if keep is not None else []
        self.dropped += [drop] if drop is not None else []

    def notify(self, payload: bytes, topic: str | None = None, about: int | None = None) -> None:
        self.said.append(("notify", payload, topic))

    def tell(self, payload: bytes, about: int | None = None) -> None:
        self.said.append(("tell", payload))

    def ask(self, question: str, payload: bytes, about: int | None = None) -> None:
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

    def messages(self, what: str) -> list[dict[str, Any]]:
        """The payloads of that sort, parsed."""
        places = {"answer": 2, "ask": 2}
        return [json.loads(item[places.get(what, 1)]) for item in self.heard(what)]  # type: ignore[arg-type]


def session() -> tuple[Session, Kept]:
    """A session and its outlet."""
    sink = Kept()
    return Session(sink, "lines"), sink
