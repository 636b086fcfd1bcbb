"""Which definitions of one server's tools are known, which that it offers are not, and what has changed. No I/O.

A definition is known by its content, whatever the order of its keys. A tool may have several that are known: a server
may describe it otherwise to another kind of client, and what was approved once stays so.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hearth.errors import MessageError, Refused
from hearth.mcp import downgrade, versions
from hearth.mcp.catalog import TOOLS, Item, ServerCatalog
from hearth.wire import json as raw
from hearth.wire.values import Members

# Definitions of one tool that are known; with more, those that were approved longest ago are forgotten.
KNOWN_LIMIT = 16
# Kinds of clients to which a server lists its tools; what they declare is their own choice.
VARIANTS_LIMIT = 32
# The longest name of a tool or property that clients take; a longer text is one to be read.
NAME_LIMIT = 64
CHANGED, NEW, VANISHED = "changed", "new", "vanished"
# In the place of an object that has a key twice: clients differ in which of them counts.
_REPEATED = "(an object with a key that is written twice)"


class Withheld(Refused):
    """A tool that is not offered: it is blocked in the config, or its definition is not approved."""

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
    """How the offers of a tool differ from what is known: definitions in their canonical form."""

    tool: str
    kind: str
    known: tuple[str, ...]
    offered: tuple[str, ...]


def canonical(definition: Members) -> str:
    """The same text for definitions that differ in nothing but the order of keys, and for no others. Plain ASCII."""
    import json

    data = raw.join(definition)
    try:
        tree = json.loads(data, object_pairs_hook=_object)
        return json.dumps(tree, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        # Numbers of thousands of digits, deep nesting: then the very bytes count.
        return ascii(bytes(data))


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else {_REPEATED: pairs}


def definitions(offering: ServerCatalog) -> dict[str, str]:
    """The canonical definition of each tool that is offered."""
    return {name: canonical_of(item) for name, item in offering.lists[TOOLS].items()}


def canonical_of(item: Item) -> str:
    """Return the canonical definition of a tool, worked out once."""
    if item.canonical is None:
        item.canonical = canonical(item.definition)
    return item.canonical


def is_same_tool(one: str, other: str) -> bool:
    """Whether two canonical definitions differ in nothing but the era of MCP that they are written for.

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
        # A definition that is kept by its bytes, or nested as deeply as can be read.
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
    """Whether a text may be the name of a property or type: neither long nor with a space."""
    return len(text) <= NAME_LIMIT and not any(map(str.isspace, text))


class Pinned:
    """What is known of one server's tools."""

    def __init__(
        self,
        known: Mapping[str, Iterable[str]] | None = None,
        unapproved: Mapping[str, Mapping[str, str]] | None = None,
        listed: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        # The definition that was approved last is at the end.
        self.known = {tool: list(texts) for tool, texts in (known or {}).items()}
        # By kind of client: what is offered to it and is not known, and the names of all that is.
        self.unapproved = {variant: dict(tools) for variant, tools in (unapproved or {}).items()}
        self.listed = {variant: list(names) for variant, names in (listed or {}).items()}

    def knows(self, tool: str, text: str) -> bool:
        """Whether that definition was seen at first, or approved, in this era of MCP or in the other."""
        known = self.known.get(tool, ())
        return text in known or any(is_same_tool(text, other) for other in known)

    def see(self, variant: str, offered: Mapping[str, str], trusts: bool) -> bool:
        """Take what is offered to one kind of client; True if that is news. `trusts`: all of it is known from now."""
        before = (self.unapproved.get(variant), self.listed.get(variant))
        # As older versions wrote it: by era, also where one process serves both.
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
        """That definition is known from now on."""
        texts = self.known.setdefault(tool, [])
        if text in texts:
            texts.remove(text)
        texts.append(text)
        del texts[:-KNOWN_LIMIT]

    def changes(self) -> list[Change]:
        """What differs from what is known, by the names of tools."""
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
