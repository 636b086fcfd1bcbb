"""Packs: MCP servers that live in the daemon, as a `Connection` that needs no process.

A pack has tools, perhaps resources and prompts, and a life: `start`, `stop`, `busy`. Packs speak the modern era only;
`mcp.translate` does the rest, as for any modern server. A pack is listed, searched, pinned, measured, limited and
called as any other server, because to the hub it is one.

Identity: a handler's `CallContext` is made from the session that the hub knows, never from the request's `_meta`, which
any client may write. The seam is the waiter of `Connection.request`: a client's `Call` has the `session` that asked,
and a waiter in its place has the `call`. A request of Hearth's own (lists, discovery) has neither, and no identity.
Only `client`, a name for display, falls back to the `clientInfo` of the request where a session has none (HTTP requests
without a session); by its nature that name is a claim.

Handlers run as tasks of the daemon's loop: they must not block it (`asyncio.to_thread` is for that). A cancelled call,
or one whose time is up, cancels the task. An exception becomes a result with `isError`, logged, and ends nothing else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from hearth import __version__
from hearth.errors import HearthError, MessageError, UpstreamError
from hearth.masking import everywhere
from hearth.mcp import messages, versions
from hearth.upstreams import pack_schema
from hearth.upstreams.connection import Connection, Owner, Waiter
from hearth.wire import json, values
from hearth.wire.values import RawBytes
from hearth.write_batch import WRITE_BATCH

log = logging.getLogger(__name__)

# Time limit for cancelled handlers, and then for the pack itself: a pack has nothing to flush that takes longer.
STOP_SECONDS = 5.0


class CallerSession(Protocol):
    """Protocol for the session of a call, as far as a handler is told of it."""

    id: str
    agent_id: str | None
    role: str | None
    cwd: str | None
    client: dict[str, str]
    stateless: bool


class ToolError(HearthError):
    """Failure that a tool reports to its caller in one sentence, as a result with `isError`."""


class CallContext:
    """Context of one call: its caller, and ways to report progress and to notice a cancellation."""

    def __init__(
        self, session: CallerSession | None, client: Mapping[str, str], report: Callable[[json.Fields], None]
    ) -> None:
        self.session_id = session.id if session else None
        self.agent_id = session.agent_id if session else None
        self.role = session.role if session else None
        self.cwd = session.cwd if session else None
        # Name, title and version, as the client itself gives them.
        self.client = dict(client)
        # Set when the caller has withdrawn the call; the task is cancelled then, too.
        self.cancelled = asyncio.Event()
        self._report = report
        self._progress = float("-inf")

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, which gives the call more time. Progress must increase (specification), or is dropped."""
        if progress <= self._progress or self.cancelled.is_set():
            return
        self._progress = progress
        told = {"progress": progress, "total": total, "message": message}
        self._report({key: json.Raw(json.dumps(value)) for key, value in told.items() if value is not None})


Arguments = dict[str, Any]
# A text, or a JSON object, which is what a tool with an output schema returns.
ToolHandler = Callable[[CallContext, Arguments], Awaitable[str | dict[str, Any]]]


class PackTool(NamedTuple):
    """Tool of a pack. `annotations` are MCP's hints; a tool without hints counts as destructive."""

    name: str
    description: str
    input_schema: pack_schema.Schema
    handler: ToolHandler
    annotations: Mapping[str, object] = {}
    output_schema: pack_schema.Schema | None = None

    def definition(self) -> dict[str, object]:
        """Return the entry for `tools/list`."""
        found: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }
        return found if self.output_schema is None else {**found, "outputSchema": self.output_schema}


class PackResource(NamedTuple):
    """Resource of a pack: `read` returns its text."""

    uri: str
    name: str
    read: Callable[[CallContext], Awaitable[str]]
    description: str = ""
    mime_type: str = "text/plain"

    def definition(self) -> dict[str, object]:
        """Return the entry for `resources/list`."""
        described = {"description": self.description} if self.description else {}
        return {"uri": self.uri, "name": self.name, "mimeType": self.mime_type, **described}


class PackPrompt(NamedTuple):
    """Prompt of a pack: `render` returns its text. `arguments` are entries as MCP has them (`name`, `required`)."""

    name: str
    render: Callable[[CallContext, Arguments], Awaitable[str]]
    description: str = ""
    arguments: tuple[Mapping[str, object], ...] = ()

    def definition(self) -> dict[str, object]:
        """Return the entry for `prompts/list`."""
        return {"name": self.name, "description": self.description, "arguments": list(self.arguments)}


class Pack:
    """Base class of packs. One object lives from `start` to `stop`; a restart makes another."""

    instructions: str | None = None

    def __init__(self, tools: tuple[PackTool, ...]) -> None:
        """Raise ValueError for a schema with a keyword that is not checked."""
        for tool in tools:
            for schema in filter(None, (tool.input_schema, tool.output_schema)):
                pack_schema.refuse_unsupported(schema, tool.name)
        self.tools = {tool.name: tool for tool in tools}
        self.resources: dict[str, PackResource] = {}
        self.prompts: dict[str, PackPrompt] = {}

    async def start(self) -> None:
        """Start the pack. An exception is a failed start, tried again as for any server."""

    async def stop(self) -> None:
        """Stop the pack, within STOP_SECONDS."""

    def busy(self) -> bool:
        """Tell whether work goes on that no call waits for: it holds the daemon's idle exit and the pack itself."""
        return False


CreatePack = Callable[[], Pack]


class PackConnection(Connection):
    """Connection to a pack in this process. `limit`: bytes of one answer."""

    def __init__(self, name: str, owner: Owner, create: CreatePack, limit: int) -> None:
        super().__init__(name, owner)
        self._create = create
        self._limit = limit
        self._pack: Pack | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._contexts: dict[int, CallContext] = {}
        self._methods: dict[str, Callable[[Pack, CallContext, json.Fields], Awaitable[dict[str, object]]]] = {
            "tools/call": self._call_tool,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
        }

    @property
    def busy(self) -> bool:  # type: ignore[override]  # a constant for servers outside of this process
        """True if the pack works although no call waits for it."""
        return self._pack is not None and self._pack.busy()

    async def open(self) -> None:
        """Make the pack and start it. Raises UpstreamError."""
        try:
            pack = self._create()
            await pack.start()
        except ImportError:
            raise
        except Exception as exc:
            log.exception("unhandled exception while starting a pack", extra={"upstream": self.name})
            raise UpstreamError(f"pack {self.name!r} failed at its start: {everywhere(str(exc))}") from exc
        self._pack = pack

    async def stop(self) -> None:
        """Cancel every handler and stop the pack, both bounded; fail the waiters."""
        pack, self._pack = self._pack, None
        if pack is None:
            return
        for number in list(self._tasks):
            self._withdraw(number)
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=STOP_SECONDS)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await pack.stop()
        except Exception:
            log.exception("unhandled exception while stopping a pack", extra={"upstream": self.name})
        self._end(UpstreamError(f"pack {self.name!r} was stopped before it answered"), "it was stopped")

    def request(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Start a handler. The waiter shows whose request it is. Raises UpstreamError."""
        pack = self._pack
        if pack is None:
            raise UpstreamError(f"pack {self.name!r} does not run")
        number = self._next_id
        self._next_id = number + 1
        self._waiting[number] = waiter
        fields = values.members(params)
        context = self._contexts[number] = CallContext(*caller_of(waiter, fields), partial(self._report, number))
        work = self._serve(number, pack, values.text(method) or "", fields, context)
        task = self._tasks[number] = asyncio.get_running_loop().create_task(work)
        # A callback, because a task that is cancelled before its first step runs nothing of `_serve`.
        task.add_done_callback(lambda _: (self._tasks.pop(number, None), self._contexts.pop(number, None)))
        return number

    def _report(self, number: int, params: json.Fields) -> None:
        waiter = self._waiting.get(number)
        if waiter:
            waiter.progressed({"progressToken": json.Raw(b"%d" % number), **params})

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Ignore a notification: tasks carry cancellations to a pack, and nothing else concerns it."""

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        """Ignore an answer: a pack sends no requests."""

    async def why_lost(self) -> UpstreamError:
        """Return why nothing can be sent."""
        return UpstreamError(f"pack {self.name!r} was stopped")

    def _withdraw(self, number: int, reason: RawBytes | None = None) -> None:
        context, task = self._contexts.get(number), self._tasks.get(number)
        if context and task:
            context.cancelled.set()
            task.cancel()

    # --- one request

    async def _serve(self, number: int, pack: Pack, method: str, params: json.Fields, context: CallContext) -> None:
        """Answer one request: exactly once, unless it was cancelled."""
        id = b"%d" % number
        try:
            answer = messages.result(id, await self._result(pack, method, params, context))
        except asyncio.CancelledError:
            # Cancelled by `cancel`, and no waiter is left; or by the pack itself, and a waiter needs an answer.
            answer = messages.error(id, versions.INTERNAL_ERROR, f"pack {self.name!r} gave the request up")
        except HearthError as problem:
            answer = messages.failure(id, problem)
        except Exception:
            log.exception("unhandled exception in a pack method=%s", method, extra={"upstream": self.name})
            answer = messages.error(id, versions.INTERNAL_ERROR, f"pack {self.name!r} failed; `hearth logs` has it")
        if number not in self._waiting:
            return
        self.heard = True
        WRITE_BATCH.begin()
        try:
            self._take_all([json.parse(answer)])
        finally:
            WRITE_BATCH.end()

    async def _result(self, pack: Pack, method: str, params: json.Fields, context: CallContext) -> bytes:
        if handle := self._methods.get(method):
            answer = await handle(pack, context, params)
        elif describe := _DESCRIPTIONS.get(method):
            answer = describe(self.name, pack)
        else:
            raise MessageError(f"pack {self.name!r} has no method {method!r}", versions.METHOD_NOT_FOUND)
        found = json.dumps({"resultType": "complete", **answer})
        if len(found) > self._limit:
            raise UpstreamError(f"pack {self.name!r} gave {len(found)} bytes, over {self._limit} (message_limit)")
        return found

    async def _call_tool(self, pack: Pack, context: CallContext, params: json.Fields) -> dict[str, object]:
        name = values.text(params.get("name")) or ""
        tool = pack.tools.get(name)
        if tool is None:
            raise MessageError(f"pack {self.name!r} has no tool {name!r}", versions.INVALID_PARAMS)
        arguments = _decoded(params.get("arguments"))
        # As a result, which the model reads, rather than a protocol error: it can call again with better arguments.
        if problem := pack_schema.problem(tool.input_schema, arguments):
            return _tool_failure(f"tool {name!r}: {problem}")
        try:
            return _tool_result(tool, await tool.handler(context, arguments))
        except HearthError as problem:
            return _tool_failure(everywhere(str(problem)))
        except Exception as exc:
            log.exception("unhandled exception in a tool of a pack tool=%s", name, extra={"upstream": self.name})
            return _tool_failure(f"tool {name!r} failed ({type(exc).__name__}); `hearth logs` has the reason")

    async def _read_resource(self, pack: Pack, context: CallContext, params: json.Fields) -> dict[str, object]:
        uri = values.text(params.get("uri")) or ""
        resource = pack.resources.get(uri)
        if resource is None:
            problem = MessageError(f"pack {self.name!r} has no resource {uri!r}", versions.INVALID_PARAMS)
            problem.data = {"uri": uri}  # As the specification has it.
            raise problem
        content = {"uri": uri, "mimeType": resource.mime_type, "text": await resource.read(context)}
        return {"contents": [content], "ttlMs": 0, "cacheScope": "private"}

    async def _get_prompt(self, pack: Pack, context: CallContext, params: json.Fields) -> dict[str, object]:
        name = values.text(params.get("name")) or ""
        prompt = pack.prompts.get(name)
        if prompt is None:
            raise MessageError(f"pack {self.name!r} has no prompt {name!r}", versions.INVALID_PARAMS)
        arguments = _decoded(params.get("arguments"))
        for wanted in prompt.arguments:
            if wanted.get("required") and wanted["name"] not in arguments:
                raise MessageError(f"prompt {name!r} needs {wanted['name']!r}", versions.INVALID_PARAMS)
        text = await prompt.render(context, arguments)
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": prompt.description, "messages": [message]}


def caller_of(waiter: object, params: json.Fields) -> tuple[CallerSession | None, Mapping[str, str]]:
    """Return the session that a waiter's call belongs to, and the name of its client."""
    call = getattr(waiter, "call", waiter)
    session: CallerSession | None = getattr(call, "session", None)
    if session is None:
        return None, {}
    # Several clients may share a stateless session: there, the request itself names its client.
    if session.client and not session.stateless:
        return session, session.client
    meta = values.members(params.get("_meta"))
    claimed = values.members(meta.get(versions.CLIENT_INFO_KEY))
    texts = {key: values.text(claimed.get(key)) for key in ("name", "title", "version")}
    return session, {key: text for key, text in texts.items() if text is not None}


def _discovery(name: str, pack: Pack) -> dict[str, object]:
    lists = {"tools": pack.tools, "resources": pack.resources, "prompts": pack.prompts}
    return {
        "supportedVersions": list(versions.MODERN_VERSIONS),
        "capabilities": {kind: {} for kind, items in lists.items() if items or kind == "tools"},
        **({"instructions": pack.instructions} if pack.instructions else {}),
        "_meta": {versions.SERVER_INFO_KEY: {"name": name, "version": __version__}},
    }


def _listed(member: str, items: Mapping[str, Any]) -> dict[str, object]:
    return {member: [item.definition() for item in items.values()], "ttlMs": 0, "cacheScope": "private"}


# Results of the methods that run no handler, from the name of the pack and the pack.
_DESCRIPTIONS: dict[str, Callable[[str, Pack], dict[str, object]]] = {
    "server/discover": _discovery,
    "ping": lambda name, pack: {},
    "tools/list": lambda name, pack: _listed("tools", pack.tools),
    "resources/list": lambda name, pack: _listed("resources", pack.resources),
    "resources/templates/list": lambda name, pack: _listed("resourceTemplates", {}),
    "prompts/list": lambda name, pack: _listed("prompts", pack.prompts),
}


def _decoded(raw: RawBytes | None) -> Arguments:
    found = {} if raw is None else json.loads(raw)
    if not isinstance(found, dict):
        raise MessageError("arguments must be an object", versions.INVALID_PARAMS)
    return found


def _tool_result(tool: PackTool, found: str | dict[str, Any]) -> dict[str, object]:
    """Build a result from a handler's return value. Raises ValueError if that does not fit the tool's schema."""
    if isinstance(found, str):
        if tool.output_schema is not None:
            raise ValueError("a tool with an output schema returned a text")
        return {"content": [{"type": "text", "text": found}], "isError": False}
    if tool.output_schema is not None and (problem := pack_schema.problem(tool.output_schema, found, "result")):
        raise ValueError(problem)
    # For clients without support for structured content, as the specification asks.
    text = json.dumps(found).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": found, "isError": False}


def _tool_failure(sentence: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": sentence}], "isError": True}
