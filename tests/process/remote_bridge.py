"""A client on `hearth bridge --to`, which gets whole messages and knows which answer is whose."""

import contextlib
from collections.abc import Iterator
from typing import Any

from support.clients import ENVELOPE, Message, first_of
from support.daemon import Scratch
from support.scripted_daemon import BridgeProcess


class RemoteBridge(BridgeProcess):
    """The bridge, and the client that started it. `aside` has what came while something else was waited for."""

    aside: list[Message]
    scratch: Scratch
    _last = 0

    def begin(self, method: str, /, _modern: bool = False, **params: object) -> int:
        """Send a request; its id."""
        self._last += 1
        meta = {"_meta": ENVELOPE} if _modern else {}
        self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": {**meta, **params}})
        return self._last

    def answer_to(self, id: object) -> Message:
        """The answer with that id; other messages are put aside."""
        return first_of(self.aside, self.read, lambda each: "method" not in each and each.get("id") == id)

    def ask(self, method: str, /, **params: Any) -> Message:
        """Ask and wait."""
        return self.answer_to(self.begin(method, **params))

    def call(self, tool: str, /, **arguments: object) -> Message:
        """Call a tool of the legacy era."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def call_modern(self, tool: str, /, **arguments: object) -> Message:
        """Call a tool of the modern era."""
        return self.ask("tools/call", _modern=True, name=tool, arguments=arguments)

    def cancel(self, id: int) -> None:
        """Want no answer any more."""
        self.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}
        )

    def open(self, version: str = "2025-11-25") -> Message:
        """The legacy handshake."""
        info = {"name": "test", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={"elicitation": {}}, clientInfo=info)
        self.notify("notifications/initialized")
        return answer["result"]

    def next_called(self, method: str) -> Message:
        """The next request or notification of that name."""
        return first_of(self.aside, self.read, lambda each: each.get("method") == method)

    def leave(self) -> list[Message]:
        """Close the input, see it end well; all that it said and nobody has waited for."""
        self.end_input()
        self.aside += self.read_rest()
        assert self.wait() == 0
        return self.aside


@contextlib.contextmanager
def bridge_to(
    url: str, *words: str, scratch: Scratch | None = None, extra: dict[str, str] | None = None
) -> Iterator[RemoteBridge]:
    """A bridge to that address, with `extra` in its environment, and its daemon: of a home of its own, or of `scratch`.

    The daemon that runs, or is started, has nothing of `extra`.
    """
    with contextlib.ExitStack() as stack:
        home = scratch or stack.enter_context(Scratch())
        if not home.config.exists():
            home.configure()
        if not home.registry.exists():
            home.start()
        bridge = RemoteBridge(home.home, "--to", url, *words, environment=home.environment(), extra=extra or {})
        bridge.aside = []
        bridge.scratch = home
        try:
            yield bridge
        finally:
            bridge.close()
