"""Client of Windows's service control manager: makes, inspects, stops and removes services. See `service_requests`.

ctypes is used because pywin32, on which the service itself is built, does not support triggers.
"""

import sys
import time
from typing import NamedTuple

from hearth.errors import HearthError
from hearth.host.windows.service_requests import DEMAND_START, DESCRIPTION, ERROR_NORMAL, Service, Trigger

STOPPED, START_PENDING, STOP_PENDING, RUNNING = 1, 2, 3, 4
# Longer than a daemon takes to drain and to stop its servers.
STOP_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.1


class Status(NamedTuple):
    """State of a service. `code` is its exit code, one of Windows; if that is 1066, `own_code` is the service's own."""

    state: int
    code: int
    own_code: int
    checkpoint: int
    pid: int


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _CONNECT, _CREATE_SERVICE = 0x0001, 0x0002
    _QUERY_CONFIG, _CHANGE_CONFIG, _QUERY_STATUS = 0x0001, 0x0002, 0x0004
    _START, _STOP, _DELETE = 0x0010, 0x0020, 0x0001_0000
    _CONTROL_STOP = 1
    _CONFIG_DESCRIPTION, _CONFIG_TRIGGERS = 1, 8
    _STATUS_PROCESS_INFO = 0
    _ACCESS_DENIED, _INVALID_PARAMETER = 5, 87
    _ALREADY_RUNNING, _NOT_FOUND, _NOT_ACTIVE = 1056, 1060, 1062

    class _Item(ctypes.Structure):
        _fields_ = (("type", wintypes.DWORD), ("size", wintypes.DWORD), ("data", ctypes.c_void_p))

    class _Trigger(ctypes.Structure):
        _fields_ = (
            ("type", wintypes.DWORD),
            ("action", wintypes.DWORD),
            ("subtype", ctypes.c_void_p),
            ("count", wintypes.DWORD),
            ("items", ctypes.POINTER(_Item)),
        )

    class _Triggers(ctypes.Structure):
        _fields_ = (
            ("count", wintypes.DWORD),
            ("triggers", ctypes.POINTER(_Trigger)),
            ("reserved", ctypes.c_void_p),
        )

    class _Config(ctypes.Structure):
        _fields_ = (
            ("type", wintypes.DWORD),
            ("start", wintypes.DWORD),
            ("error", wintypes.DWORD),
            ("command", wintypes.LPWSTR),
            ("group", wintypes.LPWSTR),
            ("tag", wintypes.DWORD),
            ("dependencies", wintypes.LPWSTR),
            ("account", wintypes.LPWSTR),
            ("display", wintypes.LPWSTR),
        )

    class _Process(ctypes.Structure):
        _fields_ = tuple(
            (name, wintypes.DWORD)
            for name in ("type", "state", "accepted", "code", "own_code", "checkpoint", "hint", "pid", "flags")
        )

    _api = ctypes.WinDLL("advapi32", use_last_error=True)
    _handle, _dword, _text, _pointer = wintypes.HANDLE, wintypes.DWORD, wintypes.LPCWSTR, ctypes.c_void_p
    for _name, _returns, _takes in (
        ("OpenSCManagerW", _handle, (_text, _text, _dword)),
        ("OpenServiceW", _handle, (_handle, _text, _dword)),
        ("CreateServiceW", _handle, (_handle, *[_text] * 2, *[_dword] * 4, *[_text] * 2, _pointer, *[_text] * 3)),
        ("ChangeServiceConfigW", wintypes.BOOL, (_handle, *[_dword] * 3, *[_text] * 2, _pointer, *[_text] * 4)),
        ("ChangeServiceConfig2W", wintypes.BOOL, (_handle, _dword, _pointer)),
        ("QueryServiceConfigW", wintypes.BOOL, (_handle, _pointer, _dword, _pointer)),
        ("QueryServiceStatusEx", wintypes.BOOL, (_handle, ctypes.c_int, _pointer, _dword, _pointer)),
        ("StartServiceW", wintypes.BOOL, (_handle, _dword, _pointer)),
        ("ControlService", wintypes.BOOL, (_handle, _dword, _pointer)),
        ("DeleteService", wintypes.BOOL, (_handle,)),
        ("CloseServiceHandle", wintypes.BOOL, (_handle,)),
    ):  # fmt: skip
        getattr(_api, _name).restype, getattr(_api, _name).argtypes = _returns, _takes

    class _Opened:
        """Handle of the manager or of a service, closed after the block; None if there is no such service."""

        def __init__(self, handle: int | None) -> None:
            self._handle = handle

        def __enter__(self) -> int | None:
            return self._handle

        def __exit__(self, *exc: object) -> None:
            if self._handle:
                _api.CloseServiceHandle(self._handle)

    def _manager(access: int = _CONNECT) -> _Opened:
        handle = _api.OpenSCManagerW(None, None, access)
        if not handle:
            raise _refusal("the service manager")
        return _Opened(handle)

    def _service(name: str, access: int) -> _Opened:
        with _manager() as manager:
            handle = _api.OpenServiceW(manager, name, access)
            if not handle and ctypes.get_last_error() != _NOT_FOUND:
                raise _refusal(f"the service {name}")
        return _Opened(handle)

    def _refusal(what: str) -> HearthError:
        code = ctypes.get_last_error()
        if code == _ACCESS_DENIED:
            return HearthError(
                f"Windows refuses access to {what}: services are an administrator's. Open a terminal with `Run as"
                " administrator` and type the same there; `hearth install` without --service needs no administrator"
            )
        return HearthError(f"Windows refuses {what}: {ctypes.FormatError(code).strip()} (error {code})")

    def command_of(name: str) -> str | None:
        """Return the command line of a service; None if there is none of that name. Raises HearthError."""
        with _service(name, _QUERY_CONFIG) as service:
            if service is None:
                return None
            needed = wintypes.DWORD()
            _api.QueryServiceConfigW(service, None, 0, ctypes.byref(needed))
            buffer = ctypes.create_string_buffer(max(needed.value, ctypes.sizeof(_Config)))
            if not _api.QueryServiceConfigW(service, buffer, len(buffer), ctypes.byref(needed)):
                raise _refusal(f"the service {name}")
            return str(_Config.from_buffer(buffer).command)

    def create(wanted: Service) -> None:
        """Make the service, or change the one of that name. Raises HearthError."""
        with _manager(_CONNECT | _CREATE_SERVICE) as manager, _service(wanted.name, _CHANGE_CONFIG) as there:
            asked = (wanted.kind, DEMAND_START, ERROR_NORMAL, wanted.command, None, None, None, None, None)
            if there is not None:
                if not _api.ChangeServiceConfigW(there, *asked, wanted.display_name):
                    raise _refusal(f"the service {wanted.name}")
                _describe(there)
                return
            handle = _api.CreateServiceW(manager, wanted.name, wanted.display_name, _CHANGE_CONFIG, *asked)
            if not handle:
                if ctypes.get_last_error() == _INVALID_PARAMETER:
                    raise HearthError(
                        "this Windows knows no services of a user's own, which came with Windows 10;"
                        " `hearth install` without --service needs none"
                    )
                raise _refusal(f"the service {wanted.name}")
            with _Opened(handle):
                _describe(handle)

    def _describe(service: int) -> None:
        text = wintypes.LPWSTR(DESCRIPTION)
        if not _api.ChangeServiceConfig2W(service, _CONFIG_DESCRIPTION, ctypes.byref(text)):
            raise _refusal("the description of the service")

    def set_trigger(name: str, trigger: Trigger) -> None:
        """Set this event as the only one that starts the service. Raises HearthError."""
        texts = [ctypes.create_string_buffer(data, len(data)) for _, data in trigger.data]
        items = (_Item * len(texts))(
            *(
                _Item(kind, len(text), ctypes.addressof(text))
                for (kind, _), text in zip(trigger.data, texts, strict=True)
            )
        )
        subtype = ctypes.create_string_buffer(trigger.subtype, len(trigger.subtype))
        one = _Trigger(trigger.kind, trigger.action, ctypes.addressof(subtype), len(texts), items)
        asked = _Triggers(1, ctypes.pointer(one), None)
        with _service(name, _CHANGE_CONFIG | _START) as service:
            if service is None or not _api.ChangeServiceConfig2W(service, _CONFIG_TRIGGERS, ctypes.byref(asked)):
                raise _refusal(f"the trigger of the service {name}")

    def status(name: str) -> Status | None:
        """Return the status of a service; None if there is none of that name. Raises HearthError."""
        with _service(name, _QUERY_STATUS) as service:
            if service is None:
                return None
            found, needed = _Process(), wintypes.DWORD()
            told = ctypes.byref(found), ctypes.sizeof(found), ctypes.byref(needed)
            if not _api.QueryServiceStatusEx(service, _STATUS_PROCESS_INFO, *told):
                raise _refusal(f"the service {name}")
            return Status(found.state, found.code, found.own_code, found.checkpoint, found.pid)

    def start(name: str) -> None:
        """Start the service; its process need not be ready yet. Raises HearthError."""
        with _service(name, _START) as service:
            if service is None or (
                not _api.StartServiceW(service, 0, None) and ctypes.get_last_error() != _ALREADY_RUNNING
            ):
                raise _refusal(f"the service {name}")

    def stop(name: str, limit: float = STOP_LIMIT_SECONDS) -> bool:
        """Stop the service and wait for that; return False if it has not stopped in time. Raises HearthError."""
        with _service(name, _STOP) as service:
            if service is None:
                return True
            reply = (wintypes.DWORD * 7)()
            if not _api.ControlService(service, _CONTROL_STOP, reply) and ctypes.get_last_error() != _NOT_ACTIVE:
                raise _refusal(f"the service {name}")
        deadline = time.monotonic() + limit
        while (found := status(name)) is not None and found.state != STOPPED:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def delete(name: str) -> None:
        """Remove the service; a running one is removed when it has stopped. Raises HearthError."""
        with _service(name, _DELETE) as service:
            if service is not None and not _api.DeleteService(service):
                raise _refusal(f"the service {name}")
