"""`hearth secret` as typed."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator

import pytest

from e2e.cli_home import HEARTH, PATIENCE_SECONDS, Bridge, Home, read, scratch_home, write

VALUE = "ghp_s3cretvalue0123456789"
SERVER = '[mcpServers.{name}]\ncommand = "true"\nenv = {{ TOKEN = "${{keyring:{secret}}}" }}\n'


@pytest.fixture
def home() -> Iterator[Home]:
    for home in scratch_home():
        home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
        yield home


def put(home: Home, *words: str, value: bytes = VALUE.encode(), **changes: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [HEARTH, "secret", "set", *words],
        env=home.environment | changes,
        input=value,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def values_file(home: Home) -> str:
    return os.path.join(home.home, ".local", "state", "hearth", "vault", "secrets.values.json")


def stored(home: Home) -> dict[str, str]:
    found: dict[str, str] = json.loads(read(values_file(home)))["entries"]
    return found


def test_a_secret_is_asked_for_without_being_shown(home: Home) -> None:
    question = "Value of github (it is not shown): "
    seen = home.at_terminal(0, "secret", "set", "github", answers={question: f"{VALUE}\n"})
    assert VALUE not in seen
    assert "write ${keyring:github}" in seen
    assert stored(home) == {"github": VALUE}
    assert stat.S_IMODE(os.stat(values_file(home)).st_mode) == 0o600


def test_a_secret_is_read_from_a_pipe_without_its_last_line_end(home: Home) -> None:
    done = put(home, "deploy/key", value=b"line one\nline two\n\n")
    assert done.returncode == 0, done.stderr
    assert stored(home) == {"deploy/key": "line one\nline two\n"}


@pytest.mark.parametrize(
    ("words", "value", "sentence"),
    [
        (("github", VALUE), b"", "not given as an argument"),
        (("git hub",), b"x", "is not the name of a secret"),
        (("1github",), b"x", "is not the name of a secret"),
        (("github",), b"\n", "nothing was stored"),
        (("github",), b"a\0b", "NUL character"),
        (("github",), b"\xff\xfe", "not text in UTF-8"),
        (("github",), b"x" * 65537, "longer than 65536 bytes"),
    ],
)
def test_what_cannot_be_stored_is_refused(home: Home, words: tuple[str, ...], value: bytes, sentence: str) -> None:
    done = put(home, *words, value=value)
    assert (done.returncode, done.stdout) == (2, b"")
    assert sentence in " ".join(done.stderr.decode().split())
    assert VALUE.encode() not in done.stderr
    assert not os.path.exists(values_file(home))


def test_secrets_are_listed_with_those_who_use_them_and_never_with_their_values(home: Home) -> None:
    home.write_config(SERVER.format(name="one", secret="github") + SERVER.format(name="two", secret="absent"))
    assert home.run("secret", "list").stdout.splitlines()[1].split() == ["absent", "-", "not", "stored", "two"]
    put(home, "github")
    put(home, "unused", PYTHON_KEYRING_BACKEND="keyrings.alt.file.PlaintextKeyring")
    found = {entry["name"]: entry for entry in home.json("secret", "list", "--json")}
    servers = {name: entry["servers"] for name, entry in found.items()}
    assert servers == {"absent": ["two"], "github": ["one"], "unused": []}
    assert found["absent"]["where"] is None and found["github"]["changedAt"] > 1.7e9
    assert found["github"]["where"] == f"the file {values_file(home)}"
    assert found["unused"]["where"] == "the keyring (PlaintextKeyring)"
    assert VALUE not in home.run("secret", "list").stdout + json.dumps(found)


def test_without_secrets_the_list_says_how_to_store_one(home: Home) -> None:
    assert "hearth secret set NAME" in home.run("secret", "list").stdout
    assert home.json("secret", "list", "--json") == []


def test_a_secret_is_removed_once(home: Home) -> None:
    home.write_config(SERVER.format(name="one", secret="github"))
    put(home, "github")
    assert "one: refers to it in the config" in home.ok("secret", "remove", "github")
    assert stored(home) == {}
    assert "no secret 'github' is stored" in home.refuses(1, "secret", "remove", "github")


def test_a_check_of_the_config_names_what_is_to_be_typed(home: Home) -> None:
    home.write_config(SERVER.format(name="one", secret="github"))
    sentence = "server 'one': env.TOKEN: no secret 'github' is stored; store it with: hearth secret set github"
    assert home.json("config", "check", "--json")["warnings"] == [sentence]
    assert any(sentence in finding["message"] for finding in home.findings())
    put(home, "github")
    assert home.json("config", "check", "--json")["warnings"] == []


def test_names_are_completed(home: Home) -> None:
    home.write_config(SERVER.format(name="one", secret="gitlab"))
    put(home, "github")
    assert home.complete("hearth secret remove gi") == ["github"]
    assert home.complete("hearth secret set gi") == ["github", "gitlab"]


def test_who_changes_a_secret_of_a_server_is_told_how_it_is_taken(home: Home) -> None:
    home.write_config("idle_timeout = 0\n" + SERVER.format(name="one", secret="github"))
    assert b"hearth restart" not in put(home, "github").stdout
    with Bridge(home):
        assert b"one: taken at the next start; now: hearth restart\n" in put(home, "github").stdout
        assert b"hearth restart" not in put(home, "another").stdout


def test_a_vault_that_cannot_be_used_is_one_sentence(home: Home) -> None:
    put(home, "github")
    write(os.path.join(os.path.dirname(values_file(home)), "secrets.json"), "{")
    for words in (["list"], ["remove", "github"]):
        said = home.refuses(1, "secret", *words)
        assert said.startswith("hearth: ") and "is damaged" in said
    assert put(home, "github").returncode == 1
