"""`hearth bridge --to` on Windows: a client on pipes, a server on a port, a login by a reference."""

import json
import subprocess
import sys
from pathlib import Path

from house import DEMO, LIMIT_SECONDS, House

import hearth
from hearth.control_client.connection import ControlConnection
from hearth.secrets import http_token

BRIDGE = [sys.executable, "-I", "-S", str(Path(hearth.__file__).parent / "bridge" / "main.py")]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def carry(house: House, url: str, *words: str) -> list[dict[str, object]]:
    """What a client gets that calls a tool in both eras and leaves, through a daemon of its own that ends at once."""
    own = house.config.with_name("bridge.toml")
    own.write_text("idle_timeout = 0.2\n")
    call = {"name": "demo__add", "arguments": {"a": 20, "b": 22}}
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call, "_meta": META}},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call},
    ]
    done = subprocess.run(
        [*BRIDGE, "--to", url, "--config", str(own), *words],
        input=b"".join(json.dumps(line).encode() + b"\r\n" for line in lines),
        capture_output=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda message: int(message["id"]))


def test_a_client_calls_a_tool_over_a_port_in_both_eras(house: House) -> None:
    house.write(idle_timeout=0.2, demo=DEMO)
    command = [sys.executable, "-I", "-m", "hearth", "serve", "--transport", "http", "--http-port", "0"]
    with subprocess.Popen(
        [*command, "--config", str(house.config)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as daemon:  # fmt: skip
        try:
            url = house.status()["http"][0].removesuffix("/mcp") + "/mcp"
            token = f"Authorization: Bearer ${{file:{http_token.path()}}}"
            found = carry(house, url, "--header", token)
            assert [message["id"] for message in found] == [1, 2, 3], found
            assert all("result" in message for message in found), found
            for message in (found[0], found[2]):
                assert message["result"]["content"] == [{"type": "text", "text": "42"}]  # type: ignore[index]
            assert all("HTTP 401" in str(message["error"]) for message in carry(house, url)[::2])
            with ControlConnection(house.places.socket, house.pid()) as control:
                control.shutdown(restart=False)
            assert daemon.wait(LIMIT_SECONDS) == 0
        finally:
            daemon.kill()
    found = carry(house, url, "--header", token)
    assert all("cannot be reached" in str(message["error"]) for message in found[::2])


def test_a_unix_socket_is_not_to_be_had(house: House) -> None:
    found = carry(house, "unix:/x.sock")
    assert all("which this system does not have" in str(message["error"]) for message in found[::2])
