"""A legacy server whose tools come in pages of two.

    paging_server.py COUNT [--loop]

It has COUNT tools `tool_0`, `tool_1`, …, which answer with their names. With --loop the last page points back
to the second one, for ever.
"""

import sys

import stdio

PAGE = 2


def page(request: stdio.Message, names: list[str], loop: bool) -> stdio.Message:
    """One page, and the cursor of the next."""
    start = int(request.get("params", {}).get("cursor", "0"))
    found: stdio.Message = {"tools": [stdio.described(name) for name in names[start : start + PAGE]]}
    if start + PAGE < len(names):
        found["nextCursor"] = str(start + PAGE)
    elif loop:
        found["nextCursor"] = str(PAGE)
    return stdio.result(request, found)


names = [f"tool_{number}" for number in range(int(sys.argv[1]))]
for request in stdio.messages():
    if request.get("method") == "tools/list":
        stdio.send(page(request, names, "--loop" in sys.argv))
    elif request.get("method") == "tools/call":
        stdio.send(stdio.result(request, stdio.text(request["params"]["name"])))
    else:
        stdio.reply(request, "paging", [])
