"""Catalog of a server: its tools, prompts, resources and templates, and their names for clients.

Entries are kept as raw bytes and parsed only as far as Hearth bases decisions on them.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

from hearth.errors import MessageError
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes


class ListKind:
    """Kind of list: one of the four that MCP has."""

    def __init__(self, member: str, method: str, key: str, capability: str, changed: str) -> None:
        # Name of the list in its result, and here.
        self.member = member
        self.method = method
        # Member that addresses an item.
        self.key = key
        self.capability = capability
        # Notification of a change, and the member of a `subscriptions/listen` that asks for it.
        self.changed = f"notifications/{changed}/list_changed"
        self.listen = f"{changed}ListChanged"

    def __repr__(self) -> str:
        return f"Kind({self.member!r})"


TOOLS = ListKind("tools", "tools/list", "name", "tools", "tools")
PROMPTS = ListKind("prompts", "prompts/list", "name", "prompts", "prompts")
RESOURCES = ListKind("resources", "resources/list", "uri", "resources", "resources")
TEMPLATES = ListKind("resourceTemplates", "resources/templates/list", "uriTemplate", "resources", "resources")
KINDS = (TOOLS, PROMPTS, RESOURCES, TEMPLATES)
# A change of the templates is announced as a change of the resources.
CHANGES = {TOOLS.changed: (TOOLS,), PROMPTS.changed: (PROMPTS,), RESOURCES.changed: (RESOURCES, TEMPLATES)}

# Entries that are read without a pause: about a millisecond of work.
SLICE_ENTRIES = 100


class Item:
    """Entry of one of a server's lists. `name` is what addresses it: a URI for kinds that have URIs."""

    __slots__ = ("canonical", "definition", "kind", "name", "safe_to_repeat", "server", "wire_name")

    def __init__(self, kind: ListKind, server: str, definition: json.Fields) -> None:
        name = values.text(definition.get(kind.key))
        if name is None:
            raise ValueError(f"an item without a {kind.key}")
        self.kind = kind
        self.server = server
        self.name = name
        # Everything that outlives the message is copied: a raw value shares the memory of the whole page.
        self.definition: Members = {key: bytes(value) for key, value in definition.items()}
        self.wire_name = bytes(definition[kind.key])
        # Canonical definition for `pinning`, once computed.
        self.canonical: str | None = None
        # Whether asking twice does no harm: only tool calls can do harm.
        self.safe_to_repeat = kind is not TOOLS or _safe_to_repeat(definition)

    def render(self, exposed: str | None = None) -> Members:
        """Return the definition, under another name if one is given."""
        if exposed is None or exposed == self.name:
            return dict(self.definition)
        return {**self.definition, self.kind.key: json.dumps(exposed)}


class ServerCatalog:
    """Catalog of one server. Compared by content."""

    __slots__ = ("_listed", "capabilities", "era", "instructions", "lists", "version")

    def __init__(self, era: str, version: str, capabilities: json.Fields, instructions: str | None) -> None:
        self.era = era
        self.version = version
        self.capabilities = {key: json.Raw(bytes(value)) for key, value in capabilities.items()}
        self.instructions = instructions
        self.lists: dict[ListKind, dict[str, Item]] = {kind: {} for kind in KINDS}
        self._listed = dict.fromkeys(KINDS, 0)

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for catalogs of one server between which no client can see a difference."""
        declared = tuple((name, bytes(value)) for name, value in self.capabilities.items())
        return (declared, self.instructions, *self._listed.values())

    def has(self, capability: str) -> bool:
        """Tell whether the server declared it. One that proved its era by an error declared nothing: all may exist."""
        return not self.capabilities or capability in self.capabilities

    def announces(self, kind: ListKind) -> bool:
        """Tell whether the server announces changes of that list."""
        return self._declares(kind.capability, "listChanged")

    @property
    def tells_of_updates(self) -> bool:
        """Whether clients can subscribe to its resources."""
        return self._declares(RESOURCES.capability, "subscribe")

    def _declares(self, capability: str, member: str) -> bool:
        declared = values.members(self.capabilities.get(capability))
        return not self.capabilities or values.is_true(declared.get(member))

    def adopt(self, other: "ServerCatalog") -> None:
        """Take the lists of another catalog, as far as this server has such lists, until its own are read."""
        for kind in KINDS:
            if self.has(kind.capability):
                self.lists[kind], self._listed[kind] = dict(other.lists[kind]), other._listed[kind]

    def without_tools(self, names: Set[str]) -> "ServerCatalog":
        """Return the catalog without those tools."""
        if not names:
            return self
        found = ServerCatalog(self.era, self.version, self.capabilities, self.instructions)
        found.lists, found._listed = dict(self.lists), dict(self._listed)
        found.take(TOOLS, [item for item in self.lists[TOOLS].values() if item.name not in names])
        return found

    def restricted(self, is_seen: Callable[[Item], bool]) -> "ServerCatalog":
        """Return the catalog with the items of its lists that a client may see."""
        found = ServerCatalog(self.era, self.version, self.capabilities, self.instructions)
        found.lists, found._listed = dict(self.lists), dict(self._listed)
        for kind, items in self.lists.items():
            kept = [item for item in items.values() if is_seen(item)]
            if len(kept) < len(items):
                found.take(kind, kept)
        return found

    def take(self, kind: ListKind, items: Iterable[Item]) -> None:
        """Replace one list, ordered by name; of several items with one name the first counts."""
        found: dict[str, Item] = {}
        for item in items:
            found.setdefault(item.name, item)
        self.lists[kind] = dict(sorted(found.items()))
        self._listed[kind] = hash(tuple(json.join(item.definition) for item in self.lists[kind].values()))


def _safe_to_repeat(definition: json.Fields) -> bool:
    annotations = values.members(definition.get("annotations"))
    return values.is_true(annotations.get("readOnlyHint")) or values.is_true(annotations.get("idempotentHint"))


def _needs_tasks(definition: json.Fields) -> bool:
    # 2025-11-25: a plain call of such a tool must be refused, and Hearth offers no tasks.
    execution = values.members(definition.get("execution"))
    return values.text(execution.get("taskSupport")) == "required"


class ListLimits(NamedTuple):
    """Limits on one list of a server (settings list_limit and list_entries)."""

    bytes: int = 4 * 1024 * 1024
    entries: int = 10_000


class ListReader:
    """Reader of one list of a server, page by page; entries beyond the limits are not kept.

    Definitions without a name, and tools that only run as tasks, are left out, but count.
    """

    def __init__(self, kind: ListKind, server: str, limits: ListLimits) -> None:
        self.items: list[Item] = []
        # Raw cursor of the next page.
        self.cursor: bytes | None = None
        # Limit that was reached before the list ended.
        self.reached: str | None = None
        self._kind = kind
        self._server = server
        self._limits = limits
        self._bytes = self._entries = 0

    def receive_page(self, result: RawBytes) -> Iterator[None]:
        """Take one page in slices, yielding between them. Raises MessageError for a result that is no such list."""
        fields = json.split(result)
        cursor = bytes(fields.get("nextCursor", b"null"))
        self.cursor = cursor if cursor != b"null" else None
        for elements in values.element_slices(fields.get(self._kind.member)):
            for start in range(0, len(elements), SLICE_ENTRIES):
                self._take(elements[start : start + SLICE_ENTRIES])
                if self.reached:
                    return
                yield

    def _take(self, elements: list[json.Raw]) -> None:
        for raw in elements:
            self._bytes += len(raw)
            self._entries += 1
            if self._bytes > self._limits.bytes:
                self.reached = f"{self._limits.bytes} bytes (list_limit)"
            elif self._entries > self._limits.entries:
                self.reached = f"{self._limits.entries} entries (list_entries)"
            if self.reached:
                return
            definition = values.members(raw)
            if values.text(definition.get(self._kind.key)) is not None and not _needs_tasks(definition):
                self.items.append(Item(self._kind, self._server, definition))


def write_catalog(catalog: ServerCatalog) -> bytes:
    """Return a catalog as one JSON object, with definitions as their server wrote them."""
    fields: Members = {
        "era": json.dumps(catalog.era),
        "version": json.dumps(catalog.version),
        "capabilities": json.join(catalog.capabilities),
        "instructions": json.dumps(catalog.instructions),
        "lists": json.join({kind.member: _write_list(catalog, kind) for kind in KINDS}),
    }
    return json.join(fields)


def _write_list(catalog: ServerCatalog, kind: ListKind) -> bytes:
    return values.array(json.join(item.definition) for item in catalog.lists[kind].values())


def read_catalog(server: str, raw: RawBytes) -> ServerCatalog:
    """Return the catalog of the server of that name from its JSON. Raises MessageError for anything else."""
    fields = json.split(raw)
    era, version = values.text(fields.get("era")), values.text(fields.get("version"))
    if era is None or version is None:
        raise MessageError("a catalog without an era or a version")
    catalog = ServerCatalog(era, version, json.split(fields["capabilities"]), values.text(fields.get("instructions")))
    lists = json.split(fields["lists"])
    for kind in KINDS:
        catalog.take(kind, [_read_item(kind, server, each) for each in values.elements(lists.get(kind.member))])
    return catalog


def _read_item(kind: ListKind, server: str, raw: RawBytes) -> Item:
    try:
        return Item(kind, server, json.split(raw))
    except ValueError as exc:
        raise MessageError(str(exc)) from exc


# --- names
#
# Clients see tools and prompts as `server__tool`, in at most 64 characters of `[A-Za-z0-9_-]`: clients and model
# providers refuse longer names and other characters. A name that has to be changed gets a hash of the original, so that
# two different tools never share a name and the same tool always has the same.

NAME_LIMIT = 64
SEPARATOR = "__"
_HASH_CHARACTERS = 8
_CUT = NAME_LIMIT - _HASH_CHARACTERS - 1
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _clean(name: str) -> str:
    return "".join(character if character in _ALLOWED else "_" for character in name)


def name_prefix(server: str) -> str:
    """Return the prefix of the names of a server's tools; shortened names may have only a part of it."""
    return _clean(server) + SEPARATOR


def may_have_name(server: str, name: str) -> bool:
    """Tell whether a tool of that server could have that name: shortening leaves at least this much of the prefix."""
    return name.startswith(name_prefix(server)[:_CUT])


def prefixed_name(server: str, tool: str) -> str:
    """Return the name under which clients see a tool of a server."""
    original = f"{server}{SEPARATOR}{tool}"
    if len(original) <= NAME_LIMIT and _ALLOWED.issuperset(original):
        return original
    return hashed_name(server, tool)


def hashed_name(server: str, tool: str) -> str:
    """Return the name with a hash of the original at its end."""
    original = f"{server}{SEPARATOR}{tool}"
    # surrogatepass: a tool's name may be a lone surrogate, and still needs an exposed name.
    digest = hashlib.blake2s(original.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{_clean(original)[:_CUT]}_{digest[:_HASH_CHARACTERS]}"


def exposed_name(item: Item, taken: Iterable[str]) -> str:
    """Return the name of a tool or prompt for clients that see several servers; names in `taken` are in use."""
    # `a` with `b__c` and `a__b` with `c` get the same name; the first in the config keeps it.
    name = prefixed_name(item.server, item.name)
    return hashed_name(item.server, item.name) if name in taken else name
