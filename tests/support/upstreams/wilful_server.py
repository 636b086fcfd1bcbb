"""A server that leaves requests unanswered, changes its mind at once, and gives errors that are none.

    wilful_server.py [--early] [--mute METHOD[@N] [--while FILE]] [--mourn WORDS]

With --early the first answer to tools/list and a notice that it is outdated are one write; the tool `late` is
there from then on. With --mute METHOD is never answered, or not the Nth time only, or
only while FILE exists. With --mourn it writes WORDS to
stderr at its start. Tools: `grow` {name} adds a tool of that name and announces it; `raw` {json} answers with the text
`json` in place of its result and error, unchecked; `echo` {text} (read-only). An added tool answers with its name.
"""

import json
import os
import sys
from collections import Counter

import stdio

CHANGED = stdio.notice("notifications/tools/list_changed")


class Server:
    """The tools, and what was asked how often."""

    def __init__(self, words: list[str]) -> None:
        self.tools = [stdio.described("echo", readOnlyHint=True), stdio.described("grow"), stdio.described("raw")]
        self.early = "--early" in words
        self.mute = words[words.index("--mute") + 1] if "--mute" in words else ""
        self.condition = words[words.index("--while") + 1] if "--while" in words else "/"
        self.asked: Counter[str] = Counter()

    def answers(self, request: stdio.Message) -> list[stdio.Message]:
        """What one request is answered with, in one write."""
        method = str(request.get("method"))
        self.asked[method] += 1
        if self.mute in (method, f"{method}@{self.asked[method]}") and os.path.exists(self.condition):
            return []
        if method == "tools/call":
            return self.call(request)
        reply = stdio.handshake(request, "wilful", list(self.tools))
        if method == "tools/list" and self.early and reply:
            self.early = False
            self.tools.append(stdio.described("late", readOnlyHint=True))
            return [reply, CHANGED]
        return [reply] if reply else []

    def call(self, request: stdio.Message) -> list[stdio.Message]:
        """A tool's answer."""
        name, given = str(request["params"]["name"]), stdio.arguments(request)
        if name == "grow":
            self.tools.append(stdio.described(str(given["name"]), readOnlyHint=True))
            return [stdio.result(request, stdio.text("grown")), CHANGED]
        if name == "raw":
            stdio.write(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (request["id"], str(given["json"]).encode()))
            return []
        return [stdio.result(request, stdio.text(str(given.get("text", name))))]


words = sys.argv[1:]
if "--mourn" in words:
    os.write(2, words[words.index("--mourn") + 1].encode() + b"\n")
server = Server(words)
for line in stdio.raw_lines():
    stdio.write("".join(json.dumps(answer) + "\n" for answer in server.answers(json.loads(line))).encode())
