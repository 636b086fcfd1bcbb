"""Installer of the logon task or the service, which `host.windows.task` and `services` describe.

This module does not talk to a person. `Outcome` says what was done and what is left to type.
"""

import os
import subprocess
import sys
import sysconfig

from hearth import paths, sids
from hearth.errors import HearthError
from hearth.host.folders import make_private
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, Plan, compile_package
from hearth.host.windows import services, task
from hearth.host.windows.services import Schtasks, command_to_create, command_to_delete, render_task, windowless

assert sys.platform == "win32", "imported on Windows only"

import winreg  # noqa: E402

TASKS = "the Task Scheduler"
SERVICES = "the service manager"
_GOES_OUT = "It goes out when nobody has used it for a while (idle_timeout; 0 means that it stays)."
_TASK_EFFECT = f"The Task Scheduler starts the daemon at logon, and whenever a bridge asks for it. {_GOES_OUT}"
_SERVICE_EFFECT = (
    f"From the next logon on, the service manager starts the daemon with the first connection to its pipe. {_GOES_OUT}"
)
_STAYS = "A daemon that runs goes on until nobody uses it; `hearth stop` ends it."


def install(python: str, *, enable: bool, dry_run: bool, service: bool = False) -> Outcome:
    """Have the Task Scheduler, or on request the service manager, start the daemon. Doing it again changes nothing.

    Raises HearthError when a task or service that Hearth did not make is in the way, and when Windows refuses.
    """
    return _install_service(python, enable, dry_run) if service else _install_task(python, enable, dry_run)


def _install_task(python: str, enable: bool, dry_run: bool) -> Outcome:
    if _service_command() is not None:
        raise HearthError(
            f"the service {services.NAME} starts the daemon already; to have a logon task in its place, type"
            " `hearth uninstall` as an administrator first"
        )
    sid, path = sids.own(), task.file()
    wanted = {task.FILE_NAME: rendered(python, sid)}
    plan = service_files.plan_install(wanted, service_files.read(task.folder(), wanted))
    if plan.foreign:
        raise HearthError(f"{path} was not written by Hearth and is left as it is; move it away, then try again")
    tasks = Schtasks()
    outcome = Outcome(task.folder(), plan, TASKS, manager_problem=tasks.problem)
    if tasks.problem is not None or not enable:
        outcome.commands = [subprocess.list2cmdline(command_to_create(task.name(sid), path))]
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    make_private(task.folder())
    service_files.write(task.folder(), {name: wanted[name] for name in plan.write})
    if tasks.problem is None and enable:
        if plan.write or not tasks.knows(task.name(sid)):
            tasks.create(task.name(sid), path)
        outcome.enabled, outcome.effect = True, _TASK_EFFECT
    return outcome


def _install_service(python: str, enable: bool, dry_run: bool) -> Outcome:
    import servicemanager

    wanted, present = service_command(python), _service_command()
    name = (services.NAME,)
    plan = Plan(keep=name) if present == wanted else Plan(write=name)
    outcome = Outcome(task.REGISTRY_FOLDER, plan, SERVICES)
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    _remove_task()
    if plan.write:
        services.create(services.Service(wanted))
    # Register it here: the service itself has no right to do that.
    services.register_events(services.NAME, servicemanager.__file__)
    if enable:
        services.set_trigger(services.NAME, services.on_pipe(paths.Places().socket))
        outcome.enabled, outcome.effect = True, _SERVICE_EFFECT
    else:
        outcome.commands = ["hearth install --service"]
    return outcome


def uninstall(*, dry_run: bool) -> Outcome:
    """Remove the task and the service. Doing it again changes nothing. Raises HearthError when Windows refuses."""
    if _service_command() is not None:
        return _uninstall_service(dry_run)
    plan = service_files.plan_uninstall(service_files.read(task.folder(), [task.FILE_NAME]))
    tasks = Schtasks()
    outcome = Outcome(task.folder(), plan, TASKS, manager_problem=tasks.problem)
    if tasks.problem is not None and plan.remove:
        outcome.commands = [subprocess.list2cmdline(command_to_delete(task.name(sids.own())))]
    if plan.remove:
        outcome.notes.append(_STAYS)
    if not dry_run and plan.remove:
        _remove_task()
    return outcome


def _uninstall_service(dry_run: bool) -> Outcome:
    outcome = Outcome(task.REGISTRY_FOLDER, Plan(remove=(services.NAME,)), SERVICES)
    if not dry_run:
        for name in (*instances(), services.NAME):
            services.stop(name)
            services.delete(name)
        services.forget_events(services.NAME)
    return outcome


def _remove_task() -> None:
    """Remove the task, and then the file that records it: an interrupted removal can be repeated."""
    tasks = Schtasks()
    name = task.name(sids.own())
    if tasks.problem is None and os.path.lexists(task.file()) and tasks.knows(name):
        tasks.delete(name)
    service_files.remove(task.folder(), [task.FILE_NAME])


def rendered(python: str, sid: str) -> str:
    """Return the text of the task for this interpreter and this user."""
    if not os.path.isabs(python):
        raise HearthError(f"the Task Scheduler cannot start {python!r}: it needs the whole path of the interpreter")
    return render_task(service_files.template("winsvc", task.FILE_NAME), windowless(python), paths.home_dir(), sid)


def service_command(python: str) -> str:
    """Return the command line of the service for this interpreter."""
    script = os.path.join(service_files.templates_folder("winsvc", services.SCRIPT), services.SCRIPT)
    underneath = getattr(sys, "_base_executable", "") or python
    return services.command_line(windowless(underneath), os.path.abspath(script), python, sysconfig.get_path("purelib"))


def _service_command() -> str | None:
    """Return the command line of Hearth's service; None without one. Raises HearthError if it is not Hearth's."""
    command = services.command_of(services.NAME)
    if command is not None and not services.is_ours(command):
        raise HearthError(f"the service {services.NAME} runs {command}, which is not Hearth's, and is left as it is")
    return command


def instances() -> list[str]:
    """List the services that Windows has made from the template, one for each user who has logged on since."""
    found = []
    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, task.SERVICES_KEY) as key:
        for index in range(winreg.QueryInfoKey(key)[0]):
            name = winreg.EnumKey(key, index)
            if name.startswith(services.NAME + "_"):
                found.append(name)
    return found
