"""An agent: `python agent.py SOCKET COMMAND…` opens a session of raw lines, and runs a command below it.

Standard input is the command's; its outcome goes to standard output as JSON.
"""

import json
import socket
import subprocess
import sys

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}},
}

if __name__ == "__main__":
    path, *command = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(INITIALIZE).encode() + b"\n")
        connection.recv(1 << 16)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        json.dump({"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}, sys.stdout)
