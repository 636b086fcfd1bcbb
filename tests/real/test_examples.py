"""What docs/clients.md says of connecting over HTTP works as it stands there, but for the number of the port."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon import server
from support.real.command_lines import run
from support.real.home import RealHome
from support.real.installation import BIN, node, packages

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
# Node looks for packages beside a script that is a module.
RUNS = {
    "sh": ["bash", "-euo", "pipefail", "example.sh"],
    "python": [str(BIN / "python"), "example.python"],
    "js": ["node", "example.mjs"],
}


def examples() -> tuple[str, list[tuple[str, str]]]:
    """The blocks of the section: what a shell is told before all others, and language and text of these."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Connecting over HTTP\n")[2].partition("\n## ")[0]
    (_, first), *others = re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return first, others


VARIABLE, EXAMPLES = examples()


@pytest.fixture(scope="module")
def home() -> Iterator[RealHome]:
    with RealHome({"echo": server("echo")}) as place:
        (place.scratch.home / "node_modules").symlink_to(Path(packages()) / "node_modules")
        yield place


@pytest.mark.parametrize(("language", "text"), EXAMPLES, ids=lambda value: value.split()[0])
def test_an_example_connects(home: RealHome, language: str, text: str) -> None:
    folder = home.scratch.home
    command = RUNS[language]
    url = home.on_port().url.removesuffix("/mcp")
    whole = (VARIABLE if language == "sh" else "") + text.replace("http://127.0.0.1:3847", url)
    (folder / command[-1]).write_text(whole, encoding="utf-8")
    programs = [BIN, Path(node()).parent, folder / "node_modules" / ".bin", os.environ["PATH"]]
    # npx takes what is installed, and is to look for nothing else.
    environment = home.scratch.environment(PATH=os.pathsep.join(map(str, programs)), npm_config_offline="true")
    printed = run(folder, environment, *command)
    assert ("✔ Connected" if "claude" in text else "echo__echo") in printed
