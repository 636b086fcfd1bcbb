"""The servers of the matrix over Streamable HTTP: one revision each, a conversation for each session or path."""

import itertools
from typing import Any

from support.conformance.revisions import SUBSCRIPTION_KEY, is_modern
from support.conformance.upstreams.legacy import LegacyServer
from support.conformance.upstreams.modern import ModernServer
from support.sites.web import Reply, Request, Site

Message = dict[str, Any]


class Conversation:
    """One server, and the streams on which it may say something."""

    def __init__(self, server: LegacyServer | ModernServer) -> None:
        self.server = server
        self.open: dict[object, Reply] = {}
        self.listener: Reply | None = None

    async def feed(self, message: Message, faults: list[str]) -> None:
        """Give the server a message, and pass on what it says."""
        for said in self.server.receive(message):
            await self._say(said, message.get("id") if "method" in message else None)
        faults += [f"{complaint} in {message}" for complaint in self.server.complaints]
        self.server.complaints.clear()

    async def _say(self, said: Message, cause: object) -> None:
        if "method" not in said:
            reply = self.open.pop(said["id"], None)
            if reply:
                await reply.event(said)
                await reply.end()
                reply.gone.set()
            return
        listen = said.get("params", {}).get("_meta", {}).get(SUBSCRIPTION_KEY)
        known = self.open.get(cause if listen is None else listen)
        stream = known or next(reversed(self.open.values()), None) or self.listener
        if stream:
            await stream.event(said)


class RevisionSite(Site):
    """A server of one revision that complains about everything that it must never get."""

    def __init__(self, revision: str) -> None:
        super().__init__()
        self.revision = revision
        self._is_modern = is_modern(revision)
        self._conversations: dict[str, Conversation] = {}
        self._numbers = itertools.count(1)

    async def serve(self, request: Request, reply: Reply) -> None:
        message: Message = request.message if request.method == "POST" else {}
        key = request.target if self._is_modern else request.headers.get("mcp-session-id", "")
        if self._is_modern:
            conversation = self._conversations.setdefault(key, Conversation(ModernServer(self.revision)))
        elif message.get("method") == "initialize":
            key = f"session-{next(self._numbers)}"
            conversation = self._conversations[key] = Conversation(LegacyServer(self.revision))
        elif key in self._conversations:
            conversation = self._conversations[key]
        else:
            await reply.send(400)
            return
        if request.method == "GET":
            await self._listen(conversation, reply)
        elif request.method == "DELETE":
            del self._conversations[key]
            await reply.send(200)
        elif "id" in message and "method" in message:
            await self._ask(conversation, message, reply, {} if self._is_modern else {"Mcp_Session_Id": key})
        else:
            await conversation.feed(message, self.faults)
            await reply.send(202)

    async def _listen(self, conversation: Conversation, reply: Reply) -> None:
        await reply.stream()
        conversation.listener = reply
        await reply.gone.wait()

    async def _ask(self, conversation: Conversation, message: Message, reply: Reply, headers: dict[str, str]) -> None:
        await reply.stream(**headers)
        conversation.open[message["id"]] = reply
        await conversation.feed(message, self.faults)
        await reply.gone.wait()
        if conversation.open.pop(message["id"], None) and self._is_modern:
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}
            await conversation.feed(cancelled, self.faults)
