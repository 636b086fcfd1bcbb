"""Debian's own checks of a package: autopkgtest, on a booted systemd, and piuparts, in a fresh root."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fresh import layers
from support.deb import package
from support.deb.host import Host
from support.requirements import needs_program, needs_root

# Both install and purge several times over; busy machines have needed two minutes.
CHECK_LIMIT_SECONDS = 600


@pytest.mark.timeout(CHECK_LIMIT_SECONDS)
def test_autopkgtest_passes_every_test_and_skips_none(host: Host, built: Path) -> None:
    program = needs_program("autopkgtest")
    # The null server tests on the system it runs on, which is gone afterwards.
    command = [program, "--no-built-binaries", str(built), f"{host.source}/", "--", "null"]
    done = host.machine.run(*command, limit=CHECK_LIMIT_SECONDS)
    # Name and verdict, one test in each line.
    verdicts = dict(line.split()[:2] for line in done.stdout.splitlines() if " PASS" in line or " FAIL" in line)
    assert verdicts == dict.fromkeys(("smoke", "installed", "activation"), "PASS"), done.stdout + done.stderr
    assert done.returncode == 0


@pytest.fixture
def fresh_root(tmp_path: Path) -> Iterator[Path]:
    """A Debian with little more than systemd and Python, made from this machine's own sources."""
    needs_root()
    if (layers.PLACE / "root.made").exists():
        # `make setup-test` has made one, and piuparts works on a copy.
        yield layers.ROOT
        return
    bootstrap = needs_program("mmdebstrap")
    settings = [line for line in package.run("apt-config", "dump").splitlines() if layers.APT_SETTINGS.match(line)]
    options = [f"--aptopt={line.rstrip(';')}" for line in settings]
    root = tmp_path / "root"
    package.run(
        bootstrap, "--quiet", "--variant=minbase", "--include=systemd,python3", *options,
        layers.codename(), root, *layers.sources(),
    )  # fmt: skip
    yield root
    package.run("rm", "-rf", "--one-file-system", root)


@pytest.mark.timeout(CHECK_LIMIT_SECONDS)
def test_piuparts_finds_nothing_left_behind(built: Path, fresh_root: Path) -> None:
    program = needs_program("piuparts")
    said = package.run(
        program, f"--existing-chroot={fresh_root}", "--keep-sources-list", f"--distribution={layers.codename()}",
        "--no-eatmydata", "--install-remove-install", built,
    )  # fmt: skip
    assert "PASS: All tests." in said
