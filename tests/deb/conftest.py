"""Fixtures: the package as `make deb` left it, and a later version of it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.systemd.installation import make_folder
from e2e.systemd.machine import Machine, missing_requirement
from support.deb import package
from support.deb.host import Host, fill
from support.requirements import needs


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the package built first, for which `make test` has no time."""
    # A hook of a folder is given the tests of all folders: thousands, so the look must be cheap.
    folder = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker("deb")


@pytest.fixture(scope="session")
def built() -> Path:
    """The package."""
    found = package.find()
    needs(found, "a package in dist/: `make deb` builds it")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its files."""
    folder = tmp_path_factory.mktemp("unpacked") / "root"
    package.unpack(built, folder)
    return folder


@pytest.fixture(scope="session")
def later(built: Path) -> Iterator[Path]:
    """The same as a later version."""
    # Beside the built one: a booted system has a /tmp of its own.
    folder = Path(tempfile.mkdtemp(prefix="later-", dir=built.parent))
    try:
        yield package.later(built, "99.0.0", folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def host() -> Iterator[Host]:
    """A booted system without the package."""
    reason = missing_requirement()
    needs(reason is None, str(reason))
    folder = make_folder()
    try:
        fill(folder)
        with Machine(folder_to_remove=str(folder)) as machine:
            host = Host(machine, folder)
            try:
                yield host
            finally:
                host.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
