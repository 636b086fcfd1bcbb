"""Programs that others have written to serve an MCP server of stdio over HTTP: installing them, and how each is run.

    python benchmarks/peers.py      installs them below .peers, each into an environment of its own

What cannot be installed here is said, and left out of the comparison. Standard library only.
"""

import glob
import json
import os
import secrets
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass, field

PLACE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".peers")


def _secret() -> str:
    return "Aa1!" + secrets.token_urlsafe(48)


@dataclass(frozen=True)
class Peer:
    """One of them. `command` makes its words from the upstream's, a port and a folder to write to."""

    name: str
    requirement: str
    command: Callable[[list[str], int, str], list[str]]
    # The interpreters that it runs on; none: Hearth's own.
    pythons: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its environment."""
        return os.path.join(PLACE, self.name)

    @property
    def stamp(self) -> str:
        """There once it is installed, with what is."""
        return os.path.join(self.folder, ".installed")

    @property
    def is_installed(self) -> bool:
        """Whether exactly this is there."""
        try:
            with open(self.stamp) as file:
                return file.read() == self.requirement
        except OSError:
            return False

    def words(self, upstream: list[str], port: int, folder: str) -> list[str]:
        """The command that serves that upstream on that port of loopback."""
        program, *rest = self.command(upstream, port, folder)
        return [os.path.join(self.folder, "bin", program), *rest]


def _mcp_proxy(upstream: list[str], port: int, folder: str) -> list[str]:
    return ["mcp-proxy", "--log-level", "ERROR", "--port", str(port), "--", *upstream]


def _fastmcp(upstream: list[str], port: int, folder: str) -> list[str]:
    config = os.path.join(folder, "mcp.json")
    with open(config, "w") as file:
        json.dump({"mcpServers": {"echo": {"command": upstream[0], "args": upstream[1:]}}}, file)
    quiet = ["--no-banner", "--log-level", "ERROR"]
    return ["fastmcp", "run", config, "--transport", "http", "--port", str(port), *quiet]


def _contextforge(upstream: list[str], port: int, folder: str) -> list[str]:
    serve = ["--stdio", " ".join(upstream), "--expose-streamable-http", "--port", str(port), "--logLevel", "error"]
    return ["python", "-m", "mcpgateway.translate", *serve]


# It does not start without secrets of its own, and its users are not needed here.
_CONTEXTFORGE_ENV = {
    "JWT_SECRET_KEY": _secret(),
    "AUTH_ENCRYPTION_SECRET": _secret(),
    "EMAIL_AUTH_ENABLED": "false",
    "LOG_LEVEL": "ERROR",
}

PEERS = [
    Peer("mcp-proxy", "mcp-proxy==0.13.0", _mcp_proxy),
    Peer("fastmcp", "fastmcp==4.1.2", _fastmcp),
    Peer(
        "contextforge",
        "mcp-contextforge-gateway==1.1.0",
        _contextforge,
        pythons=("python3.12", "python3.13"),
        env=_CONTEXTFORGE_ENV,
    ),
]


def interpreter(names: tuple[str, ...]) -> str | None:
    """A Python of one of these names, on the PATH or among pyenv's; Hearth's own where none is named."""
    if not names:
        return sys.executable
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for name in names:
        # pyenv's first: its shims on the PATH answer for whatever is switched on.
        for found in (*glob.glob(os.path.join(pyenv, "versions", "*", "bin", name)), shutil.which(name)):
            if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
                return found
    return None


def install(peer: Peer) -> None:
    """Make its environment anew. Raises OSError, and CalledProcessError where pip fails."""
    python = interpreter(peer.pythons)
    if python is None:
        raise FileNotFoundError(f"it needs {' or '.join(peer.pythons)}, and there is none")
    shutil.rmtree(peer.folder, ignore_errors=True)
    if python == sys.executable:
        venv.create(peer.folder, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", peer.folder], check=True)
    pip = [os.path.join(peer.folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, peer.requirement], check=True)
    with open(peer.stamp, "w") as file:
        file.write(peer.requirement)


def main() -> None:
    """Everything that is not there yet; what cannot be had is named."""
    for peer in PEERS:
        if peer.is_installed:
            continue
        print(f"installing {peer.requirement}", flush=True)
        try:
            install(peer)
        except (OSError, subprocess.CalledProcessError) as exc:
            print(f"left out: {peer.name}: {exc}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
