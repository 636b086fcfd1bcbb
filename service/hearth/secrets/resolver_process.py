"""Process that resolves references for `hearth bridge --to`, which runs without packages; one task each.

    python -m hearth.secrets.resolver_process DESCRIPTOR <TEXTS

The texts on its standard input are separated by zero bytes: every local user can see arguments. The answer is one line
of JSON after `resolved `, written to the descriptor and nowhere else: it is a secret.
"""

import json
import os
import sys

from hearth.errors import HearthError
from hearth.host.process_setup import take_descriptor
from hearth.secrets import references

MARK = "resolved "


def main(descriptor: str) -> int:
    """Resolve the texts in the bridge's environment, which this process has inherited."""
    output = take_descriptor(int(descriptor))
    texts = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").split("\0")
    answer: dict[str, object]
    try:
        answer = {"values": [references.fill(text, os.environ, "the bridge's") for text in texts]}
    except HearthError as exc:
        answer = {"error": str(exc)}
    data = f"{MARK}{json.dumps(answer)}\n".encode()
    while data:
        data = data[os.write(output, data) :]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
