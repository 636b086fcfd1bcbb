"""Starting of the scripted agent, and an owner of its connection that keeps what it is told."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hearth.packs.agents import acp

ECHO_AGENT = str(Path(__file__).with_name("echo_agent.py"))


def echo_command(*options: str) -> list[str]:
    """The command that starts the agent of `echo_agent.py`."""
    return [sys.executable, "-S", ECHO_AGENT, *options]


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), **more}


class Recorder:
    """The owner of a connection: keeps what it is told, and answers permission requests as it is told to."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[acp.PermissionRequest] = []
        self.answers: list[Callable[[str | None], None]] = []
        self.withdrawn: list[acp.PermissionRequest] = []
        self.endings: list[str] = []
        self.over = asyncio.Event()
        self._told = asyncio.Event()
        # Called with each update, and with each question and its answer.
        self.on_update: Callable[[dict[str, Any]], None] = lambda update: None
        self.on_question: Callable[[acp.PermissionRequest, Callable[[str | None], None]], None] = lambda asked, say: (
            None
        )

    def updated(self, session_id: str, update: dict[str, Any]) -> None:
        self.updates.append(update)
        self._told.set()
        self.on_update(update)

    def permission_asked(self, request: acp.PermissionRequest, answer: Callable[[str | None], None]) -> None:
        self.asked.append(request)
        self.answers.append(answer)
        self._told.set()
        self.on_question(request, answer)

    def permission_withdrawn(self, request: acp.PermissionRequest) -> None:
        self.withdrawn.append(request)

    def ended(self, why: str) -> None:
        self.endings.append(why)
        self.over.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until what came makes the condition true."""
        while not condition():
            self._told.clear()
            await self._told.wait()

    @property
    def said(self) -> str:
        """All text of the agent's messages so far."""
        return "".join(
            update["content"]["text"] for update in self.updates if update["sessionUpdate"] == "agent_message_chunk"
        )

    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.updates]
