"""A booted system on which the package is installed, upgraded and removed by dpkg, and its users."""

import json
import os
import shutil
from pathlib import Path

from e2e.systemd.client import Client
from e2e.systemd.installation import SERVERS, Installation, version_of
from e2e.systemd.machine import Machine
from e2e.systemd.seat import Seat
from support.deb import package

# Where a package may leave nothing. Not looked at: what every boot makes, users' own homes, dpkg's own books.
WATCHED = ("/usr", "/etc", "/var", "/opt", "/srv", "/lib", "/bin", "/sbin")
BOOKS = (
    "/var/lib/dpkg",
    "/var/log",
    "/var/cache",
    "/var/lib/systemd/linger",
    "/var/tmp",
    "/var/mail",
    "/var/lib/private",
)
# Written whenever a user is made; the test makes some.
USERS_FILES = (
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/subuid",
    "/etc/subgid",
    "/etc/.pwd.lock",
)


POLICY = "/usr/sbin/policy-rc.d"


def fill(folder: Path) -> None:
    """Put in place, before the boot, what the tests need inside."""
    shutil.copytree(SERVERS, folder / "servers")
    # What autopkgtest reads; it would copy the whole checkout, with all that was made in it.
    shutil.copytree(package.REPOSITORY / "debian", folder / "source" / "debian")
    package.run("chmod", "-R", "go+rX", folder)


class Packaged(Installation):
    """Hearth as the package has it. `folder` holds the tests' servers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "packaged", "/usr/bin/python3")
        self.python = package.PYTHON
        self.hearth = "/usr/bin/hearth"

    @property
    def package(self) -> Path:
        """The folder of the package `hearth`, inside."""
        return Path(package.PREFIX, "lib", "python{}.{}".format(*version_of(self.base)), "site-packages", "hearth")


class Host:
    """The machine, seen by its administrator."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.installation = Packaged(folder)
        self.source = folder / "source"
        self._seats: list[Seat] = []
        # Images of containers say that nothing is to be started.
        machine.check("rm", "-f", POLICY)

    def dpkg(self, *arguments: str | Path) -> str:
        """dpkg, which must succeed."""
        return self.machine.check("dpkg", *map(str, arguments))

    def seat(self, name: str, *, linger: bool = True) -> Seat:
        """A new user; a lingering one has a service manager, which runs."""
        seat = Seat(self.machine, self.machine.add_user(name, linger=linger), self.installation)
        self._seats.append(seat)
        return seat

    def close(self) -> None:
        """End what the users run."""
        for seat in self._seats:
            seat.close()

    def files(self) -> set[str]:
        """Every file, folder and link in which a package could leave something."""
        pruned = [word for path in BOOKS for word in ("-path", path, "-prune", "-o")]
        listed = self.machine.check("find", *WATCHED, *pruned, "-print")
        return {line for line in listed.splitlines() if line.rstrip("-") not in USERS_FILES}

    def left_behind(self, before: set[str]) -> set[str]:
        """What is there now and was not; what somebody put onto the machine below meanwhile does not count."""
        return {path for path in self.files() - before if not os.path.lexists(path)}

    def is_installed(self) -> bool:
        """Whether dpkg knows it as installed."""
        done = self.machine.run("dpkg-query", "--show", "--showformat=${db:Status-Abbrev}", package.NAME)
        return done.stdout.startswith("ii")


def connected_bridge(seat: Seat) -> Client:
    """A bridge, started by what `hearth connect --print` tells to paste into a client."""
    (entry,) = json.loads(seat.check(seat.installation.hearth, "connect", "--print"))["mcpServers"].values()
    # As it will still be called when Python's minor version is another.
    assert (entry["command"], entry["args"]) == (f"{package.PREFIX}/hearth-bridge", [])
    client = seat.client(entry["command"], *entry["args"], environment=seat.user.client_environment)
    client.initialize()
    return client
