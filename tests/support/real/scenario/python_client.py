"""Plays the scenario with the official Python SDK's client, in either of its modes.

What it returns is what an application would see: results as the SDK validated them, in the wire's spelling.
"""

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client import Transport
from mcp.client.client import ConnectMode
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel

Document = dict[str, Any]
MODERN = "2026-07-28"
AGAIN_SECONDS = 0.05
LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"


def plain(model: BaseModel) -> Document:
    """A model as it would be on the wire."""
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


class PythonPlayer:
    """One client, one play."""

    def __init__(self, server: StdioServerParameters | Transport, mode: ConnectMode, scenario: Document) -> None:
        self._scenario = scenario
        self._step: Document = {}
        self._seen: Document = {}
        self._happened = asyncio.Condition()
        # A client can answer what the scenario has answers for, and says so by having the callback.
        answers = scenario["answers"]
        self._client = Client(
            server,
            mode=mode,
            client_info=types.Implementation(name="python-player", version="1"),
            read_timeout_seconds=scenario["patience_seconds"] * 2,
            sampling_callback=self._on_sampling if "sampling/createMessage" in answers else None,
            elicitation_callback=self._on_elicitation if "elicitation/create" in answers else None,
            list_roots_callback=self._on_roots if "roots/list" in answers else None,
            logging_callback=self._on_log,
            message_handler=self._on_message,
            # Freshness is the scenario's own affair.
            cache=None,
        )

    async def play(self) -> Document:
        """All steps, in order; returns what was seen."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            async with self._client as client:
                opening = {
                    "protocolVersion": client.protocol_version,
                    "capabilities": plain(client.server_capabilities),
                    "instructions": client.instructions,
                }
                return {"opening": opening, "steps": {step["name"]: await self._play(step) for step in self._steps()}}

    def _steps(self) -> list[Document]:
        return self._scenario["steps"]

    @property
    def _is_modern(self) -> bool:
        return self._client.protocol_version == MODERN

    async def _play(self, step: Document) -> Document:
        self._step = step
        self._seen = {"progress": [], "logs": [], "notices": [], "questions": []}
        async with AsyncExitStack() as stack:
            await self._prepare(step, stack)
            try:
                result = await getattr(self, f"_do_{step['do']}")(step)
                self._seen["result"] = result if isinstance(result, dict) else plain(result)
            except MCPError as exc:
                self._seen["error"] = plain(exc.error)
            for kind, number in step.get("await", {}).items():
                await self._until(lambda kind=kind, number=number: len(self._seen[kind]) >= number)
        return {key: value for key, value in self._seen.items() if value != []}

    async def _prepare(self, step: Document, stack: AsyncExitStack) -> None:
        """What has to be arranged before the step, and is undone after it."""
        if "level" in step and not self._is_modern:
            await self._client.set_logging_level(step["level"])
        watch = step.get("watch", {})
        if watch and self._is_modern:
            uris = [watch["resource"]] if "resource" in watch else []
            await stack.enter_async_context(
                self._client.listen(tools_list_changed=watch.get("tools", False), resource_subscriptions=uris)
            )
        elif "resource" in watch:
            await self._client.subscribe_resource(watch["resource"])
            stack.push_async_callback(self._client.unsubscribe_resource, watch["resource"])

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for what comes in notifications, which may be handled after the answer that they came before."""
        try:
            async with asyncio.timeout(self._scenario["patience_seconds"]), self._happened:
                await self._happened.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"{self._step['name']}: not in time; seen so far: {self._seen}") from None

    async def _see(self, kind: str, what: Any) -> None:
        async with self._happened:
            self._seen[kind].append(what)
            self._happened.notify_all()

    # --- what steps do

    async def _do_list(self, step: Document) -> BaseModel:
        ways = {
            "tools": self._client.list_tools,
            "resources": self._client.list_resources,
            "templates": self._client.list_resource_templates,
            "prompts": self._client.list_prompts,
        }
        return await ways[step["what"]]()

    async def _do_call(self, step: Document) -> BaseModel:
        """Call, and again where the step waits for a certain result."""
        async with asyncio.timeout(self._scenario["patience_seconds"] * 2):
            while True:
                result = await self._call(step)
                if step.get("until", "") in result.model_dump_json():
                    return result
                await asyncio.sleep(AGAIN_SECONDS)

    async def _call(self, step: Document) -> BaseModel:
        meta = dict(step.get("meta", {}))
        if "level" in step and self._is_modern:
            meta[LOG_LEVEL_KEY] = step["level"]
        call = self._client.call_tool(
            step["tool"],
            step["arguments"],
            progress_callback=self._on_progress if "progress" in step else None,
            meta=meta or None,  # type: ignore[arg-type]
        )
        return await (self._released(step, call) if "release" in step else call)

    async def _released(self, step: Document, call: Coroutine[Any, Any, BaseModel]) -> BaseModel:
        """A second call ends the first, when that one has said enough."""
        async with asyncio.TaskGroup() as group:
            first = group.create_task(call)
            await self._until(lambda: len(self._seen["progress"]) >= step["progress"])
            await self._client.call_tool(step["release"], {})
        return first.result()

    async def _do_cancel(self, step: Document) -> Document:
        call = asyncio.ensure_future(
            self._client.call_tool(step["tool"], step["arguments"], progress_callback=self._on_progress)
        )
        await self._until(lambda: bool(self._seen["progress"]))
        call.cancel()
        await asyncio.wait([call])
        return {"cancelled": call.cancelled()}

    async def _do_read(self, step: Document) -> BaseModel:
        return await self._client.read_resource(step["uri"])

    async def _do_prompt(self, step: Document) -> BaseModel:
        return await self._client.get_prompt(step["prompt"], step["arguments"])

    async def _do_complete(self, step: Document) -> BaseModel:
        kinds: dict[str, type[types.PromptReference | types.ResourceTemplateReference]] = {
            "ref/prompt": types.PromptReference,
            "ref/resource": types.ResourceTemplateReference,
        }
        ref = kinds[step["ref"]["type"]].model_validate(step["ref"])
        return await self._client.complete(ref, step["argument"], step.get("context"))

    # --- what comes from the server

    def _answer(self, method: str) -> Any:
        return {**self._scenario["answers"], **self._step.get("answers", {})}[method]

    async def _on_elicitation(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        await self._see("questions", {"elicitation/create": plain(params)})
        return types.ElicitResult.model_validate(self._answer("elicitation/create")[params.message])

    async def _on_sampling(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        await self._see("questions", {"sampling/createMessage": plain(params)})
        return types.CreateMessageResult.model_validate(self._answer("sampling/createMessage"))

    async def _on_roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        await self._see("questions", {"roots/list": {}})
        return types.ListRootsResult.model_validate(self._answer("roots/list"))

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self._see("progress", [progress, total, message])

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        await self._see("logs", plain(params))

    async def _on_message(self, message: IncomingMessage) -> None:
        # Servers send bursts of them at their start; what counts is what the step waits for.
        watch = self._step.get("watch", {})
        if "resource" in watch and isinstance(message, types.ResourceUpdatedNotification):
            await self._see("notices", {"method": message.method, "uri": str(message.params.uri)})
        elif "tools" in watch and isinstance(message, types.ToolListChangedNotification):
            await self._see("notices", {"method": message.method})
