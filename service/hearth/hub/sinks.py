"""Sinks: the client side of a session, as the hub writes to it. Implemented by the wires."""

from typing import Protocol


class ReplySink(Protocol):
    """Protocol for the outcome of a client's line. `tag` came with the line; only the wire knows its meaning."""

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        """Answer the line `tag` and finish it. `keep`: replay that line into a later daemon.

        `drop`: the name of a kept line that need not be kept any longer.
        """

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        """Finish the line `tag` without an answer."""


class ClientSink:
    """Client side of a session, and base of the wires' own sinks: it drops everything, as after a session's end.

    `about` is the tag of the line that caused the message.
    """

    # Whether the client can be told who the owner is.
    hears_of_owner = False

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        """Answer the line `tag` and finish it: see ReplySink."""

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        """Finish the line `tag` without an answer: see ReplySink."""

    def keep_line(self, tag: int, key: str, line: bytes) -> None:
        """Replay a part of the unfinished line `tag` into a later daemon, as a line of its own."""

    def drop_line(self, key: str) -> None:
        """Stop keeping a line."""

    def attend(self, tag: int, keep: str) -> None:
        """Finish the line `tag`, which opened a subscription: the subscription stays open."""

    def notify(self, payload: bytes, topic: str | None = None, about: int | None = None) -> None:
        """Send an unsolicited message; it may be dropped for a slow reader, and one per `topic` is enough."""

    def tell(self, payload: bytes, about: int | None = None) -> None:
        """Send a message that belongs to no tag and must not be dropped."""

    def ask(self, question: str, payload: bytes, about: int | None = None) -> None:
        """Send a request to the client."""

    def settled(self, question: str) -> None:
        """Close a request to the client."""

    def owner_changed(self, owner: str, is_owner: bool) -> None:
        """Tell the client that another session became the owner."""

    def owes(self) -> bool:
        """Tell whether written bytes have not been taken by the kernel yet."""
        return False

    def close(self) -> None:
        """End the connection, after pending writes."""
