"""Tool search of the hub: which clients are offered the search tools, and the answers of two of these.

The other search tools call a tool. Once the tool is known, such a call is like any other: the router forwards it.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from hearth.errors import HearthError
from hearth.hub.calls import Call
from hearth.hub.catalog import Catalog, Offer, View
from hearth.hub.dispatcher import Dispatcher
from hearth.hub.local_handlers import Listing
from hearth.hub.sessions import AUTO, SEARCH, Session
from hearth.mcp import messages, search_tools
from hearth.mcp.catalog import TOOLS, Item
from hearth.mcp.search_tools import CALLERS, DESCRIBE, FIND, ToolEntry, ToolFailure
from hearth.mcp.tool_index import Tool, ToolIndex
from hearth.wire import json
from hearth.wire.values import Members

# An index of this many tools takes a few milliseconds; a larger one is built in a thread.
AT_ONCE = 200
# Views differ: all servers, a single one, by what clients declare. Beyond the limit the oldest index is built again.
INDEXES_LIMIT = 8
# Unknown names for which similar ones are looked up: with thousands of names that takes tens of milliseconds.
NEAREST_ASKED = 3


class InnerCall(NamedTuple):
    """Direct call that a call of `call_tool_read` and its like stands for.

    `missing` is the error if there is no such tool; `check` raises ToolFailure if the tool does not fit.
    """

    name: str
    params: json.Fields
    missing: HearthError
    check: Callable[[Item], None]


class ToolSearch:
    """Handler of `find_tools` and `describe_tools`, which answers from the client's view."""

    def __init__(self, catalogue: Catalog, listing: Listing, forwarding: Dispatcher) -> None:
        self._catalogue = catalogue
        self._listing = listing
        self._spawn = forwarding.spawn
        self._indexes: dict[object, ToolIndex] = {}
        self._making: dict[object, asyncio.Future[ToolIndex]] = {}
        self._answers: dict[str, Callable[[Call, json.Fields], None]] = {FIND: self._find, DESCRIBE: self._describe}

    def takes(self, session: Session, name: str) -> bool:
        """Tell whether the name is a search tool for this client, not a tool of its single server."""
        if name not in search_tools.NAMES:
            return False
        if session.mode == SEARCH:
            return True
        # The list that the client last saw decides; a client that saw none here may have seen one of another daemon.
        return session.mode == AUTO and (session.searches or name not in self._catalogue.view(session).tools)

    def called(self, call: Call, name: str, params: json.Fields) -> InnerCall | None:
        """Find the tool to call; return None for the two search tools that call nothing. Raises ToolFailure."""
        if name not in CALLERS:
            return None
        inner, own = search_tools.inner_call(name, params, call.era)
        missing = NoSuchTool(inner, call.era, lambda: self._catalogue.view(call.session))

        def check(item: Item) -> None:
            search_tools.check_caller(name, inner, item.definition, call.era)

        return InnerCall(inner, own, missing, check)

    def answer(self, call: Call, name: str, params: json.Fields) -> None:
        """Answer one of the two. Raises ToolFailure."""
        arguments = search_tools.given(params, name, call.era)
        self._answers[name](call, arguments)

    def _find(self, call: Call, arguments: json.Fields) -> None:
        query, limit = search_tools.question(arguments, call.era)
        self._listing.when_known(call, lambda: self._find_known(call, query, limit))

    def _find_known(self, call: Call, query: str, limit: int) -> None:
        view = self._catalogue.view(call.session)
        # The same lists need no other index, even if the view was rebuilt for another change.
        key = (call.session.server, view.content[TOOLS])
        index = self._indexes.get(key)
        if index is None and len(view.tools) > AT_ONCE:
            self._spawn(self._find_later(call, key, view, query, limit), call)
            return
        try:
            index = index or self._keep(key, ToolIndex(searched(view)))
        except HearthError as problem:
            call.failed(problem)
        else:
            self._answer_found(call, view, index, query, limit)

    async def _find_later(self, call: Call, key: object, view: View, query: str, limit: int) -> None:
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.ensure_future(asyncio.to_thread(ToolIndex, searched(view)))
        try:
            # Shielded: other calls may wait for the same index.
            index = await asyncio.shield(making)
        except HearthError as problem:
            call.failed(problem)
        else:
            self._answer_found(call, view, self._keep(key, index), query, limit)
        finally:
            if making.done():
                self._making.pop(key, None)

    def _keep(self, key: object, index: ToolIndex) -> ToolIndex:
        self._indexes[key] = index
        if len(self._indexes) > INDEXES_LIMIT:
            del self._indexes[next(iter(self._indexes))]
        return index

    def _answer_found(self, call: Call, view: View, index: ToolIndex, query: str, limit: int) -> None:
        silent = [server.name for server in self._catalogue.unknown(call.session)]
        if query.strip():
            names, fitting = index.find(query, limit)
            found = [ToolEntry(name, view.tools[name].item.definition) for name in names]
            text = search_tools.found_text(query, found, fitting, silent)
        else:
            counts = {server.name: len(offered.lists[TOOLS]) for server, offered in view.offerings}
            text = search_tools.servers_text(counts, silent)
        _say(call, [text])

    def _describe(self, call: Call, arguments: json.Fields) -> None:
        names = search_tools.wanted_names(arguments, call.era)
        self._listing.when_known(call, lambda: self._answer_described(call, names))

    def _answer_described(self, call: Call, names: list[str]) -> None:
        view = self._catalogue.view(call.session)
        offers = [(name, view.tools.get(name)) for name in names]
        unknown = [name for name, offer in offers if offer is None]
        nearest = {name: nearest_in(view, name) for name in unknown[:NEAREST_ASKED]}
        entries = ((name, _described(view, offer, call) if offer else None) for name, offer in offers)
        _say(call, search_tools.described_texts(entries, nearest), is_error=len(unknown) == len(names))


class NoSuchTool(ToolFailure):
    """Error for a call of a name that no server has. Similar names are looked up only when the message is read."""

    def __init__(self, name: str, era: str, view: Callable[[], View]) -> None:
        super().__init__(f"unknown tool: {name}", era)
        self._name = name
        self._view = view

    def __str__(self) -> str:
        return search_tools.unknown_text(self._name, nearest_in(self._view(), self._name))


def nearest_in(view: View, name: str) -> list[str]:
    """Return the names of tools in a view that are similar to an unknown name."""
    return search_tools.nearest_names(name, {exposed: offer.item.name for exposed, offer in view.tools.items()})


def searched(view: View) -> list[Tool]:
    """Return the tools of a view to index, in its order."""
    return [Tool(name, offer.server.name, offer.item.name, offer.item.definition) for name, offer in view.tools.items()]


def _described(view: View, offer: Offer, call: Call) -> Members:
    caller = json.dumps(search_tools.caller_of(offer.item.definition))
    return {**view.definition(offer, call.era, call.version), search_tools.CALL_WITH: caller}


def _say(call: Call, texts: list[str], is_error: bool = False) -> None:
    call.close(messages.result(call.id, search_tools.text_result(texts, call.era, is_error)))
