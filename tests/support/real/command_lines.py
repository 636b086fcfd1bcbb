"""Clients that are programs of their own, each in a home of its own."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.real.clients import Address, Command
from support.real.installation import REMEDY, node, packages
from support.requirements import needs

# A start of node and a request or two; a loaded machine takes some more.
RUN_SECONDS = 60.0


def npm_program(name: str) -> str:
    """A program of one of the packages."""
    path = Path(packages()) / "node_modules" / ".bin" / name
    needs(path.exists(), f"{name}: {REMEDY}")
    return str(path)


def inspect(home: Path, server: Address, *words: str) -> dict[str, Any]:
    """What MCP's own Inspector prints, in its mode for command lines. The token is in a file, as our page has it."""
    entry = {"type": "sse" if server.is_old else "streamable-http", "url": server.url, "headers": server.headers}
    file = home / "inspector.json"
    file.write_text(json.dumps({"mcpServers": {"hearth": entry}}))
    arguments = ["--cli", "--config", str(file), "--server", "hearth", *words]
    return json.loads(run(home, _environment(home), npm_program("mcp-inspector"), *arguments))


def claude(home: Path, *words: str, **variables: str) -> str:
    """What Claude Code prints."""
    return run(home, _environment(home) | variables, npm_program("claude"), *words)


def mcp_remote(home: Path, server: Address) -> Command:
    """A bridge from stdio to HTTP that is not Hearth's own."""
    words = [npm_program("mcp-remote"), server.url, "--allow-http", "--transport", "http-only", *headers(server)]
    return Command(words, _environment(home), str(home))


def headers(server: Address) -> list[str]:
    """As all of them want them."""
    return [word for name, value in server.headers.items() for word in ("--header", f"{name}: {value}")]


def _environment(home: Path) -> dict[str, str]:
    # Scripts look for their node there.
    return {"PATH": f"{Path(node()).parent}:{os.environ['PATH']}", "HOME": str(home)}


def run(folder: Path, environment: Mapping[str, str], *command: str) -> str:
    """What a command prints that has to succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
