"""Which proxy stands between a bridge and its server."""

from base64 import b64encode

import pytest

from hearth.bridge.remote.proxies import Proxy, find
from hearth.bridge.remote.target import Target


def proxy_of(url: str, **environ: str) -> tuple[str, int] | None:
    found = find(Target(url, ""), environ)
    return (found.host, found.port) if found else None


@pytest.mark.parametrize(
    ("url", "environ", "found"),
    [
        ("https://x/mcp", {"HTTPS_PROXY": "http://p:3128"}, ("p", 3128)),
        ("https://x/mcp", {"https_proxy": "http://q", "HTTPS_PROXY": "http://p:3128"}, ("q", 80)),
        ("http://x/mcp", {"HTTPS_PROXY": "http://p:3128"}, None),
        ("http://x/mcp", {"HTTP_PROXY": "p:3128"}, ("p", 3128)),
        ("http://x/mcp", {"ALL_PROXY": "http://[::1]:3128/"}, ("::1", 3128)),
        ("http://x/mcp", {"HTTP_PROXY": "", "ALL_PROXY": ""}, None),
        ("http://127.0.0.1:80/mcp", {"HTTP_PROXY": "http://p"}, None),
        ("http://localhost/mcp", {"ALL_PROXY": "http://p"}, None),
        ("unix:/run/x.sock", {"ALL_PROXY": "http://p"}, None),
        ("https://x/mcp", {"APT_PROXY": "http://p"}, None),
    ],
)
def test_the_variable_of_the_scheme_names_it(url: str, environ: dict[str, str], found: tuple[str, int] | None) -> None:
    assert proxy_of(url, **environ) == found


@pytest.mark.parametrize(
    ("entries", "is_past"),
    [
        ("*", True),
        ("a.example.com", True),
        ("EXAMPLE.com", True),
        ("other, .example.com", True),
        ("*.example.com", True),
        ("ample.com", False),
        (".a.example.com", False),
        ("example.com:8443", True),
        ("example.com:443", False),
        ("https://example.com", True),
        ("all://example.com", True),
        ("http://example.com", False),
        ("", False),
        (",", False),
        (":8443", False),
    ],
)
def test_no_proxy_leads_past_it(entries: str, is_past: bool) -> None:
    found = proxy_of("https://a.example.com:8443/mcp", HTTPS_PROXY="http://p", NO_PROXY=entries)
    assert found == (None if is_past else ("p", 80))


@pytest.mark.parametrize("entry", ["fd00::1", "[fd00::1]", "[fd00::1]:80"])
def test_no_proxy_may_be_an_address(entry: str) -> None:
    assert proxy_of("http://[fd00::1]/mcp", HTTP_PROXY="http://p", NO_PROXY=entry) is None
    assert proxy_of("http://[fd00::2]/mcp", HTTP_PROXY="http://p", NO_PROXY=entry) == ("p", 80)


@pytest.mark.parametrize(
    ("user", "read"),
    [("me:w%40rd", b"me:w@rd"), ("me", b"me:"), ("%zz:100%", b"%zz:100%"), ("m%C3%A4:x", "mä:x".encode())],
)
def test_a_user_and_a_password_are_for_the_proxy_and_not_to_be_seen(user: str, read: bytes) -> None:
    proxy = Proxy(f"http://{user}@p:3128")
    assert proxy.headers == {"Proxy-Authorization": f"Basic {b64encode(read).decode()}"}
    assert (proxy.shown, proxy.problem) == ("http://p:3128", None)
    assert Proxy("http://p").headers == {}


@pytest.mark.parametrize(
    ("address", "phrase"),
    [
        ("socks5://me:s3cret@p:1", "does not begin with http://"),
        ("https://me:s3cret@p:1", "does not begin with http://"),
        ("http://me:s3cret@p:x", "the port 'x'"),
        ("http://me:s3cret@", "no host"),
    ],
)
def test_one_that_cannot_be_used_is_told_of_without_its_password(address: str, phrase: str) -> None:
    problem = Proxy(address).problem
    assert problem and phrase in problem and "s3cret" not in problem
