"""Secrets of servers under systemd: credentials of the unit, and what the command line has stored."""

import json

import pytest

from e2e.systemd.client import RpcError
from e2e.systemd.seat import SERVICE, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

FROM_FILE, FROM_UNIT, STORED = "cred-file-0123456789", "cred-unit-0123456789", "stored-0123456789abc"


def entry(seat: Seat, name: str, env: str) -> str:
    command = f'command = "/usr/bin/python3"\nargs = ["-I", "{seat.servers}/desk.py"]'
    return f"[mcpServers.{name}]\n{command}\nenv = {{{env}}}\n"


def environ_of(answer: str) -> dict[str, str]:
    return json.loads(answer)["environ"]


def test_credentials_and_stored_secrets_reach_the_server_that_names_them_and_nobody_else(seat: Seat) -> None:
    seat.write(f"{seat.user.home}/token", FROM_FILE + "\n")
    seat.check("chmod", "600", f"{seat.user.home}/token")
    seat.add_drop_in(f"[Service]\nLoadCredential=github:%h/token\nSetCredential=plain:{FROM_UNIT}\n")
    # Stored from a shell, found by a daemon that the service manager starts.
    seat.check(seat.installation.hearth, "secret", "set", "stored", stdin=STORED)
    named = 'A = "${cred:github}", B = "${cred:plain}", C = "${keyring:stored}"'
    seat.configure(
        'log_level = "debug"\n'
        + entry(seat, "trusted", named)
        + entry(seat, "other", 'X = "1"')
        + entry(seat, "wrong", 'X = "${cred:absent}"'),
        upstream=False,
    )
    client = seat.session()
    trusted = environ_of(client.call("trusted__facts"))
    assert (trusted["A"], trusted["B"], trusted["C"]) == (FROM_FILE, FROM_UNIT, STORED)
    other = environ_of(client.call("other__facts"))
    assert not {FROM_FILE, FROM_UNIT, STORED} & set(other.values())
    private = {"CREDENTIALS_DIRECTORY", "DBUS_SESSION_BUS_ADDRESS", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET"}
    assert not private & {*trusted, *other}
    with pytest.raises(RpcError, match=r"'wrong': env\.X: systemd has given the daemon no credential 'absent'"):
        client.call("wrong__facts")
    told = json.dumps(seat.journal()) + seat.hearth("status", "--json").stdout + seat.hearth("doctor").stdout
    assert "ready after" in told
    assert not [value for value in (FROM_FILE, FROM_UNIT, STORED) if value in told]


def test_an_encrypted_credential_needs_a_newer_systemd_for_a_user(seat: Seat) -> None:
    """What docs/systemd.md says of it: should this fail on a newer systemd, the document can promise more."""
    if int(seat.check("systemctl", "--version").split()[1]) >= 256:
        pytest.skip("users can have encrypted credentials from systemd 256 on")
    made = seat.machine.check("sh", "-c", f"printf {FROM_FILE} | systemd-creds encrypt --name=github - - 2>/dev/null")
    seat.write(f"{seat.user.home}/github.cred", made)
    seat.add_drop_in("[Service]\nLoadCredentialEncrypted=github:%h/github.cred\n")
    assert seat.run("systemctl", "--user", "start", SERVICE).returncode != 0
    assert seat.show("ExecMainStatus") == "243"


def test_a_credential_whose_file_is_missing_keeps_the_daemon_from_starting(seat: Seat) -> None:
    seat.add_drop_in("[Service]\nLoadCredential=github:%h/absent\n")
    assert seat.run("systemctl", "--user", "start", SERVICE).returncode != 0
    assert seat.show("ExecMainStatus") == "243"
