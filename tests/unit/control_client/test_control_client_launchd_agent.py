"""What launchctl printed."""

from hearth.control_client.launchd_agent import parse, start_hint
from hearth.control_client.unit import Unit
from support.launchd.launchctl import PRINTED

RUNNING = PRINTED % ("/Users/me/Library/LaunchAgents/mcp.hearth.plist", "running", "\tpid = 4711\n", "(never exited)")
WAITING = PRINTED % ("/Users/me/Library/LaunchAgents/mcp.hearth.plist", "not running", "", "78: EX_CONFIG")


def test_a_job_that_runs_has_its_own_pid_and_not_that_of_its_socket() -> None:
    found = parse("service", RUNNING, written=True)
    assert (found.active, found.pid) == ("active", 4711)
    assert found.path.endswith("mcp.hearth.plist")


def test_a_loaded_job_listens_whether_it_runs_or_not() -> None:
    assert parse("socket", WAITING, written=True).active == "active"
    assert parse("service", WAITING, written=True) == Unit(
        "mcp.hearth", True, "inactive", "78: EX_CONFIG", 0, "/Users/me/Library/LaunchAgents/mcp.hearth.plist"
    )


def test_a_job_that_launchd_does_not_have_is_installed_as_far_as_its_file_is_there() -> None:
    assert parse("socket", None, written=True) == Unit("mcp.hearth", True, "inactive", "", 0, "")
    assert not parse("socket", None, written=False).installed


def test_what_cannot_be_understood_is_a_loaded_job_without_a_process() -> None:
    assert parse("service", "\tpid = many\nnonsense", written=False).pid == 0


def test_what_lights_the_daemon_depends_on_the_agent() -> None:
    assert "first bridge" in start_hint(None)
    assert "first bridge" in start_hint(parse("socket", None, written=False))
    assert "first connection" in start_hint(parse("socket", WAITING, written=True))
    assert "hearth install" in start_hint(parse("socket", None, written=True))
