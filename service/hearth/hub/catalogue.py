"""What is offered: the tools of all servers under names that clients accept, in the order of the config."""

from collections.abc import Iterable
from typing import NamedTuple

from hearth.mcp import eras, names
from hearth.mcp.tools import Tool
from hearth.upstreams.upstream import Upstream
from hearth.wire import json


class Offer(NamedTuple):
    """A tool and who has it."""

    upstream: Upstream
    tool: Tool


class Catalogue:
    """The merged list. `version` grows with every difference a client could see."""

    def __init__(self) -> None:
        self.version = 0
        self._exposed: dict[str, Offer] = {}
        self._own: dict[str, dict[str, Offer]] = {}
        self._lists: dict[tuple[str, str | None], bytes] = {}
        self._content: bytes = b""

    def rebuild(self, upstreams: Iterable[Upstream]) -> bool:
        """Merge anew; True when the result differs from the last one."""
        self._exposed, self._own, self._lists = {}, {}, {}
        for upstream in upstreams:
            own = self._own[upstream.name] = {}
            for tool in sorted(upstream.tools or [], key=lambda tool: tool.name):
                own[tool.name] = self._exposed[self._free_name(tool)] = Offer(upstream, tool)
        content = self.render(eras.MODERN, None)
        changed, self._content = content != self._content, content
        self.version += changed
        return changed

    def outdate(self) -> None:
        """Something a client could see has changed that the list does not show yet."""
        self.version += 1

    def _free_name(self, tool: Tool) -> str:
        # `a` with `b__c` and `a__b` with `c` meet under one name; the first in the config keeps it.
        tool.exposed = names.exposed(tool.server, tool.name)
        if tool.exposed in self._exposed:
            tool.exposed = names.hashed(tool.server, tool.name)
        return tool.exposed

    def find(self, server: str | None, name: str) -> Offer | None:
        """The tool that a client calls by that name; with `server`, by its own name."""
        return self._exposed.get(name) if server is None else self._own.get(server, {}).get(name)

    def render(self, era: str, server: str | None) -> bytes:
        """The JSON array of definitions for clients of that era."""
        key = (era, server)
        if key not in self._lists:
            offers = (self._exposed if server is None else self._own.get(server, {})).values()
            self._lists[key] = b"[%b]" % b",".join(offer.tool.render(era, server is None) for offer in offers)
        return self._lists[key]

    def list_result(self, era: str, server: str | None, server_info: bytes) -> bytes:
        """The result of `tools/list`."""
        fields: dict[str, bytes] = {"tools": self.render(era, server)}
        if era == eras.MODERN:
            # Never fresh: the servers behind it change it when they like, and say so by list_changed.
            fields |= {"resultType": b'"complete"', "ttlMs": b"0", "cacheScope": b'"private"'}
            fields["_meta"] = json.join({eras.SERVER_INFO_KEY: server_info})
        return json.join(fields)
