"""Requests to Windows's service control manager for Hearth: names, numbers and the command line. Pure."""

import subprocess
import uuid
from typing import NamedTuple

from hearth.host.windows import task

NAME = task.SERVICE_NAME
DISPLAY_NAME = "Hearth, the MCP daemon"
DESCRIPTION = (
    "Shares one set of MCP servers among the agents and editors of the user it runs as. Written by `hearth install`;"
    " `hearth uninstall` removes it."
)
# Registry key in which the manager keeps services, in its usual spelling.
REGISTRY_FOLDER = f"HKLM\\{task.SERVICES_KEY}"
SCRIPT = "hearth_service.py"
# SERVICE_USER_OWN_PROCESS: a template. At each logon, Windows 10 and later make a service from it for that user, which
# runs as that user and in that user's session.
PER_USER = 0x50
DEMAND_START = 3
# A failure is logged in the event log, and the system starts all the same.
ERROR_NORMAL = 1

# winsvc.h: the service starts when a client opens a named pipe.
TRIGGER_NETWORK_ENDPOINT = 6
TRIGGER_ACTION_START = 1
TRIGGER_DATA_STRING = 2
NAMED_PIPE_EVENT = uuid.UUID("1F81D131-3FAC-4537-9E0C-7E7B0C2F4B55")
_PIPES = "\\\\.\\pipe\\"


class Service(NamedTuple):
    """Service as it should be registered."""

    command: str
    name: str = NAME
    # No two services of a machine may have the same display name.
    display_name: str = DISPLAY_NAME
    kind: int = PER_USER


class Trigger(NamedTuple):
    """Event that starts a service."""

    kind: int
    action: int
    subtype: bytes
    # Pairs of type and bytes.
    data: tuple[tuple[int, bytes], ...]


def command_line(python: str, script: str, interpreter: str, packages: str) -> str:
    """Return the command line that the service manager runs.

    `python` is no launcher of a virtual environment, which would start a second process that the manager does not know;
    so `interpreter` and `packages` name those of that environment.
    """
    return subprocess.list2cmdline([python, "-I", script, "--python", interpreter, "--packages", packages])


def is_ours(command: str) -> bool:
    """Tell whether Hearth may change and remove a service with this command line."""
    return SCRIPT in command


def on_pipe(endpoint: str) -> Trigger:
    """Return a trigger that starts the service when a client opens this pipe. Raises ValueError for a remote pipe."""
    if not endpoint.lower().startswith(_PIPES):
        raise ValueError(f"{endpoint!r} is not the name of a pipe")
    data = (endpoint[len(_PIPES) :] + "\0").encode("utf-16-le")
    return Trigger(
        TRIGGER_NETWORK_ENDPOINT, TRIGGER_ACTION_START, NAMED_PIPE_EVENT.bytes_le, ((TRIGGER_DATA_STRING, data),)
    )
