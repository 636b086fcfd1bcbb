"""The built wheel, installed in the ways that people install it: pip in a venv, pipx, uv."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

import hearth
from fresh.layers import PLACE, REPOSITORY, newest
from support.requirements import needs

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

# A fresh environment with two dozen packages in it, on a busy machine.
LIMIT_SECONDS = 120
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "wheel", "version": "1"}}
# Files of the repository that an installation has to have with it.
CARRIED = ("units", "launchd", "winsvc")


def built(pattern: str) -> Path:
    """What `make wheel` has built."""
    found = newest(pattern)
    needs(found, f"dist/{pattern} (`make wheel` builds it)")
    assert found is not None
    return found


class Home:
    """A scratch home, out of the reach of any service manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir(mode=0o700)
        self.wheels = str(PLACE / "outside")
        tools = PLACE / "tools" / "bin"
        needs(tools.exists(), f"{tools} (`make setup-test` makes it)")
        self.environment = {
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PATH": f"{folder}/.local/bin:{tools}:{os.environ['PATH']}",
        }

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a command that must succeed; what it printed."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def scratch() -> Iterator[Home]:
    """A home for as long as it is needed."""
    # Short: a socket's path must fit.
    with tempfile.TemporaryDirectory(prefix="hearth-wheel-", dir="/tmp") as folder:
        yield Home(Path(folder))


def by_pip(home: Home, package: str) -> None:
    home.run(sys.executable, "-m", "venv", ".local")
    home.run(str(home.folder / ".local/bin/pip"), "install", "--no-index", "--find-links", home.wheels, package)


def by_pipx(home: Home, package: str) -> None:
    arguments = f"--pip-args=--no-index --find-links {home.wheels}"
    home.run("pipx", "install", "--python", sys.executable, arguments, package)


def by_uv(home: Home, package: str) -> None:
    offline = ["--offline", "--no-config", "--no-index", "--find-links", home.wheels]
    home.run("uv", "tool", "install", "--python", sys.executable, *offline, package)


WAYS: dict[str, Callable[[Home, str], None]] = {"pip": by_pip, "pipx": by_pipx, "uv": by_uv}


@pytest.fixture(scope="module", params=WAYS)
def installed(request: pytest.FixtureRequest) -> Iterator[Home]:
    """Hearth in a home, by each of the ways."""
    with scratch() as home:
        WAYS[request.param](home, str(built("mcp_hearth-*.whl")))
        yield home


def test_the_installed_wheel_answers_installs_its_units_and_bridges(installed: Home) -> None:
    home = installed
    assert shutil.which("hearth", path=f"{home.folder}/.local/bin")
    assert hearth.__version__ in home.run("hearth", "--version")
    said = home.run("hearth", "install", "--dry-run")
    assert "would write" in said
    assert "mcp.socket" in said
    assert not (home.folder / ".config").exists()

    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    try:
        answer = json.loads(home.run("hearth", "bridge", stdin=json.dumps(request) + "\n"))
        assert answer["result"]["serverInfo"]["name"] == "hearth"
    finally:
        home.run("hearth", "stop", "--yes")


def test_the_wheel_has_a_man_page_and_a_long_description_that_stands_alone() -> None:
    with zipfile.ZipFile(built("mcp_hearth-*.whl")) as wheel:
        (page,) = (name for name in wheel.namelist() if name.endswith(".data/data/share/man/man1/hearth.1"))
        assert b".SS hearth setup" in wheel.read(page)
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    assert "\nProject-URL: Homepage, https://" in text
    assert "\nClassifier: Operating System :: MacOS\n" in text
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links and [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_man_page_is_installed_with_the_wheel(installed: Home) -> None:
    found = [path for path in installed.folder.rglob("hearth.1") if path.parent.name == "man1"]
    assert found, "pip, pipx and uv put it below the prefix"


def test_the_demo_of_an_installed_wheel_does_not_compare_servers_that_weigh_nothing(installed: Home) -> None:
    said = installed.run("hearth", "demo", "--agents", "2")
    assert "no MCP server of realistic weight here to compare with" in " ".join(said.split())
    assert "each its own" not in said
    assert said.rstrip().endswith("hearth setup --dry-run")


def test_hearth_install_leaves_byte_code_for_the_bridge_whoever_put_the_package_there(installed: Home) -> None:
    home = installed
    package = Path(home.run(connected(home)[0], "-I", "-c", "import hearth; print(hearth.__path__[0])").strip())
    for cache in package.rglob("__pycache__"):
        shutil.rmtree(cache)  # uv leaves none; this is what it leaves
    home.run("hearth", "install", "--no-enable")
    tag = sys.implementation.cache_tag
    missing = [
        source.name
        for source in (package / "bridge").glob("*.py")
        if not (source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc").exists()
    ]
    assert missing == []


def connected(home: Home) -> list[str]:
    """What a client's config would start."""
    entry = json.loads(home.run("hearth", "connect", "--print"))["mcpServers"]["hearth"]
    return [entry["command"], *entry["args"]]


def test_what_a_client_starts_lies_in_the_environment_not_where_its_links_lead(installed: Home) -> None:
    command = connected(installed)
    assert command[0].startswith(str(installed.folder)), command
    # The socket is not there before a daemon is.
    files = [word for before, word in pairwise(["", *command]) if word.startswith("/") and before != "--socket"]
    assert [path for path in files if not os.path.exists(path)] == []


def test_the_wheel_carries_every_file_that_an_installation_puts_in_place() -> None:
    inside = set(zipfile.ZipFile(built("mcp_hearth-*.whl")).namelist())
    folders = [REPOSITORY / name for name in CARRIED if (REPOSITORY / name).exists()]
    wanted = {
        f"hearth/data/{path.relative_to(REPOSITORY)}"
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"hearth/data/units/mcp.socket", "hearth/data/launchd/mcp.hearth.plist"} <= wanted
    assert wanted <= inside


def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    with tarfile.open(built("mcp_hearth-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("mcp_hearth-*")
    for place, folder in ((source, "again"), (REPOSITORY, "direct")):
        # The machine's own pip and its own configuration: a build needs its build system.
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(place)]
        subprocess.run(command, cwd=tmp_path, timeout=LIMIT_SECONDS, check=True, capture_output=True)
    (again,) = tmp_path.glob("again/*.whl")
    (direct,) = tmp_path.glob("direct/*.whl")
    assert contents(again) == contents(direct) == contents(built("mcp_hearth-*.whl"))


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel, with their checksums."""
    return {entry.filename: entry.CRC for entry in zipfile.ZipFile(wheel).infolist()}
