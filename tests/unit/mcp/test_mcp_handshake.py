"""The table of the probe: every answer to the two openings, in every order."""

import pytest

from hearth.errors import UpstreamError
from hearth.mcp import handshake, versions
from hearth.mcp.handshake import DISCOVER, INITIALIZE, Probe
from hearth.wire import json

SUCCESS = b'{"jsonrpc":"2.0","id":1,"result":{"instructions":"hi"}}'


def refusal(code: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"no %d"}}' % (code, code)


@pytest.mark.parametrize(
    ("answers", "era"),
    [
        ([(DISCOVER, SUCCESS)], versions.MODERN),
        ([(DISCOVER, refusal(-32020))], versions.MODERN),
        ([(DISCOVER, refusal(-32021))], versions.MODERN),
        ([(DISCOVER, refusal(-32022))], versions.MODERN),
        ([(INITIALIZE, refusal(-32022))], versions.MODERN),
        ([(INITIALIZE, SUCCESS)], versions.LEGACY),
        ([(DISCOVER, refusal(-32601)), (INITIALIZE, SUCCESS)], versions.LEGACY),
        ([(DISCOVER, refusal(-32602)), (INITIALIZE, SUCCESS)], versions.LEGACY),
        ([(INITIALIZE, refusal(-32601)), (DISCOVER, SUCCESS)], versions.MODERN),
        ([(INITIALIZE, refusal(-32020)), (DISCOVER, SUCCESS)], versions.MODERN),
        ([(INITIALIZE, SUCCESS), (DISCOVER, SUCCESS)], versions.LEGACY),
        ([(DISCOVER, SUCCESS), (INITIALIZE, SUCCESS)], versions.MODERN),
    ],
)
def test_the_first_success_decides(answers: list[tuple[str, bytes]], era: str) -> None:
    attempt = Probe()
    for opening, answer in answers:
        attempt.receive_answer(opening, json.parse(answer))
    assert attempt.era == era


def test_one_refusal_decides_nothing() -> None:
    attempt = Probe()
    attempt.receive_answer(DISCOVER, json.parse(refusal(-32601)))
    assert attempt.era is None


def test_two_refusals_are_an_error_that_quotes_both() -> None:
    attempt = Probe()
    attempt.receive_answer(DISCOVER, json.parse(refusal(-32601)))
    with pytest.raises(UpstreamError, match=r"no -32601.*no -32603"):
        attempt.receive_answer(INITIALIZE, json.parse(refusal(-32603)))


@pytest.mark.parametrize(
    ("era", "only", "openings"),
    [
        ("modern", False, (DISCOVER, INITIALIZE)),
        ("legacy", False, (INITIALIZE, DISCOVER)),
        ("modern", True, (DISCOVER,)),
        ("legacy", True, (INITIALIZE,)),
    ],
)
def test_the_wanted_era_is_asked_for_first_and_an_only_one_alone(
    era: str, only: bool, openings: tuple[str, ...]
) -> None:
    assert Probe(era, only).openings == openings


def test_an_only_era_that_is_refused_is_an_error() -> None:
    with pytest.raises(UpstreamError, match="initialize: no -32601"):
        Probe("legacy", only=True).receive_answer(INITIALIZE, json.parse(refusal(-32601)))


def test_the_deciding_result_is_kept() -> None:
    attempt = Probe()
    attempt.receive_answer(INITIALIZE, json.parse(SUCCESS))
    assert bytes(attempt.result["instructions"]) == b'"hi"'


def test_a_server_that_refused_the_old_opening_tells_what_it_offers_in_answer_to_the_other() -> None:
    attempt = Probe(versions.LEGACY)
    attempt.receive_answer(INITIALIZE, json.parse(refusal(-32022)))
    assert (attempt.era, attempt.result) == (versions.MODERN, {})
    attempt.receive_answer(DISCOVER, json.parse(SUCCESS))
    assert bytes(attempt.result["instructions"]) == b'"hi"'


def test_what_a_legacy_server_answers_to_the_other_opening_is_of_no_interest() -> None:
    attempt = Probe(versions.LEGACY)
    attempt.receive_answer(INITIALIZE, json.parse(SUCCESS))
    attempt.receive_answer(DISCOVER, json.parse(SUCCESS.replace(b"hi", b"other")))
    assert (attempt.era, bytes(attempt.result["instructions"])) == (versions.LEGACY, b'"hi"')


def test_the_openings_carry_what_their_era_wants() -> None:
    legacy = json.loads(handshake.opening_params(INITIALIZE, "1", b'{"roots":{}}'))
    assert legacy == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "hearth", "version": "1"},
    }
    meta = json.loads(handshake.opening_params(DISCOVER, "1", b'{"roots":{}}'))["_meta"]
    assert meta[versions.PROTOCOL_VERSION_KEY] == "2026-07-28"
    # Hearth's own questions are answered by nobody's client.
    assert meta[versions.CLIENT_CAPABILITIES_KEY] == {}
