"""One authorization request, and what the browser comes back with."""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from hearth.errors import LoginFailed
from hearth.upstreams.oauth.metadata import Authority
from hearth.upstreams.oauth.redirect import AuthorizationRequest, WrongState

ISSUER = "https://auth.example.com"
REDIRECT = "http://127.0.0.1:1234/callback"


def authority(**more: object) -> Authority:
    known = {"authorization_endpoint": f"{ISSUER}/authorize?tenant=1", "token_endpoint": f"{ISSUER}/token"}
    return Authority(issuer=ISSUER, **known, **more)  # type: ignore[arg-type]


def begin(wanted: tuple[str, ...] = ("read",), **more: object) -> tuple[AuthorizationRequest, dict[str, str]]:
    attempt = AuthorizationRequest(authority(**more), "me", "https://mcp.example.com/mcp", wanted, REDIRECT)
    return attempt, {name: values[0] for name, values in parse_qs(urlsplit(attempt.url).query).items()}


def test_the_address_has_everything_in_it_and_the_verifier_is_not() -> None:
    attempt, asked = begin()
    assert asked.pop("state") and asked.pop("code_challenge")
    assert asked == {
        "tenant": "1",
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": REDIRECT,
        "scope": "read",
        "code_challenge_method": "S256",
        "resource": "https://mcp.example.com/mcp",
    }
    assert attempt.verifier not in attempt.url and 43 <= len(attempt.verifier) <= 128


def test_no_two_attempts_have_anything_in_common() -> None:
    (one, asked), (other, again) = begin(), begin()
    assert one.verifier != other.verifier and asked["state"] != again["state"]


def test_without_scopes_none_are_asked_for_and_refresh_tokens_where_they_have_a_scope() -> None:
    assert "scope" not in begin(())[1]
    assert begin(("read",), scopes=("read", "offline_access"))[1]["scope"] == "read offline_access"
    assert begin(("offline_access",), scopes=("offline_access",))[1]["scope"] == "offline_access"


@pytest.mark.parametrize("iss", [None, ISSUER])
def test_the_code_is_found(iss: str | None) -> None:
    attempt, asked = begin()
    answer = {"code": "abc", "state": asked["state"], **({"iss": iss} if iss else {})}
    assert attempt.code(urlencode(answer)) == "abc"


@pytest.mark.parametrize("query", ["", "code=abc", "code=abc&state=", "code=abc&state=other", "error=x&state=ü"])
def test_what_has_another_state_belongs_to_another_login(query: str) -> None:
    with pytest.raises(WrongState):
        begin()[0].code(query)


def test_a_parameter_twice_is_no_answer() -> None:
    attempt, asked = begin()
    with pytest.raises(WrongState):
        attempt.code(f"code=a&code=b&state={asked['state']}")


@pytest.mark.parametrize("iss", [f"{ISSUER}/", "https://AUTH.example.com", "https://evil.example", ""])
@pytest.mark.parametrize("more", [{"code": "abc"}, {"error": "access_denied", "error_description": "evil words"}])
def test_an_answer_of_another_issuer_is_neither_used_nor_shown(iss: str, more: dict[str, str]) -> None:
    attempt, asked = begin()
    with pytest.raises(LoginFailed, match="not used") as problem:
        attempt.code(urlencode({**more, "state": asked["state"], "iss": iss}))
    assert "evil" not in str(problem.value) and "denied" not in str(problem.value)


def test_an_issuer_that_was_promised_has_to_be_there() -> None:
    attempt, asked = begin(names_itself=True)
    with pytest.raises(LoginFailed, match="does not say"):
        attempt.code(urlencode({"code": "abc", "state": asked["state"]}))


@pytest.mark.parametrize(
    ("error", "words"),
    [("access_denied", "denied"), ("invalid_scope", "invalid_scope"), ("<b>\x1b[1m", "an error without a name")],
)
def test_a_refusal_is_told_by_its_code_alone(error: str, words: str) -> None:
    attempt, asked = begin()
    with pytest.raises(LoginFailed, match=words) as problem:
        attempt.code(urlencode({"error": error, "error_description": "anything", "state": asked["state"]}))
    assert "anything" not in str(problem.value) and "\x1b" not in str(problem.value)
