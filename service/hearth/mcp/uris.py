"""URIs of resources: matching against templates, collisions between servers, and URIs in results.

A URI is kept as its server writes it. Only if two servers have the same one, one of them is shown as
`hearth:SERVER:ORIGINAL`. In that form nothing follows the scheme that a client would normalise (no authority, no
path from a root), and the server's name cannot stand in the scheme, which has no case and no percent-encoding.

The pages of MCP Apps keep their scheme, by which hosts know them: `ui://SERVER/hearth/REST`. Tools and results name
such a page in `_meta.ui.resourceUri`, or in the older `_meta["ui/resourceUri"]`.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

# Matching takes time proportional to the product of both lengths; longer ones are not written by hand.
MATCH_LIMIT_CHARACTERS = 8192

_PREFIXED = re.compile(r"hearth:([A-Za-z0-9._~%-]+):(.+)", re.IGNORECASE | re.DOTALL)
_UI_SCHEME = "ui://"
_UI_PREFIXED = re.compile(r"ui://([A-Za-z0-9._~%-]+)/hearth/(.+)", re.IGNORECASE | re.DOTALL)
_UI_MEMBER = "resourceUri"
_UI_FLAT_MEMBER = "ui/resourceUri"
_PART = re.compile(r"([^{}]+)|\{([+#./;?&]?)([^{}]+)\}")
_RESULT_ARRAYS = ("content", "contents", "messages")

Rename = Callable[[str], str]


class NoSuchResource(MessageError):
    """Error for a resource that no server has. Each era has its own code for it; both name the resource in `data`."""

    def __init__(self, uri: str, era: str, sentence: str | None = None) -> None:
        code = versions.RESOURCE_NOT_FOUND if era == versions.LEGACY else versions.INVALID_PARAMS
        super().__init__(sentence or f"no server has the resource {uri}", code)
        self.data = {"uri": uri}


# --- templates (RFC 6570, levels 1 to 4)


class _Expression(NamedTuple):
    operator: str
    variables: int
    explode: bool


@functools.lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[str | _Expression, ...] | None:
    """Return the literals and expressions; None for a text that is no template."""
    parts: list[str | _Expression] = []
    position = 0
    while position < len(template):
        found = _PART.match(template, position)
        if not found:
            return None
        literal, operator, variables = found.groups()
        parts.append(literal or _Expression(operator, variables.count(",") + 1, "*" in variables))
        position = found.end()
    return tuple(parts)


def matches(template: str, uri: str) -> bool:
    """Tell whether the URI can come from the template as servers match it: variables not empty, perhaps unescaped.

    The time is proportional to the product of the lengths at most, even for malicious input. A text beyond the limit
    matches only itself.
    """
    if template == uri:
        return True
    if max(len(template), len(uri)) > MATCH_LIMIT_CHARACTERS:
        return False
    parts = _parts(template)
    if not parts or (isinstance(parts[0], str) and not uri.startswith(parts[0])):
        return False
    places = _Places(uri)
    for part in parts:
        places = places.past(part) if isinstance(part, str) else places.past_expression(part)
    return places.includes_end


class _Places:
    """Set of the places in a URI that the template may have reached, as the bits of one number.

    Every step moves all places at once, so there is no backtracking. Moving over a run of characters is one addition:
    the carry travels to the end of the run.
    """

    def __init__(self, uri: str) -> None:
        self._end = len(uri)
        self._places = 1
        self._uri = uri
        self._found: dict[str, int] = {}
        self._any = (1 << self._end) - 1

    @property
    def includes_end(self) -> bool:
        return bool(self._places >> self._end)

    def past(self, literal: str) -> "_Places":
        for character in literal:
            if not self._places:
                break
            self._places = (self._places & self._where(character)) << 1
        return self

    def past_expression(self, expression: _Expression) -> "_Places":
        operator, variables, explode = expression
        before = self._places
        if operator in ("", "+"):
            # FastMCP's {path*} matches slashes; in RFC 6570 the values of a list have none.
            run = self._any if operator or explode else self._but("/")
            self._places = self._over(self._one_of(before, run), run)
        elif operator == "/":
            self._places = self._segments(before, variables, explode)
        else:
            run = {"#": self._any, "?": self._but("#"), "&": self._but("#")}.get(operator) or self._but("/?#")
            # An undefined variable is not written, and neither is its operator.
            self._places = before | self._over(self._one_of(before, self._where(operator)), run)
        return self

    def _segments(self, places: int, count: int, explode: bool) -> int:
        slashes, run = self._where("/"), self._any if explode else self._but("/")
        reached = places
        for _ in range(1 if explode else count):
            places = self._over(self._one_of(places, slashes), run)
            reached |= places
        return reached

    def _where(self, character: str) -> int:
        if character not in self._found:
            places, position = 0, self._uri.find(character)
            while position >= 0:
                places |= 1 << position
                position = self._uri.find(character, position + 1)
            self._found[character] = places
        return self._found[character]

    def _but(self, characters: str) -> int:
        found = self._any
        for character in characters:
            found &= ~self._where(character)
        return found

    @staticmethod
    def _one_of(places: int, run: int) -> int:
        return (places & run) << 1

    @staticmethod
    def _over(places: int, run: int) -> int:
        """Return the places moved by any number of characters, as long as these are in the run."""
        return (((places & run) + run) ^ run) | places


# --- collisions


def prefixed(server: str, uri: str) -> str:
    """Return the exposed URI of a server's resource (or template) whose own URI another server has, too."""
    # Imported here: needed only where servers collide, which is rare, and takes 3 ms.
    from urllib.parse import quote

    name = quote(server, safe="", errors="surrogatepass")
    if is_app_page(uri):
        return f"{_UI_SCHEME}{name}/hearth/{uri[len(_UI_SCHEME) :]}"
    return f"hearth:{name}:{uri}"


def is_app_page(uri: str) -> bool:
    """Tell whether the URI is that of a page of an MCP App."""
    return uri[: len(_UI_SCHEME)].lower() == _UI_SCHEME


def unprefixed(uri: str) -> tuple[str, str] | None:
    """Return the server and its own URI for the resource; None for a URI without a prefix of `prefixed`.

    A server's own URI for which this is not None has to be prefixed as well, or it would be taken for another server's.
    """
    is_page = is_app_page(uri)
    found = (_UI_PREFIXED if is_page else _PREFIXED).fullmatch(uri)
    if found is None:
        return None
    from urllib.parse import unquote

    try:
        return unquote(found[1], errors="surrogatepass"), _UI_SCHEME + found[2] if is_page else found[2]
    except UnicodeDecodeError:
        # No server has such a name.
        return None


# --- URIs in results


def links(result: RawBytes) -> list[str]:
    """Return the URIs that a result mentions, in links, embedded resources and contents: each once, in their order."""
    found: dict[str, str] = {}
    rewrite_result(result, lambda uri: found.setdefault(uri, uri))
    return list(found)


def rewrite_result(result: RawBytes, rename: Rename) -> RawBytes:
    """Return a result of `tools/call`, `prompts/get` or `resources/read` with renamed URIs; itself if none changes."""
    if not _mentions_uris(result):
        return result
    fields: Members = {**values.members(result)}
    changed = {key: rewrite_links(fields[key], rename) for key in _RESULT_ARRAYS if key in fields}
    if "_meta" in fields:
        changed["_meta"] = rewrite_app_page(fields["_meta"], rename)
    if all(changed[key] is fields[key] for key in changed):
        return result
    return json.join({**fields, **changed})


def rewrite_links(content: RawBytes, rename: Rename) -> RawBytes:
    """Return an array of content blocks, contents or prompt messages with renamed URIs; itself if none changes."""
    if not _mentions_uris(content):
        return content
    try:
        items = values.elements(content)
    except MessageError:
        return content
    changed = [_rewritten(item, rename) for item in items]
    if all(after is before for after, before in zip(changed, items, strict=True)):
        return content
    return values.array(changed)


def app_pages(meta: RawBytes | None) -> list[str]:
    """Return the pages that `_meta` of a tool or a result names, in either form: each once."""
    found: dict[str, str] = {}
    if meta is not None:
        rewrite_app_page(meta, lambda uri: found.setdefault(uri, uri))
    return list(found)


def rewrite_app_page(meta: RawBytes, rename: Rename) -> RawBytes:
    """Rename the page in `_meta` of a tool or a result; return the same object if nothing changes."""
    if b"esourceUri" not in bytes(meta):
        return meta
    fields: Members = {**values.members(meta)}
    changed: Members = {}
    if _UI_FLAT_MEMBER in fields:
        changed[_UI_FLAT_MEMBER] = _renamed(fields[_UI_FLAT_MEMBER], rename)
    ui: Members = {**values.members(fields.get("ui"))}
    if _UI_MEMBER in ui:
        after = _renamed(ui[_UI_MEMBER], rename)
        changed["ui"] = fields["ui"] if after is ui[_UI_MEMBER] else json.join({**ui, _UI_MEMBER: after})
    if all(changed[key] is fields[key] for key in changed):
        return meta
    return json.join({**fields, **changed})


def _rewritten(raw: RawBytes, rename: Rename) -> RawBytes:
    """Return one element with renamed URIs; its members tell of which type it is."""
    fields: Members = {**values.members(raw)}
    if "type" in fields:
        inner = {"resource": "resource", "resource_link": "uri"}.get(values.text(fields["type"]) or "")
    else:
        inner = "content" if "role" in fields else "uri"
    if inner is None or inner not in fields:
        return raw
    before = fields[inner]
    after = _renamed(before, rename) if inner == "uri" else _rewritten_inside(inner, before, rename)
    return raw if after is before else json.join({**fields, inner: after})


def _rewritten_inside(inner: str, raw: RawBytes, rename: Rename) -> RawBytes:
    if inner == "content":
        return _rewritten(raw, rename)
    contents: Members = {**values.members(raw)}
    if "uri" not in contents:
        return raw
    after = _renamed(contents["uri"], rename)
    return raw if after is contents["uri"] else json.join({**contents, "uri": after})


def _renamed(raw: RawBytes, rename: Rename) -> RawBytes:
    uri = values.text(raw)
    if uri is None:
        return raw
    name = rename(uri)
    return raw if name == uri else json.dumps(name)


def _mentions_uris(raw: RawBytes) -> bool:
    # A quote inside of a text is escaped, so that JSON in a text does not count; a name may be written with escapes.
    data = bytes(raw)
    return b'"uri"' in data or b'esourceUri"' in data or b"\\u00" in data
