"""Opening a conversation, and what is taken from a server's answers to that and to the questions for its lists.

The table of the probe: every answer to the two openings, in every order.
"""

import asyncio
from typing import Any

import pytest

from hearth import __version__
from hearth.errors import MessageError, UpstreamError
from hearth.mcp import versions
from hearth.mcp.catalog import KINDS, PROMPTS, RESOURCES, SLICE_ENTRIES, TEMPLATES, TOOLS, ListLimits, ServerCatalog
from hearth.upstreams import handshake
from hearth.upstreams.handshake import (
    DISCOVER,
    INITIALIZE,
    PAGES_LIMIT,
    Opening,
    Probe,
    greet,
    own_params,
    read_list,
    read_lists,
)
from hearth.wire import json
from unit.conversations import LEGACY_INITIALIZED, MODERN_DISCOVERED, Recorded, Scripted, until

SCRIPTS: dict[str, dict[str, object]] = {
    "legacy": {"initialize": LEGACY_INITIALIZED, "server/discover": -32601},
    "modern": {"initialize": -32022, "server/discover": MODERN_DISCOVERED},
    "both": {"initialize": LEGACY_INITIALIZED, "server/discover": MODERN_DISCOVERED},
    "silent": {"initialize": LEGACY_INITIALIZED},
}


class Greeted(Scripted):
    """Notes what it is told about the other end."""

    spoken: tuple[str, str] | None = None

    def greeted(self, era: str, version: str) -> None:
        self.spoken = (era, version)


@pytest.mark.parametrize(
    ("script", "wanted", "era"),
    [
        ("legacy", "modern", "legacy"),
        ("legacy", "legacy", "legacy"),
        ("modern", "modern", "modern"),
        ("modern", "legacy", "modern"),
        ("both", "modern", "modern"),
        ("both", "legacy", "legacy"),
        # It never says anything to what it does not know.
        ("silent", "modern", "legacy"),
    ],
)
async def test_the_wanted_era_is_asked_for_first_and_the_server_decides(script: str, wanted: str, era: str) -> None:
    connection = Greeted(None, SCRIPTS[script])
    found = await greet(connection, Opening(wanted), capabilities=b'{"roots":{}}')
    first = "server/discover" if wanted == "modern" else "initialize"
    assert sorted(connection.methods()) == ["initialize", "server/discover"]
    assert connection.methods()[0] == first
    assert found.era == era
    assert connection.spoken == (era, "2025-11-25" if era == "legacy" else versions.NEWEST_MODERN)
    # The losing opening is of no interest, and does not count as a call in flight.
    assert connection.in_flight == 0


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_era_that_is_the_only_one_wanted_is_the_only_one_asked_for(era: str) -> None:
    connection = Scripted(None, SCRIPTS["both"])
    assert (await greet(connection, Opening(era, True), capabilities=b"{}")).era == era
    assert connection.methods() == ["initialize" if era == "legacy" else "server/discover"]


async def test_a_legacy_server_is_told_what_clients_can_be_asked_and_that_the_handshake_is_done() -> None:
    connection = Scripted(None, SCRIPTS["legacy"])
    await greet(connection, Opening("legacy", True), capabilities=b'{"roots":{"listChanged":true}}')
    params = connection.sent[0]["params"]
    assert params["capabilities"] == {"roots": {"listChanged": True}}
    assert params["protocolVersion"] == "2025-11-25"
    assert connection.notified == [{"method": "notifications/initialized", "params": None}]


async def test_a_modern_server_is_told_nothing_besides() -> None:
    connection = Scripted(None, SCRIPTS["modern"])
    await greet(connection, Opening("modern"), capabilities=b"{}")
    assert connection.notified == []


async def test_what_the_server_says_of_itself_is_kept() -> None:
    result = {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "instructions": "be kind"}
    found = await greet(Scripted(None, {"initialize": result}), Opening("legacy", True), capabilities=b"{}")
    assert (found.version, found.instructions) == ("2025-03-26", "be kind")
    assert {key: bytes(value) for key, value in found.capabilities.items()} == {"tools": b"{}"}


@pytest.mark.parametrize("late", [False, True])
async def test_a_server_that_refuses_the_old_opening_first_is_heard_out(late: bool) -> None:
    script: dict[str, object] = {"initialize": -32022} | ({} if late else {"server/discover": MODERN_DISCOVERED})
    connection = Scripted(None, script)
    greeting = asyncio.create_task(greet(connection, Opening("legacy"), capabilities=b"{}"))
    if late:
        await until(lambda: connection.in_flight == 1, "the one is refused")
        for _ in range(10):
            # And that is known to whoever greets.
            await asyncio.sleep(0)
        assert not greeting.done()
        connection.give(2, MODERN_DISCOVERED)
    found = await greeting
    assert (found.era, bytes(found.capabilities["tools"])) == ("modern", b'{"listChanged":true}')


async def test_a_server_that_never_says_what_it_offers_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "DISCOVER_SECONDS", 0.01)
    connection = Scripted(None, {"initialize": -32022})
    found = await greet(connection, Opening("legacy"), capabilities=b"{}")
    assert (found.era, found.capabilities, connection.in_flight) == ("modern", {}, 0)


async def test_a_server_that_proves_its_era_by_an_error_has_said_nothing_of_itself() -> None:
    script: dict[str, object] = {"initialize": -32022, "server/discover": -32021}
    found = await greet(Scripted(None, script), Opening("legacy"), capabilities=b"{}")
    assert (found.era, found.version, found.capabilities) == ("modern", versions.NEWEST_MODERN, {})


async def test_a_server_that_refuses_every_opening_is_none() -> None:
    script: dict[str, object] = {"initialize": -32600, "server/discover": -32601}
    with pytest.raises(UpstreamError, match="refused every way"):
        await greet(Scripted(None, script), Opening("modern"), capabilities=b"{}")


async def test_a_server_that_takes_nothing_any_more_says_why() -> None:
    connection = Recorded()
    connection.broken = True
    with pytest.raises(UpstreamError, match="it is gone"):
        await greet(connection, Opening("modern"), capabilities=b"{}")


async def test_a_server_that_ends_in_the_midst_fails_who_greets_or_asks_it() -> None:
    for asking in (
        lambda connection: greet(connection, Opening("modern"), capabilities=b"{}"),
        lambda connection: read_list(connection, versions.LEGACY, TOOLS),
    ):
        connection = Recorded()
        task = asyncio.create_task(asking(connection))
        await until(lambda connection=connection: connection.in_flight, "it is asked")
        connection.end("it fell over")
        with pytest.raises(UpstreamError, match="is gone"):
            await task


# --- lists


def page(kind: Any, *names: str, cursor: str | None = None) -> dict[str, object]:
    return {kind.member: [{kind.key: name} for name in names]} | ({} if cursor is None else {"nextCursor": cursor})


def offered(capabilities: bytes = b'{"tools":{},"resources":{}}', era: str = versions.LEGACY) -> ServerCatalog:
    return ServerCatalog(era, "2025-11-25", json.split(capabilities), None)


async def test_every_list_that_a_server_declares_is_read_and_no_other() -> None:
    connection = Scripted(
        None,
        {
            "tools/list": page(TOOLS, "t"),
            "resources/list": page(RESOURCES, "r:1"),
            "resources/templates/list": page(TEMPLATES, "r:{n}"),
        },
    )
    found = offered()
    await read_lists(connection, found)
    assert sorted(connection.methods()) == ["resources/list", "resources/templates/list", "tools/list"]
    assert [list(found.lists[kind]) for kind in (TOOLS, PROMPTS, RESOURCES, TEMPLATES)] == [
        ["t"], [], ["r:1"], ["r:{n}"],
    ]  # fmt: skip


async def test_only_the_lists_that_are_wanted_anew_are_read_anew() -> None:
    connection = Scripted(None, {"resources/list": page(RESOURCES, "r:2")})
    found = offered()
    found.take(TOOLS, [])
    await read_lists(connection, found, [RESOURCES, PROMPTS])
    assert connection.methods() == ["resources/list"]
    assert list(found.lists[RESOURCES]) == ["r:2"]


async def test_a_refused_list_withholds_nothing_else_unless_it_is_that_of_declared_tools() -> None:
    script: dict[str, object] = {
        "tools/list": page(TOOLS, "t"),
        "resources/list": page(RESOURCES, "r:1"),
        "resources/templates/list": -32601,
    }
    found = offered()
    await read_lists(Scripted(None, script), found)
    assert (list(found.lists[TOOLS]), list(found.lists[RESOURCES])) == (["t"], ["r:1"])
    with pytest.raises(UpstreamError, match="refused tools/list"):
        await read_lists(Scripted(None, {**script, "tools/list": -32603}), offered())


async def test_a_server_that_declared_nothing_may_refuse_every_list() -> None:
    script: dict[str, object] = {kind.method: -32601 for kind in KINDS}
    found = offered(b"{}")
    connection = Scripted(None, script)
    await read_lists(connection, found)
    assert len(connection.sent) == len(KINDS)
    assert all(found.lists[kind] == {} for kind in KINDS)


async def test_all_pages_are_read_with_the_cursor_as_it_came() -> None:
    connection = Recorded()
    reading = asyncio.create_task(read_list(connection, versions.LEGACY, TOOLS))
    for number, (names, cursor) in enumerate([(("a", "b"), ""), (("c",), None)], 1):
        await until(lambda number=number: len(connection.sent) == number, "a page is asked for")
        connection.give(number, page(TOOLS, *names, cursor=cursor))
    assert [item.name for item in await reading] == ["a", "b", "c"]
    assert [request["params"] for request in connection.sent] == [{}, {"cursor": ""}]


async def test_a_circle_of_cursors_and_pages_without_end_are_cut_off() -> None:
    class Endless(Scripted):
        def _reply(self, number: int, reply: object) -> None:
            super()._reply(number, page(TOOLS, f"t{number}", cursor=f"c{number}"))

    circle = Scripted(None, {"tools/list": page(TOOLS, "t", cursor="c")})
    await read_list(circle, versions.LEGACY, TOOLS)
    assert len(circle.sent) == 2
    assert len(await read_list(Endless(None, {"tools/list": None}), versions.LEGACY, TOOLS)) == PAGES_LIMIT


async def test_a_list_over_its_limit_is_cut_and_the_log_names_the_server(caplog: pytest.LogCaptureFixture) -> None:
    class Endless(Scripted):
        list_limits = ListLimits(entries=5)

        def _reply(self, number: int, reply: object) -> None:
            super()._reply(number, page(TOOLS, f"a{number}", f"b{number}", cursor=f"c{number}"))

    endless = Endless(None, {"tools/list": None}, "greedy")
    assert [item.name for item in await read_list(endless, versions.LEGACY, TOOLS)] == ["a1", "b1", "a2", "b2", "a3"]
    assert len(endless.sent) == 3
    assert caplog.messages == [
        "list cut: server 'greedy' has more tools than 5 entries (list_entries);"
        " the first 5 are offered and the rest is dropped"
    ]


async def test_a_list_that_ends_at_its_limit_is_not_complained_of(caplog: pytest.LogCaptureFixture) -> None:
    connection = Scripted(None, {"tools/list": page(TOOLS, "a", "b")})
    connection.list_limits = ListLimits(entries=2)
    assert len(await read_list(connection, versions.LEGACY, TOOLS)) == 2
    assert caplog.messages == []


async def test_the_loop_goes_on_while_a_large_list_is_read() -> None:
    names = [f"t{number}" for number in range(20 * SLICE_ENTRIES)]
    reading = asyncio.create_task(read_list(Scripted(None, {"tools/list": page(TOOLS, *names)}), "legacy", TOOLS))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert [item.name for item in reading.result()] == names
    assert turns >= 20


async def test_a_list_that_is_none_is_the_server_s_fault() -> None:
    with pytest.raises(UpstreamError, match="list of tools that is none") as caught:
        await read_list(Scripted(None, {"tools/list": {"tools": 7}}), versions.LEGACY, TOOLS)
    assert isinstance(caught.value.__cause__, MessageError)


async def test_a_question_that_is_given_up_is_no_longer_in_flight() -> None:
    connection = Recorded()
    asking = asyncio.create_task(handshake.ask(connection, versions.LEGACY, "tools/list"))
    await until(lambda: connection.in_flight == 1, "it was asked")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert connection.in_flight == 0


def test_hearth_s_own_requests_have_the_envelope_where_the_era_wants_it() -> None:
    assert own_params(versions.LEGACY, cursor=None) == b"{}"
    meta = json.loads(own_params(versions.MODERN, cursor=b'"c"'))
    assert meta["cursor"] == "c"
    assert meta["_meta"][versions.PROTOCOL_VERSION_KEY] == versions.NEWEST_MODERN
    assert meta["_meta"][versions.CLIENT_CAPABILITIES_KEY] == {}


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
        ([(DISCOVER, refusal(-32601))], None),
    ],
)
def test_the_first_success_decides_and_one_refusal_does_not(answers: list[tuple[str, bytes]], era: str | None) -> None:
    attempt = Probe()
    for opening, answer in answers:
        attempt.receive_answer(opening, json.parse(answer))
    assert attempt.era == era


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
    legacy = json.loads(handshake.opening_params(INITIALIZE, b'{"roots":{}}'))
    assert legacy == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "hearth", "version": __version__},
    }
    meta = json.loads(handshake.opening_params(DISCOVER, b'{"roots":{}}'))["_meta"]
    assert meta[versions.PROTOCOL_VERSION_KEY] == "2026-07-28"
    # Hearth's own questions are answered by nobody's client.
    assert meta[versions.CLIENT_CAPABILITIES_KEY] == {}
