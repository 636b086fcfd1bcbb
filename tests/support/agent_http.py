"""An agent over HTTP: `python agent_http.py WHERE ERA COMMAND…` opens a session, and runs a command below it.

WHERE is the path of a Unix socket, or HOST:PORT; ERA is `legacy` or `modern`. Standard input holds more headers as
JSON. The outcome of the command goes to standard output as JSON.
"""

import http.client
import json
import socket
import subprocess
import sys
from typing import Any

from hearth.mcp import versions


class Connection(http.client.HTTPConnection):
    """One connection, over a Unix socket or TCP."""

    def __init__(self, where: str) -> None:
        super().__init__("localhost", timeout=20)
        self._where = where

    def connect(self) -> None:
        if self._where.startswith("/"):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self._where)
        else:
            host, _, port = self._where.rpartition(":")
            self.sock = socket.create_connection((host, int(port)))


def opening(era: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The first request of a session, and its headers."""
    if era == "legacy":
        client = {"name": "agent", "version": "1"}
        params = {"protocolVersion": versions.NEWEST_LEGACY, "capabilities": {}, "clientInfo": client}
        return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {}
    meta = {versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN, versions.CLIENT_CAPABILITIES_KEY: {}}
    headers = {"MCP-Protocol-Version": versions.NEWEST_MODERN, "Mcp-Method": "tools/list"}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}, headers


if __name__ == "__main__":
    where, era, *command = sys.argv[1:]
    message, headers = opening(era)
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= json.loads(sys.stdin.read() or "{}")
    connection = Connection(where)
    connection.request("POST", "/mcp", json.dumps(message), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    answer.read()
    connection.close()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    json.dump({"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}, sys.stdout)
