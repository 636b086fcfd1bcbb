"""References in a server's entry, and what of the environment its process gets."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.config import ServerSpec
from hearth.errors import ConfigError, VaultError
from hearth.secrets import references
from hearth.secrets.vault import Vault


def resolved(spec: ServerSpec, environ: dict[str, str], folder: str | None = None) -> ServerSpec:
    return references.resolve(spec, environ, folder).spec


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing of the user's own is looked at."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


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
        ("${keyring:github}", "no secret 'github' is stored; store it with: hearth secret set github"),
        ("${keyring:a b}", "'a b' is not the name of a secret"),
        ("${keyring:}", "names nothing"),
        ("${cred:github}", "systemd has given the daemon no credentials (CREDENTIALS_DIRECTORY is not set)"),
        ("${input:token}", "it asks a person in VS Code"),
        ("${vault:token}", "use ${NAME} with a variable, ${file:PATH} or ${keyring:NAME}"),
    ],
)
def test_what_leads_nowhere_is_an_error_that_names_server_and_key(written: str, reason: str) -> None:
    spec = ServerSpec(name="github", command="x", env={"GITHUB_TOKEN": f"Bearer {written}"})
    with pytest.raises(ConfigError) as caught:
        resolved(spec, ENVIRON)
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
    assert resolved(spec, ENVIRON) == spec.replace(
        command="t0ken/c", args=("t0ken", "plain"), env={"A": "t0ken"}, cwd="/t0ken"
    )
    remote = ServerSpec(name="b", url="https://${TOKEN}/", headers={"Authorization": "Bearer ${TOKEN}"})
    assert resolved(remote, ENVIRON) == remote.replace(url="https://t0ken/", headers={"Authorization": "Bearer t0ken"})


def test_all_that_lead_nowhere_are_told_at_once() -> None:
    spec = ServerSpec(name="a", command="${X}", args=("ok", "${Y}"), env={"Z": "${Z}"})
    with pytest.raises(ConfigError) as caught:
        resolved(spec, {})
    assert [problem.split(": ")[1] for problem in caught.value.problems] == ["command", "args.1", "env.Z"]


def test_what_a_reference_makes_unusable_is_an_error() -> None:
    with pytest.raises(ConfigError, match="server 'a': command is empty"):
        resolved(ServerSpec(name="a", command="${EMPTY}"), ENVIRON)
    spec = ServerSpec(name="a", url="https://x", headers={"A": "${LINES}"})
    with pytest.raises(ConfigError, match=r"headers\.A has a line end"):
        resolved(spec, {"LINES": "a\r\nSet-Cookie: b"})


def test_the_url_that_a_reference_makes_is_looked_at() -> None:
    for url, phrase in [("file:///x", "must begin with"), ("http:///x", "has no host"), ("unix:x", "whole path")]:
        with pytest.raises(ConfigError, match=rf"server 'a': url .*{phrase}.* once its references are resolved"):
            resolved(ServerSpec(name="a", url="${URL}"), {"URL": url})
    with pytest.raises(ConfigError) as caught:
        resolved(ServerSpec(name="a", url="${ABSENT}"), {})
    assert len(caught.value.problems) == 1


def test_a_socket_is_found_from_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for written, url in [("unix:~/a.sock:/x", "unix:/home/me/a.sock:/x"), ("unix:${HOME}/a", "unix:/home/me/a")]:
        assert resolved(ServerSpec(name="a", url=written), ENVIRON).url == url


def test_a_process_of_one_folder_is_resolved_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    spec = ServerSpec(name="a", command="x", args=("${workspaceFolder}", "${CLAUDE_PROJECT_DIR:-.}"), cwd="sub")
    found = resolved(spec, ENVIRON, "/srv/it")
    assert (found.args, found.cwd) == (("/srv/it", "/srv/it"), "/srv/it/sub")
    assert resolved(spec.replace(cwd="/else"), ENVIRON, "/srv/it").cwd == "/else"
    assert resolved(ServerSpec(name="a", command="x", cwd="sub"), ENVIRON).cwd == "/home/me/sub"


def test_a_shared_process_has_no_folder_of_a_client() -> None:
    spec = ServerSpec(name="a", command="x", args=("${workspaceFolder}",))
    with pytest.raises(ConfigError, match=r"args\.0: workspaceFolder is a client's folder"):
        resolved(spec, ENVIRON)
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
        resolved(ServerSpec(name="a", command=f"${{file:{tmp_path}/secret}}"), {})


def test_a_named_pipe_does_not_hold_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is not a file"):
        resolved(ServerSpec(name="a", command=f"${{file:{tmp_path}/pipe}}"), {})


def test_command_and_folder_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    found = resolved(ServerSpec(name="a", command="~/bin/x", cwd="~"), {})
    assert (found.command, found.cwd) == ("/home/me/bin/x", "/home/me")
    assert resolved(ServerSpec(name="a", command="x", cwd="sub"), {}).cwd == "/home/me/sub"


@given(st.text(st.sampled_from("${}:-aTOKEN%.env file"), max_size=20))
def test_any_text_is_filled_or_refused(text: str) -> None:
    try:
        resolved(ServerSpec(name="a", command="x", args=(text,)), {"TOKEN": "t", "N": ""})
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
        "CREDENTIALS_DIRECTORY": "/run/credentials",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
        "INVOCATION_ID": "i",
        "JOURNAL_STREAM": "8:1",
        "LISTEN_PID": "1",
        "LISTEN_FDNAMES": "mcp",
        "WATCHDOG_USEC": "1",
        "PYTHON_KEYRING_BACKEND": "x",
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


# --- what is kept elsewhere


def test_a_stored_secret_is_found_and_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Vault("secrets").put("git/hub", "s3cret-value")
    asked: list[str] = []
    get = Vault.get
    monkeypatch.setattr(Vault, "get", lambda vault, name: asked.append(name) or get(vault, name))  # type: ignore[func-returns-value]
    spec = ServerSpec(name="a", command="x", args=("${keyring:git/hub}",), env={"A": "Bearer ${keyring:git/hub}"})
    found = resolved(spec, {})
    assert (found.args, found.env) == (("s3cret-value",), {"A": "Bearer s3cret-value"})
    assert asked == ["git/hub"]
    assert references.may_block(spec) and references.secret_names(spec) == {"git/hub"}
    assert not references.may_block(ServerSpec(name="a", command="${TOKEN}"))


def test_a_glance_asks_no_keyring_for_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    Vault("secrets").put("github", "s3cret-value")
    monkeypatch.delattr(Vault, "get")
    specs = [
        ServerSpec(name="a", url="${keyring:github}", headers={"A": "${cred:x}"}),
        ServerSpec(name="b", url="http://x", headers={"A": "${keyring:absent}"}),
    ]
    assert references.unresolved(specs, {}) == [
        "server 'b': headers.A: no secret 'absent' is stored; store it with: hearth secret set absent"
    ]


def test_what_keeps_a_secret_from_being_had_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(vault: Vault, name: str) -> str:
        raise VaultError("the keyring is locked")

    monkeypatch.setattr(Vault, "get", locked)
    with pytest.raises(ConfigError, match=r"server 'a': env\.A: the secret 'x' cannot be had: the keyring is locked"):
        resolved(ServerSpec(name="a", command="x", env={"A": "${keyring:x}"}), {})


def test_a_credential_is_a_file_that_systemd_has_put_there(tmp_path: Path) -> None:
    (tmp_path / "github").write_text("s3cret\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert references.fill("${cred:github}", environ) == "s3cret"
    for name, reason in [("absent", "no credential 'absent'; give its unit LoadCredential=absent:"), ("../x", "name")]:
        spec = ServerSpec(name="a", command="x", env={"A": f"${{cred:{name}}}"})
        with pytest.raises(ConfigError, match=rf"server 'a': env\.A: .*{reason}"):
            resolved(spec, environ)
        assert references.unresolved([spec], environ)


def test_all_that_an_entry_stands_for_is_hidden_by_its_mask(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from-file\n")
    Vault("secrets").put("ring", "from-ring")
    environ = {"TOKEN": "from-variable", "CREDENTIALS_DIRECTORY": str(tmp_path), "MODE": "production"}
    spec = ServerSpec(
        name="a",
        url="http://user:from-userinfo@h/?q=from-query&t=${TOKEN}",
        headers={"Authorization": "Bearer from-header", "X": "${cred:file}"},
        env={"A": f"${{file:{tmp_path}/file}}", "B": "from-literal", "C": "${MODE}", "D": "${X:-from-default}"},
        args=("--key", "from-argument", "${keyring:ring}", "plain"),
    )
    mask = references.resolve(spec, environ).mask
    words = ["file", "ring", "variable", "userinfo", "query", "header", "literal", "default", "argument"]
    assert mask(" ".join(f"from-{word}" for word in words)) == " ".join(["***"] * len(words))
    assert mask("production plain user") == "production plain user"


def test_the_trace_of_a_stored_secret_changes_with_it_and_asks_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Vault, "get")
    spec = ServerSpec(name="s", command="x", env={"T": "${keyring:a}", "U": "${cred:b}"})
    assert references.traces(spec, {}) == [("${keyring:a}", None), ("${cred:b}", None)]
    Vault("secrets").put("a", "s3cret-one")
    first = references.traces(spec, {})[0][1]
    Vault("secrets").put("a", "s3cret-two")
    second = references.traces(spec, {})[0][1]
    assert first and second and first != second and "s3cret" not in first + second
