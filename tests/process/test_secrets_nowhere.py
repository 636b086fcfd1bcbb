"""A secret is given to the one server that names it, and is found nowhere else.

Every kind of reference, servers that repeat what they were given wherever they can, every command that shows
something; then every file of the home, every process and everything that was printed is searched.
"""

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from support.clients import text_of
from support.daemon import Scratch, pids_of, server
from support.kernel import pids_at_home, until
from support.sites.legacy import LegacySite
from support.sites.reflecting import ReflectingSite

KINDS = (
    *("variable", "file", "ring", "stored", "credential", "literal", "argument", "query", "user", "header", "bearer"),
    "default",
)
# Each under a name of its own: what is found is known by where it came from. Some characters are written differently in
# URLs, in JSON and in base64.
SECRETS = {kind: f'{kind}+/"{secrets.token_hex(10)}' for kind in KINDS}
QUERY = f"?t={quote(SECRETS['query'], safe='')}"
HEARTH = [sys.executable, "-I", "-m", "hearth"]
SHORT_SECONDS = 1.0


class Place:
    """A home with a secret of each kind in its own place, and what was printed in it."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.printed = ""
        self.credentials = scratch.home / "credentials"
        self.credentials.mkdir()
        (self.credentials / "given").write_text(SECRETS["credential"] + "\n")
        self.file = scratch.home / "secret-file"
        self.file.write_text(SECRETS["file"] + "\n")
        self.environment = scratch.environment(
            GIVEN_BY_SHELL=SECRETS["variable"],
            CREDENTIALS_DIRECTORY=str(self.credentials),
            DBUS_SESSION_BUS_ADDRESS="unix:path=/nowhere",
            PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
        )
        self.store("stored", SECRETS["stored"], PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")
        self.store("ring", SECRETS["ring"], PYTHON_KEYRING_BACKEND="keyrings.alt.file.PlaintextKeyring")

    def store(self, name: str, value: str, **environment: str) -> None:
        self.hearth("secret", "set", name, stdin=value, **environment)

    def hearth(self, *words: str, stdin: str = "", **environment: str) -> str:
        """A command as typed; whatever it says is kept to be searched."""
        done = subprocess.run(
            [*HEARTH, *words],
            env=self.environment | environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.printed += done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def homes(self) -> set[Path]:
        """The files that hold a secret because that is what they are for."""
        return {
            self.scratch.config,
            # The last good config, for its owner only.
            self.scratch.home / ".local/state/hearth/config/mcp",
            self.file,
            self.credentials / "given",
            self.scratch.home / ".local/state/hearth/vault/secrets.values.json",
            self.scratch.home / ".local/share/python_keyring/keyring_pass.cfg",
        }


@pytest.fixture
def place(scratch: Scratch) -> Place:
    return Place(scratch)


@pytest.fixture
def reflecting() -> Iterator[ReflectingSite]:
    with ReflectingSite() as site:
        yield site


def given(place: Place) -> dict[str, str]:
    """An environment with a secret of every kind that one can have."""
    return {
        "GIVEN_VARIABLE": "${GIVEN_BY_SHELL}",
        "GIVEN_FILE": f"${{file:{place.file}}}",
        "GIVEN_RING": "${keyring:ring}",
        "GIVEN_STORED": "${keyring:stored}",
        "GIVEN_CREDENTIAL": "${cred:given}",
        "GIVEN_LITERAL": SECRETS["literal"],
        "GIVEN_DEFAULT": "${NOT_SET:-" + SECRETS["default"] + "}",
    }


def entries(place: Place, site: LegacySite, reflecting: ReflectingSite) -> dict[str, dict[str, object]]:
    env = given(place)
    words = ("--token", SECRETS["argument"])
    user = f"me:{quote(SECRETS['user'], safe='')}@"
    headers = {"X-Given": SECRETS["header"], "Authorization": f"Bearer ${{file:{place.file}}}"}
    found: dict[str, dict[str, object]] = {
        "serve": server("leaking", "serve", *words, env=env),
        "crash": server("leaking", "crash", *words, env=env),
        "refuse": server("leaking", "refuse", *words, env=env),
        "unlisted": server("leaking", "unlisted", *words, env=env),
        "babble": server("leaking", "babble", *words, env=env, start_timeout=SHORT_SECONDS),
        "nowhere": {"command": "/usr/bin/nowhere-${GIVEN_BY_SHELL}", "env": env, "cwd": "/tmp"},
        "nofolder": {"command": "true", "cwd": f"/tmp/${{file:{place.file}}}", "env": env},
        "unset": server("leaking", "serve", env={**env, "X": "${NOT_SET_ANYWHERE}"}),
        "site": {"url": site.url, "headers": headers},
        "innocent": server("echo", env={"PLAIN": "1"}),
    }
    bearer = {"X-Given": SECRETS["header"], "Authorization": f"Bearer {SECRETS['bearer']}"}
    for kind in ("401", "403", "500", "404", "redirect", "broken", "torn"):
        found[f"far{kind}"] = {"url": reflecting.url(f"{kind}{QUERY}"), "headers": bearer, "start_timeout": 5}
    # In place of the header of that name.
    found["faruser"] = {"url": reflecting.url(f"401{QUERY}", user), "headers": {"X-Given": SECRETS["header"]}}
    return found


def forms(secret: str) -> set[bytes]:
    """What is left of a secret however it is written, or cut: the part that needs no quoting, and that of base64 which
    does not depend on what stands before and behind it."""
    tail = secret.rpartition('"')[2].encode()[:14]
    last = secret.encode()[-10:]
    return {
        tail,
        tail.upper(),
        tail.hex().encode(),
        last,
        *(base64.b64encode(bytes(shift) + tail)[4:-4] for shift in range(3)),
    }


def leaks(data: bytes) -> set[str]:
    """The kinds of secrets that are in there."""
    return {kind for kind, secret in SECRETS.items() if any(form in data for form in forms(secret))}


def files_with_secrets(place: Place) -> dict[str, set[str]]:
    found = {}
    for folder, _, names in os.walk(place.scratch.home):
        for name in names:
            path = Path(folder, name)
            if path not in place.homes() and path.is_file() and (kinds := leaks(path.read_bytes())):
                found[str(path)] = kinds
    return found


def processes_with_secrets(place: Place) -> dict[str, set[str]]:
    """By command line, those of the servers aside that were given them."""
    found = {}
    for pid in pids_at_home(str(place.scratch.home)):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if b"leaking_server.py" not in command and (kinds := leaks(command + environment)):
            found[command.replace(b"\0", b" ").decode()] = kinds
    return found


def test_a_secret_is_in_no_log_status_error_registry_catalogue_or_other_process(
    place: Place, reflecting: ReflectingSite
) -> None:
    scratch = place.scratch
    with LegacySite(streams=False, path=f"/mcp{QUERY}") as site:
        scratch.configure(entries(place, site, reflecting), log_level="debug", list_timeout=3)
        passed = ("GIVEN_BY_SHELL", "CREDENTIALS_DIRECTORY", "DBUS_SESSION_BUS_ADDRESS")
        daemon = scratch.start(**{name: place.environment[name] for name in passed})
        client = scratch.lines().initialized()
        client.tools()

        # They did get them.
        told = text_of(client.call("serve__tell"))
        for kind in ("variable", "file", "ring", "stored", "credential", "literal", "argument", "default"):
            assert SECRETS[kind] in told, kind
        assert text_of(client.call("site__echo", text="hi")) == "hi"
        assert text_of(client.call("innocent__echo", text="hi")) == "hi"
        innocent = pids_of(scratch, "innocent")[0]
        environment = dict(
            entry.split(b"=", 1) for entry in Path(f"/proc/{innocent}/environ").read_bytes().split(b"\0") if entry
        )
        assert environment[b"PLAIN"] == b"1"
        assert not {name.encode() for name in passed} & environment.keys()
        # Hearth's own processes have what their shell has.
        for command, kinds in processes_with_secrets(place).items():
            assert ("hearth.daemon" in command or "hearth.secrets.keyring_process" in command) and kinds == {
                "variable"
            }, command

        # Whatever goes wrong is told, without them.
        for name in ("crash", "refuse", "unlisted", "babble", "nowhere", "nofolder", "unset"):
            answer = client.call(f"{name}__tell")
            assert "error" in answer, name
            place.printed += json.dumps(answer)
            place.printed += json.dumps(scratch.upstream(name))
        for name in (name for name in entries(place, site, reflecting) if name.startswith("far")):
            answer = client.call(f"{name}__echo")
            assert "error" in answer, name
            place.printed += json.dumps(answer)
        assert text_of(client.call("serve__babble"))
        place.printed += json.dumps(client.call("serve__die"))
        until(lambda: "ended by itself" in (scratch.upstream("serve")["error"] or ""), "its last words are known")
        assert "***" in scratch.upstream("serve")["error"]

        for words in (
            *(["status"], ["status", "--json"], ["sessions"], ["upstreams"], ["upstreams", "--json"], ["logs"]),
            *(["doctor"], ["doctor", "--json"], ["config", "show"], ["config", "show", "--json"], ["config", "check"]),
            *(["secret", "list"], ["secret", "list", "--json"], ["auth", "status"], ["tools"], ["reload", "--yes"]),
            *(["logs", name] for name in ("serve", "crash", "refuse", "babble")),
            *(["call", name, "echo", "{}"] for name in ("crash", "refuse", "far401", "farbroken", "nowhere")),
        ):
            place.hearth(*words)
        good = scratch.config.read_text()
        scratch.write_config(good + f"\n[mcpServers.late]\ncomand = '{SECRETS['literal']}'\nenv = 3\n")
        assert "comand" in place.hearth("reload", "--yes")
        place.hearth("status")
        place.hearth("config", "check")
        scratch.write_config(good)
        place.hearth("secret", "remove", "ring")
        sent = "".join(reflecting.seen)
        basic = base64.b64encode(f"me:{SECRETS['user']}".encode()).decode()
        assert all(text in sent for text in (SECRETS["bearer"], SECRETS["header"], QUERY, basic))
        assert daemon.stop() == 0

    # The search can find what is there.
    assert "leaking_server was here" in scratch.logged() and "leaked: ***" in scratch.logged()
    assert "leaked: ***" in (scratch.log.parent / "servers" / "mcp" / "serve.log").read_text()
    assert leaks(scratch.config.read_bytes()) >= {"literal", "bearer", "header", "query", "user", "argument"}
    found = files_with_secrets(place)
    lines = [line[-300:] for path in found for line in Path(path).read_bytes().splitlines() if leaks(line)]
    assert found == {}, lines
    assert leaks(place.printed.encode()) == set()
    assert leaks(daemon.stderr().encode()) == set()
