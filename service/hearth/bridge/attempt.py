"""The outcome of one try to reach the daemon, as `link` and `starter` hand it to each other. No I/O."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.endpoint import Stream
    from hearth.paths import Places


class Attempt:
    """A connection, or what to know about its absence."""

    __slots__ = ("absent", "hint", "places", "sock", "token")

    def __init__(self, sock: "Stream | None" = None, absent: bool = False, hint: str = "", token: str = "") -> None:
        self.sock = sock
        # Where the daemon was found, if it is another place than was asked for.
        self.places: Places | None = None
        # The token for `hello`, which a daemon on TCP requires.
        self.token = token
        # Nobody listens: it makes sense to start a daemon.
        self.absent = absent
        # What the person is told if it stays like this.
        self.hint = hint
