"""Values in a keyring, or in a file where there is none. The keyring is the real package, in its own process."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hearth.errors import VaultError
from hearth.host.locks import Lock
from hearth.secrets import keyring_process
from hearth.secrets.vault import Vault

PLAIN = "keyrings.alt.file.PlaintextKeyring"
NONE = "keyring.backends.null.Keyring"
VALUE = "s3cr3t-value"  # in ASCII, so that JSON shows it as it is
# Backends that do what desktops do at their worst.
WICKED = """
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordSetError

class Wicked(KeyringBackend):
    priority = 9
    def get_password(self, service, name): self.act("")
    def set_password(self, service, name, value): self.act(value)
    def delete_password(self, service, name): self.act("")

class Locked(Wicked):
    def act(self, value): raise KeyringLocked("dismissed")

class Hanging(Wicked):
    def act(self, value):
        import time
        time.sleep(3600)

class Indiscreet(Wicked):
    def act(self, value): raise PasswordSetError("cannot store " + value)

class Dying(Wicked):
    def act(self, value):
        import os
        os._exit(3)

class Chatty(Wicked):
    def act(self, value): print("{}")
    def get_password(self, service, name): print("hello"); return "found"
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("STATE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", NONE)
    return tmp_path


def files(home: Path) -> str:
    folder = home / "state" / "hearth" / "vault"
    return "".join(path.read_text() for path in folder.iterdir() if path.is_file())


def wicked(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    folder = home / "config" / "python_keyring"
    folder.mkdir(parents=True)
    (home / "wicked_keyring.py").write_text(WICKED)
    (folder / "keyringrc.cfg").write_text(f"[backend]\ndefault-keyring=wicked_keyring.{name}\nkeyring-path={home}\n")


def test_without_a_keyring_a_value_lies_in_a_file_for_this_user_only(home: Path) -> None:
    where = Vault("secrets").put("github", VALUE)
    path = home / "state" / "hearth" / "vault" / "secrets.values.json"
    assert where == f"the file {path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert VALUE in files(home)
    assert Vault("secrets").get("github") == VALUE


def test_a_keyring_is_preferred_and_no_file_of_hearth_has_the_value(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", PLAIN)
    vault = Vault("secrets")
    assert vault.put("github", VALUE) == "the keyring (PlaintextKeyring)"
    assert VALUE not in files(home)
    entry = vault.entries()["github"]
    assert (entry.where, entry.backend) == ("the keyring (PlaintextKeyring)", PLAIN)
    assert vault.get("github") == VALUE
    # A daemon that has another environment looks where the value was put, not where it would put one.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", NONE)
    assert vault.get("github") == VALUE
    assert vault.remove("github")
    assert vault.entries() == {} and vault.get("github") is None
    assert not vault.remove("github")


def test_a_value_that_moves_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault("oauth")
    vault.put("issuer", VALUE)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", PLAIN)
    vault.put("issuer", VALUE)
    assert VALUE not in files(home)
    assert json.loads((home / "state/hearth/vault/oauth.values.json").read_text())["entries"] == {}
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", NONE)
    vault.put("issuer", "another")
    assert vault.get("issuer") == "another"
    request = {"do": "get", "service": "hearth-oauth", "name": "issuer", "backend": PLAIN}
    assert keyring_process.ask(request) == {"value": None}


def test_what_was_removed_from_the_keyring_by_hand_is_not_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", PLAIN)
    vault = Vault("secrets")
    vault.put("github", VALUE)
    keyring_process.ask({"do": "remove", "service": "hearth", "name": "github", "backend": PLAIN})
    assert vault.get("github") is None
    assert vault.remove("github")


def test_a_locked_keyring_says_so_and_nothing_is_noted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wicked(home, monkeypatch, "Locked")
    with pytest.raises(VaultError, match=r"is locked; unlock it .*PYTHON_KEYRING_BACKEND"):
        Vault("secrets").put("github", VALUE)
    assert Vault("secrets").entries() == {}


def test_a_keyring_that_does_not_answer_is_waited_for_no_longer_than_the_bound(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wicked(home, monkeypatch, "Hanging")
    monkeypatch.setattr(keyring_process, "KEYRING_SECONDS", 0.2)
    with pytest.raises(VaultError, match=r"did not answer within 0\.2 s"):
        Vault("secrets").put("github", VALUE)


def test_a_bus_that_never_answers_is_waited_for_no_longer_than_the_bound(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    monkeypatch.setattr(keyring_process, "KEYRING_SECONDS", 0.5)
    with TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as bus:
        bus.bind(f"{folder}/bus")
        bus.listen()
        # Connections are taken by the kernel, and nothing is ever said on them.
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={folder}/bus")
        with pytest.raises(VaultError, match=r"did not answer within 0\.5 s"):
            Vault("secrets").put("github", VALUE)
    assert Vault("secrets").entries() == {}


@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed")
def test_a_bus_without_a_keyring_on_it_means_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    with TemporaryDirectory(dir="/tmp") as folder:
        address = f"unix:path={folder}/bus"
        # No folder of services: whatever this machine could activate stays out of it.
        (Path(folder) / "bus.conf").write_text(
            f"<busconfig><type>session</type><listen>{address}</listen><policy context='default'>"
            "<allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/><allow own='*'/>"
            "</policy></busconfig>"
        )
        command = ["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as bus:
            try:
                assert bus.stdout and bus.stdout.readline()  # it listens by now
                monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
                assert Vault("secrets").put("github", VALUE).startswith("the file ")
            finally:
                bus.terminate()


def test_what_a_keyring_complains_of_does_not_tell_the_value(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wicked(home, monkeypatch, "Indiscreet")
    with pytest.raises(VaultError, match=r"cannot be used from here: cannot store \*\*\*") as raised:
        Vault("secrets").put("github", VALUE)
    assert VALUE not in str(raised.value)


def test_a_keyring_that_takes_its_process_along_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wicked(home, monkeypatch, "Dying")
    with pytest.raises(VaultError, match="ended with code 3"):
        Vault("secrets").put("github", VALUE)


def test_what_a_keyring_prints_is_no_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wicked(home, monkeypatch, "Chatty")
    vault = Vault("secrets")
    assert vault.put("github", VALUE) == "the keyring (Chatty)"
    assert vault.get("github") == "found"


def test_a_keyring_that_is_gone_is_an_error_that_names_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault("secrets")
    vault.put("github", VALUE)
    index = home / "state/hearth/vault/secrets.json"
    index.write_text(index.read_text().replace('"file"', '"keyring.backends.SecretService.Keyring"'))
    with pytest.raises(VaultError, match=r"the keyring \(SecretService\) cannot be used from here: "):
        vault.get("github")
    # Stored anew, it lies where there is a place for it.
    vault.put("github", "new")
    assert vault.get("github") == "new"


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 9, "entries": {}}', '{"version": 1, "entries": {"a": 1}}'])
def test_a_damaged_index_is_never_begun_anew_by_itself(home: Path, content: str) -> None:
    vault = Vault("secrets")
    index = home / "state/hearth/vault/secrets.json"
    index.parent.mkdir(parents=True)
    index.write_text(content)
    for act in (vault.entries, lambda: vault.get("a"), lambda: vault.put("a", "b"), lambda: vault.remove("a")):
        with pytest.raises(VaultError, match=r"secrets\.json is damaged"):
            act()
    assert index.read_text() == content


def test_what_cannot_be_written_is_an_error_and_the_former_value_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault("secrets")
    vault.put("github", VALUE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(VaultError, match="no space left"):
            vault.put("github", "new")
    assert vault.get("github") == VALUE


def test_writes_of_several_processes_take_turns_and_none_is_lost(home: Path) -> None:
    code = """
import sys
from hearth.secrets.vault import Vault
Vault('secrets').put(sys.argv[1], 'value of ' + sys.argv[1])
"""
    running = [subprocess.Popen([sys.executable, "-c", code, f"name{number}"]) for number in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert {name: Vault("secrets").get(name) for name in Vault("secrets").entries()} == {
        f"name{number}": f"value of name{number}" for number in range(4)
    }


def test_a_writer_that_holds_the_lock_is_waited_for_no_longer_than_the_bound(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.secrets.vault.LOCK_SECONDS", 0.1)
    lock = Lock(str(home / "state/hearth/vault/secrets.lock"))
    assert lock.acquire()
    with pytest.raises(VaultError, match="another hearth has been writing"):
        Vault("secrets").put("github", VALUE)
    lock.release()


def test_a_login_has_its_own_names(home: Path) -> None:
    Vault("secrets").put("x", "eins, zwölf \N{SNOWMAN}")
    Vault("oauth").put("x", "two")
    assert Vault("secrets").get("x") == "eins, zwölf \N{SNOWMAN}"


def test_nothing_and_too_much_are_refused(home: Path) -> None:
    for name, value in (("", "x"), ("x", ""), ("x", "v" * 65537)):
        with pytest.raises(VaultError):
            Vault("secrets").put(name, value)


def test_the_bus_of_the_login_is_found_without_its_variable(home: Path) -> None:
    assert keyring_process._session_bus() == {}
    (home / "run").mkdir()
    (home / "run" / "bus").touch()
    assert keyring_process._session_bus() == {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={home}/run/bus"}
