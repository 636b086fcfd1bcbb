"""Link between the target of a session and the bridge that named it (`hearth bridge --to`)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hearth.errors import HearthError, UpstreamError
from hearth.hub.bindings import read_headers

# Time for a bridge to resolve references: a keyring may ask a person to unlock it, and the bridge allows that a minute.
LOOKUP_SECONDS = 65.0
_MAPPED = "::ffff:"
_GONE = "the bridge is gone"

Headers = list[tuple[str, str]]


class TargetLink:
    """Link to one bridge. `send` sends a frame, `drained` waits until the bridge has read what was sent.

    `own_addresses` returns the addresses at which this daemon listens.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        drained: Callable[[], Awaitable[None]],
        own_addresses: Callable[[], list[object]],
    ) -> None:
        self._send = send
        self.drained = drained
        self._own_addresses = own_addresses
        # Questions for headers that the bridge has not answered yet.
        self._open: dict[int, asyncio.Future[Headers]] = {}
        self._last = 0
        self._is_lost = False

    def leads_here(self, peer: object, local: object) -> bool:
        """Tell whether a connection between these addresses ends at this daemon.

        By the kernel's addresses, which no symbolic link and no name of a host can disguise, and without a lookup.
        """
        return any(is_same_listener(own, peer, local) for own in self._own_addresses())

    async def ask_headers(self) -> Headers:
        """Return the headers as the bridge resolves them now. Raises UpstreamError."""
        if self._is_lost:
            raise UpstreamError(_GONE)
        self._last = number = self._last + 1
        answer: asyncio.Future[Headers] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            self._send({"type": "headersWanted", "ask": number})
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await answer
        except RuntimeError:
            # uvloop's, for a connection that is closed and not reported as lost yet.
            raise UpstreamError(_GONE) from None
        except TimeoutError:
            raise UpstreamError(f"the bridge did not resolve its headers within {LOOKUP_SECONDS:g} s") from None
        finally:
            del self._open[number]

    def answered(self, number: int, payload: bytes) -> None:
        """Take the bridge's answer: headers, or a sentence that says why there are none."""
        answer = self._open.get(number)
        if answer is None or answer.done():
            return
        try:
            answer.set_result(read_headers(payload))
        except HearthError as exc:
            answer.set_exception(exc)

    def lost(self) -> None:
        """Fail every question, and each later one: the bridge is gone."""
        self._is_lost = True
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(UpstreamError(_GONE))


def is_same_listener(name: object, peer: object, local: object) -> bool:
    """Tell whether a listener of that name has the address `peer`, reached from `local`."""
    if not (isinstance(name, tuple) and isinstance(peer, tuple) and isinstance(local, tuple)):
        return bool(name) and name == peer
    host, own, source = _plain(peer[0]), _plain(name[0]), _plain(local[0])
    # A listener on all addresses is reached by any address of this machine, from the same one, or within 127.0.0.0/8.
    is_here = host == source or (host.startswith("127.") and source.startswith("127."))
    is_any = own in ("0.0.0.0", "::") and is_here  # noqa: S104  # only compared
    return bool(name[1] == peer[1] and (own == host or is_any))


def _plain(host: str) -> str:
    """Return an address of IPv4 as such, also where the kernel has it as one of IPv6 (RFC 4291, 2.5.5.2)."""
    return host.removeprefix(_MAPPED) if "." in host else host
