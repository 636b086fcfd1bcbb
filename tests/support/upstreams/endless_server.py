"""A legacy server whose list of tools never ends: each page has PAGE_BYTES bytes of tools and a cursor.

    endless_server.py PAGE_BYTES

Each tool has about 1000 bytes and answers with its name.
"""

import sys

import stdio

TOOL_BYTES = 1000


def page(request: stdio.Message, count: int) -> bytes:
    """One page and the cursor of the next, written without building each tool: the test waits for many."""
    start = int(request.get("params", {}).get("cursor", "0"))
    described = '{"name":"tool_%08d","description":"' + "x" * (TOOL_BYTES - 90) + '","inputSchema":{"type":"object"}}'
    tools = ",".join(described % number for number in range(start, start + count))
    return b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%b],"nextCursor":"%d"}}\n' % (
        request["id"],
        tools.encode(),
        start + count,
    )


count = int(sys.argv[1]) // TOOL_BYTES
for request in stdio.messages():
    if request.get("method") == "tools/list":
        stdio.write(page(request, count))
    elif request.get("method") == "tools/call":
        stdio.send(stdio.result(request, stdio.text(request["params"]["name"])))
    else:
        stdio.reply(request, "endless", [])
