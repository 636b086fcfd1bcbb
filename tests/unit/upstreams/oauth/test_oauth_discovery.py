"""Where a server's tokens come from: which places are asked, in which order, and who is chosen."""

import asyncio
from typing import Any

import httpx
import pytest

from hearth.config import OAuthSpec, ServerSpec
from hearth.errors import LoginFailed
from hearth.upstreams.oauth import tokens
from hearth.upstreams.oauth.metadata import Challenge

SERVER = "https://mcp.example.com/mcp"
ISSUER = "https://auth.example.com/tenant"
WELL_KNOWN = "https://mcp.example.com/.well-known/oauth-protected-resource"
OAUTH = "https://auth.example.com/.well-known/oauth-authorization-server/tenant"
OPENID = "https://auth.example.com/.well-known/openid-configuration/tenant"
APPENDED = "https://auth.example.com/tenant/.well-known/openid-configuration"


def authority(issuer: str = ISSUER) -> dict[str, Any]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "code_challenge_methods_supported": ["S256"],
    }


def resource(*issuers: str, of: str = SERVER) -> dict[str, Any]:
    return {"resource": of, "authorization_servers": list(issuers or (ISSUER,))}


def find(
    pages: dict[str, Any], wanted: Challenge | None = None, former: str | None = None, **oauth: Any
) -> tuple[tokens.TokenSource, list[str]]:
    """What is found among those pages, and which addresses were asked for."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        page = pages.get(str(request.url), 404)
        return httpx.Response(page) if isinstance(page, int) else httpx.Response(200, json=page)

    async def body() -> tokens.TokenSource:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as web:
            spec = ServerSpec(name="far", url=SERVER, oauth=OAuthSpec(**oauth))
            return await tokens.find_source(web, spec, wanted, former)

    return asyncio.run(body()), asked


def test_the_place_that_the_server_names_is_the_only_one_asked() -> None:
    place = "https://elsewhere.example/described"
    found, asked = find({place: resource(), OAUTH: authority()}, Challenge(resource_metadata=place))
    assert asked == [place, OAUTH]
    assert (found.resource.resource, found.authority.issuer) == (SERVER, ISSUER)


def test_otherwise_the_path_is_asked_and_then_the_root() -> None:
    found, asked = find({WELL_KNOWN: resource(of="https://mcp.example.com"), OAUTH: authority()})
    assert asked == [f"{WELL_KNOWN}/mcp", WELL_KNOWN, OAUTH]
    assert found.resource.resource == "https://mcp.example.com"


@pytest.mark.parametrize(("place", "before"), [(OPENID, [OAUTH]), (APPENDED, [OAUTH, OPENID])])
@pytest.mark.parametrize("otherwise", [404, 500])
def test_the_authorization_server_is_asked_in_each_of_its_places(place: str, before: list[str], otherwise: int) -> None:
    pages = {f"{WELL_KNOWN}/mcp": resource(), **dict.fromkeys(before, otherwise), place: authority()}
    assert find(pages)[1] == [f"{WELL_KNOWN}/mcp", *before, place]


def test_a_description_that_is_not_believed_is_not_looked_for_elsewhere() -> None:
    with pytest.raises(LoginFailed, match="not believed"):
        find({f"{WELL_KNOWN}/mcp": resource(), OAUTH: authority("https://evil.example"), OPENID: authority()})


@pytest.mark.parametrize(
    ("configured", "former", "chosen"),
    [
        (None, None, "https://one.example"),
        (None, "https://two.example", "https://two.example"),
        (None, "https://gone.example", "https://one.example"),
        ("https://two.example", "https://one.example", "https://two.example"),
    ],
)
def test_of_several_the_configured_is_chosen_or_the_former_or_the_first(
    configured: str | None, former: str | None, chosen: str
) -> None:
    issuers = ("https://one.example", "https://two.example")
    described = {f"{issuer}/.well-known/oauth-authorization-server": authority(issuer) for issuer in issuers}
    pages = {f"{WELL_KNOWN}/mcp": resource(*issuers), **described}
    assert find(pages, former=former, issuer=configured)[0].authority.issuer == chosen


def test_another_than_the_configured_is_refused() -> None:
    with pytest.raises(LoginFailed, match=r"oauth\.issuer"):
        find({f"{WELL_KNOWN}/mcp": resource(), OAUTH: authority()}, issuer="https://mine.example")


def test_the_configured_stands_in_where_the_server_names_none() -> None:
    found, _ = find({OAUTH: authority()}, issuer=ISSUER)
    assert (found.resource.resource, found.authority.issuer) == (SERVER, ISSUER)


@pytest.mark.parametrize("end", ["", "/"])
def test_a_server_of_2025_03_26_is_its_own_authorization_server(end: str) -> None:
    origin = "https://mcp.example.com"
    page = {**authority(origin), "issuer": origin + end}
    found, _ = find({f"{origin}/.well-known/oauth-authorization-server": page})
    assert (found.resource.resource, found.authority.issuer) == (SERVER, origin + end)


def test_a_server_that_says_nothing_gets_a_sentence_that_says_what_to_do() -> None:
    with pytest.raises(LoginFailed, match="does not say where to log in; if it takes a key"):
        find({})


@pytest.mark.parametrize(
    "pages",
    [
        {f"{WELL_KNOWN}/mcp": resource("http://127.0.0.1:8080")},
        {f"{WELL_KNOWN}/mcp": resource("http://auth.example.com")},
        {f"{WELL_KNOWN}/mcp": resource("https://localhost/tenant")},
    ],
)
def test_a_server_elsewhere_cannot_send_us_to_this_machine_or_without_encryption(pages: dict[str, Any]) -> None:
    with pytest.raises(LoginFailed, match="https"):
        find(pages)


def test_nor_can_the_place_that_it_names() -> None:
    with pytest.raises(LoginFailed, match="not https"):
        find({}, Challenge(resource_metadata="http://127.0.0.1:631/printers"))


def test_a_server_that_is_down_may_be_found_another_time() -> None:
    with pytest.raises(tokens.Unsettled):
        find({f"{WELL_KNOWN}/mcp": 503})


async def test_a_server_that_never_says_what_it_wants_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "ANSWER_SECONDS", 0.01)

    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(tokens.Unsettled, match="cannot be reached"):
        async with asyncio.timeout(60), httpx.AsyncClient(transport=httpx.MockTransport(answer)) as web:
            await tokens.challenge(web, ServerSpec(name="far", url=SERVER))
