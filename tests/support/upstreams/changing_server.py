"""A server whose tool list changes on request; each change is announced by list_changed.

Tools: `grow` {name} adds a tool of that name, `shrink` {name} takes it away, `burst` {count} sends that
many notices for nothing, `quietly` {name} adds one and tells nobody. An added tool answers with its own
name.
"""

import stdio

CHANGED = stdio.notice("notifications/tools/list_changed")


class Shelf:
    """The tools: the fixed ones, and those that were added."""

    def __init__(self) -> None:
        self.fixed = [stdio.described(name) for name in ("grow", "shrink", "burst", "quietly")]
        self.added: dict[str, stdio.Message] = {}

    def tools(self) -> list[stdio.Message]:
        return [*self.fixed, *self.added.values()]

    def call(self, request: stdio.Message) -> tuple[stdio.Message, int]:
        """The answer, and how many notices follow it."""
        name, given = request["params"]["name"], stdio.arguments(request)
        target, notices = str(given.get("name", "grown")), 1
        if name in self.added:
            target, notices = name, 0
        elif name == "grow":
            self.added[target] = stdio.described(target, readOnlyHint=True)
        elif name == "quietly":
            self.added[target], notices = stdio.described(target, readOnlyHint=True), 0
        elif name == "shrink":
            self.added.pop(target, None)
        elif name == "burst":
            notices = int(given.get("count", 10))
        else:
            return stdio.error(request, -32602, f"Unknown tool: {name}"), 0
        return stdio.result(request, stdio.text(target)), notices


shelf = Shelf()
for request in stdio.messages():
    if request.get("method") == "tools/call":
        answer, notices = shelf.call(request)
        stdio.send(answer)
        for _ in range(notices):
            stdio.send(CHANGED)
    else:
        stdio.reply(request, "changing", shelf.tools())
