"""What is said to an authorization server, and what is believed of its answers."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from hearth.upstreams.oauth import tokens
from hearth.upstreams.oauth.metadata import Authority
from hearth.upstreams.oauth.store import Grant, OAuthClient

ISSUER = "https://auth.example.com"
AUTHORITY = Authority(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/authorize",
    token_endpoint=f"{ISSUER}/token",
    registration_endpoint=f"{ISSUER}/register",
)
CLIENT = OAuthClient(client_id="me")
FORMER = Grant(access_token="old", refresh_token="again", scopes=("read",), client_secret="kept", method="none")

Answer = Callable[[httpx.Request], httpx.Response]


def run(answer: Answer, work: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
    async def body() -> Any:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as web:
            return await work(web)

    return asyncio.run(body())


def refreshed(status: int, body: bytes, client: OAuthClient = CLIENT) -> tuple[Grant, httpx.Request]:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, content=body)

    resource = "https://mcp.example.com/mcp"
    return run(answer, lambda web: tokens.refresh(web, AUTHORITY.token_endpoint, client, FORMER, resource)), asked[0]


def given(**members: object) -> bytes:
    return json.dumps({"access_token": "new", "token_type": "bearer", **members}).encode()


def form(request: httpx.Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.content.decode()).items()}


def test_a_refresh_says_who_and_for_what_and_keeps_what_is_not_said_again() -> None:
    found, request = refreshed(200, given(expires_in=60))
    assert form(request) == {
        "grant_type": "refresh_token",
        "refresh_token": "again",
        "client_id": "me",
        "resource": "https://mcp.example.com/mcp",
    }
    assert (found.access_token, found.refresh_token, found.scopes) == ("new", "again", ("read",))
    assert (found.expires_in, found.client_secret) == (60.0, "kept")


def test_a_refresh_token_that_rotates_replaces_the_former() -> None:
    found, _ = refreshed(200, given(refresh_token="next", scope="read write"))
    assert (found.refresh_token, found.scopes, found.expires_in) == ("next", ("read", "write"), None)


@pytest.mark.parametrize(
    ("method", "header", "in_form"),
    [("none", None, None), ("client_secret_post", None, "s p&"), ("client_secret_basic", "me:s%20p%26", None)],
)
def test_a_secret_is_shown_as_the_authorization_server_wants(
    method: str, header: str | None, in_form: str | None
) -> None:
    client = OAuthClient(client_id="me", client_secret=None if method == "none" else "s p&", method=method)
    _, request = refreshed(200, given(), client)
    sent = request.headers.get("authorization")
    assert (sent and base64.b64decode(sent.removeprefix("Basic ")).decode()) == header
    assert form(request).get("client_secret") == in_form


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, b'{"error": "invalid_grant", "error_description": "refresh token again is revoked"}', "invalid_grant"),
        (401, b'{"error": "invalid_client"}', "invalid_client"),
        (200, b'{"error": "invalid_grant"}', "invalid_grant"),
        (400, b'{"error": "something_else"}', "something_else"),
        (400, b'{"error": "<script>"}', "an error without a name"),
        (400, b'{"error": {"code": 7}}', None),
        (200, b"{}", "missing_token"),
        (200, b"[]", "missing_token"),
        (200, b"<html>", "missing_token"),
        (200, b'{"access_token": 7}', ""),
        (200, b'{"access_token": ""}', ""),
        (200, given(access_token="new\\nHost: evil"), None),
        (200, given(access_token="n\u00e4w"), ""),
        (200, given(token_type="DPoP"), ""),
        (200, given(expires_in="soon"), ""),
    ],
)
def test_a_refusal_and_what_makes_no_sense_are_told_without_what_was_said(
    status: int, body: bytes, code: str | None
) -> None:
    with pytest.raises(tokens.Denied) as problem:
        refreshed(status, body)
    assert code is None or problem.value.code == code
    said = str(problem.value)
    assert "again" not in said and "revoked" not in said and "evil" not in said and "script" not in said


@pytest.mark.parametrize("status", [500, 502, 503, 429, 404, 302])
def test_a_failure_of_the_authorization_server_is_no_refusal(status: int) -> None:
    with pytest.raises(tokens.Unsettled):
        refreshed(status, b"<html>down</html>")


def test_a_network_that_fails_and_an_answer_without_end_are_no_refusal() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    for answer in (broken, lambda request: httpx.Response(200, content=b"x" * (tokens.BODY_LIMIT_BYTES + 1))):
        with pytest.raises(tokens.Unsettled):
            run(answer, lambda web: tokens.refresh(web, AUTHORITY.token_endpoint, CLIENT, FORMER, "r"))


@pytest.mark.parametrize("lifetime", [0, -5, 10**12, None])
def test_a_lifetime_that_nobody_means_is_none_or_bounded(lifetime: object) -> None:
    found, _ = refreshed(200, given(expires_in=lifetime))
    assert found.expires_in is None or found.expires_in < 10**9


@pytest.mark.parametrize(
    ("methods", "wanted"),
    [(None, "none"), (("client_secret_basic", "none"), "none"), (("client_secret_basic",), "client_secret_basic"),
     (("private_key_jwt",), "none")],
)  # fmt: skip
def test_a_registration_asks_for_no_secret_where_it_can(methods: tuple[str, ...] | None, wanted: str) -> None:
    asked: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(201, json={"client_id": "you", "client_secret": "given"})

    uri = "http://127.0.0.1:7/callback"
    found = run(answer, lambda web: tokens.register(web, AUTHORITY.replace(methods=methods), uri, ("read",)))
    assert asked[0]["token_endpoint_auth_method"] == wanted and asked[0]["redirect_uris"] == [uri]
    assert (found.client_id, found.redirect_uri, found.scopes) == ("you", uri, ("read",))


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, {"error": "invalid_redirect_uri"}), (403, {}), (201, {"client_id": 7}), (201, []), (200, {"client_id": ""})],
)
def test_a_registration_that_is_refused_says_so(status: int, body: object) -> None:
    with pytest.raises(tokens.Denied, match="does not register Hearth as a client"):
        run(
            lambda request: httpx.Response(status, json=body),
            lambda web: tokens.register(web, AUTHORITY, "http://127.0.0.1:7/callback", ()),
        )


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [(200, b'{"a": 1}', {"a": 1}), (200, b"[1]", None), (200, b"<html>", None), (404, b"{}", None), (301, b"{}", None)],
)
def test_a_description_is_an_object_or_none(status: int, body: bytes, found: object) -> None:
    answer = httpx.Response(status, content=body, headers={"Location": "https://elsewhere.example"})
    assert run(lambda request: answer, lambda web: tokens.get_document(web, ISSUER)) == found
