"""The authorization server of upstreams/oauth_server.py as a process, and a browser of a few lines."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Self

from support.daemon import UPSTREAMS, Scratch
from support.kernel import BOUND_SECONDS

HEARTH = (sys.executable, "-I", "-m", "hearth")
# For daemons and commands: the vault keeps tokens in a file.
KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


# Below those that the kernel gives to outgoing connections and to listeners that name none.
_CHOSEN_PORTS = range(20_000, 32_768)


def quiet_port() -> int:
    """Return a port on which a test can listen later: nobody does, and no outgoing connection will have it."""
    for port in random.sample(_CHOSEN_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Authority:
    """One of them. `url` and `other` are its MCP servers."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with it
        command = [sys.executable, "-W", "ignore", str(UPSTREAMS / "oauth_server.py")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, self.stderr()
        self.origin = f"http://127.0.0.1:{int(said)}"
        self.issuer = f"{self.origin}/"
        self.url = f"{self.origin}/mcp"
        self.other = f"{self.origin}/other/mcp"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(BOUND_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def set(self, **wanted: object) -> None:
        """Change how it behaves."""
        body = json.dumps(wanted).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.origin}/test/set", body), timeout=BOUND_SECONDS):
            pass

    def _told(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.origin}/test/counts", timeout=BOUND_SECONDS) as answer:
            return json.load(answer)

    def count(self, what: str) -> int:
        """How often it was asked for that."""
        return int(self._told()["counts"].get(what, 0))

    def asked(self, what: str) -> list[dict[str, Any]]:
        """What it was asked, in order."""
        return [entry[what] for entry in self._told()["asked"] if what in entry]


def browse(url: str) -> tuple[int, str]:
    """Open an address as a browser does, redirects and all: the last page's status and text."""
    try:
        with urllib.request.urlopen(url, timeout=BOUND_SECONDS) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


class Elsewhere(urllib.request.HTTPRedirectHandler):
    """A browser on another machine: it does not get to an address of this one."""

    def redirect_request(self, *_: Any) -> None:
        return None


def landing(url: str) -> str:
    """Where a browser on another machine ends up: the address that it cannot load."""
    try:
        urllib.request.build_opener(Elsewhere).open(url, timeout=BOUND_SECONDS)
    except urllib.error.HTTPError as exc:
        with exc:
            return str(exc.headers["Location"])
    raise AssertionError("no redirect")


class Command:
    """A running `hearth auth login`, whose address has been read."""

    def __init__(self, scratch: Scratch, *words: str, **environment: str) -> None:
        env = scratch.environment(**KEYRING, **environment)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*HEARTH, *words], env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=os.path.expanduser("/")
        )
        self.said = ""

    def address(self) -> str:
        """The address that it prints."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if line.strip().startswith("http") and " is asked" not in line:
                return line.strip()
        raise AssertionError(f"no address: {self.said}{self.end()[2]}")

    def end(self, answer: str | None = None) -> tuple[int, str, str]:
        """Wait for its end: code, stdout, stderr."""
        out, err = self.process.communicate(answer, timeout=BOUND_SECONDS)
        return self.process.returncode, self.said + out, err


def hearth(scratch: Scratch, *words: str, **environment: str) -> tuple[int, str, str]:
    """Run a command to its end."""
    return Command(scratch, *words, **environment).end()


def log_in(scratch: Scratch, name: str, visit: Callable[[str], tuple[int, str]] = browse) -> tuple[int, str, str]:
    """Log in to a server by a scripted browser."""
    command = Command(scratch, "auth", "login", name, "--no-browser", "--timeout", "30")
    visit(command.address())
    return command.end()
