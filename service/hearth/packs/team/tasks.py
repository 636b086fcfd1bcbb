"""Tasks of a team: `task_create`, `task_list`, `task_get`, `task_update`.

A list of tasks belongs to the folder that the team was created from, or to the tree of agents. Every agent of the list
may change a task without an owner. One with an owner is changed by the owner, by the agent that created the task, and
by the agents above the owner.
The stop check `task_done` holds when all tasks of an agent are completed or cancelled.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from hearth.packs.agents.model import Task
from hearth.packs.team import schemas
from hearth.packs.team.roster import Roster
from hearth.packs.team.schemas import TEXT, TEXT_OR_NULL, escaped_title, untrusted
from hearth.upstreams.pack_api import Arguments, CallContext, PackTool, ToolError

if TYPE_CHECKING:
    from hearth.packs import PackServices

SUBJECT_CHARACTERS = 200
DESCRIPTION_CHARACTERS = 20_000
MYSELF = "me"

_STATUSES = ["pending", "in_progress", "completed", "cancelled"]
_STATUS = {**TEXT, "enum": _STATUSES}
_ID = {**TEXT, "minLength": 1, "description": "Id of the task, as task_list has it."}
_OWNER = {
    **TEXT_OR_NULL,
    "description": 'Agent that works on it: an id, "me", "parent", a role or title of one agent; null for nobody.',
}
_ACTIVE_FORM = schemas.text("Words for the work while it goes on, such as “Writing tests”.", SUBJECT_CHARACTERS)
_LISTED = schemas.result(
    id=TEXT,
    subject=TEXT,
    status=TEXT,
    owner=TEXT_OR_NULL,
    ownerTitle=TEXT_OR_NULL,
    activeForm=TEXT_OR_NULL,
    createdBy=TEXT,
    createdAt=TEXT,
    updatedAt=TEXT,
)
_ONE = schemas.result(task=schemas.result(**_LISTED["properties"], description=TEXT))


class Tasks:
    """Tools for tasks."""

    def __init__(self, services: "PackServices") -> None:
        self._services = services
        # Two agents must not both find a task without an owner.
        self._alone = asyncio.Lock()

    def tools(self) -> tuple[PackTool, ...]:
        """Return the tools."""
        return (
            PackTool(
                "task_create",
                "Create a task for your team, or for one agent of it.",
                schemas.arguments(
                    "subject",
                    subject=schemas.text("The task in one line.", SUBJECT_CHARACTERS, 1),
                    description=schemas.text("Everything that its owner must know.", DESCRIPTION_CHARACTERS),
                    owner=_OWNER,
                    active_form=_ACTIVE_FORM,
                ),
                self._create,
                {"title": "Create a task", **schemas.WRITES},
                _ONE,
            ),
            PackTool(
                "task_list",
                "List the tasks of your team, without descriptions. Their texts were written by other agents.",
                schemas.arguments(status_filter={**_STATUS, "description": "Only tasks with this status."}),
                self._list,
                {"title": "List tasks", **schemas.READS},
                schemas.result(tasks={"type": "array", "items": _LISTED}),
            ),
            PackTool(
                "task_get",
                "Get one task of your team, with its description.",
                schemas.arguments("task_id", task_id=_ID),
                self._get,
                {"title": "Get a task", **schemas.READS},
                _ONE,
            ),
            PackTool(
                "task_update",
                "Change a task: take it, hand it over, or set its status. Complete your tasks before you end.",
                schemas.arguments("task_id", task_id=_ID, status=_STATUS, owner=_OWNER, active_form=_ACTIVE_FORM),
                self._update,
                {"title": "Change a task", **schemas.WRITES, "idempotentHint": True},
                _ONE,
            ),
        )

    async def _create(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        roster = Roster.of(self._services, context)
        subject = " ".join(arguments["subject"].split())
        if not subject:
            raise ToolError("the task needs a subject")
        task = Task(
            subject=subject,
            description=arguments.get("description", ""),
            owner=_owner(roster, arguments.get("owner")),
            active_form=arguments.get("active_form", ""),
            workspace=roster.workspace,
            created_by=roster.caller.id,
        )
        await self._services.agents().store.put_task(task)
        return {"task": _described(task, roster)}

    async def _list(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        roster = Roster.of(self._services, context)
        found = await self._services.agents().store.tasks(roster.workspace, arguments.get("status_filter"))
        found = sorted(found, key=lambda each: (_STATUSES.index(each.status), each.created))
        # The descriptions of all of them would fill a model's context.
        return {"tasks": [_listed(each, roster) for each in found]}

    async def _get(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        roster = Roster.of(self._services, context)
        return {"task": _described(await self._find(roster, arguments["task_id"]), roster)}

    async def _update(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        roster = Roster.of(self._services, context)
        async with self._alone:
            task = await self._find(roster, arguments["task_id"])
            _check_authority(roster, task)
            status = arguments.get("status", task.status)
            owner = _owner(roster, arguments["owner"]) if "owner" in arguments else task.owner
            if owner is None and "owner" not in arguments and status in ("in_progress", "completed"):
                owner = roster.caller.id
            task = msgspec.structs.replace(
                task,
                status=status,
                owner=owner,
                active_form=arguments.get("active_form", task.active_form),
                updated=time.time(),
            )
            await self._services.agents().store.put_task(task)
        return {"task": _described(task, roster)}

    async def _find(self, roster: Roster, id: str) -> Task:
        task = await self._services.agents().store.task(id)
        # A task of another team does not exist for this one.
        if task is None or task.workspace != roster.workspace:
            raise ToolError(f"there is no task {id!r} in your team; task_list shows those that there are")
        return task


def _owner(roster: Roster, name: str | None) -> str | None:
    if name is None or name in (MYSELF, roster.caller.id):
        return roster.caller.id if name else None
    return roster.find(name).id


def _check_authority(roster: Roster, task: Task) -> None:
    """Raise ToolError unless the caller may change a task."""
    caller = roster.caller
    if task.owner is None or caller.id in (task.owner, task.created_by):
        return
    owner = roster.get(task.owner)
    if owner is not None and (owner.status == "closed" or caller in roster.above(owner)):
        return
    raise ToolError(
        f"NOT_ALLOWED: task {task.id} is agent {task.owner}'s; its owner, its creator and the agents above the owner"
        " change it. Send a message instead."
    )


def _described(task: Task, roster: Roster) -> dict[str, Any]:
    return {**_listed(task, roster), "description": untrusted(task.description)}


def _listed(task: Task, roster: Roster) -> dict[str, Any]:
    owner = roster.get(task.owner) if task.owner else None
    return {
        "id": task.id,
        "subject": _line(task.subject),
        "status": task.status,
        "owner": task.owner,
        "ownerTitle": escaped_title(owner.title) if owner else None,
        "activeForm": _line(task.active_form) or None,
        "createdBy": task.created_by,
        "createdAt": schemas.timestamp(task.created),
        "updatedAt": schemas.timestamp(task.updated),
    }


def _line(text: str) -> str:
    return " ".join(untrusted(text).split())
