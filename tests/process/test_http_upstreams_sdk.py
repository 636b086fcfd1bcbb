"""Servers on the official Python SDK behind a url, in both eras and on both transports."""

from collections.abc import Iterator

import pytest

from support.http.conversation import bounded, talking, text_of, until
from support.sites.sdk import serve_sdk


@pytest.fixture(scope="module", params=["", "json", "stateless"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from serve_sdk(request.param)


@pytest.fixture(scope="module")
def streaming() -> Iterator[str]:
    yield from serve_sdk()


WAYS = pytest.mark.parametrize(
    ("path", "era", "found"),
    [
        ("/mcp", "any modern", "modern"),
        ("/mcp", "modern", "modern"),
        ("/mcp", "any legacy", "legacy"),
        ("/mcp", "legacy", "legacy"),
        ("/sse", "any modern", "legacy"),
        ("/sse", "legacy", "legacy"),
    ],
)


@WAYS
async def test_a_server_is_listed_and_called(server: str, path: str, era: str, found: str) -> None:
    async with talking(server + path, era) as talk:
        assert talk.era == found
        names = [tool["name"] for tool in (await talk.ask("tools/list"))["tools"]]
        assert names == ["add", "report", "ask", "wait", "cancelled"]
        calls = [talk.begin("add", a=turn, b=1) for turn in range(20)]
        assert [text_of(await answer.future) for _, answer in calls] == [str(turn + 1) for turn in range(20)]


@WAYS
async def test_progress_and_logs_come_with_their_call(streaming: str, path: str, era: str, found: str) -> None:
    async with talking(streaming + path, era) as talk:
        number, answer = talk.begin("report", steps=3)
        assert text_of(await bounded(answer.future)) == "reported"
        assert answer.progress == [1, 2, 3]
        logs = [(params["data"], cause) for method, params, cause in talk.notices if "data" in (params or {})]
        cause = number if path == "/mcp" else None
        # A modern client gets them when it names a level, which this one does not.
        assert logs == ([] if found == "modern" else [(f"step {step}", cause) for step in range(3)])


async def test_a_question_is_answered_on_its_way(streaming: str) -> None:
    async with talking(streaming + "/mcp", "legacy", capabilities=b'{"elicitation":{}}') as talk:
        number, answer = talk.begin("ask")
        assert text_of(await bounded(answer.future)) == "hello Ada"
        assert talk.questions == [("elicitation/create", number)]


@WAYS
async def test_a_cancelled_call_is_given_up(streaming: str, path: str, era: str, found: str) -> None:
    async with talking(streaming + path, era) as talk:
        before = int(await talk.call("cancelled"))
        number, answer = talk.begin("wait")
        assert await talk.call("add", a=1, b=1) == "2"
        request = talk.connection._asked.get(number)  # type: ignore[attr-defined]
        await until(lambda: request is None or request.sent, "the call has left")
        talk.connection.cancel(number)
        for _ in range(1000):
            if int(await talk.call("cancelled")) == before + 1:
                break
        else:
            raise AssertionError("the call goes on")
        assert answer.times == 0
