"""`hearth doctor` finds each fault that is put into a home, calls it by its name, says what to do; and `--fix` mends
those that are safe to mend. A home with nothing wrong has none of them.
"""

import compileall
import json
import os
import sys
from collections.abc import Iterator

import pytest

import hearth.bridge
from e2e.cli_home import read, scratch_home
from e2e.doctor_faults import FAULTS, Fault, Ward
from hearth.doctor.checks import CHECKS


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """As every installation is: a checkout that has just changed is not."""
    compileall.compile_dir(os.path.dirname(str(hearth.bridge.__file__)), quiet=1)


@pytest.fixture
def ward() -> Iterator[Ward]:
    for home in scratch_home():
        made = Ward(home)
        yield made
        made.close()


def ill(ward: Ward, *words: str) -> dict[str, dict[str, str]]:
    """What is not well, by id."""
    code, document = ward.doctor(*words)
    found = {finding["id"]: finding for finding in document["findings"] if finding["state"] != "ok"}
    assert code == any(finding["state"] == "broken" for finding in found.values())
    return found


def test_a_home_with_nothing_wrong_has_no_finding_whether_a_daemon_runs_or_not(ward: Ward) -> None:
    assert ill(ward) == {}
    ward.light()
    assert ill(ward) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_found_alone_with_its_fix_and_mended_where_that_is_safe(ward: Ward, fault: Fault) -> None:
    fault.seed(ward)
    found = ill(ward)
    assert set(found) == {fault.id, *fault.also}
    assert fault.fix in found[fault.id]["fix"]
    assert bool(found[fault.id]["fixable"]) == fault.mended
    before = _files(ward)
    _, prospect = ward.doctor("--fix", "--dry-run")
    assert [deed["done"] for deed in prospect["mended"]] == [False] * fault.mended
    assert _files(ward) == before, "a dry run changes nothing"
    left = ill(ward, "--fix", "--yes")
    assert set(left) == (fault.left if fault.mended or fault.is_swept else {fault.id, *fault.also})
    assert ward.doctor("--fix", "--yes")[1]["mended"] == [], "a second time there is nothing to do"


def _files(ward: Ward) -> set[tuple[str, int, int]]:
    """Every file and folder, with its mode and the time of its last change."""
    found = set()
    for folder, names, files in os.walk(ward.home.folder):
        for path in (os.path.join(folder, name) for name in (*names, *files)):
            # A daemon that runs writes its log.
            if not path.startswith(os.path.join(ward.state, "logs")):
                stat = os.lstat(path)
                # Who reads what a server offered last marks it as used, by the time of its file.
                is_catalogue = path.startswith(os.path.join(ward.state, "catalogue"))
                found.add((path, stat.st_mode, stat.st_size if is_catalogue else stat.st_mtime_ns))
    return found


def test_many_faults_at_once_are_mended_at_once_and_what_is_left_is_told(ward: Ward) -> None:
    chosen = {"folders.open", "clients.bridge", "secrets.open", "servers.program"}
    for fault in FAULTS:
        if fault.id in chosen:
            fault.seed(ward)
    assert set(ill(ward)) == chosen
    done = ward.home.run("doctor", "--fix", "--yes")
    assert done.returncode == 1
    assert done.stdout.count("done:") == 3
    assert "mode 0644 becomes 0600" in done.stdout
    assert set(ill(ward)) == {"servers.program"}


def test_nothing_is_mended_unasked(ward: Ward) -> None:
    os.makedirs(os.path.dirname(ward.home.socket), 0o700)
    os.chmod(os.path.dirname(ward.home.socket), 0o755)
    for words in (["--fix"], ["--fix", "--json"]):
        done = ward.home.run("doctor", *words)
        assert done.returncode == 5
        assert "--yes" in done.stderr
    assert set(ill(ward)) == {"folders.open"}
    assert ward.home.run("doctor", "--yes").returncode == 2


def test_what_is_removed_is_removed_under_the_lock_of_the_daemon(ward: Ward) -> None:
    from hearth.host.locks import Lock

    ward.write(ward.home.registry, "{")
    lock = Lock(os.path.join(os.path.dirname(ward.home.registry), "daemon.lock"))
    assert lock.acquire()
    try:
        (deed,) = ward.doctor("--fix", "--yes")[1]["mended"]
        assert (deed["done"], "daemon.lock" in deed["error"]) == (False, True)
    finally:
        lock.release()
    assert read(ward.home.registry) == "{"


def test_a_link_is_not_closed_and_neither_is_what_it_leads_to(ward: Ward) -> None:
    next(fault for fault in FAULTS if fault.id == "secrets.config").seed(ward)
    path = ward.path(".config", "hearth", "config.toml")
    real = ward.path("dotfiles.toml")
    os.rename(path, real)
    os.symlink(real, path)
    found = ill(ward, "--fix", "--yes")
    assert (list(found), found["secrets.config"]["fixable"]) == (["secrets.config"], False)
    assert os.stat(real).st_mode & 0o777 == 0o644


def test_an_entry_that_connecting_would_leave_alone_is_not_said_to_be_the_same_server(ward: Ward) -> None:
    command = {"command": sys.executable, "args": ["-I", "-m", "hearth.demo.server"]}
    ward.claude({"two": {**command, "env": {"OTHER": "x"}}, "demo": {**command, "env": {"OTHER": "y"}}})
    assert ill(ward) == {}


def test_no_secret_is_ever_printed(ward: Ward) -> None:
    next(fault for fault in FAULTS if fault.id == "secrets.config").seed(ward)
    ward.claude({"a": {"command": "x", "env": {"TOKEN": "s3cr3t-value"}}})
    printed = ward.home.run("doctor", "--verbose").stdout + json.dumps(ward.doctor()[1])
    assert "s3cr3t" not in printed


def test_everything_that_is_well_is_shown_on_request(ward: Ward) -> None:
    brief, whole = ward.home.run("doctor").stdout, ward.home.run("doctor", "--verbose").stdout
    assert len(whole.splitlines()) > len(brief.splitlines()) >= len({check.partition(".")[0] for check in CHECKS}) - 1
    assert "Python 3" in whole and "Python 3" not in brief
