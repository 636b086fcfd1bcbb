"""A legacy MCP server with very many tools, all of which answer the same: what search is measured over.

    many_tools_server.py COUNT

Its tools are those of tests/search/corpus.txt, again and again under other names. `many` is the server of that name
in the benchmarks' config; started with `python -I -S`, so it brings its own path.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
sys.path.insert(0, os.path.join(sys.path[0], "support", "upstreams"))

import stdio

from search.corpus import tools


def many(count: int) -> list[stdio.Message]:
    """That many definitions; those of each copy of the corpus have its number in their names."""
    found: list[stdio.Message] = []
    for number in range(count // len(tools()) + 1):
        for server, definition in tools():
            found.append({**definition, "name": f"{server}{number}_{definition['name']}"})
    return found[:count]


def main() -> None:
    """Answer until stdin ends."""
    stdio.limit_lifetime()
    offered = many(int(sys.argv[1]))
    for line in stdio.raw_lines():
        request = json.loads(line)
        if request.get("method") == "tools/call":
            stdio.send(stdio.result(request, stdio.text("done")))
        elif (reply := stdio.handshake(request, "many", offered)) is not None:
            stdio.send(reply)


if __name__ == "__main__":
    main()
