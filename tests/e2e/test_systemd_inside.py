"""What runs inside the unit: the user's own MCP servers, which must be able to do what the user can do."""

import json
import os
import signal

import pytest

from e2e.conftest import missing
from e2e.systemd.client import RpcError
from e2e.systemd.machine import until
from e2e.systemd.seat import SERVICE, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]


def test_node_runs_inside_the_unit(seat: Seat) -> None:
    if not os.path.exists(seat.node):
        missing("node is not installed")
    server = f'[mcpServers.nodedesk]\ncommand = "{seat.node}"\nargs = ["{seat.servers}/desk.js"]\n'
    seat.configure(server)
    client = seat.session()
    assert client.call("nodedesk__sum", limit=10_000_000) == str(sum(i % 7 for i in range(1, 10_000_001)))


def test_a_setuid_helper_gains_its_privilege_inside_the_unit(seat: Seat) -> None:
    helper = f"{seat.installation.root.parent}/setuid-id"
    seat.machine.check("install", "-m", "4755", "/usr/bin/id", helper)
    client = seat.attached_bridge()
    assert "euid=0(root)" in client.call("desk__run", argv=[helper])
    assert json.loads(client.call("desk__facts"))["status"]["NoNewPrivs"] == "0"


def test_no_filter_of_system_calls_is_inherited(seat: Seat) -> None:
    assert json.loads(seat.attached_bridge().call("desk__facts"))["status"]["Seccomp"] == "0"


def test_a_server_has_the_signals_umask_and_pipes_of_an_ordinary_program(seat: Seat) -> None:
    facts = json.loads(seat.attached_bridge().call("desk__facts"))
    assert int(facts["status"]["SigBlk"], 16) == 0
    # Python, which the server runs on, ignores SIGPIPE (13) and SIGXFSZ (25) by itself. 32 and 33 are glibc's own: no
    # program can change them, and whoever booted this machine may have been started without them.
    assert int(facts["status"]["SigIgn"], 16) & ~(1 << 12 | 1 << 24 | 1 << 31 | 1 << 32) == 0
    assert facts["status"]["Umask"] == "0022"
    assert [link.split(":")[0] for link in facts["stdio"].values()] == ["pipe"] * 3


def test_a_shell_pipeline_inside_the_unit_ends_when_its_reader_has_enough(seat: Seat) -> None:
    # A server that is a shell script: bash cannot give its children back a SIGPIPE that it was started without.
    seen = f"{seat.user.home}/seen"
    script = (
        f"yes | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}} >{seen}; exec /usr/bin/python3 -I {seat.servers}/desk.py"
    )
    seat.configure(f"[mcpServers.shell]\ncommand = '/bin/bash'\nargs = ['-c', '{script}']\n")
    assert seat.session().call("shell__echo", text="up") == "up"
    assert seat.check("cat", seen).strip() == str(128 + signal.SIGPIPE)


def test_a_server_is_not_told_what_systemd_told_the_daemon(seat: Seat) -> None:
    environ = json.loads(seat.attached_bridge().call("desk__facts"))["environ"]
    private = {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}
    assert not private & set(environ)
    assert environ["HOME"] == seat.user.home


def test_what_a_server_left_running_ends_with_the_daemon(seat: Seat) -> None:
    seat.attached_bridge().call("desk__run", argv=["sh", "-c", "setsid sleep 1234 >/dev/null 2>&1 </dev/null & :"])
    assert len(seat.processes("sleep 1234")) == 1
    seat.systemctl("stop", SERVICE)
    assert seat.processes("sleep 1234") == []


@pytest.mark.usefixtures("protocols")
def test_systemctl_status_shows_what_the_daemon_does(seat: Seat) -> None:
    seat.configure('[mcpServers.broken]\ncommand = "/nowhere/at-all"\n')
    client, second = seat.attached_bridge(), seat.bridge()
    second.initialize()
    started, release = f"{seat.user.home}/started", f"{seat.user.home}/release"
    call = client.send_call("desk__hold", started=started, release=release)
    with pytest.raises(RpcError):
        second.call("broken__any")
    said = "2 sessions, 2 servers (1 running, 1 failing: broken), {}"
    until(lambda: seat.show("StatusText") == said.format("1 call"), "the call is counted")
    assert f'Status: "{said.format("1 call")}"' in seat.systemctl("status", "--no-pager", "mcp")
    seat.check("touch", release)
    client.answer(call)
    until(lambda: seat.show("StatusText") == said.format("0 calls"), "its end is noticed")
    second.close()
    until(lambda: seat.show("StatusText").startswith("1 session,"), "the session's end is noticed")


def test_the_journal_has_the_daemons_lines_under_its_own_name_with_level_and_fields(seat: Seat, protocols: str) -> None:
    client = seat.attached_bridge()
    session = seat.status()["sessions"][0]["id"]
    client.close()
    until(lambda: seat.journal(f"HEARTH_SESSION={session}")[1:], "its end is logged")
    (line,) = [line for line in seat.journal("HEARTH_SERVER=desk") if "ready" in str(line["MESSAGE"])]
    assert line["SYSLOG_IDENTIFIER"] == "hearth"
    assert (line["PRIORITY"], line["HEARTH_PROFILE"], line["HEARTH_ERA"]) == ("6", "mcp", "legacy")
    assert (line["_TRANSPORT"], line["LOGGER"]) == ("journal", "hearth.upstreams.instance")
    assert line["CODE_FILE"].endswith("hearth/upstreams/instance.py")
    assert line["CODE_LINE"].isdigit() and line["CODE_FUNC"]
    # journalctl --user -u mcp goes by this.
    assert line["_SYSTEMD_USER_UNIT"] == SERVICE
    # Whichever is there is used.
    said = [str(line["MESSAGE"]) for line in seat.journal("LOGGER=hearth.daemon.startup")]
    assert [line for line in said if "protocols" in line] == [f"systemd's protocols are spoken by {protocols}"]
    begun, ended = seat.journal(f"HEARTH_SESSION={session}")
    assert ("begins" in begun["MESSAGE"], "session ended" in ended["MESSAGE"]) == (True, True)


def test_a_stderr_that_a_drop_in_leads_elsewhere_gets_the_log_with_levels_as_prefixes(seat: Seat) -> None:
    path = f"{seat.user.home}/stderr"
    seat.add_drop_in(f"[Service]\nStandardError=file:{path}\n")
    seat.attached_bridge()
    said = seat.check("cat", path).splitlines()
    assert any(line.startswith("<6>hearth.upstreams.instance: ready") and "upstream=desk" in line for line in said)
    assert seat.journal("LOGGER=hearth.upstreams.instance") == []
