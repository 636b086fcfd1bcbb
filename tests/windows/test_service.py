"""The service as the service manager sees it: installed, started, stopped, removed.

Wine knows no services of a user's own and no triggers, so these run as ordinary services; what would be asked of a
Windows is looked at.
"""

import json
import os
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from house import LIMIT_SECONDS
from house import wait_for as wait_until

from hearth.errors import HearthError, Refused
from hearth.host.windows import services
from hearth.host.windows.services import RUNNING, STOP_PENDING, STOPPED, Service, Status

SCRIPT = Path(__file__).parents[2] / "winsvc" / services.SCRIPT
ORDINARY = 0x10
# The service's own code says more.
SERVICE_SPECIFIC = 1066

# A daemon that serves until it is told to end, and then takes its time.
PATIENT = """
import threading, time
def main(arguments, serving):
    told = threading.Event()
    serving(lambda reason: told.set())
    told.wait({limit})
    time.sleep({drain})
    return 0
"""
FAILING = "def main(arguments, serving): return 7"
BROKEN = "def main(arguments, serving): raise OSError('no daemon today')"
# Another one serves already.
SECOND = "def main(arguments, serving): return 3"

Install = Callable[[str], str]


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """Registers the service with something changed before its own code runs; its name."""
    made: list[str] = []

    def register(change: str) -> str:
        name = f"HearthTest{uuid.uuid4().hex[:8]}"
        script = tmp_path / f"{name}.py"
        script.write_text(f"{change}\nimport runpy\nrunpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n", "utf-8")
        packages = sysconfig.get_path("purelib")
        command = services.command_line(services.windowless(sys.executable), str(script), sys.executable, packages)
        services.create(Service(command, name, name, ORDINARY))
        made.append(name)
        return name

    yield register
    for name in made:
        services.stop(name)
        services.delete(name)


def in_place_of_the_daemon(code: str) -> str:
    return f"{code}\nimport hearth.daemon.main\nhearth.daemon.main.main = main"


def wait_for(name: str, state: int) -> Status:
    def look() -> Status | None:
        found = services.status(name)
        assert found is not None
        return found if found.state == state else None

    return wait_until(look, f"state {state} of the service {name}")


def in_a_home_below(folder: Path) -> str:
    """The real daemon, with the places of nobody else."""
    return f"import os\nos.environ.update({variables(folder)!r})"


def variables(folder: Path) -> dict[str, str]:
    return {"APPDATA": str(folder / "Roaming"), "LOCALAPPDATA": str(folder / "Local")}


def status_of_daemon(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "hearth", "status", "--json"]
    done = subprocess.run(
        command, env={**os.environ, **variables(folder)}, capture_output=True, timeout=LIMIT_SECONDS, check=False
    )
    return json.loads(done.stdout)


def test_a_service_is_installed_started_stopped_and_removed(install: Install) -> None:
    name = install(in_place_of_the_daemon(PATIENT.format(limit=LIMIT_SECONDS, drain=0)))
    assert wait_for(name, STOPPED).pid == 0
    services.start(name)
    assert wait_for(name, RUNNING).pid > 0
    # Doing it again changes nothing.
    services.start(name)
    assert services.stop(name)
    assert wait_for(name, STOPPED).code == 0
    services.delete(name)
    # The manager keeps a removed service until everybody has closed it, also who was about to.
    wait_until(lambda: services.status(name) is None, "its end")
    # Doing it again changes nothing.
    services.delete(name)
    assert services.stop(name)


def test_the_daemon_of_a_service_is_reached_through_its_pipe_and_clears_up_when_it_is_stopped(
    install: Install, tmp_path: Path
) -> None:
    name = install(in_a_home_below(tmp_path))
    services.start(name)
    served = wait_for(name, RUNNING)
    told = status_of_daemon(tmp_path)
    assert (told["running"], told["pid"], told["degraded"]) == (True, served.pid, None)
    assert services.stop(name)
    assert wait_for(name, STOPPED).code == 0
    assert not status_of_daemon(tmp_path)["running"]
    assert list(tmp_path.rglob("daemon.json")) == []


def test_a_service_that_starts_beside_a_daemon_leaves_that_one_alone(install: Install, tmp_path: Path) -> None:
    first, second = install(in_a_home_below(tmp_path)), install(in_a_home_below(tmp_path))
    services.start(first)
    serving = wait_for(first, RUNNING)
    services.start(second)
    assert wait_for(second, STOPPED).code == 0
    assert wait_for(first, RUNNING).pid == serving.pid


def test_while_it_drains_the_manager_hears_that_it_goes_on(install: Install) -> None:
    name = install(in_place_of_the_daemon(PATIENT.format(limit=LIMIT_SECONDS, drain=5)))
    services.start(name)
    wait_for(name, RUNNING)
    assert not services.stop(name, limit=0)
    seen = {wait_for(name, STOP_PENDING).checkpoint}
    while (found := services.status(name)) and found.state == STOP_PENDING:
        seen.add(found.checkpoint)
        time.sleep(0.05)
    assert len(seen) > 1
    assert wait_for(name, STOPPED).code == 0


@pytest.mark.parametrize("account", ["S-1-5-18", "S-1-5-19", "S-1-5-20"])
def test_it_refuses_to_run_as_an_account_of_the_system(account: str, install: Install) -> None:
    name = install(f"import hearth.sids\nhearth.sids.own = lambda: {account!r}")
    services.start(name)
    ended = wait_for(name, STOPPED)
    assert (ended.code, ended.own_code) == (SERVICE_SPECIFIC, Refused.exit_code)


@pytest.mark.parametrize(("daemon", "code"), [(FAILING, 7), (BROKEN, 1)])
def test_a_daemon_that_fails_is_a_service_that_fails(daemon: str, code: int, install: Install) -> None:
    name = install(in_place_of_the_daemon(daemon))
    services.start(name)
    ended = wait_for(name, STOPPED)
    assert (ended.code, ended.own_code) == (SERVICE_SPECIFIC, code)


def test_another_daemon_that_serves_already_is_no_failure(install: Install) -> None:
    name = install(in_place_of_the_daemon(SECOND))
    services.start(name)
    assert wait_for(name, STOPPED).code == 0


def test_the_command_line_is_found_again_and_can_be_changed(install: Install) -> None:
    name = install("")
    found = services.command_of(name)
    assert found is not None
    assert sys.executable in found
    services.create(Service("C:\\other.exe", name, name, ORDINARY))
    assert services.command_of(name) == "C:\\other.exe"
    assert services.command_of("HearthTestNobody") is None


def test_a_windows_without_services_of_a_users_own_says_so() -> None:
    with pytest.raises(HearthError, match="came with Windows 10"):
        services.create(Service("C:\\other.exe", "HearthTestTemplate"))
    assert services.status("HearthTestTemplate") is None


def test_a_trigger_that_windows_refuses_is_an_error_with_its_words(install: Install) -> None:
    name = install("")
    with pytest.raises(HearthError, match=f"refuses the trigger of the service {name}"):
        services.set_trigger(name, services.on_pipe("\\\\.\\pipe\\hearth-test"))
