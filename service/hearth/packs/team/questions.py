"""Questions of agents to the person: `ask_human`. A question waits in the hub's table of pending items.

A person answers with `hearth approve ID --reason ANSWER`, and declines with `hearth deny ID`. The call of the agent
waits for less than clients do, and returns early with `attention` when something of another agent waits for the asker.
The question stays, and the same call again waits on. An answer without a waiting call is kept for that call. Memory
only: after a restart of the daemon the agent asks again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hearth.errors import Refused
from hearth.hub.authorization.pending import Approver, Asker, PendingCall, Settlement
from hearth.hub.sessions import agent_principal
from hearth.masking import escaped
from hearth.packs.agents.identity.authority import caller_of
from hearth.packs.agents.model import AgentRecord
from hearth.packs.team import schemas
from hearth.packs.team.schemas import TEXT, TEXT_OR_NULL
from hearth.upstreams.pack_api import Arguments, CallContext, PackTool, ToolError
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.hub.authorization.pending import Pending
    from hearth.packs import PackServices

# Below the minute after which clients give up on a call.
WAIT_SECONDS = 45.0
# A person may be at lunch; a question that is older holds the daemon no more.
QUESTION_SECONDS = 3600.0
QUESTION_CHARACTERS = 4000
OPTION_CHARACTERS = 200
OPTIONS_LIMIT = 10
ANSWER_CHARACTERS = 20_000
# Answers that agents have not fetched; an agent that was killed never does.
KEPT_ANSWERS = 100

Key = tuple[str, str, tuple[str, ...]]


class HumanQuestion(PendingCall):
    """Question of an agent that waits for a person. `keep` takes one that was settled while no call waited."""

    kind = "question"

    def __init__(self, key: Key, asker: Asker, pending: "Pending", keep: "Callable[[HumanQuestion], None]") -> None:
        _, question, options = key
        shown = {"question": question, **({"options": list(options)} if options else {})}
        super().__init__(asker, "team", "ask_human", json.dumps(shown), "", time.time() + QUESTION_SECONDS)
        self.key = key
        self.options = options
        self._pending = pending
        self._keep = keep
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Put the question to the person. Raises NoRoom."""
        self._pending.add(self)
        expired = Settlement("expired", "nobody has answered in time", "", "timeout")
        self._timer = asyncio.get_running_loop().call_later(QUESTION_SECONDS, self._end, expired)

    def describe(self) -> dict[str, object]:
        """Return the question for `hearth approvals --json`."""
        _, question, options = self.key
        return {**super().describe(), "question": escaped(question), "options": [escaped(each) for each in options]}

    async def decide(self, action: str, by: Approver, reason: str = "", scope: str = "once") -> str:
        """Answer the question: `approve` with the answer as the reason, or `deny`. Raises Refused."""
        if not by.is_person or (by.session is not None and by.session.principal == self.principal):
            raise Refused("a question to the person is for a person to answer")
        if action == "escalate":
            raise Refused(f"question {self.id} is the person's already")
        if action == "approve":
            self.answer(reason, by)
            return f"question {self.id} is answered"
        self._end(Settlement("denied", reason or "the person does not answer this question", by.name, by.channel))
        return f"question {self.id} is declined"

    def answer(self, text: str, by: Approver) -> None:
        """Answer the question with a text, one of the options or the number of one. Raises Refused."""
        text = text.strip()[:ANSWER_CHARACTERS]
        if self.options:
            by_number = {str(number): each for number, each in enumerate(self.options, 1)}
            text = text if text in self.options else by_number.get(text, "")
        if not text:
            choices = ": " + ", ".join(map(escaped, self.options)) if self.options else ""
            raise Refused(f"question {self.id} needs an answer, `--reason TEXT`{choices}")
        self._end(Settlement("answered", text, by.name, by.channel))

    def settle(self, outcome: Settlement) -> None:
        """Record the outcome, and wake the call that waits for it."""
        if self._timer:
            self._timer.cancel()
        is_for_later = not self.is_awaited and outcome.verdict != "withdrawn"
        super().settle(outcome)
        if is_for_later:
            self._keep(self)

    def _end(self, outcome: Settlement) -> None:
        self._pending.settle(self, outcome)


class HumanQuestions:
    """Tool for questions."""

    def __init__(self, services: "PackServices") -> None:
        self._services = services
        self._settled: dict[Key, HumanQuestion] = {}

    def tools(self) -> tuple[PackTool, ...]:
        """Return the tools."""
        options = {
            "type": "array",
            "items": schemas.text("One answer.", OPTION_CHARACTERS, 1),
            "maxItems": OPTIONS_LIMIT,
            "description": "Answers to choose from, if the answer must be one of them.",
        }
        return (
            PackTool(
                "ask_human",
                "Ask the person at this computer, and wait for the answer. Only for what neither the task nor another"
                " agent can tell you. If the status is pending, call it again unchanged to wait on.",
                schemas.arguments(
                    "question",
                    question=schemas.text("The question, with everything to answer it.", QUESTION_CHARACTERS, 1),
                    options=options,
                ),
                self._ask,
                {"title": "Ask the person", **schemas.READS},
                schemas.with_attention(
                    schemas.result(
                        status={**TEXT, "enum": ["answered", "pending", "denied", "expired", "withdrawn"]},
                        questionId=TEXT,
                        answer=TEXT_OR_NULL,
                        message=TEXT_OR_NULL,
                    )
                ),
            ),
        )

    def stop(self) -> None:
        """Withdraw every question."""
        for item in self._open():
            self._pending.settle(item, Settlement("withdrawn", "the pack was stopped; ask again"))

    async def _ask(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        record = caller_of(self._services, context)
        question, options = arguments["question"].strip(), tuple(arguments.get("options", ()))
        if not question:
            raise ToolError("the question is empty")
        key = (record.id, question, options)
        if (kept := self._settled.pop(key, None)) is not None and kept.outcome is not None:
            return _answered(kept.id, kept.outcome)
        item = next((each for each in self._open() if each.key == key), None) or self._add(key, record)
        notices = self._services.agents().delivery.notices
        outcome, attention = await notices.wait_for(record.id, item.wait(WAIT_SECONDS))
        if outcome is not None:
            return _answered(item.id, outcome)
        return {
            "status": "pending",
            "questionId": item.id,
            "answer": None,
            "message": "Nobody has answered yet. Call ask_human again unchanged to wait on, or go on without.",
            **({"attention": attention} if attention else {}),
        }

    @property
    def _pending(self) -> "Pending":
        return self._services.hub.pending

    def _open(self) -> list[HumanQuestion]:
        return [each for each in self._pending if isinstance(each, HumanQuestion)]

    def _add(self, key: Key, record: AgentRecord) -> HumanQuestion:
        asker = Asker(
            agent_principal(record.id), record.role or "", "", record.title or record.provider, record.id, record.cwd
        )
        item = HumanQuestion(key, asker, self._pending, self._keep)
        item.open()
        return item

    def _keep(self, item: HumanQuestion) -> None:
        """Keep an answer for the next call of its agent."""
        self._settled[item.key] = item
        while len(self._settled) > KEPT_ANSWERS:
            del self._settled[next(iter(self._settled))]


def _answered(id: str, outcome: Settlement) -> dict[str, Any]:
    is_answer = outcome.verdict == "answered"
    return {
        "status": outcome.verdict,
        "questionId": id,
        "answer": outcome.reason if is_answer else None,
        "message": None if is_answer else outcome.reason,
    }
