"""Messages and notices of servers, to exactly whom they are meant for, or to nobody."""

from pathlib import Path

import pytest

from hearth.mcp import versions
from unit.hub.server_messages_stage import Stage

# --- messages


def message(level: str = "info") -> dict[str, object]:
    return {"level": level, "data": "words", "logger": "l"}


@pytest.mark.parametrize(
    ("threshold", "level", "heard"), [(None, "debug", True), ("warning", "info", False), ("warning", "error", True)]
)
async def test_a_message_reaches_the_session_that_caused_it_from_its_level_on(
    tmp_path: Path, threshold: str | None, level: str, heard: bool
) -> None:
    stage = Stage(tmp_path)
    (member, sink), (_, others) = stage.client(), stage.client()
    member.log_level = threshold
    stage.call(member)
    stage.tell("notifications/message", message(level))
    assert [item["params"] for item in sink.messages("notify")] == ([message(level)] if heard else [])
    assert others.said == []


@pytest.mark.parametrize(("named", "heard"), [(None, False), ("info", True), ("error", False)])
async def test_a_modern_client_hears_only_for_requests_that_named_a_level(
    tmp_path: Path, named: str | None, heard: bool
) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(versions.MODERN)
    stage.tell("notifications/message", message())
    stage.call(member, level=named)
    stage.tell("notifications/message", message())
    assert len(sink.heard("notify")) == heard


async def test_a_message_while_a_call_is_parked_is_dropped(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(versions.MODERN)
    stage.call(member, level="debug")
    stage.ask()
    stage.tell("notifications/message", message())
    assert sink.heard("notify") == []


async def test_an_ambiguous_message_reaches_nobody(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    clients = [stage.client() for _ in range(2)]
    stage.tell("notifications/message", message())
    for member, _ in clients:
        stage.call(member)
    stage.tell("notifications/message", message())
    assert all(sink.said == [] for _, sink in clients)
    stage.tell("notifications/message", message(), cause=2)
    assert [len(sink.heard("notify")) for _, sink in clients] == [0, 1]


async def test_the_only_session_hears_what_is_said_when_nobody_waits(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    _, sink = stage.client()
    stage.tell("notifications/message", message())
    assert len(sink.heard("notify")) == 1


# --- the rest


async def test_the_end_of_a_visit_is_told_to_who_was_sent_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (member, sink), (_, others) = stage.client(), stage.client()
    stage.call(member)
    stage.ask(params={"mode": "url", "message": "Go", "url": "https://x", "elicitationId": "e1"})
    question = await stage.question(sink)
    assert question["params"]["elicitationId"] == "e1"
    for id in ("other", "e1", "e1"):
        stage.tell("notifications/elicitation/complete", {"elicitationId": id})
    assert [item["params"] for item in sink.messages("notify")] == [{"elicitationId": "e1"}]
    assert others.said == []


async def test_what_hearth_does_not_know_goes_to_the_only_session_of_the_same_era(tmp_path: Path) -> None:
    for era, heard in ((versions.LEGACY, 1), (versions.MODERN, 0)):
        stage = Stage(tmp_path)
        _, sink = stage.client(era)
        stage.tell("notifications/made/up", {"k": 1})
        stage.tell("notifications/subscriptions/acknowledged", {})
        assert len(sink.heard("notify")) == heard
        _, other = stage.client(era)
        stage.tell("notifications/made/up", {"k": 1})
        assert len(other.heard("notify")) == 0
        assert len(sink.heard("notify")) == heard
