"""References in a server's entry, and what of the environment its process gets."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth import references
from hearth.config import ServerSpec
from hearth.errors import ConfigError

ENVIRON = {"TOKEN": "t0ken", "EMPTY": "", "NEST": "${TOKEN}", "HOME": "/home/me"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("plain", "plain"),
        ("${TOKEN}", "t0ken"),
        ("${env:TOKEN}", "t0ken"),
        ("a${TOKEN}b${TOKEN}c", "at0kenbt0kenc"),
        ("${TOKEN:-other}", "t0ken"),
        ("${ABSENT:-other}", "other"),
        ("${env:ABSENT:-other}", "other"),
        ("${ABSENT:-}", ""),
        ("${ABSENT:-http://h:1/?a=b}", "http://h:1/?a=b"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("$${TOKEN}", "${TOKEN}"),
        ("$$${TOKEN}", "$${TOKEN}"),
        ("$TOKEN", "$TOKEN"),
        ("${NEST}", "${TOKEN}"),  # what a value holds is never looked at again
        ("${", "${"),
        ("${TOKEN", "${TOKEN"),
        # A shell's, not ours.
        ("${x%.*}", "${x%.*}"),
        ("${x:0:4}", "${x:0:4}"),
        ("${x:?gone}", "${x:?gone}"),
        ("${x:=3}", "${x:=3}"),
        ("${#x}", "${#x}"),
        ("${}", "${}"),
        ("${a b}", "${a b}"),
    ],
)
def test_a_text_is_filled(written: str, value: str) -> None:
    assert references.fill(written, ENVIRON) == value


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("${ABSENT}", "the variable ABSENT is not set"),
        ("${env:ABSENT}", "the variable ABSENT is not set"),
        ("${env:A B}", "'A B' is not the name of a variable"),
        ("${env:}", "names nothing"),
        ("${file:}", "names nothing"),
        ("${file:/absent/file}", "the file /absent/file does not exist"),
        ("${file:/dev}", "the file /dev: cannot be read: is a directory"),
        ("${file:/dev/zero}", "the file /dev/zero: is not a file"),
        ("${keyring:github}", "references to a keyring are not available in this version"),
        ("${cred:github}", "references to systemd credentials are not available in this version"),
        ("${input:token}", "it asks a person in VS Code"),
        ("${vault:token}", "use ${NAME} with a variable, or ${file:PATH}"),
    ],
)
def test_what_leads_nowhere_is_an_error_that_names_server_and_key(written: str, reason: str) -> None:
    spec = ServerSpec(name="github", command="x", env={"GITHUB_TOKEN": f"Bearer {written}"})
    with pytest.raises(ConfigError) as caught:
        references.resolve(spec, ENVIRON)
    (problem,) = caught.value.problems
    assert problem.startswith("server 'github': env.GITHUB_TOKEN: ")
    assert reason in problem


def test_every_part_of_an_entry_is_resolved() -> None:
    spec = ServerSpec(
        name="a",
        command="${TOKEN}/c",
        args=("${TOKEN}", "plain"),
        env={"A": "${TOKEN}"},
        cwd="/${TOKEN}",
        start_timeout=3.0,
    )
    assert references.resolve(spec, ENVIRON) == spec.replace(
        command="t0ken/c", args=("t0ken", "plain"), env={"A": "t0ken"}, cwd="/t0ken"
    )
    remote = ServerSpec(name="b", url="https://${TOKEN}/", headers={"Authorization": "Bearer ${TOKEN}"})
    assert references.resolve(remote, ENVIRON) == remote.replace(
        url="https://t0ken/", headers={"Authorization": "Bearer t0ken"}
    )


def test_all_that_lead_nowhere_are_told_at_once() -> None:
    spec = ServerSpec(name="a", command="${X}", args=("ok", "${Y}"), env={"Z": "${Z}"})
    with pytest.raises(ConfigError) as caught:
        references.resolve(spec, {})
    assert [problem.split(": ")[1] for problem in caught.value.problems] == ["command", "args.1", "env.Z"]


def test_what_a_reference_makes_unusable_is_an_error() -> None:
    with pytest.raises(ConfigError, match="server 'a': command is empty"):
        references.resolve(ServerSpec(name="a", command="${EMPTY}"), ENVIRON)
    spec = ServerSpec(name="a", url="https://x", headers={"A": "${LINES}"})
    with pytest.raises(ConfigError, match=r"headers\.A has a line end"):
        references.resolve(spec, {"LINES": "a\r\nSet-Cookie: b"})


def test_the_url_that_a_reference_makes_is_looked_at() -> None:
    for url, phrase in [("file:///x", "must begin with"), ("http:///x", "has no host"), ("unix:x", "whole path")]:
        with pytest.raises(ConfigError, match=rf"server 'a': url .*{phrase}.* once its references are resolved"):
            references.resolve(ServerSpec(name="a", url="${URL}"), {"URL": url})
    with pytest.raises(ConfigError) as caught:
        references.resolve(ServerSpec(name="a", url="${ABSENT}"), {})
    assert len(caught.value.problems) == 1


def test_a_socket_is_found_from_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for written, url in [("unix:~/a.sock:/x", "unix:/home/me/a.sock:/x"), ("unix:${HOME}/a", "unix:/home/me/a")]:
        assert references.resolve(ServerSpec(name="a", url=written), ENVIRON).url == url


def test_a_process_of_one_folder_is_resolved_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    spec = ServerSpec(name="a", command="x", args=("${workspaceFolder}", "${CLAUDE_PROJECT_DIR:-.}"), cwd="sub")
    found = references.resolve(spec, ENVIRON, "/srv/it")
    assert (found.args, found.cwd) == (("/srv/it", "/srv/it"), "/srv/it/sub")
    assert references.resolve(spec.replace(cwd="/else"), ENVIRON, "/srv/it").cwd == "/else"
    assert references.resolve(ServerSpec(name="a", command="x", cwd="sub"), ENVIRON).cwd == "/home/me/sub"


def test_a_shared_process_has_no_folder_of_a_client() -> None:
    spec = ServerSpec(name="a", command="x", args=("${workspaceFolder}",))
    with pytest.raises(ConfigError, match=r"args\.0: workspaceFolder is a client's folder"):
        references.resolve(spec, ENVIRON)
    assert references.unresolved([spec], ENVIRON) == []
    assert len(references.unresolved([spec.replace(isolation="shared")], ENVIRON)) == 1


def test_a_file_gives_its_content_without_the_last_line_end(tmp_path: Path) -> None:
    for content, value in [("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), ("a\nb\n\n", "a\nb\n"), ("", "")]:
        (tmp_path / "secret").write_bytes(content.encode())
        assert references.fill(f"x${{file:{tmp_path}/secret}}", {}) == f"x{value}"


def test_a_file_is_found_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "se:cret").write_text("s3cret")
    assert references.fill("${file:~/se:cret}${file:se:cret}", {}) == "s3crets3cret"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff", "is not text in UTF-8"), (b"a\0b", "has a NUL character"), (b"x" * 65537, "has over 65536 bytes")],
)
def test_a_file_that_is_no_value_is_an_error(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        references.resolve(ServerSpec(name="a", command=f"${{file:{tmp_path}/secret}}"), {})


def test_a_named_pipe_does_not_hold_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is not a file"):
        references.resolve(ServerSpec(name="a", command=f"${{file:{tmp_path}/pipe}}"), {})


def test_command_and_folder_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    resolved = references.resolve(ServerSpec(name="a", command="~/bin/x", cwd="~"), {})
    assert (resolved.command, resolved.cwd) == ("/home/me/bin/x", "/home/me")
    assert references.resolve(ServerSpec(name="a", command="x", cwd="sub"), {}).cwd == "/home/me/sub"


@given(st.text(st.sampled_from("${}:-aTOKEN%.env file"), max_size=20))
def test_any_text_is_filled_or_refused(text: str) -> None:
    try:
        references.resolve(ServerSpec(name="a", command="x", args=(text,)), {"TOKEN": "t", "N": ""})
    except ConfigError as exc:
        assert all(problem.startswith("server 'a': args.0: ") for problem in exc.problems)


def test_unresolved_lists_what_would_fail() -> None:
    specs = [ServerSpec(name="a", command="${TOKEN}"), ServerSpec(name="b", command="${ABSENT}")]
    (problem,) = references.unresolved(specs, ENVIRON)
    assert problem.startswith("server 'b': command: the variable ABSENT")


def test_a_server_gets_the_allowed_variables_and_its_own() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LANG": "C",
        "LC_ALL": "C",
        "XDG_RUNTIME_DIR": "/run",
        "TZ": "UTC",
        "https_proxy": "http://p",
        "SSL_CERT_FILE": "/ca",
        "GITHUB_TOKEN": "s3cret",
        "SSH_AUTH_SOCK": "/a",
        "DISPLAY": ":0",
        "LISTEN_FDS": "1",
        "HEARTH_CONFIG": "/c",
        "NOTIFY_SOCKET": "/n",
        "PYTHONPATH": "/p",
        "LC_EVIL": "() { :; }; evil",
    }
    child = references.child_environment(ServerSpec(name="a", command="x", env={"OWN": "1", "LANG": "de"}), environ)
    assert child == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LANG": "de",
        "LC_ALL": "C",
        "XDG_RUNTIME_DIR": "/run",
        "TZ": "UTC",
        "https_proxy": "http://p",
        "SSL_CERT_FILE": "/ca",
        "OWN": "1",
    }


def test_a_server_always_has_a_path_and_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    child = references.child_environment(ServerSpec(name="a", command="x"), {})
    assert child == {"PATH": os.defpath, "HOME": "/home/me"}


def test_the_traces_of_an_entry_tell_when_something_that_it_depends_on_has_changed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one")
    spec = ServerSpec(
        name="s",
        command="${RUN}",
        args=("${RUN}", "$${RUN}", "${x%.*}"),
        env={"T": f"${{file:{secret}}}", "U": "${GONE}"},
    )
    found = dict(references.traces(spec, {"RUN": "go"}))
    assert found["${RUN}"] == "go"
    assert found[f"${{file:{secret}}}"] == "one"
    assert found["${GONE}"] is None
    secret.write_text("two")
    assert dict(references.traces(spec, {"RUN": "go"})) == found | {f"${{file:{secret}}}": "two"}
