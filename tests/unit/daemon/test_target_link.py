"""The link between a session's target and its bridge: its end, and which connections end at the daemon itself."""

from typing import Any

import pytest

from hearth.daemon.target_link import TargetLink, is_same_listener
from hearth.errors import UpstreamError


@pytest.mark.parametrize(
    ("name", "peer", "local", "is_same"),
    [
        ("/run/mcp.sock", "/run/mcp.sock", "", True),
        ("/run/mcp.sock", "/run/other.sock", "", False),
        ("", "", "", False),
        (("127.0.0.1", 80), ("127.0.0.1", 80), ("127.0.0.1", 50000), True),
        (("127.0.0.1", 80), ("127.0.0.1", 81), ("127.0.0.1", 50000), False),
        (("127.0.0.1", 80), ("::ffff:127.0.0.1", 80, 0, 0), ("::ffff:127.0.0.1", 50000, 0, 0), True),
        (("::1", 80, 0, 0), ("::1", 80, 0, 0), ("::1", 50000, 0, 0), True),
        (("0.0.0.0", 80), ("192.0.2.1", 80), ("192.0.2.1", 50000), True),  # noqa: S104
        (("0.0.0.0", 80), ("192.0.2.2", 80), ("192.0.2.1", 50000), False),  # noqa: S104
        # The kernel connects to all of 127.0.0.0/8 from 127.0.0.1.
        (("0.0.0.0", 80), ("127.0.0.2", 80), ("127.0.0.1", 50000), True),  # noqa: S104
        (("::", 80, 0, 0), ("127.0.0.2", 80), ("127.0.0.1", 50000), True),
        (("::", 80, 0, 0), ("2001:db8::2", 80, 0, 0), ("2001:db8::1", 50000, 0, 0), False),
    ],
)
def test_a_connection_ends_here_if_the_kernel_says_so(name: object, peer: object, local: object, is_same: bool) -> None:
    assert is_same_listener(name, peer, local) is is_same


async def drained() -> None:
    pass


async def test_a_bridge_that_is_gone_is_not_asked() -> None:
    asked: list[dict[str, Any]] = []
    link = TargetLink(asked.append, drained, list)
    link.lost()
    with pytest.raises(UpstreamError, match="the bridge is gone"):
        await link.ask_headers()
    assert asked == []


async def test_a_connection_that_was_closed_a_moment_ago_is_a_bridge_that_is_gone() -> None:
    def send(header: dict[str, Any]) -> None:
        raise RuntimeError("the handler is closed")

    link = TargetLink(send, drained, list)
    with pytest.raises(UpstreamError, match="the bridge is gone"):
        await link.ask_headers()
    assert link._open == {}
