"""What is asked of Windows's service manager, and the logon task as text, as far as both can be said without a Windows.

The task is held against the Task Scheduler's schema, and must say what the daemon relies on.
"""

import uuid
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hearth.daemon.main import DaemonOptions
from hearth.errors import HearthError
from hearth.host.install import service_files
from hearth.host.windows import accounts, services, task

TEMPLATE = (Path(__file__).resolve().parents[4] / "winsvc" / task.FILE_NAME).read_text("utf-8")
NAMESPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
SID = "S-1-5-21-1-2-3-1001"
PYTHON = r"C:\Users\Ada\venv\Scripts\pythonw.exe"
HOME = r"C:\Users\Ada"

BOOLEAN = {"true", "false"}
# The Task Scheduler's schema 1.2, as far as it is used here: what each element holds, or which values it may have.
# ANY is any text; an element that is not in the table is refused by Windows.
ANY: set[str] = set()
SCHEMA: dict[str, set[str]] = {
    "RegistrationInfo/Description": ANY,
    "Triggers/LogonTrigger/Enabled": BOOLEAN,
    "Triggers/LogonTrigger/UserId": ANY,
    "Principals/Principal/UserId": ANY,
    "Principals/Principal/LogonType": {"S4U", "Password", "InteractiveToken", "InteractiveTokenOrPassword"},
    "Principals/Principal/RunLevel": {"LeastPrivilege", "HighestAvailable"},
    "Settings/MultipleInstancesPolicy": {"Parallel", "Queue", "IgnoreNew", "StopExisting"},
    "Settings/DisallowStartIfOnBatteries": BOOLEAN,
    "Settings/StopIfGoingOnBatteries": BOOLEAN,
    "Settings/AllowHardTerminate": BOOLEAN,
    "Settings/RunOnlyIfNetworkAvailable": BOOLEAN,
    "Settings/IdleSettings/StopOnIdleEnd": BOOLEAN,
    "Settings/IdleSettings/RestartOnIdle": BOOLEAN,
    "Settings/AllowStartOnDemand": BOOLEAN,
    "Settings/Enabled": BOOLEAN,
    "Settings/Hidden": BOOLEAN,
    "Settings/RunOnlyIfIdle": BOOLEAN,
    "Settings/WakeToRun": BOOLEAN,
    "Settings/StartWhenAvailable": BOOLEAN,
    "Settings/ExecutionTimeLimit": {"PT0S"},
    "Settings/Priority": {str(number) for number in range(11)},
    # At least a minute, and 1 to 255 times.
    "Settings/RestartOnFailure/Interval": {"PT1M"},
    "Settings/RestartOnFailure/Count": {str(number) for number in range(1, 256)},
    "Actions/Exec/Command": ANY,
    "Actions/Exec/Arguments": ANY,
    "Actions/Exec/WorkingDirectory": ANY,
}
# In this order, because the schema has them in a sequence.
PARTS = ["RegistrationInfo", "Triggers", "Principals", "Settings", "Actions"]


def rendered(python: str = PYTHON, home: str = HOME) -> str:
    return services.render_task(TEMPLATE, python, home, SID)


def leaves(element: ElementTree.Element, above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for child in element:
        path = f"{above}{child.tag.removeprefix(NAMESPACE)}"
        if len(child):
            found |= leaves(child, path + "/")
        else:
            found[path] = child.text or ""
    return found


def told(text: str = "") -> dict[str, str]:
    return leaves(ElementTree.fromstring(text or rendered()))


def test_every_element_is_one_that_the_schema_knows_with_a_value_that_it_allows() -> None:
    found = told()
    assert found.keys() - SCHEMA.keys() == set()
    assert {path: value for path, value in found.items() if SCHEMA[path] and value not in SCHEMA[path]} == {}
    assert [path for path, value in found.items() if not value] == []


def test_the_parts_stand_in_the_order_of_the_schema_and_the_action_has_its_principal() -> None:
    root = ElementTree.fromstring(rendered())
    assert (root.tag, root.attrib) == (f"{NAMESPACE}Task", {"version": "1.2"})
    assert [child.tag.removeprefix(NAMESPACE) for child in root] == PARTS
    principal = root.find(f"{NAMESPACE}Principals/{NAMESPACE}Principal")
    actions = root.find(f"{NAMESPACE}Actions")
    assert principal is not None
    assert actions is not None
    assert principal.attrib["id"] == actions.attrib["Context"]


def test_it_runs_as_this_user_at_this_users_logon_and_without_more_rights() -> None:
    found = told()
    assert found["Triggers/LogonTrigger/UserId"] == found["Principals/Principal/UserId"] == SID
    assert found["Principals/Principal/LogonType"] == "InteractiveToken"
    assert found["Principals/Principal/RunLevel"] == "LeastPrivilege"
    assert found["Settings/Hidden"] == found["Settings/AllowStartOnDemand"] == "true"


def test_nothing_but_the_daemon_itself_ends_it() -> None:
    found = told()
    assert found["Settings/ExecutionTimeLimit"] == "PT0S"
    assert found["Settings/StopIfGoingOnBatteries"] == found["Settings/IdleSettings/StopOnIdleEnd"] == "false"


def test_it_starts_the_daemon_of_the_default_profile_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEARTH_CONFIG", r"C:\other.toml")
    found = told()
    assert (found["Actions/Exec/Command"], found["Actions/Exec/WorkingDirectory"]) == (PYTHON, HOME)
    flags, _, arguments = found["Actions/Exec/Arguments"].partition("hearth.daemon ")
    assert flags == "-I -m "
    options = DaemonOptions(arguments.split())
    assert (options.profile, options.config, options.detach) == ("mcp", None, True)


@pytest.mark.parametrize("odd", [r"C:\Jörg & <Söhne>\päth", "C:\\日本\\python.exe", r"C:\a]]>b\@PATH@", "C:\\😀"])
def test_a_path_is_written_so_that_it_is_read_back_and_the_file_is_ascii(odd: str) -> None:
    text = rendered(python=odd, home=odd)
    assert text.isascii()
    found = told(text)
    assert found["Actions/Exec/Command"] == found["Actions/Exec/WorkingDirectory"] == odd


@pytest.mark.parametrize("odd", ["C:\\a\nb", "C:\\a\x01b", "C:\\a\ud800b"])
def test_what_xml_cannot_hold_is_refused_with_a_sentence(odd: str) -> None:
    with pytest.raises(HearthError, match="plainer name"):
        rendered(python=odd)


def test_it_is_known_as_hearths_and_says_the_same_each_time() -> None:
    assert service_files.MARK in rendered()
    assert rendered() == rendered()


def test_two_users_of_a_machine_have_two_tasks() -> None:
    assert task.name(SID) != task.name(SID + "1")


def test_the_interpreter_without_a_window_is_taken_where_it_is_there(tmp_path: Path) -> None:
    console = tmp_path / "python.exe"
    assert services.windowless(str(console)) == str(console)
    (tmp_path / "pythonw.exe").touch()
    assert services.windowless(str(console)) == str(tmp_path / "pythonw.exe")
    assert services.windowless(str(tmp_path / "pythonw.exe")) == str(tmp_path / "pythonw.exe")


# --- the service


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
