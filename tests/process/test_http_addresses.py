"""What is at which address over HTTP, on the daemon's socket: all servers, one server, health, status, its host."""

import json
from collections.abc import Iterator

import pytest

from support.clients import text_of
from support.daemon import Scratch, server
from support.http.clients import HttpClient, ModernHttp
from support.http.raw import Door


@pytest.fixture(scope="module")
def home(shared: Scratch) -> Iterator[Scratch]:
    shared.serve({"echo": server("echo")})
    yield shared


def test_one_server_has_an_address_of_its_own_with_its_own_names(home: Scratch) -> None:
    assert text_of(ModernHttp(home, "/mcp/echo").call("echo", text="plain").json()) == "plain"
    assert ModernHttp(home, "/mcp/nobody").call("echo").status == 404


def test_health_and_status_are_for_whoever_looks_after_it(home: Scratch) -> None:
    client = HttpClient(home)
    assert client.request("GET", path="/healthz").json() == {"status": "ok"}
    assert client.request("GET", path="/status").json()["pid"] == home.status()["pid"]
    assert client.request("GET", path="/nothing").status == 404
    assert "/mcp" in client.request("GET", path="/nothing").json()["error"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "TRACE"])
@pytest.mark.parametrize("path", ["/healthz", "/status"])
def test_health_and_status_are_only_read(home: Scratch, method: str, path: str) -> None:
    got = HttpClient(home).request(method, path=path)
    assert (got.status, got.headers["allow"]) == (405, "GET, HEAD")
    head = HttpClient(home).request("HEAD", path=path)
    assert (head.status, head.text()) == (200, "")


def test_the_status_is_what_the_command_prints(home: Scratch) -> None:
    assert text_of(ModernHttp(home, "/mcp/echo").call("echo", text="runs").json()) == "runs"
    [found] = [each for each in HttpClient(home).request("GET", path="/status").json()["upstreams"] if each["pids"]]
    [printed] = [each for each in json.loads(home.hearth("status", "--json").stdout)["upstreams"] if each["pids"]]
    assert found.keys() == printed.keys()
    assert found["instances"][0].keys() == printed["instances"][0].keys()
    assert found["memoryBytes"] == found["instances"][0]["memoryBytes"] > 1_000_000


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\nGET /healthz HTTP/1.1\r\nHost: localhost", b"200"),
        (b"\n\nGET /healthz HTTP/1.1\r\nHost: localhost", b"200"),
        (b"GET http://localhost:80/healthz HTTP/1.1\r\nHost: evil.example", b"200"),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost", b"403"),
        (b"GET http://localhost@evil.example/healthz HTTP/1.1\r\nHost: localhost", b"403"),
        (b"GET http://localhost/healthz HTTP/1.1\r\nA: b", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost#", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost@evil.example", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: http://localhost", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost:99999", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: local\thost", b"400"),
        (b"GET /healthz HTTP/1.0", b"200"),
    ],
)
def test_requests_are_read_as_the_standard_has_it(home: Scratch, head: bytes, status: bytes) -> None:
    assert Door(home, "socket").talk(head + b"\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 %b " % status)


def test_hosts_are_compared_without_regard_to_case(scratch: Scratch) -> None:
    scratch.serve(http_hosts=["MyHost"])
    for host in ("MyHost", "myhost:8080", "MYHOST"):
        assert HttpClient(scratch, "/healthz").request("GET", headers={"Host": host}).status == 200
    assert HttpClient(scratch, "/healthz").request("GET", headers={"Host": "my.host"}).status == 403


def test_an_address_with_a_slash_at_its_end_is_the_same(home: Scratch) -> None:
    assert text_of(ModernHttp(home, "/mcp/").call("echo__echo", text="slash").json()) == "slash"
    assert text_of(ModernHttp(home, "/mcp/echo/").call("echo", text="slash").json()) == "slash"
    assert ModernHttp(home, "/mcp/nobody/").call("echo").status == 404
    more = ModernHttp(home, "/mcp/echo/more").call("echo")
    assert (more.status, more.json()["error"]["message"]) == (404, "there is no server 'echo/more'")


def test_a_server_with_a_slash_in_its_name_has_an_address(scratch: Scratch) -> None:
    scratch.serve({"odd name/x": server("echo")})
    for path in ("/mcp/odd%20name%2Fx", "/mcp/odd%20name%2fx/", "/mcp/odd%20name/x"):
        assert text_of(ModernHttp(scratch, path).call("echo", text="there").json()) == "there"
    assert ModernHttp(scratch, "/mcp/odd%20name").call("echo").status == 404
