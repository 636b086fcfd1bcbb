"""Where `--to` leads."""

import pytest

from hearth.bridge.remote.target import BadTarget, Target, request_path


@pytest.mark.parametrize(
    ("url", "connects", "host", "path"),
    [
        ("http://127.0.0.1:3847/mcp", ("http", "127.0.0.1", 3847), "127.0.0.1:3847", "/mcp"),
        ("HTTPS://mcp.example.com", ("https", "mcp.example.com", 443), "mcp.example.com", "/"),
        ("https://x:443/a?b=c#d", ("https", "x", 443), "x", "/a?b=c"),
        ("http://x?b=c", ("http", "x", 80), "x", "/?b=c"),
        ("http://[::1]:8000/mcp", ("http", "::1", 8000), "[::1]:8000", "/mcp"),
        ("http://x/ä b", ("http", "x", 80), "x", "/%C3%A4%20b"),
        ("http://x/%20", ("http", "x", 80), "x", "/%20"),
        ("http://bücher.example/", ("http", "xn--bcher-kva.example", 80), "xn--bcher-kva.example", "/"),
    ],
)
def test_an_address_is_taken_apart(url: str, connects: tuple[str, str, int], host: str, path: str) -> None:
    target = Target(url, "/home/me")
    assert (target.scheme, target.host, target.port) == connects
    assert (target.authority, target.path, target.socket) == (host, path, None)


@pytest.mark.parametrize(
    ("url", "socket", "path"),
    [
        ("unix:/run/user/1000/mcp/mcp.sock", "/run/user/1000/mcp/mcp.sock", "/mcp"),
        ("unix:/run/x.sock:/mcp/github?role=lead", "/run/x.sock", "/mcp/github?role=lead"),
        ("unix:///run/x.sock", "/run/x.sock", "/mcp"),
        ("unix:~/x.sock", "/home/me/x.sock", "/mcp"),
    ],
)
def test_a_socket_is_written_as_in_the_config(url: str, socket: str, path: str) -> None:
    target = Target(url, "/home/me")
    assert (target.socket, target.path, target.authority, target.scheme) == (socket, path, "localhost", "http")


@pytest.mark.parametrize(
    ("url", "phrase"),
    [
        ("ftp://x", "must begin with"),
        ("x", "must begin with"),
        ("http://", "has no host"),
        ("http://:80/", "has no host"),
        ("http://a b/", "has no host"),
        ("http://::1/", "has no host"),
        ("http://[::1", "brackets"),
        ("http://ä..x/", "a host that is no name"),
        ("http://x:0/", "the port '0'"),
        ("http://x:99999/", "the port '99999'"),
        ("http://x:y/", "the port 'y'"),
        ("https://me:word@x/", "a user or a password"),
        ("https://x/${env:Y}", "takes no references"),
        ("unix:relative", "the whole path"),
        ("http://x/\r\nA: b", "a line end"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(url: str, phrase: str) -> None:
    with pytest.raises(BadTarget, match=phrase):
        Target(url, "/home/me")


def test_what_is_shown_has_no_path_in_which_a_key_may_stand() -> None:
    assert Target("https://x/k3y?token=k3y", "").shown == "https://x"


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/new?a", "/new?a"),
        ("https://x/new", "/new"),
        ("https://X:443/new", "/new"),
        ("http://x/new", None),
        ("https://y/new", None),
        ("https://x:444/new", None),
        ("//y/new", None),
        ("https://[", None),
        ("https://ä..x/", None),
        ("mailto:x", None),
        ("new", "/a/new"),
        ("mcp/", "/a/mcp/"),
        ("./new?b=../c:d", "/a/new?b=../c:d"),
        ("../new", "/new"),
        ("../../../new#part", "/new"),
        ("..", "/"),
        ("?b", "/a/mcp?b"),
        ("", "/a/mcp"),
    ],
)
def test_redirects_lead_to_the_same_server_or_nowhere(location: str, path: str | None) -> None:
    assert Target("https://x/", "").redirected(location, "/a/mcp?key=1") == path


def test_a_socket_redirects_to_its_own_paths_only() -> None:
    target = Target("unix:/x.sock", "")
    found = [target.redirected(location, "/mcp") for location in ("/new", "mcp/", "http://localhost/new")]
    assert found == ["/new", "/mcp/", None]


def test_a_path_always_begins_with_a_slash() -> None:
    assert (request_path(""), request_path("?a=b"), request_path("x#y")) == ("/", "/?a=b", "/x")
