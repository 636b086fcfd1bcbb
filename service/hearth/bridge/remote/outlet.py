"""What is written to the client, whole lines only, by any thread. When nobody reads, the writers wait."""

from _thread import allocate_lock

from hearth.bridge import client_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Outlet:
    """The client's end. `gone` is called when there is none any more."""

    def __init__(self, gone: "Callable[[], None]") -> None:
        self._lock = allocate_lock()
        self._gone = gone

    def deliver(self, lines: list[bytes]) -> None:
        """Write lines, however long the client takes to read them."""
        if not lines:
            return
        try:
            with self._lock:
                client_io.write_output(b"\n".join([*lines, b""]))
        except client_io.ClientGone:
            self._gone()
