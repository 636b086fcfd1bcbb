"""Counters for `/metrics` only: plain integers, incremented where the event happens and never reset.

One instance for the process, which has one daemon.
"""


class Counters:
    """Counters of the daemon. None of them is on the path of a call that is served."""

    __slots__ = ("connections_refused", "messages_refused", "readers_dropped", "reloads", "reloads_failed")

    def __init__(self) -> None:
        # Connections that were refused for lack of room or permission.
        self.connections_refused = 0
        # Messages over a limit, by limit and by kind of message.
        self.messages_refused = {("rate", "request"): 0, ("rate", "notification"): 0, ("in_flight", "request"): 0}
        # Clients that were dropped because they did not read (outbound_limit).
        self.readers_dropped = 0
        # Reloads of the config while the daemon ran, and the failed ones among them.
        self.reloads = 0
        self.reloads_failed = 0


COUNTERS = Counters()
