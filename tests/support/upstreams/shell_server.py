"""A legacy server with one tool that runs a command, as servers with a shell do: `run`, its outcome as JSON.

The words of the command are in `key`, as base64 of a JSON array: text that nothing can look into.
"""

import base64
import json
import subprocess

import stdio

TOOLS = [stdio.described("run")]


def run(request: stdio.Message) -> stdio.Message:
    words = json.loads(base64.b64decode(stdio.arguments(request)["key"]))
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    outcome = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    return stdio.result(request, stdio.text(json.dumps(outcome)))


for message in stdio.messages():
    answer = run(message) if message.get("method") == "tools/call" else stdio.handshake(message, "shell", TOOLS)
    if answer is not None:
        stdio.write(json.dumps(answer).encode() + b"\n")
