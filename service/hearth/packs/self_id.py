"""Pack `self-id`: tools by which an agent tells Hearth who it is. For agents that Hearth runs; their tokens prove it.

Errors begin with a code: NOT_ALLOWED, INVALID_BRANCH or NOT_GIT_REPO.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from hearth.packs.agents.identity.authority import caller_of
from hearth.packs.agents.model import TITLE_CHARACTERS, AgentRecord
from hearth.packs.agents.turn import on_one_line
from hearth.upstreams import threads
from hearth.upstreams.pack_api import Arguments, CallContext, Pack, PackTool, ToolError

if TYPE_CHECKING:
    from hearth.packs import PackServices

_HINTS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_TEXT = {"type": "string"}
_DONE = {"type": "boolean"}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class SelfIdPack(Pack):
    """Pack with which agents name themselves and their branches."""

    instructions = (
        "You are running under Hearth, a daemon that runs coding agents. Call set_title immediately after understanding"
        " the task, exactly once per task. In a worktree that Hearth made, call set_branch once, alongside set_title."
    )

    def __init__(self, services: "PackServices") -> None:
        self._services = services
        # Bounds of length are not in the schemas: a breach has its code, which a schema cannot give.
        title = {**_TEXT, "description": f"Title of your task, 1 to {TITLE_CHARACTERS} characters."}
        branch = {
            **_TEXT,
            "description": "Name for the branch: lower-case letters, digits, hyphens and slashes, 1 to 100 characters.",
        }
        super().__init__(
            (
                PackTool(
                    "set_title",
                    "Set your own title, which people and other agents see. Call it once per task, as soon as you"
                    " understand the task.",
                    _object(title=title),
                    self._set_title,
                    {"title": "Set own title", **_HINTS},
                    _object(success=_DONE, title=_TEXT),
                ),
                PackTool(
                    "set_branch",
                    "Name the branch of your own git worktree, once. Only in a worktree that Hearth made for you; use"
                    " git for later renames.",
                    _object(name=branch),
                    self._set_branch,
                    {"title": "Name own branch", **_HINTS},
                    _object(success=_DONE, branch=_TEXT),
                ),
            )
        )

    async def _set_title(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        record = caller_of(self._services, context)
        title = on_one_line(arguments["title"])
        if not 1 <= len(title) <= TITLE_CHARACTERS:
            raise ToolError(f"NOT_ALLOWED: a title has 1 to {TITLE_CHARACTERS} characters, not {len(title)}")
        record.title, record.has_own_title = title, True
        self._services.agents().record_changed(record)
        return {"success": True, "title": title}

    async def _set_branch(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        record = caller_of(self._services, context)
        # A call that is cancelled meanwhile must not leave the record with the former name.
        renamed = asyncio.ensure_future(self._rename(record, arguments["name"]))
        return {"success": True, "branch": await asyncio.shield(renamed)}

    async def _rename(self, record: AgentRecord, name: str) -> str:
        from hearth.packs.agents import worktrees

        branch = await threads.run(worktrees.rename_branch, record.worktree, record.cwd, name)
        if record.worktree is not None:
            record.worktree = msgspec.structs.replace(record.worktree, branch=branch)
            self._services.agents().record_changed(record)
        return branch


def create(services: "PackServices") -> SelfIdPack:
    """Make the pack."""
    return SelfIdPack(services)
