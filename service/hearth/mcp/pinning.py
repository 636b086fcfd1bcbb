"""Pinning of one server's tools: known definitions, unapproved ones, and the differences. No I/O.

A definition is known by its content, regardless of the order of its keys. A tool may have several known definitions: a
server may describe it differently to another kind of client, and an approved definition stays approved.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from hearth.errors import MessageError, Refused
from hearth.mcp import downgrade, versions
from hearth.mcp.catalog import TOOLS, Item, ServerCatalog
from hearth.wire import json as raw
from hearth.wire.values import Members

# Known definitions of one tool; beyond it, those that were approved longest ago are forgotten.
KNOWN_LIMIT = 16
# Kinds of clients to which a server lists its tools; a client's declarations are its own choice.
VARIANTS_LIMIT = 32
# Longest name of a tool or property that clients accept; a longer text is meant for reading.
NAME_LIMIT = 64
CHANGED, NEW, VANISHED = "changed", "new", "vanished"
# Stands in for an object that has a key twice: clients differ in which of the two counts.
_REPEATED = "(an object with a key that is written twice)"


class Withheld(Refused):
    """Error for a tool that is not offered: the config blocks it, or its definition is not approved."""

    def __init__(self, server: str, tool: str, is_blocked: bool = False) -> None:
        super().__init__(
            f"tool {tool!r} of server {server!r} is blocked in the config; `hearth tools unblock` with its name allows"
            " it again"
            if is_blocked
            else f"tool {tool!r} of server {server!r} is withheld: the server is pinned, and nobody has approved how it"
            f" describes this tool now; `hearth tools diff {server}` shows what has changed, and"
            f" `hearth tools approve {server}` accepts it"
        )
        self.data = {"reason": "blocked" if is_blocked else "withheld", "server": server, "tool": tool}


class Change(NamedTuple):
    """Difference between the offered definitions of a tool and the known ones, in canonical form."""

    tool: str
    kind: str
    known: tuple[str, ...]
    offered: tuple[str, ...]


def canonical(definition: Members) -> str:
    """Return the same text for definitions that differ only in the order of keys, and for no others. Plain ASCII."""
    import json

    data = raw.join(definition)
    try:
        tree = json.loads(data, object_pairs_hook=_object)
        return json.dumps(tree, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        # Numbers of thousands of digits, deep nesting: the exact bytes count then.
        return ascii(bytes(data))


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else {_REPEATED: pairs}


def definitions(offering: ServerCatalog) -> dict[str, str]:
    """Return the canonical definition of each tool in a catalog."""
    return {name: canonical_of(item) for name, item in offering.lists[TOOLS].items()}


def canonical_of(item: Item) -> str:
    """Return the canonical definition of a tool, computed once."""
    if item.canonical is None:
        item.canonical = canonical(item.definition)
    return item.canonical


def is_same_tool(one: str, other: str) -> bool:
    """Tell whether two canonical definitions differ only by the era of MCP that they are written for.

    One of them must be exactly what a legacy client is told of the other, and texts that only the other has must be
    names: an agent would read anything else.
    """
    return any(_is_lowered(lower, upper) for lower, upper in ((one, other), (other, one)))


def _is_lowered(lower: str, upper: str) -> bool:
    try:
        lowered: Members = {**downgrade.tool(raw.split(upper.encode()), versions.LEGACY, versions.NEWEST_LEGACY)}
        lowered.pop("execution", None)
        return canonical(lowered) == lower and all(map(_is_name, _texts(upper) - _texts(lower)))
    except (MessageError, RecursionError):
        # A definition that is kept by its bytes, or nested to the limit of the parser.
        return False


def _texts(definition: str) -> set[str]:
    """Collect the keys and texts of a canonical definition."""
    import json

    found: set[str] = set()
    left = [json.loads(definition)]
    while left:
        part = left.pop()
        if isinstance(part, str):
            found.add(part)
        elif isinstance(part, dict):
            left += [*part, *part.values()]
        elif isinstance(part, list):
            left += part
    return found


def _is_name(text: str) -> bool:
    """Tell whether a text may be the name of a property or type: short and without spaces."""
    return len(text) <= NAME_LIMIT and not any(map(str.isspace, text))


class Pinned(msgspec.Struct):
    """Pins of one server, as they are in its file: its known and unapproved definitions."""

    # The definition that was approved last is at the end.
    known: dict[str, list[str]] = {}
    # By kind of client: offered definitions that are not known, and the names of all offered tools.
    unapproved: dict[str, dict[str, str]] = {}
    listed: dict[str, list[str]] = {}

    def knows(self, tool: str, text: str) -> bool:
        """Tell whether that definition was seen at first, or approved, in this era of MCP or in the other."""
        known = self.known.get(tool, ())
        return text in known or any(is_same_tool(text, other) for other in known)

    def see(self, variant: str, offered: Mapping[str, str], trusts: bool) -> bool:
        """Take the tools offered to one kind of client; return True for news. `trusts`: all are known from now on."""
        before = (self.unapproved.get(variant), self.listed.get(variant))
        # Entries of older versions: by era, even if one process serves both.
        for former in [each for each in self.listed if each.endswith(f" {variant}")]:
            del self.listed[former]
            self.unapproved.pop(former, None)
        if trusts:
            for tool, text in offered.items():
                self.learn(tool, text)
        self.unapproved[variant] = {tool: text for tool, text in offered.items() if not self.knows(tool, text)}
        self.listed[variant] = sorted(offered)
        for oldest in list(self.listed)[:-VARIANTS_LIMIT]:
            del self.listed[oldest]
            self.unapproved.pop(oldest, None)
        return before != (self.unapproved[variant], self.listed[variant])

    def learn(self, tool: str, text: str) -> None:
        """Add a definition to the known ones."""
        texts = self.known.setdefault(tool, [])
        if text in texts:
            texts.remove(text)
        texts.append(text)
        del texts[:-KNOWN_LIMIT]

    def changes(self) -> list[Change]:
        """Return the differences from the known definitions, by the names of tools."""
        offered: dict[str, dict[str, None]] = {}
        for tools in self.unapproved.values():
            for tool, text in tools.items():
                offered.setdefault(tool, {})[text] = None
        listed = {name for names in self.listed.values() for name in names}
        found = [
            Change(tool, CHANGED if self.known.get(tool) else NEW, tuple(self.known.get(tool, ())), tuple(texts))
            for tool, texts in offered.items()
        ]
        gone = [Change(tool, VANISHED, tuple(texts), ()) for tool, texts in self.known.items() if tool not in listed]
        return sorted(found + gone)

    def approve(self, changes: Iterable[Change]) -> None:
        """Accept these changes, and nothing that was offered since."""
        for change in changes:
            if change.kind == VANISHED:
                self.known.pop(change.tool, None)
            for text in change.offered:
                self.learn(change.tool, text)
        for tools in self.unapproved.values():
            for tool, text in list(tools.items()):
                if self.knows(tool, text):
                    del tools[tool]
