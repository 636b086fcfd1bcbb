"""What the test stands on, made below `.fresh` and kept there: `python tests/fresh/layers.py`.

A fresh Debian root of this machine's own release, the clients and servers, and what an installation without a network
needs. Standard library only. Where things come from is what this machine's apt, npm and pip are configured for. What is
there in the right version is left alone.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PLACE = REPOSITORY / ".fresh"
# Folders that lie above each other in the booted machine.
ROOT, CLIENTS, PACKAGES = PLACE / "root", PLACE / "clients", PLACE / "packages"
# Where in there, as its users see them.
CLIENTS_INSIDE, SERVERS_INSIDE, PACKAGES_INSIDE = "/opt/clients", "/opt/servers", "/opt/packages"

# An ordinary Debian with a service manager per user; python3-venv and pipx are what docs/install.md asks for.
DEBIAN_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus-user-session", "libpam-systemd", "passwd", "procps"),
    *("python3", "python3-venv", "pipx", "ca-certificates"),
    # The Debian package depends on it, and nothing can be fetched in there.
    "python3-systemd",
)
# The servers that are written in Python, each in an environment of its own: one of them needs the SDK of the older era.
SERVERS = {
    "mcp-server-time": ("mcp-server-time==2026.10.19",),
    "mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp<2"),
}
# What people install the wheel with.
TOOLS = ("pipx", "uv")
# How this machine reaches its archive; other settings are its own affair.
APT_SETTINGS = re.compile(r"Acquire::(https?|ftp|Check-Valid-Until|Retries|ForceIPv[46])\b.*")


def is_fresh(stamp: Path, text: str) -> bool:
    """Whether exactly this was made before."""
    return stamp.exists() and stamp.read_text(encoding="utf-8") == text


def make(stamp: str, text: str, build: Callable[[], None]) -> None:
    """Build what has not been built like this; a build that was interrupted counts for nothing."""
    path = PLACE / f"{stamp}.made"
    if is_fresh(path, text):
        return
    print(f"making .fresh/{stamp}", flush=True)
    path.unlink(missing_ok=True)
    build()
    path.write_text(text, encoding="utf-8")


def run(*command: str) -> str:
    """Run a command that must succeed; what it has printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"tests/fresh/layers.py: {' '.join(command)} exited with {done.returncode}\n{done.stdout}")
    return done.stdout


def pip(*arguments: str) -> None:
    """This environment's pip."""
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *arguments)


# --- the root


def codename() -> str:
    """The release of this machine, which its sources are for."""
    told = re.search(r'^VERSION_CODENAME="?(\w+)', Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    if not told:
        sys.exit("tests/fresh/layers.py: /etc/os-release names no release; a Debian is needed to make a Debian root")
    return told[1]


def sources() -> list[str]:
    """This machine's lists of sources."""
    folder = Path("/etc/apt/sources.list.d")
    found = [Path("/etc/apt/sources.list"), *sorted(folder.glob("*.list")), *sorted(folder.glob("*.sources"))]
    return [str(path) for path in found if path.exists() and path.stat().st_size]


def build_root() -> None:
    """A fresh root by mmdebstrap, with the servers that are written in Python in a venv."""
    shutil.rmtree(ROOT, ignore_errors=True)
    settings = [line for line in run("apt-config", "dump").splitlines() if APT_SETTINGS.match(line)]
    chosen = [f"--aptopt={line.rstrip(';')}" for line in settings]
    packages = ",".join(DEBIAN_PACKAGES)
    run("mmdebstrap", "--quiet", "--variant=apt", f"--include={packages}", *chosen, codename(), str(ROOT), *sources())
    build_servers()


def build_servers() -> None:
    """Downloaded out here and installed in there, by its own pip and without a network; linked as pipx does it."""
    inside = f"{SERVERS_INSIDE}/wheels"
    wheels = ROOT / inside.lstrip("/")
    links = ROOT / SERVERS_INSIDE.lstrip("/") / "bin"
    links.mkdir(parents=True)
    for name, requirements in SERVERS.items():
        wheels.mkdir()
        download(wheels, *requirements)
        folder = f"{SERVERS_INSIDE}/{name}"
        run("chroot", str(ROOT), "python3", "-m", "venv", folder)
        offline = ["--quiet", "--no-index", "--find-links", inside]
        run("chroot", str(ROOT), f"{folder}/bin/pip", "install", *offline, *requirements)
        shutil.rmtree(wheels)
        (links / name).symlink_to(f"{folder}/bin/{name}")


def download(folder: Path, *requirements: str) -> None:
    """Wheels for the root's Python, with all that they need."""
    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    only = ["--only-binary=:all:", "--python-version", run("chroot", str(ROOT), "python3", "-c", code).strip()]
    pip("download", *only, "--dest", str(folder), *requirements)


# --- the tools


def build_tools() -> None:
    """A virtual environment out here."""
    folder = PLACE / "tools"
    venv.create(folder, clear=True, with_pip=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    run(str(folder / "bin" / "python"), "-m", "pip", "install", *quiet, *TOOLS)


# --- the clients


def build_clients() -> None:
    """The npm packages, with a node of their own, as `npm install --global` has them."""
    folder = CLIENTS / CLIENTS_INSIDE.lstrip("/")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("tests/fresh/layers.py: npm is needed to install the clients")
    wanted = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    run(npm, "install", "--global", "--prefix", str(folder), *quiet, *(f"{name}@{wanted[name]}" for name in wanted))


# --- Hearth, as a wheel and as a Debian package


def newest(pattern: str) -> Path | None:
    """What was built last, by the beginning and end of its name."""
    return max((REPOSITORY / "dist").glob(pattern), key=lambda path: path.stat().st_mtime, default=None)


def build_packages() -> None:
    """The packages that were built last, and what the wheel needs in there."""
    folder = PACKAGES / PACKAGES_INSIDE.lstrip("/")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheel, deb = newest("mcp_hearth-*.whl"), newest("mcp-hearth_*.deb")
    if wheel is None:
        sys.exit("tests/fresh/layers.py: there is no wheel in dist; `make wheel` builds it")
    for package in filter(None, (wheel, deb)):
        shutil.copy(package, folder)
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    make("inside", project, lambda: build_dependencies("inside", wheel, for_root=True))
    make("outside", sys.version + project, lambda: build_dependencies("outside", wheel, for_root=False))
    for other in (PLACE / "inside").glob("*.whl"):
        shutil.copy(other, folder)


def build_dependencies(name: str, wheel: Path, *, for_root: bool) -> None:
    """What Hearth's wheel depends on, without itself: for the root's Python, or for the one that runs the tests."""
    folder = PLACE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if for_root:
        download(folder, str(wheel))
    else:
        pip("download", "--dest", str(folder), str(wheel))
    for own in folder.glob("mcp_hearth-*.whl"):
        own.unlink()


def main() -> None:
    """Everything that is not there yet."""
    if os.geteuid() != 0:
        sys.exit("tests/fresh/layers.py: only root can make a Debian root")
    PLACE.mkdir(exist_ok=True)
    root = "\n".join([codename(), *DEBIAN_PACKAGES, *(str(each) for each in SERVERS.items())])
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(make, "tools", " ".join([sys.version, *TOOLS]), build_tools),
            pool.submit(make, "root", root, build_root),
            pool.submit(make, "clients", (HERE / "package.json").read_text(encoding="utf-8"), build_clients),
        ]
        for job in jobs:
            job.result()
    build_packages()


if __name__ == "__main__":
    main()
