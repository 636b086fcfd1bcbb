"""Questions to modern clients, and what is learned from a server that asks."""

from pathlib import Path

import pytest

from hearth.mcp import versions
from unit.hub.server_messages_stage import ELICIT, ROOTS, SAMPLE, Stage

# --- modern clients


async def test_a_question_in_a_modern_client_s_call_parks_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(versions.MODERN)
    stage.call(member)
    stage.ask(id=7)
    stage.ask(id=8)
    (answer,) = sink.messages("answer")
    assert answer["result"]["resultType"] == "input_required"
    assert (len(stage.parking), len(stage.relay._open)) == (1, 2)
    stage.tell("notifications/cancelled", {"requestId": 8})
    assert len(stage.relay._open) == 1
    stage.parking.session_left(member)
    assert stage.relay._open == {}


async def test_more_than_a_client_may_park_is_refused_to_the_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limit=0)
    member, sink = stage.client(versions.MODERN)
    call = stage.call(member)
    stage.ask()
    assert "parked_limit" in (await stage.answer())["error"]["message"]
    assert (call.is_open, sink.said) == (True, [])


async def test_nobody_is_asked_in_the_midst_of_what_a_modern_client_cannot_retry(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(versions.MODERN)
    stage.call(member, "completion/complete")
    stage.ask()
    assert "in the midst of completion/complete" in (await stage.answer())["error"]["message"]
    assert sink.said == []


async def test_a_modern_client_is_never_asked_out_of_the_blue(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    _, sink = stage.client(versions.MODERN)
    stage.ask()
    assert "error" in await stage.answer()
    assert sink.said == []


# --- what is learned


@pytest.mark.parametrize(
    ("method", "cause", "mode"),
    [
        (ROOTS, None, "workspace"),
        (ROOTS, 1, "workspace"),
        (ELICIT, None, "session"),
        (SAMPLE, None, "session"),
        # The stream tells whom it means: it may be shared as before.
        (ELICIT, 1, "shared"),
    ],
)
async def test_a_server_that_asks_is_shared_more_narrowly_afterwards(
    tmp_path: Path, method: str, cause: int | None, mode: str
) -> None:
    stage = Stage(tmp_path)
    # Tried in the modern era already.
    stage.server._traits.note_era(stage.server.spec, versions.MODERN, versions.LEGACY)
    stage.call(stage.client()[0])
    stage.ask(method, cause=cause)
    assert stage.server.mode == mode


async def test_roots_are_the_workspace_s_whoever_asks_and_whenever(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "workspace", isolation="workspace")
    stage.instance.client_context = stage.instance.client_context._replace(cwd="/here")
    (one, heard), (other, _) = stage.client(), stage.client()
    stage.ask(ROOTS)
    for member in (one, other):
        stage.call(member)
    stage.ask(ROOTS, "again")
    roots = {"roots": [{"uri": "file:///here", "name": "here"}]}
    assert [answer["result"] for answer in stage.connection.answers] == [roots, roots]
    assert heard.said == []


async def test_folders_of_the_config_are_not_replaced_by_one_that_no_client_has_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "workspace", isolation="workspace", args=("serve", str(tmp_path)))
    stage.instance.client_context = stage.instance.client_context._replace(cwd="/here")
    stage.ask(ROOTS)
    stage.instance.client_context = stage.instance.client_context._replace(roots=(b'{"uri":"file:///there"}',))
    stage.ask(ROOTS, "again")
    refused, told = stage.connection.answers
    assert "folders" in refused["error"]["message"]
    assert told["result"] == {"roots": [{"uri": "file:///there"}]}


async def test_roots_of_a_modern_client_that_tells_its_own_are_asked_for_in_its_call(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "workspace", isolation="workspace")
    member, sink = stage.client(versions.MODERN)
    stage.call(member)
    stage.ask(ROOTS)
    assert sink.messages("answer")[0]["result"]["resultType"] == "input_required"
    assert stage.connection.answers == []
