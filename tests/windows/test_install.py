"""`hearth install` on Windows: what is asked of the Task Scheduler and of the service manager, and what is left behind.

Wine's Task Scheduler runs nothing, and its service manager knows no services of a user's own: the requests are looked
at.
"""

import json
import subprocess
import sys
import winreg
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import win32api
import win32con
from click.testing import CliRunner

from hearth import paths, sids
from hearth.bridge import activation
from hearth.cli.main import cli
from hearth.control_client import windows_task as task_checks
from hearth.errors import HearthError
from hearth.host import install as installation
from hearth.host.install import windows
from hearth.host.windows import services as windows_services
from hearth.host.windows import task

RT_MESSAGETABLE = 11
NAMESPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("APPDATA", str(tmp_path / "Roaming"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
    return tmp_path


class Scheduler:
    """Stands in for schtasks.exe: notes what it is asked for, and remembers tasks."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.tasks: dict[str, str] = {}
        self.refusal = ""

    def run(self, command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        assert command[0] == task.scheduler()
        self.requests.append(command[1:])
        verb, name = command[1], command[command.index("/tn") + 1]
        if self.refusal:
            return subprocess.CompletedProcess(command, 1, "", self.refusal)
        if verb == "/create":
            self.tasks[name] = Path(command[command.index("/xml") + 1]).read_text("ascii")
        elif name not in self.tasks:
            return subprocess.CompletedProcess(command, 1, "", "ERROR: The system cannot find the file specified.")
        elif verb == "/delete":
            del self.tasks[name]
        return subprocess.CompletedProcess(command, 0, "", "")

    @property
    def verbs(self) -> list[str]:
        return [request[0] for request in self.requests]


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    found = Scheduler()
    monkeypatch.setattr(subprocess, "run", found.run)
    monkeypatch.setattr(windows, "compile_package", lambda python: True)
    return found


class Services:
    """Stands in for the service manager where Wine knows less than Windows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, windows_services.Service] = {}
        self.triggers: dict[str, windows_services.Trigger] = {}
        self.stopped: list[str] = []
        monkeypatch.setattr(windows_services, "command_of", lambda name: self.made[name].command if self.made else None)
        monkeypatch.setattr(windows_services, "create", lambda wanted: self.made.update({wanted.name: wanted}))
        monkeypatch.setattr(windows_services, "set_trigger", self.triggers.__setitem__)
        monkeypatch.setattr(windows_services, "stop", self.stopped.append)
        monkeypatch.setattr(windows_services, "delete", self.made.pop)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_task_is_registered_for_this_user_with_this_interpreter(scheduler: Scheduler) -> None:
    said = run("install")
    name = task.name(sids.own())
    assert scheduler.requests[-1] == ["/create", "/tn", name, "/xml", task.file(), "/f"]
    found = ElementTree.fromstring(scheduler.tasks[name])
    command = found.findtext(f"{NAMESPACE}Actions/{NAMESPACE}Exec/{NAMESPACE}Command")
    assert command == str(Path(sys.executable).with_name("pythonw.exe"))
    assert found.findtext(f"{NAMESPACE}Triggers/{NAMESPACE}LogonTrigger/{NAMESPACE}UserId") == sids.own()
    assert f"wrote {task.file()}" in said
    assert "at logon" in said


def test_installing_again_changes_nothing(scheduler: Scheduler) -> None:
    run("install")
    told = json.loads(run("install", "--json"))
    assert (told["written"], told["unchanged"], told["enabled"]) == ([], [task.FILE_NAME], True)
    assert scheduler.verbs == ["/create", "/query"]


def test_a_task_that_somebody_deleted_is_registered_anew(scheduler: Scheduler) -> None:
    run("install")
    scheduler.tasks.clear()
    run("install")
    assert list(scheduler.tasks) == [task.name(sids.own())]


def test_a_dry_run_asks_nobody_and_writes_nothing(scheduler: Scheduler, home: Path) -> None:
    assert f"would write {task.file()}" in run("install", "--dry-run")
    assert (scheduler.requests, list(home.iterdir())) == ([], [])


def test_without_enabling_the_command_is_told(scheduler: Scheduler) -> None:
    told = json.loads(run("install", "--no-enable", "--json"))
    (command,) = told["commands"]
    assert command.startswith(f"schtasks /create /tn {task.name(sids.own())} /xml ")
    assert (scheduler.requests, told["enabled"]) == ([], False)


def test_what_the_scheduler_refuses_is_told_in_its_own_words(scheduler: Scheduler) -> None:
    scheduler.refusal = "ERROR: Access is denied."
    with pytest.raises(HearthError, match=r"schtasks /create .* failed: ERROR: Access is denied\."):
        installation.install()


def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(scheduler: Scheduler) -> None:
    Path(task.folder()).mkdir(parents=True)
    Path(task.file()).write_text("<Task/>", "utf-8")
    with pytest.raises(HearthError, match="was not written by Hearth"):
        installation.install()
    assert "left as it is, because Hearth did not write it" in run("uninstall")
    assert (Path(task.file()).read_text("utf-8"), scheduler.requests) == ("<Task/>", [])


def test_uninstalling_forgets_the_task_and_doing_it_again_changes_nothing(scheduler: Scheduler) -> None:
    run("install")
    assert f"would remove {task.file()}" in run("uninstall", "--dry-run")
    assert f"removed {task.file()}" in run("uninstall")
    assert (scheduler.tasks, Path(task.file()).exists()) == ({}, False)
    assert "Nothing is installed." in run("uninstall")


def test_a_service_is_a_template_for_every_user_that_the_pipe_starts(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = Services(monkeypatch)
    said = run("install", "--service")
    wanted = services.made[windows_services.NAME]
    assert wanted.kind == windows_services.PER_USER
    assert windows_services.is_ours(wanted.command)
    assert services.triggers == {windows_services.NAME: windows_services.on_pipe(paths.Places().socket)}
    assert f"wrote HKLM\\SYSTEM\\CurrentControlSet\\Services\\{windows_services.NAME}" in said
    assert json.loads(run("install", "--service", "--json"))["written"] == []
    assert has_messages(source_of_events())
    run("uninstall")
    assert source_of_events() == ""
    assert (services.made, services.stopped) == ({}, [windows_services.NAME])


def source_of_events() -> str:
    """The file in which the event log looks the service's words up; empty: there is none."""
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, windows_services.event_source(windows_services.NAME)) as key:
            return str(winreg.QueryValueEx(key, "EventMessageFile")[0])
    except FileNotFoundError:
        return ""


def has_messages(file: str) -> bool:
    """Whether there is a message table in it."""
    module = win32api.LoadLibraryEx(file, 0, win32con.LOAD_LIBRARY_AS_DATAFILE)
    try:
        return bool(win32api.EnumResourceNames(module, RT_MESSAGETABLE))
    finally:
        win32api.FreeLibrary(module)


def test_a_service_takes_the_place_of_the_task_and_a_task_does_not_come_beside_it(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = Services(monkeypatch)
    run("install")
    run("install", "--service")
    assert (scheduler.tasks, Path(task.file()).exists()) == ({}, False)
    with pytest.raises(HearthError, match="starts the daemon already"):
        installation.install()
    assert list(services.made) == [windows_services.NAME]


def test_a_service_of_that_name_that_is_not_hearths_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services(monkeypatch)
    services.made[windows_services.NAME] = windows_services.Service("C:\\other.exe")
    for attempt in (installation.install, installation.uninstall):
        with pytest.raises(HearthError, match="is not Hearth's"):
            attempt()


def test_a_windows_that_refuses_the_service_says_so_and_registers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "compile_package", lambda python: True)
    with pytest.raises(HearthError, match="came with Windows 10"):
        installation.install(service=True)
    assert windows_services.status(windows_services.NAME) is None


def test_profiles_have_no_task_and_the_others_options_are_refused(scheduler: Scheduler) -> None:
    with pytest.raises(HearthError):
        installation.install(profile="work")
    assert scheduler.requests == []


def ids() -> list[str]:
    return [finding.id for finding in task_checks.check(paths.Places())]


def test_doctor_sees_what_is_wrong_with_the_task(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids() == ["units.missing"]
    run("install")
    assert ids() == ["units.state"]
    scheduler.tasks.clear()
    assert ids() == ["units.stopped"]
    Path(task.file()).write_text(Path(task.file()).read_text("utf-8").replace("pythonw.exe", "gone.exe"), "utf-8")
    assert ids() == ["units.interpreter"]


def test_the_path_that_servers_are_looked_for_in_is_that_of_a_logon(scheduler: Scheduler) -> None:
    assert task_checks.search_path(paths.Places()) is None
    run("install")
    found = task_checks.search_path(paths.Places())
    assert found is not None
    assert "system32" in found.lower()


def test_the_bridge_has_the_task_run_where_there_is_one(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(activation, "_run", lambda command, environ: asked.append(command))
    monkeypatch.setattr(activation, "_is_served", lambda pipe: True)
    assert activation.wake_task(paths.Places(), {}) is None
    run("install")
    assert activation.wake_task(paths.Places(), {}) is not None
    assert activation.wake_task(paths.Places("work"), {}) is None
    assert asked == [[task.scheduler(), "/run", "/tn", task.name(sids.own())]]


def test_a_task_that_brings_up_nobody_is_waited_for_and_then_the_bridge_starts_one(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activation, "_run", lambda command, environ: None)
    monkeypatch.setattr(activation, "TASK_SECONDS", 0.1)
    run("install")
    assert activation.wake_task(paths.Places(), {}) is None
