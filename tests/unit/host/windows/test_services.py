"""What is asked of Windows's service manager, as far as it can be said without one."""

import uuid

import pytest

from hearth.host.windows import accounts, services


def test_the_service_is_started_by_whoever_opens_the_pipe() -> None:
    trigger = services.on_pipe("\\\\.\\pipe\\hearth-S-1-5-21-1-mcp")
    # SERVICE_TRIGGER_TYPE_NETWORK_ENDPOINT, SERVICE_TRIGGER_ACTION_SERVICE_START, NAMED_PIPE_EVENT_GUID.
    assert (trigger.kind, trigger.action) == (6, 1)
    assert uuid.UUID(bytes_le=trigger.subtype) == uuid.UUID("1f81d131-3fac-4537-9e0c-7e7b0c2f4b55")
    # SERVICE_TRIGGER_DATA_TYPE_STRING: the name behind \\.\pipe\ in UTF-16, closed by a NUL.
    assert (trigger.data_kind, trigger.data.decode("utf-16-le")) == (2, "hearth-S-1-5-21-1-mcp\0")


def test_what_is_no_pipe_of_this_machine_starts_nothing() -> None:
    with pytest.raises(ValueError, match="not the name of a pipe"):
        services.on_pipe("\\\\elsewhere\\pipe\\hearth")


def test_the_service_is_one_of_each_user() -> None:
    # SERVICE_USER_SERVICE | SERVICE_WIN32_OWN_PROCESS
    assert services.Service("x").kind == 0x40 | 0x10
    assert services.Service("x").name == services.NAME


def test_its_command_line_is_quoted_as_windows_reads_it_and_known_again() -> None:
    line = services.command_line(
        r"C:\Program Files\Python\pythonw.exe", rf"C:\a b\{services.SCRIPT}", r"C:\v\python.exe", r"C:\v\Lib"
    )
    assert line.startswith('"C:\\Program Files\\Python\\pythonw.exe" -I "C:\\a b\\')
    assert line.endswith(r"--python C:\v\python.exe --packages C:\v\Lib")
    assert services.is_ours(line)
    assert not services.is_ours(r"C:\other\service.exe")


@pytest.mark.parametrize("sid", ["S-1-5-18", "S-1-5-19", "S-1-5-20"])
def test_accounts_of_the_system_are_refused_with_what_to_do(sid: str) -> None:
    assert "hearth install --service" in (accounts.refusal(sid) or "")


def test_a_person_is_not_refused() -> None:
    assert accounts.refusal("S-1-5-21-1-2-3-1001") is None
