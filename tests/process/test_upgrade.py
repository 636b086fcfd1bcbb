"""The installed package is deleted under a live bridge and installed again: the bridge goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chaos.client import Client
from support.chaos.frames import restart, status
from support.chaos.home import Home
from support.chaos.installation import Installation, make_wheel

OLD, NEW = "1.0.0", "2.0.0"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The package in two versions."""
    folder = tmp_path_factory.mktemp("wheels")
    return {version: make_wheel(folder, version) for version in (OLD, NEW)}


@pytest.fixture
def installation(home: Home, wheels: dict[str, Path]) -> Installation:
    """A venv with the old version."""
    installation = Installation(home.folder / "venv")
    installation.install(wheels[OLD])
    return installation


@pytest.fixture
def client(home: Home, installation: Installation) -> Iterator[Client]:
    """A client whose bridge, and the daemon that it started, run from there."""
    with Client(home, installation.bridge) as client:
        client.greet()
        assert client.text(client.call("once", key="before")) == "once before"
        assert status(home)["version"] == OLD
        yield client


def test_an_upgrade_under_a_live_bridge_costs_it_nothing(
    home: Home, installation: Installation, wheels: dict[str, Path], client: Client
) -> None:
    installation.remove()
    assert client.text(client.call("once", key="during")) == "once during"
    installation.install(wheels[NEW])
    restart(home)
    assert client.text(client.call("once", key="after")) == "once after"
    assert status(home)["version"] == NEW
    assert client.leave() == 0


def test_a_daemon_that_cannot_be_started_for_lack_of_files_is_told_and_works_once_they_are_back(
    home: Home, installation: Installation, wheels: dict[str, Path], client: Client
) -> None:
    installation.remove()
    # It goes out politely without its files, too.
    restart(home)
    assert home.upstreams() == []
    error = client.answer(client.call("once", key="during"))["error"]
    assert error["code"] == -32603
    assert "hearth" in error["message"]
    assert client.process.poll() is None
    installation.install(wheels[NEW])
    assert client.text(client.call("once", key="after")) == "once after"
    assert status(home)["version"] == NEW
    assert [line for line in home.noted() if line.startswith("once")] == ["once before", "once after"]
    assert client.leave() == 0
