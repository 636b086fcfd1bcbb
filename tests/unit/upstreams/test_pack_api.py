"""Packs by way of a whole hub: a client's requests in, its answers out."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hearth.config import Config
from hearth.config.model import pack_spec
from hearth.errors import UpstreamError
from hearth.hub import dispatcher
from hearth.hub.calls import Call
from hearth.hub.events import EVENTS, CallFinished
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from hearth.upstreams import pack_api
from hearth.upstreams.pack_api import Arguments, CallContext, Pack, PackConnection, PackPrompt, PackResource, PackTool
from hearth.wire import json as wire
from unit.conversations import Hearer, until
from unit.hub.outlets import Kept
from unit.hub.whole_hub import ENVELOPE
from unit.staged_instances import Nobody

ANY = {"type": "object"}


class SmallPack(Pack):
    """A pack whose tools do what tests want."""

    def __init__(self) -> None:
        self.contexts: list[CallContext] = []
        self.given_up: list[str] = []
        self.working = False
        self.release = asyncio.Event()
        self.life: list[str] = []
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        super().__init__(
            (
                PackTool("echo", "Say it again.", text, self._echo, {"readOnlyHint": True}, text),
                PackTool("steps", "Report progress.", ANY, self._steps),
                PackTool("hang", "Never end.", ANY, self._hang),
                PackTool("wait", "Wait until released.", ANY, self._wait),
                PackTool("fail", "Fail.", ANY, self._fail),
                PackTool("lie", "Return something else than promised.", ANY, self._lie, {}, text),
            )
        )
        self.resources["small:one"] = PackResource("small:one", "one", self._read)
        self.prompts["greet"] = PackPrompt("greet", self._greet, "Greet.", ({"name": "who", "required": True},))

    async def start(self) -> None:
        self.life.append("start")

    async def stop(self) -> None:
        self.life.append("stop")

    def busy(self) -> bool:
        return self.working

    async def _echo(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        self.contexts.append(context)
        return {"text": arguments["text"]}

    async def _steps(self, context: CallContext, arguments: Arguments) -> str:
        for step in (1, 2, 2, 1, 3):
            context.progress(step, 3, f"step {step}")
        return "done"

    async def _hang(self, context: CallContext, arguments: Arguments) -> str:
        self.contexts.append(context)
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.append("cancelled" if context.cancelled.is_set() else "lost")
        return ""

    async def _wait(self, context: CallContext, arguments: Arguments) -> str:
        self.contexts.append(context)
        await self.release.wait()
        return str(arguments["n"])

    async def _fail(self, context: CallContext, arguments: Arguments) -> str:
        if arguments.get("told"):
            raise pack_api.ToolError("it is too late")
        raise RuntimeError("the reason is for the log")

    async def _lie(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        return {"txt": 1}

    async def _read(self, context: CallContext) -> str:
        return "content"

    async def _greet(self, context: CallContext, arguments: Arguments) -> str:
        return f"Hello {arguments['who']}"


class Stage:
    """A hub with that pack, and clients of it."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        self.made: list[SmallPack] = []
        self.config = Config(packs={"hearth": pack_spec("hearth", enabled=True, **keys)})
        self.hub = Hub(self.config, str(folder / "learned.json"), create_pack=self._create)
        self._tag = 0

    def _create(self, name: str) -> Pack:
        assert name == "hearth"
        self.made.append(SmallPack())
        return self.made[-1]

    @property
    def pack(self) -> SmallPack:
        return self.made[-1]

    def client(self, era: str = "legacy") -> "Caller":
        return Caller(self, era)


class Caller:
    """One client of either era."""

    def __init__(self, stage: Stage, era: str) -> None:
        self._stage = stage
        self._modern = era == "modern"
        self._next = 100
        self.sink = Kept()
        self.session: Session = stage.hub.open_session(self.sink, "lines")
        self.session.agent_id, self.session.role, self.session.cwd = "agent-1", "dev", "/work"
        if not self._modern:
            info = {"name": "tester", "version": "1"}
            self.begin("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
            self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        self._stage._tag += 1
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._stage.hub.receive(self.session, self._stage._tag, wire.parse(line), False, False)

    def begin(self, method: str, meta: dict[str, Any] | None = None, **params: Any) -> int:
        self._next += 1
        whole = {**(ENVELOPE if self._modern else {}), **(meta or {})}
        self.send({"id": self._next, "method": method, "params": {**params, **({"_meta": whole} if whole else {})}})
        return self._next

    def heard(self) -> list[dict[str, Any]]:
        parts = [part for said in self.sink.said for part in said if isinstance(part, bytes)]
        return [json.loads(part) for part in parts]

    async def answer(self, id: int) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((each for each in self.heard() if each.get("id") == id), None)

        await until(lambda: found() is not None, f"answer to {id}")
        answer = found()
        assert answer is not None
        return answer

    async def ask(self, method: str, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        return await self.answer(self.begin(method, meta, **params))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return (await self.ask("tools/call", name=f"hearth__{tool}", arguments=arguments))["result"]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    found = Stage(tmp_path)
    yield found
    await found.hub.stop()


@pytest.fixture
def client(stage: Stage) -> Caller:
    return stage.client()


ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@ERAS
async def test_a_pack_is_listed_and_called_in_both_eras(stage: Stage, era: str) -> None:
    client = stage.client(era)
    listed = (await client.ask("tools/list"))["result"]
    tools = {tool["name"]: tool for tool in listed["tools"]}
    assert tools["hearth__echo"]["annotations"] == {"readOnlyHint": True}
    assert ("resultType" in listed) == (era == "modern")
    found = await client.call("echo", text="é")
    assert found["structuredContent"] == {"text": "é"}
    assert json.loads(found["content"][0]["text"]) == {"text": "é"}
    assert ("resultType" in found) == (era == "modern")
    assert (await client.ask("resources/read", uri="small:one"))["result"]["contents"][0]["text"] == "content"
    got = (await client.ask("prompts/get", name="hearth__greet", arguments={"who": "you"}))["result"]
    assert got["messages"][0]["content"]["text"] == "Hello you"
    assert stage.hub.servers["hearth"].describe()["calls"] >= 1  # type: ignore[operator]


async def test_the_context_is_the_session_and_not_what_the_request_says(client: Caller, stage: Stage) -> None:
    meta = {"io.modelcontextprotocol/clientInfo": {"name": "forged"}, "hearth/agentId": "other", "role": "lead"}
    await client.ask("tools/call", meta, name="hearth__echo", arguments={"text": "x"})
    (context,) = stage.pack.contexts
    assert (context.session_id, context.agent_id, context.role) == (client.session.id, "agent-1", "dev")
    assert (context.cwd, context.client["name"]) == ("/work", "tester")


@ERAS
async def test_progress_that_grows_reaches_the_client_under_its_token(stage: Stage, era: str) -> None:
    client = stage.client(era)
    answer = await client.ask("tools/call", {"progressToken": "mine"}, name="hearth__steps", arguments={})
    assert answer["result"]["content"][0]["text"] == "done"
    told = [each["params"] for each in client.heard() if each.get("method") == "notifications/progress"]
    assert [each["progress"] for each in told] == [1, 2, 3]
    assert {each["progressToken"] for each in told} == {"mine"}
    assert told[0]["message"] == "step 1"


@ERAS
async def test_a_cancelled_call_cancels_its_handler_and_has_no_answer(stage: Stage, era: str) -> None:
    client = stage.client(era)
    id = client.begin("tools/call", name="hearth__hang", arguments={})
    await until(lambda: bool(stage.made and stage.pack.contexts), "the handler runs")
    client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    await until(lambda: stage.pack.given_up == ["cancelled"], "the handler is cancelled")
    assert (await client.call("echo", text="on"))["structuredContent"] == {"text": "on"}
    assert id not in [each.get("id") for each in client.heard()]


async def test_calls_cancelled_before_their_handlers_start_leave_nothing_behind(client: Caller, stage: Stage) -> None:
    await client.call("echo", text="on")
    for _ in range(3):
        id = client.begin("tools/call", name="hearth__hang", arguments={})
        client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    await client.call("echo", text="on")
    (instance,) = stage.hub.servers["hearth"].instances.values()
    connection = instance.connection
    assert isinstance(connection, PackConnection)
    await until(lambda: not connection._tasks and not connection._contexts, "nothing is left of cancelled calls")


async def test_a_call_that_is_cancelled_ends_for_those_who_follow_events(client: Caller, stage: Stage) -> None:
    with EVENTS.subscribe() as following:
        id = client.begin("tools/call", name="hearth__hang", arguments={})
        await until(lambda: bool(stage.made and stage.pack.contexts), "the handler runs")
        client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        await until(lambda: stage.pack.given_up == ["cancelled"], "the handler is cancelled")
        await client.call("echo", text="on")
        seen = [(event.tool, event.is_error) for event in following.take() if isinstance(event, CallFinished)]
    assert seen == [("hang", True), ("echo", False)]


async def test_a_handler_that_hangs_is_ended_by_the_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "INTERVAL_SECONDS", 0.01)
    stage = Stage(tmp_path, call_timeout=0.05)
    answer = await stage.client().ask("tools/call", name="hearth__hang", arguments={})
    assert "call_timeout" in answer["error"]["message"]
    await until(lambda: stage.pack.given_up == ["cancelled"], "the handler is cancelled")
    await stage.hub.stop()


async def test_a_failure_is_a_result_and_an_unforeseen_one_is_logged(
    client: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    told = await client.call("fail", told=True)
    assert (told["isError"], told["content"][0]["text"]) == (True, "it is too late")
    unforeseen = await client.call("fail")
    assert unforeseen["isError"] is True
    assert "RuntimeError" in unforeseen["content"][0]["text"]
    assert "for the log" not in unforeseen["content"][0]["text"]
    assert "the reason is for the log" in caplog.text
    assert (await client.call("lie"))["isError"] is True
    assert "result must have 'text'" in caplog.text
    assert (await client.call("echo", text="on"))["isError"] is False


async def test_arguments_are_checked_before_the_handler_runs(client: Caller, stage: Stage) -> None:
    refused = await client.call("echo", text=1)
    assert refused["isError"] is True
    assert refused["content"][0]["text"] == "tool 'echo': arguments.text must be string"
    assert stage.pack.contexts == []
    gone = await client.ask("prompts/get", name="hearth__greet")
    assert gone["error"]["code"] == -32602


async def test_calls_run_at_the_same_time(client: Caller, stage: Stage) -> None:
    ids = [client.begin("tools/call", name="hearth__wait", arguments={"n": n}) for n in range(20)]
    await until(lambda: bool(stage.made) and len(stage.pack.contexts) == 20, "all of them run")
    stage.pack.release.set()
    assert [(await client.answer(id))["result"]["content"][0]["text"] for id in ids] == [str(n) for n in range(20)]


async def test_a_busy_pack_holds_the_daemon(client: Caller, stage: Stage) -> None:
    await client.call("echo", text="x")
    stage.hub.close_session(client.session)
    assert not stage.hub.busy()
    stage.pack.working = True
    assert stage.hub.busy()


async def test_a_reload_switches_the_pack_off_and_on(client: Caller, stage: Stage) -> None:
    await client.ask("tools/list")
    first = stage.pack
    stage.hub.apply(Config())
    await until(lambda: first.life == ["start", "stop"], "the pack is stopped")
    assert (await client.ask("tools/list"))["result"]["tools"] == []
    assert "notifications/tools/list_changed" in [each.get("method") for each in client.heard()]
    stage.hub.apply(stage.config)
    assert (await client.call("echo", text="back"))["structuredContent"] == {"text": "back"}
    assert stage.pack is not first


async def test_a_stopped_pack_tells_who_waits(client: Caller, stage: Stage) -> None:
    id = client.begin("tools/call", name="hearth__hang", arguments={})
    await until(lambda: bool(stage.made and stage.pack.contexts), "the handler runs")
    await stage.hub.stop()
    assert "error" in await client.answer(id)
    assert stage.pack.life == ["start", "stop"]


async def test_a_start_that_fails_is_a_failed_server(tmp_path: Path) -> None:
    def create() -> Pack:
        raise RuntimeError("no disk")

    connection = PackConnection("p", Hearer(), create, 1000)
    with pytest.raises(UpstreamError, match="no disk"):
        await connection.open()
    with pytest.raises(UpstreamError, match="does not run"):
        connection.request(b'"ping"', b"{}", Nobody())


def test_a_waiter_or_the_call_behind_it_tells_the_session() -> None:
    class Waiter:
        session = Session(Kept(), "lines")

    class InItsPlace:
        call = Waiter()

    assert isinstance(Call.session, property)
    for waiter in (Waiter(), InItsPlace()):
        assert pack_api.caller_of(waiter, {}) == (Waiter.session, {})
    assert pack_api.caller_of(object(), {}) == (None, {})
