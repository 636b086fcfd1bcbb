"""A client with hooks: `python FOLDER/codex HEARTH…` opens a session by a bridge, then runs the hooks that it is told.

Stands in for the real client, which needs an account: only the name of the program and what it starts are alike. Each
line of standard input is an event; each is answered by a line when its hook has ended.
"""

import json
import subprocess
import sys

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "codex", "version": "1"}},
}

if __name__ == "__main__":
    hearth = sys.argv[1:]
    bridge = subprocess.Popen([*hearth, "bridge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert bridge.stdin is not None and bridge.stdout is not None
    bridge.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    bridge.stdin.flush()
    bridge.stdout.readline()
    print("attached", flush=True)
    for event in map(str.strip, sys.stdin):
        payload = {"session_id": "s1", "cwd": "/", "source": "startup", "tool_name": "Bash"}
        payload["tool_input"] = {"command": "true"}  # type: ignore[assignment]  # JSON
        hook = [*hearth, "hook", event, "--client", "codex"]
        subprocess.run(hook, input=json.dumps(payload).encode(), stdout=subprocess.DEVNULL, check=False)
        print(event, flush=True)
    bridge.stdin.close()
    bridge.wait()
