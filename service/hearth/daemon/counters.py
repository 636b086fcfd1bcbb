"""What is counted for `/metrics` only: plain integers, added to where it happens, and never set back.

One for the process, as there is one daemon in it.
"""


class Counters:
    """All of it. Nothing here is on the path of a call that is served."""

    __slots__ = ("connections_refused", "messages_refused", "readers_dropped", "reloads", "reloads_failed")

    def __init__(self) -> None:
        # Who was told that there is no room, or no right.
        self.connections_refused = 0
        # Messages over a limit, by which one and by what they were.
        self.messages_refused = {("rate", "request"): 0, ("rate", "notification"): 0, ("in_flight", "request"): 0}
        # Clients who did not read what was written for them (outbound_limit).
        self.readers_dropped = 0
        # Configs that were read anew while the daemon ran, and those among them that could not be used.
        self.reloads = 0
        self.reloads_failed = 0


COUNTERS = Counters()
