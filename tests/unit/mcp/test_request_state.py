"""States of Hearth's own are told from others by their seal, and are good for one principal, one call and some time."""

import random
import string

import pytest

from hearth.errors import MessageError
from hearth.mcp import request_state, versions
from hearth.mcp.request_state import Seal, StateRefused
from hearth.wire import json

METHOD = "tools/call"
DIGEST = request_state.digest(METHOD, json.split(b'{"name":"t","arguments":{"a":1}}'))
SEAL = Seal(b"k" * request_state.KEY_BYTES)
STATE = SEAL.seal("token", "uid:1000", METHOD, DIGEST, 100.0)
ALPHABET = string.ascii_letters + string.digits + "-_"


def opened(
    state: str = STATE,
    seal: Seal = SEAL,
    principal: str = "uid:1000",
    method: str = METHOD,
    digest: bytes = DIGEST,
    now: float = 99.9,
) -> str | None:
    return seal.open(state, principal, method, digest, now)


def refused(**changed: object) -> StateRefused:
    with pytest.raises(StateRefused) as caught:
        opened(**changed)  # type: ignore[arg-type]
    assert isinstance(caught.value, MessageError)
    assert caught.value.rpc_code == versions.INVALID_PARAMS
    return caught.value


def test_a_state_opens_to_its_token_until_it_expires() -> None:
    assert opened() == "token"
    problem = refused(now=100.0)
    assert problem.data == {"reason": "expired"}
    assert "call again" in str(problem)


def test_a_state_says_nothing_of_the_principal_and_needs_no_quoting() -> None:
    assert set(STATE) <= {*ALPHABET, "."}
    assert len(STATE) < 200


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"principal": "uid:1001"}, "principal"),
        ({"principal": ""}, "principal"),
        ({"method": "prompts/get"}, "request"),
        ({"digest": request_state.digest(METHOD, json.split(b'{"name":"u"}'))}, "request"),
        ({"principal": "uid:1001", "method": "prompts/get", "now": 1000.0}, "principal"),
        ({"method": "prompts/get", "now": 1000.0}, "request"),
    ],
)
def test_a_state_is_good_for_who_made_the_call_and_for_that_call(changed: dict[str, object], reason: str) -> None:
    assert refused(**changed).data == {"reason": reason}


def test_a_spent_state_has_its_own_reason() -> None:
    assert StateRefused(request_state.SPENT).data == {"reason": "spent"}


@pytest.mark.parametrize("state", ["", "hearth.", "hearth.AAAA", "hearth.!!!!", "hearth.ä", "an upstream's", "\ud800"])
def test_what_hearth_never_sealed_is_left_to_the_upstream(state: str) -> None:
    assert opened(state) is None


def test_another_key_s_state_is_not_ours() -> None:
    assert opened(seal=Seal(b"l" * request_state.KEY_BYTES)) is None


@pytest.mark.parametrize("state", [STATE + "=", STATE + "A", STATE[:-1], STATE.removeprefix("hearth."), " " + STATE])
def test_another_spelling_is_not_ours(state: str) -> None:
    assert opened(state) is None


def test_no_changed_character_goes_unnoticed() -> None:
    for position in range(len("hearth."), len(STATE)):
        for other in ALPHABET:
            if other != STATE[position]:
                assert opened(STATE[:position] + other + STATE[position + 1 :]) is None


def test_random_states_are_not_ours() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        assert opened("hearth." + "".join(chance.choices(ALPHABET, k=chance.randrange(200)))) is None


def test_a_token_may_be_any_text() -> None:
    for token in ("", "ä" * 50, "a.b"):
        assert opened(SEAL.seal(token, "uid:1000", METHOD, DIGEST, 100.0)) == token


def digest(params: bytes, method: str = METHOD) -> bytes:
    return request_state.digest(method, json.split(params))


@pytest.mark.parametrize(
    "params",
    [
        b'{"arguments":{"a":1},"name":"t"}',
        b'{"name":"t","arguments":{"a":1},"_meta":{"progressToken":7}}',
        b'{"name":"t","inputResponses":{"k":{}},"requestState":"s","arguments":{"a":1}}',
    ],
)
def test_a_retry_has_the_digest_of_its_call(params: bytes) -> None:
    assert digest(params) == DIGEST


@pytest.mark.parametrize(
    "params",
    [
        b"{}",
        b'{"name":"t"}',
        b'{"name":"t","arguments":{"a":2}}',
        b'{"name":"u","arguments":{"a":1}}',
        b'{"name":"t","arguments":{"a":1},"more":null}',
        b'{"arguments":"t","name":{"a":1}}',
    ],
)
def test_another_call_has_another_digest(params: bytes) -> None:
    assert digest(params) != DIGEST


def test_the_method_is_part_of_the_digest() -> None:
    assert digest(b"{}", "prompts/get") != digest(b"{}", "resources/read")


def test_names_with_lone_surrogates_have_digests_too() -> None:
    assert digest(b'{"\\ud800":1}') != digest(b'{"\\ud801":1}')
