"""The addresses of servers that run elsewhere."""

import pytest

from hearth import addresses


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("unix:/run/a.sock", ("/run/a.sock", "/mcp")),
        ("unix:///run/a.sock", ("/run/a.sock", "/mcp")),
        ("unix:/run/a.sock:/", ("/run/a.sock", "/")),
        ("unix:/run/a.sock:/v1/mcp?key=b", ("/run/a.sock", "/v1/mcp?key=b")),
        ("unix:/run/a b.sock", ("/run/a b.sock", "/mcp")),
        ("unix:/run/a:1.sock:/x", ("/run/a:1.sock", "/x")),
        ("unix:/run/a.sock:/x:/y", ("/run/a.sock", "/x:/y")),
        ("unix:${SOCKET:-/run/a.sock}", ("${SOCKET:-/run/a.sock}", "/mcp")),
        ("unix:${env:A}/a.sock:/x", ("${env:A}/a.sock", "/x")),
    ],
)
def test_a_unix_address_is_a_socket_and_a_request_path(url: str, parts: tuple[str, str]) -> None:
    assert addresses.unix_parts(url) == parts
    assert addresses.fault(url) is None


@pytest.mark.parametrize(
    "url", ["http://h", "HTTPS://h/mcp?a=b", "http://[::1]:80/", "http://${HOST}/", "unix:~/a.sock"]
)
def test_an_address_that_can_be_tried_has_no_fault(url: str) -> None:
    assert addresses.fault(url) is None


@pytest.mark.parametrize(
    ("url", "phrase"),
    [
        ("", "must begin with"),
        ("ftp://x", "must begin with"),
        ("h:8080/mcp", "must begin with"),
        ("http:/h", "must begin with"),
        ("http://", "has no host"),
        ("http:///mcp", "has no host"),
        ("https://?a", "has no host"),
        ("http://:80/", "has no host"),
        ("http://h/\r\nHost: x", "has a line end"),
        ("unix:", "must give the whole path"),
        ("unix:a.sock", "must give the whole path"),
        ("unix://h/a.sock", "must give the whole path"),
        ("unix:@abstract", "must give the whole path"),
        ("unix:/run/", "must give the whole path"),
        ("unix:/run/a\n", "has a line end"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused(url: str, phrase: str) -> None:
    assert phrase in (addresses.fault(url) or "")
