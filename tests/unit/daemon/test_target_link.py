"""The link between a session's target and its bridge: which connections end at the daemon itself."""

import pytest

from hearth.daemon.target_link import is_same_listener


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
