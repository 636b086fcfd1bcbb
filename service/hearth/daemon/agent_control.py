"""Commands about agents, and the control frames that carry them. Loaded with the first such command.

A caller is a person, or the agent or client below which the command was typed: such a caller acts as that one, and
never as a person. Arguments are JSON objects with the names of the pack's tools, in the payload: prompts are longer
than a header may be.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hearth.daemon import control
from hearth.daemon.control import BadArgument, ControlApi, parse
from hearth.errors import HearthError, PersonRequired, Refused
from hearth.hub.sessions import Session
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.identity.authority import AgentCaller
    from hearth.packs.agents.live_feed import Change
    from hearth.packs.agents.permissions.commands import Told
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)

Arguments = Mapping[str, Any]
Result = dict[str, Any]
Handler = Callable[["AgentService", "AgentCaller", Arguments], Awaitable[Result]]

PACK = "agents"
# Entries in one frame; between two frames the reader may fall behind.
ENTRIES_PER_FRAME = 100
# Longest wait of one command; who wants more waits again.
MOST_WAIT_SECONDS = 3600.0


class NotFound(Refused):
    """Error for an agent that does not exist, or for any command where the pack is off."""


class AgentCommands:
    """Commands about the agents of one daemon."""

    def __init__(self, services: "Daemon") -> None:
        self._services = services

    async def snapshots(self, include_closed: bool, asker: Session | None) -> list[Result]:
        """Return the snapshots of the agents that a caller may see. Raises Refused without the pack."""
        service, told = await self._admitted("list", {}, asker)
        found = service.list(self._caller(service, asker), include_closed=include_closed)
        return [await told(service.snapshot(agent)) for agent in found]

    async def run(self, verb: str, arguments: Arguments, asker: Session | None) -> Result:
        """Run a command and return its result. Raises HearthError."""
        if verb not in VERBS:
            raise BadArgument(f"there is no command {verb[:80]!r} about agents; known: {', '.join(VERBS)}")
        known, handler = VERBS[verb]
        for key in arguments:
            if key not in known:
                raise BadArgument(f"unknown member {key[:80]!r} of {verb}; known: {', '.join(known)}")
        service, told = await self._admitted(verb, arguments, asker)
        return await told(await handler(service, self._caller(service, asker), arguments))

    async def log(self, arguments: Arguments, asker: Session | None) -> AsyncGenerator[list[Result], None]:
        """Yield the newest entries of an agent's timeline, then, to `follow`, those that are new or have changed.

        For a follower an entry of kind `state` comes after the first ones, and whenever the state changes. Ends when
        the agent is closed.
        """
        service, shown = await self._admitted("log", arguments, asker)
        agent = _agent(service, self._caller(service, asker), arguments)
        count = arguments.get("count")
        if count is not None and (type(count) is not int or count < 0):
            raise BadArgument("count must be a whole number, or null for all entries")
        follows = arguments.get("follow") is True
        with service.follow(agent) as feed:
            told = _Told(agent)
            # Taken first: what happens while the store is read is in the feed, with the state after it.
            state = told.state()
            kept = await _newest(service, agent, count)
            yield [await shown(each) for each in ([*kept, state] if follows else kept)]
            while follows and not (feed.is_closed or told.is_closed):
                if found := told.entries(await feed.wait()):
                    yield [await shown(each) for each in found]

    async def _admitted(self, verb: str, arguments: Arguments, asker: Session | None) -> "tuple[AgentService, Told]":
        """Return the service, and how results are told to a caller whom the policy allows a command. Raises Refused."""
        service = await self._service()
        # Loaded where the pack is.
        from hearth.packs.agents.permissions import commands

        return service, await commands.admit(service.guard, verb, arguments, asker)

    async def _service(self) -> "AgentService":
        if PACK not in self._services.hub.servers:
            raise NotFound(f"the pack {PACK!r} is off, so there are no agents: `hearth pack enable {PACK}`")
        service = self._services.agents()
        # Does nothing where the pack has started it.
        await service.start()
        return service

    def _caller(self, service: "AgentService", asker: Session | None) -> "AgentCaller":
        return service.caller_of(asker, asker.cwd if asker else None, is_person=asker is None)


class _Told:
    """State of one agent, as a follower has been told it."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._turn = agent.turn
        self.is_closed = False

    def state(self) -> Result:
        """Return the state of the agent as an entry."""
        agent = self._agent
        self._turn = agent.turn or self._turn
        self.is_closed = agent.is_closed
        aborted = self._turn.aborted if self._turn and agent.turn is None else None
        state = {key: value for key, value in agent.state().items() if key != "type"}
        return {
            "kind": "state",
            "agentId": agent.id,
            **state,
            "lastMessage": agent.record.last_message,
            "aborted": aborted,
            "endedTurns": list(agent.ended_turns),
        }

    def entries(self, changes: "list[Change]") -> list[Result]:
        """Return the entries for changes; text that is on its way comes with its item."""
        found: list[Result] = []
        for change in changes:
            match change["type"]:
                case "item":
                    found.append(_entry(change["item"]))
                case "dropped":
                    found.append({"kind": "dropped", "count": change["count"]})
                case "status":
                    found.append(self.state())
        return found


def _entry(item: Mapping[str, Any]) -> Result:
    """Return an item of a timeline as an entry."""
    return {"seq": item["seq"], "kind": item["kind"], "at": item["at"], **item["data"]}


async def _newest(service: "AgentService", agent: "Agent", count: int | None) -> list[Result]:
    """Return the newest items of an agent's timeline as entries."""
    if count == 0:
        return []
    agent.flush()
    items = await service.store.timeline(agent.id, count)
    return [_entry({"seq": item.seq, "kind": item.kind, "at": item.at, "data": item.data}) for item in items]


# --- commands


async def _create(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    from hearth.packs.agents.creation import CreateRequest

    prompt = _optional(arguments, "prompt")
    if prompt is not None:
        service.check_prompt(prompt)
    request = CreateRequest(
        provider=_optional(arguments, "provider"),
        mode=_optional(arguments, "mode"),
        role=_optional(arguments, "role"),
        title=_optional(arguments, "title"),
        cwd=_optional(arguments, "cwd"),
        worktree_name=_optional(arguments, "worktreeName"),
        base_branch=_optional(arguments, "baseBranch"),
        labels=_labels(arguments),
    )
    agent, turn = await service.create(caller, request)
    if prompt is not None:
        # Not by `create`, which returns the agent although its first turn was refused.
        try:
            turn = await service.prompt(caller, agent, prompt)
        except HearthError as exc:
            again = f"`hearth agent send {agent.id} PROMPT` tries again"
            raise Refused(f"agent {agent.id} was created, and its prompt was refused: {exc}; {again}") from exc
    snapshot = service.snapshot(agent)
    shown = {
        key: snapshot[key] for key in ("status", "cwd", "currentModeId", "availableModes", "worktree", "lastError")
    }
    number = None if turn is None else turn.number
    return {"agentId": agent.id, "type": agent.record.provider, "turn": number, **shown}


async def _show(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    agent = _agent(service, caller, arguments)
    return {"status": agent.record.status, "snapshot": service.snapshot(agent)}


async def _send(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    agent = _agent(service, caller, arguments)
    turn = await service.prompt(caller, agent, _text(arguments, "prompt"), mode=_optional(arguments, "sessionMode"))
    return {"success": True, "status": agent.record.status, "turn": turn.number}


async def _wait(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    agent = _agent(service, caller, arguments)
    found = await service.wait(caller, agent, _seconds(arguments))
    return {
        "agentId": agent.id,
        "status": found.status,
        "permission": found.permission,
        "lastMessage": found.last_message,
        "timedOut": found.timed_out,
        **({"attention": found.attention} if found.attention else {}),
    }


async def _cancel(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    agent = _agent(service, caller, arguments)
    return {"success": await service.cancel(caller, agent)}


async def _kill(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    await service.kill(caller, _agent(service, caller, arguments))
    return {"success": True}


async def _mode(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    agent = _agent(service, caller, arguments)
    await service.set_mode(caller, agent, _text(arguments, "modeId"))
    return {"success": True, "newMode": agent.record.mode}


async def _respond(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    agent = _agent(service, caller, arguments)
    response = {"behavior": _text(arguments, "behavior")}
    if message := _optional(arguments, "message"):
        response["message"] = message
    await service.respond(caller, agent, _text(arguments, "requestId"), response)
    return {"success": True}


async def _permissions(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    found = [
        {"agentId": each.agent.id, "status": each.agent.record.status, "request": each.describe()}
        for each in service.permissions(caller)
    ]
    return {"permissions": found}


async def _prune(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> Result:
    with_worktrees, force = _flag(arguments, "worktrees"), _flag(arguments, "force")
    if force and not caller.is_person:
        raise PersonRequired("removing work that is nowhere else is for a person; leave force out")
    closed = [agent for agent in service.list(caller, include_closed=True) if agent.is_closed]
    found: list[Result] = []
    for agent in closed:
        if agent.record.worktree is None or with_worktrees:
            found += await service.prune(caller, force, agent)
    removed = [each["agentId"] for each in found if each["pruned"]]
    kept = [{"id": each["agentId"], "reason": each["reason"]} for each in found if not each["pruned"]]
    if not with_worktrees:
        reason = "it has a worktree; --worktrees removes it where no work would be lost"
        kept += [{"id": agent.id, "reason": reason} for agent in closed if agent.record.worktree is not None]
    return {"removed": removed, "kept": kept}


# Each command with the members of its arguments.
VERBS: dict[str, tuple[tuple[str, ...], Handler]] = {
    "create": (
        ("prompt", "provider", "mode", "role", "title", "cwd", "worktreeName", "baseBranch", "labels"),
        _create,
    ),
    "show": (("agentId",), _show),
    "send": (("agentId", "prompt", "sessionMode"), _send),
    "wait": (("agentId", "seconds"), _wait),
    "cancel": (("agentId",), _cancel),
    "kill": (("agentId",), _kill),
    "mode": (("agentId", "modeId"), _mode),
    "respond": (("agentId", "requestId", "behavior", "message"), _respond),
    "permissions": ((), _permissions),
    "prune": (("worktrees", "force"), _prune),
}


def _agent(service: "AgentService", caller: "AgentCaller", arguments: Arguments) -> "Agent":
    id = _text(arguments, "agentId")
    if id not in service.agents:
        raise NotFound(f"Agent {id[:80]} not found; `hearth agents --all` lists them")
    return service.get(caller, id)


def _text(arguments: Arguments, name: str) -> str:
    found = _optional(arguments, name)
    if not found:
        raise BadArgument(f"{name} is missing")
    return found


def _optional(arguments: Arguments, name: str) -> str | None:
    found = arguments.get(name)
    if found is not None and not isinstance(found, str):
        raise BadArgument(f"{name} must be a text")
    return found


def _labels(arguments: Arguments) -> dict[str, str]:
    found = arguments.get("labels") or {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BadArgument("labels must be an object of texts")
    return found


def _flag(arguments: Arguments, name: str) -> bool:
    found = arguments.get(name, False)
    if not isinstance(found, bool):
        raise BadArgument(f"{name} must be true or false")
    return found


def _seconds(arguments: Arguments) -> float | None:
    found = arguments.get("seconds")
    if found is None:
        return None
    if type(found) not in (int, float) or not 0 <= found <= MOST_WAIT_SECONDS:
        raise BadArgument(f"seconds must be a number from 0 to {MOST_WAIT_SECONDS:g}")
    return float(found)


# --- control frames


async def answer_frame(
    api: ControlApi,
    frame: tuple[dict[str, Any], bytes],
    session: Session | None,
    attributed: Callable[[], control.Attribution],
    send: Callable[[dict[str, Any], bytes], None],
    drained: Callable[[], Awaitable[None]],
) -> None:
    """Answer a control frame about agents, its refusals included; `agentLog` by as many frames as it takes.

    `drained` waits until the reader has taken what was sent.
    """
    header, payload = frame
    answer = {"type": header["type"], "re": control.integer(header, "seq")}
    try:
        asker = session or await attributed()
        if header["type"] == control.AGENT_LOG_FRAME:
            await _send_log(api.cmd_agent_log(parse(payload), asker), answer, send, drained)
            return
        if header["type"] == control.AGENTS_FRAME:
            result: Result = {"agents": await api.cmd_agents(header.get("all") is True, asker)}
        else:
            result = await api.cmd_agent(control.string(header, "verb") or "", parse(payload), asker)
    except HearthError as exc:
        send({**answer, "ok": False, "message": str(exc)[: control.SENTENCE_LIMIT]}, b"")
    except (Exception, asyncio.CancelledError) as exc:
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            # The reader has gone.
            raise
        # The reader waits without a bound: it must get an answer.
        log.exception("unhandled exception in a command about agents frame=%s", header["type"])
        sentence = f"the command failed ({type(exc).__name__}); `hearth logs` has the reason"
        send({**answer, "ok": False, "message": sentence}, b"")
    else:
        send({**answer, "ok": True}, json.dumps(result))


async def _send_log(
    log: AsyncGenerator[list[Result], None],
    answer: dict[str, Any],
    send: Callable[[dict[str, Any], bytes], None],
    drained: Callable[[], Awaitable[None]],
) -> None:
    async with aclosing(log):
        async for entries in log:
            for start in range(0, len(entries) or 1, ENTRIES_PER_FRAME):
                await drained()
                send({**answer, "ok": True, "more": True}, json.dumps(entries[start : start + ENTRIES_PER_FRAME]))
    send({**answer, "ok": True, "more": False}, b"[]")
