"""The target of a session: its name, its settings, and the way to it by the bridge's variables."""

import asyncio
import json
import ssl
from typing import cast

import pytest

from hearth.bridge import target as bridge_target
from hearth.config import OAuthSpec, ServerSpec
from hearth.errors import Refused, UpstreamError
from hearth.upstreams.http import client_setup, credentials, target
from hearth.upstreams.http.credentials import ResolvedHeaders, StoredLogin
from hearth.upstreams.http.target import SessionTarget, TargetBridge


def aimed(url: str = "https://x/mcp", headers: object = (), references: bool = False, **environ: str) -> SessionTarget:
    settings = {"url": url, "headers": list(headers), "references": references, "environ": environ}  # type: ignore[call-overload]
    return target.read(json.dumps(settings).encode(), cast(TargetBridge, None), tuple)[1]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://MCP.example.com:8443/a?key=secret", "to:mcp.example.com"),
        ("http://[::1]:80/", "to:::1"),
        ("unix:/run/x.sock:/mcp", "to:unix:/run/x.sock"),
    ],
)
def test_its_name_is_its_host(url: str, name: str) -> None:
    assert target.target_name(url) == name


@pytest.mark.parametrize(
    ("url", "environ", "found"),
    [
        ("https://x/mcp", {"https_proxy": "http://p:3128"}, "http://p:3128"),
        ("http://x/mcp", {"https_proxy": "http://p:3128"}, None),
        ("http://x/mcp", {"http_proxy": "p:3128"}, "http://p:3128"),
        ("http://x/mcp", {"all_proxy": "http://[::1]:3128/"}, "http://[::1]:3128/"),
        ("http://x/mcp", {"http_proxy": "", "all_proxy": ""}, None),
        ("http://127.0.0.1:80/mcp", {"http_proxy": "http://p"}, None),
        ("http://[::1]/mcp", {"http_proxy": "http://p"}, None),
        ("http://localhost/mcp", {"all_proxy": "http://p"}, None),
        ("http://127.example.com/mcp", {"http_proxy": "http://p"}, "http://p"),
    ],
)
def test_the_variable_of_the_scheme_names_its_proxy(url: str, environ: dict[str, str], found: str | None) -> None:
    assert aimed(url, **environ).proxy(url) == found


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
    url = "https://a.example.com:8443/mcp"
    assert aimed(url, https_proxy="http://p", no_proxy=entries).proxy(url) == (None if is_past else "http://p")


@pytest.mark.parametrize("entry", ["fd00::1", "[fd00::1]", "[fd00::1]:80"])
def test_no_proxy_may_be_an_address(entry: str) -> None:
    aim = aimed("http://[fd00::1]/mcp", http_proxy="http://p", no_proxy=entry)
    assert aim.proxy("http://[fd00::1]/mcp") is None
    assert aim.proxy("http://[fd00::2]/mcp") == "http://p"


def test_certificates_are_those_of_the_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/of/the/daemon")
    assert aimed().trust().verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(OSError):
        aimed(SSL_CERT_FILE="/nowhere").trust()


def test_values_are_masked_and_variables_of_others_not_taken() -> None:
    aim = aimed(headers=[["Authorization", "Bearer s3cret-one"]], http_proxy="http://me:s3cret-two@p", TOKEN="x")
    assert aim.mask("s3cret-one s3cret-two Bearer s3cret-one") == "*** *** ***"
    assert set(aim.environ) == {"http_proxy"}
    aim.mask.hide(["s3cret-three"])
    assert aim.mask("s3cret-one s3cret-three") == "*** ***"
    for number in range(9):
        aim.mask.hide([f"s3cret-{number}"])
    # No lookup brings the proxy's password again.
    assert aim.mask("s3cret-two s3cret-8") == "*** ***"


async def test_a_given_header_replaces_hearths_own_in_any_case() -> None:
    client = client_setup.open_client("x", ServerSpec(name="x", url="http://x/mcp", headers={"user-agent": "mine"}))
    assert client._httpx.headers.get_list("user-agent") == ["mine"]
    await client.close()


async def test_a_login_has_the_settings_of_an_entry_that_was_added_later() -> None:
    entries: list[ServerSpec] = []
    settings = {"url": "https://later.example/mcp", "headers": []}
    spec, aim = target.read(json.dumps(settings).encode(), cast(TargetBridge, None), lambda: entries)
    entries.append(ServerSpec(name="far", url=spec.url, oauth=OAuthSpec(client_id="given")))
    source = credentials.header_source(spec, aim)
    assert isinstance(source, StoredLogin)
    assert (await source._opened()).spec.oauth.client_id == "given"


def test_bridge_and_daemon_take_headers_of_the_same_size() -> None:
    assert bridge_target.HEADERS_LIMIT_BYTES == target.HEADERS_LIMIT_BYTES


def test_an_answer_of_the_bridge_is_headers_or_a_sentence() -> None:
    assert target.read_answer(b'{"headers":[["A","b"]]}') == [("A", "b")]
    for answer, words in (
        (b'{"error":"no such file"}', "no such file"),
        (b'{"headers":7}', "cannot be read"),
        (b"[", "cannot be read"),
        (json.dumps({"headers": [["A", "b" * 20_000]]}).encode(), "over the limit of 16384"),
        (b"x" * 70_000, "cannot be read"),
    ):
        with pytest.raises(UpstreamError, match=words):
            target.read_answer(answer)


def test_an_address_without_a_host_is_refused() -> None:
    with pytest.raises(Refused, match="no host"):
        aimed("http://[/")


class Bridge:
    """A bridge whose references lead to what the test says; it counts how often it is asked."""

    def __init__(self) -> None:
        self.value = "first"
        self.problem = ""
        self.asked = 0

    async def ask_headers(self) -> list[tuple[str, str]]:
        self.asked += 1
        await asyncio.sleep(0)
        if self.problem:
            raise UpstreamError(self.problem)
        return [("Authorization", self.value)]


def resolved(bridge: Bridge) -> ResolvedHeaders:
    settings = {"url": "https://x", "headers": [["Authorization", "${file:~/t}"]], "references": True}
    spec, aim = target.read(json.dumps(settings).encode(), cast(TargetBridge, bridge), tuple)
    assert dict(spec.headers) == {}
    source = credentials.header_source(spec, aim)
    assert isinstance(source, ResolvedHeaders)
    return source


async def test_many_refusals_at_once_are_one_lookup() -> None:
    bridge = Bridge()
    source = resolved(bridge)
    sent = await source.headers()
    assert (sent, bridge.asked) == ({"Authorization": "first"}, 1)
    bridge.value = "second"
    assert await asyncio.gather(*(source.refused(401, None, sent) for _ in range(5))) == [True] * 5
    assert (await source.headers(), bridge.asked) == ({"Authorization": "second"}, 2)


async def test_lookups_that_bring_nothing_become_rare() -> None:
    bridge = Bridge()
    source = resolved(bridge)
    sent = await source.headers()
    assert [await source.refused(401, None, sent) for _ in range(10)] == [False] * 10
    assert bridge.asked <= 3
    assert await source.refused(403, None, sent) is False


async def test_a_lookup_that_failed_is_told_again_until_it_is_due() -> None:
    bridge = Bridge()
    bridge.problem = "no such file"
    source = resolved(bridge)
    for _ in range(10):
        with pytest.raises(UpstreamError, match="no such file"):
            await source.headers()
    assert bridge.asked <= 3
