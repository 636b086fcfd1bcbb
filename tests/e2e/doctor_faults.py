"""Faults for `hearth doctor`, each put into a scratch home for real: files, modes, sockets, processes."""

import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from e2e.cli_home import HEARTH, PATIENCE_SECONDS, Bridge, Home, read
from hearth.host import processes
from hearth.host.folders import make_private
from support.kernel import until

SERVER = '[mcpServers.demo]\ncommand = "{python}"\nargs = ["-I", "-m", "hearth.demo.server"]\n'
CLAUDE = "Claude Code"
HOOKED_CLIENT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "support", "hooked_client.py"))
# Puts a bridge of an installation that was removed into a client's file, as `hearth connect` did while it was there.
CONNECT = """
import sys
sys.executable = "/gone/venv/bin/python"
from hearth.clients import bridge_entries, discovery
from hearth.paths import Places
(table,) = discovery.tables({folder!r}, ["claude-code"])
bridge_entries.connect(table, {replace!r}, {whole!r}, Places())
"""


class Ward:
    """A home with one server in its config and nothing wrong, to put a fault into."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.environment: dict[str, str] = {}
        # What stands before the command, to run it under other limits.
        self.before: list[str] = []
        self.ended: list[Callable[[], object]] = []
        home.write_config(f"idle_timeout = 0\n{SERVER.format(python=sys.executable)}")

    def path(self, *parts: str) -> str:
        """A file in the home."""
        return os.path.join(self.home.home, *parts)

    @property
    def state(self) -> str:
        """Where what is remembered lies."""
        return self.path(".local", "state", "hearth")

    def write(self, path: str, text: str, mode: int = 0o600) -> str:
        """A file, with the folders that it needs."""
        make_private(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def add_server(self, text: str) -> None:
        """One more server."""
        with open(self.path(".config", "hearth", "config.toml"), "a", encoding="utf-8") as file:
            file.write(text)

    def make_folders(self) -> None:
        """The runtime folders, as a daemon makes them."""
        for folder in (os.path.dirname(self.home.socket), os.path.dirname(self.home.registry)):
            make_private(folder)

    def light(self) -> int:
        """A daemon that runs, and its pid."""
        bridge = Bridge(self.home)
        self.ended.append(bridge.end)
        bridge.open()
        bridge.ask("tools/list")
        return self.home.json("status", "--json")["pid"]

    def listen(self, mode: int) -> socket.socket:
        """The socket, held as a service manager holds it."""
        self.make_folders()
        held = socket.socket(socket.AF_UNIX)
        self.ended.append(held.close)
        held.bind(self.home.socket)
        os.chmod(self.home.socket, mode)
        held.listen()
        return held

    def registry(self, **changes: object) -> None:
        """The registry's entry, written or changed."""
        self.make_folders()
        entry: dict[str, object] = {
            "daemonId": "x", "endpoint": self.home.socket, "pid": 1, "startTime": 1, "startedAt": 1.0,
            "version": "0.1.0", "protocol": 1, "configHash": "",
        }  # fmt: skip
        if os.path.exists(self.home.registry):
            entry = json.loads(read(self.home.registry))
        self.write(self.home.registry, json.dumps(entry | changes))

    def claude(self, servers: Mapping[str, object]) -> str:
        """Claude Code's file, with these servers."""
        return self.write(self.path(".claude.json"), json.dumps({"mcpServers": servers}))

    def connect_from_elsewhere(self, replace: Mapping[str, str], whole: bool = False) -> None:
        """What an installation that has gone since wrote into it."""
        code = CONNECT.format(folder=self.home.home, replace=dict(replace), whole=whole)
        subprocess.run([sys.executable, "-c", code], env=self.home.environment, check=True, timeout=PATIENCE_SECONDS)

    def doctor(self, *words: str) -> tuple[int, dict[str, Any]]:
        """`hearth doctor --json`: exit code and document."""
        done = subprocess.run(
            [*self.before, HEARTH, "doctor", "--json", *words],
            env=self.home.environment | self.environment,
            cwd=self.home.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.stderr == "", done.stderr
        return done.returncode, json.loads(done.stdout)

    def close(self) -> None:
        """End what a fault has started."""
        for end in self.ended:
            end()


class Fault(NamedTuple):
    """A fault: what doctor must call it, what it must say to do, and whether `--fix` mends it."""

    id: str
    seed: Callable[[Ward], object]
    fix: str
    mended: bool = False
    # What has to be found with it, being the same fault seen from elsewhere.
    also: frozenset[str] = frozenset()
    # What `--fix` leaves of it to a person.
    left: frozenset[str] = frozenset()
    # Doctor itself takes it away when it sees it.
    is_swept: bool = False


def killed_daemon(ward: Ward) -> None:
    pid = ward.light()
    ward.close()
    os.kill(pid, signal.SIGKILL)
    assert processes.wait_gone(pid, processes.start_time(pid) or processes.UNKNOWN_START_TIME, PATIENCE_SECONDS)
    os.unlink(ward.home.socket)


def left_over_socket(ward: Ward) -> None:
    ward.listen(0o600).close()


def secret_in_the_config(ward: Ward) -> None:
    ward.add_server(f'[mcpServers.far]\ncommand = "{sys.executable}"\nenv = {{ DB_PASS = "s3cr3t-value" }}\n')
    os.chmod(ward.path(".config", "hearth", "config.toml"), 0o600)


def secret_in_an_open_config(ward: Ward) -> None:
    secret_in_the_config(ward)
    for folder in (ward.home.folder, ward.home.home, ward.path(".config"), ward.path(".config", "hearth")):
        os.chmod(folder, 0o755)
    os.chmod(ward.path(".config", "hearth", "config.toml"), 0o644)


def open_token(ward: Ward) -> None:
    assert ward.home.run("token", "show").returncode == 0
    os.chmod(os.path.join(ward.state, "http", "token"), 0o644)


def open_vault(ward: Ward) -> None:
    ward.home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    ward.home.ok_with("s3cr3t-value\n", "secret", "set", "github")
    del ward.home.environment["PYTHON_KEYRING_BACKEND"]
    os.chmod(os.path.join(ward.state, "vault", "secrets.values.json"), 0o644)


def failing_server(ward: Ward) -> None:
    ward.add_server('[mcpServers.bad]\ncommand = "false"\n')
    ward.light()


def file_of_the_future(ward: Ward) -> None:
    path = ward.write(os.path.join(ward.state, "logs", "mcp.log"), "")
    os.utime(os.path.dirname(path), (time.time() + 400 * 86400,) * 2)


def uncompiled_bridge(ward: Ward) -> None:
    import importlib.util
    import venv

    import hearth

    # An installation of its own: in the tests' own one, any test that runs beside this one puts the byte code back.
    folder = tempfile.TemporaryDirectory()
    ward.ended.append(folder.cleanup)
    venv.create(folder.name, symlinks=True)
    (packages,) = glob.glob(os.path.join(folder.name, "lib", "python*", "site-packages"))
    package = os.path.join(packages, "hearth")
    shutil.copytree(os.path.dirname(str(hearth.__file__)), package)
    ward.write(os.path.join(packages, "others.pth"), sysconfig.get_path("purelib"))
    os.unlink(importlib.util.cache_from_source(os.path.join(package, "bridge", "ledger.py")))
    ward.before = [os.path.join(folder.name, "bin", "python")]


def another_hearth(ward: Ward) -> None:
    script = ward.write(ward.path("bin", "hearth"), "#!/usr/bin/python3\n", 0o755)
    ward.environment["PATH"] = f"{os.path.dirname(script)}:{os.environ['PATH']}"


def silent_systemctl(ward: Ward) -> None:
    ward.write(os.path.join(ward.home.runtime, "systemd", "private"), "")
    program = ward.write(ward.path("bin", "systemctl"), "#!/bin/sh\nexec sleep 60\n", 0o755)
    ward.environment["PATH"] = f"{os.path.dirname(program)}:{os.environ['PATH']}"


def long_runtime_folder(ward: Ward) -> None:
    ward.environment["XDG_RUNTIME_DIR"] = os.path.join(ward.home.folder, "a" * 100)


def few_open_files(ward: Ward) -> None:
    ward.before = ["sh", "-c", 'ulimit -n 128; exec "$0" "$@"']


def keyring_out_of_reach(ward: Ward) -> None:
    entry = {"changedAt": 1.0, "backend": "keyring.backends.SecretService.Keyring"}
    index = {"version": 1, "entries": {"github": entry}}
    ward.write(os.path.join(ward.state, "vault", "secrets.json"), json.dumps(index))
    ward.add_server(f'[mcpServers.far]\ncommand = "{sys.executable}"\nenv = {{ TOKEN = "${{keyring:github}}" }}\n')


def stand_in_of_fnm(ward: Ward) -> None:
    program = ward.write(ward.path("fnm_multishells", "123_456", "bin", "npx"), "#!/bin/sh\n", 0o755)
    ward.environment["PATH"] = f"{os.path.dirname(program)}:{os.environ['PATH']}"
    ward.add_server('[mcpServers.far]\ncommand = "npx"\n')


def moved_bridge(ward: Ward) -> None:
    ward.claude({"demo": {"command": "x"}})
    ward.connect_from_elsewhere({"demo": "demo"})


def removed_file_of_a_client(ward: Ward) -> None:
    moved_bridge(ward)
    os.unlink(ward.path(".claude.json"))


def hooks_of(client: str, change: Callable[[Ward], object] = lambda ward: None) -> Callable[[Ward], object]:
    """A policy, and a client whose hooks ask it; then something happens to them."""

    def seed(ward: Ward) -> None:
        ward.write(ward.path(".config", "hearth", "policy.toml"), 'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n')
        make_private(ward.path({"claude-code": ".claude"}.get(client, f".{client}")))
        ward.home.run("connect", client, "--hooks", "--yes", "--no-try")
        change(ward)

    return seed


def silent_client(ward: Ward) -> None:
    """Claude Code with a session and hooks, of which it has called none."""
    program = ward.path("bin", "claude")
    os.makedirs(os.path.dirname(program), 0o700)
    os.symlink(HOOKED_CLIENT, program)
    client = subprocess.Popen(
        [sys.executable, "-I", program, sys.executable, "-I", "-m", "hearth"],
        env=ward.home.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    ward.ended.append(client.communicate)
    assert client.stdout is not None
    assert client.stdout.readline() == b"attached\n"


def policy(ward: Ward, text: str = "") -> str:
    """A policy, with more in it."""
    text = f'{text}default_role = "dev"\n[roles.dev]\ntools = ["**"]\n'
    return ward.write(ward.path(".config", "hearth", "policy.toml"), text)


def waiting_policy(ward: Ward) -> None:
    past = time.time() - 10
    path = policy(ward, 'apply = "manual"\n')
    os.utime(path, (past, past))
    ward.light()
    os.utime(policy(ward, 'apply = "manual"\n\n'), (past, past))
    until(lambda: ward.home.json("status", "--json")["policy"]["waiting"], "the change waits")


def open_role_tokens(ward: Ward) -> None:
    policy(ward)
    assert ward.home.run("role", "token", "dev").returncode == 0
    os.chmod(os.path.join(ward.state, "roles", "mcp", "tokens.json"), 0o644)


def changed_project(ward: Ward) -> None:
    path = ward.write(ward.path("shop", ".hearth", "policy.toml"), '[[rules]]\ntool = "Bash"\ndecide = "ask"\n')
    done = ward.home.run("policy", "trust", ward.path("shop"), "--yes")
    assert done.returncode == 0, done.stderr
    ward.write(path, "")


def rewritten(path: str, change: Callable[[Any], object]) -> Callable[[Ward], object]:
    """A client's JSON file is changed."""

    def seed(ward: Ward) -> None:
        with open(ward.path(path), encoding="utf-8") as file:
            tree = json.load(file)
        change(tree)
        ward.write(ward.path(path), json.dumps(tree))

    return seed


def moved_hooks(ward: Ward) -> None:
    path = ward.path(".claude", "settings.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    ward.write(path, text.replace(ward.state, "/gone"))


def bridge_entry(*words: str) -> dict[str, object]:
    from hearth.clients.launcher import bridge_file

    return {"command": sys.executable, "args": ["-I", "-S", bridge_file(), *words]}


def config_line(text: str) -> Callable[[Ward], object]:
    return lambda ward: ward.add_server(text)


FAULTS = [
    Fault("config.broken", config_line("isolaton = 1\n"), "hearth config check"),
    Fault("config.missing", lambda ward: os.unlink(ward.path(".config", "hearth", "config.toml")), "hearth add"),
    Fault("servers.program", config_line('[mcpServers.far]\ncommand = "no-such-program"\n'), "Install it"),
    Fault("servers.reference", config_line('[mcpServers.far]\nurl = "http://[::1]/${NOWHERE}"\n'), "Do as it says"),
    Fault("servers.folder", config_line('[mcpServers.far]\ncommand = "sh"\ncwd = "/no/such/folder"\n'), "cwd"),
    Fault("servers.file", config_line('[mcpServers.far]\ncommand = "node"\nargs = ["/no/such.js"]\n'), "args"),
    Fault("servers.failed", failing_server, "hearth restart bad"),
    Fault("servers.shim", stand_in_of_fnm, "fnm exec --using=default which npx"),
    Fault("secrets.config", secret_in_an_open_config, "chmod 600", mended=True, left=frozenset({"secrets.literal"})),
    Fault("secrets.literal", secret_in_the_config, "hearth secret set NAME"),
    Fault("secrets.open", open_vault, "chmod 600", mended=True),
    Fault("secrets.token", open_token, "hearth token rotate", mended=True),
    Fault(
        "secrets.damaged",
        lambda ward: ward.write(os.path.join(ward.state, "vault", "secrets.json"), "{"),
        "hearth secret set",
    ),
    Fault("secrets.keyring", keyring_out_of_reach, "hearth secret set"),
    Fault(
        "network.loopback",
        lambda ward: (
            ward.add_server('[mcpServers.far]\nurl = "http://127.0.0.1:9/mcp"\n'),
            ward.environment.update(HTTP_PROXY="http://proxy.invalid:3128"),
        ),
        "NO_PROXY=localhost,127.0.0.1",
    ),
    Fault("environment.variable", lambda ward: ward.environment.update(HEARTH_IDLE_TIMEOUT="5"), "unset"),
    Fault("environment.clock", file_of_the_future, "Set the clock"),
    Fault("environment.open_files", few_open_files, "ulimit -n"),
    Fault("installation.byte_code", uncompiled_bridge, "-m compileall", mended=True),
    Fault("installation.other", another_hearth, "Remove one of the two"),
    Fault("folders.runtime", lambda ward: ward.write(os.path.dirname(ward.home.socket), ""), "Move it away"),
    Fault(
        "folders.open",
        lambda ward: (ward.make_folders(), os.chmod(os.path.dirname(ward.home.registry), 0o755)),
        "chmod 700",
        mended=True,
    ),
    Fault("folders.state", lambda ward: ward.write(ward.path(".local", "state"), ""), "Make"),
    Fault("units.silent", silent_systemctl, "systemctl --user status"),
    Fault("socket.kind", lambda ward: (ward.make_folders(), ward.write(ward.home.socket, "")), "Move it away"),
    Fault("socket.dead", left_over_socket, "The next start replaces it", mended=True),
    Fault("socket.open", lambda ward: ward.listen(0o666), "chmod 600", mended=True),
    Fault("socket.gone", lambda ward: (ward.light(), os.unlink(ward.home.socket)), "kill"),
    Fault("socket.path", long_runtime_folder, "shorter"),
    Fault("daemon.stale", killed_daemon, "doctor has removed the file", is_swept=True),
    Fault("daemon.reused", lambda ward: ward.registry(pid=os.getpid()), "doctor has removed the file", is_swept=True),
    Fault("daemon.registry", lambda ward: ward.write(ward.home.registry, "{"), "rm ", mended=True),
    Fault("daemon.version", lambda ward: (ward.light(), ward.registry(version="0.0.1")), "hearth restart", mended=True),
    Fault("clients.broken", lambda ward: ward.write(ward.path(".claude.json"), "{"), "Mend the file"),
    Fault("clients.bridge", moved_bridge, "hearth connect claude-code", mended=True),
    Fault("clients.server", lambda ward: ward.claude({"a": bridge_entry("--server", "no-such")}), "hearth add no-such"),
    Fault(
        "clients.own",
        lambda ward: ward.claude(
            {"demo": {"command": sys.executable, "args": ["-I", "-m", "hearth.demo.server"], "type": "stdio"}}
        ),
        "hearth connect claude-code",
    ),
    Fault(
        "clients.twice",
        lambda ward: ward.claude({"a": bridge_entry(), "b": bridge_entry("--server", "demo")}),
        "Remove one of the two",
    ),
    Fault("clients.leftover", removed_file_of_a_client, "hearth disconnect claude-code"),
    Fault("policy.broken", lambda ward: policy(ward, "defaut_role = 1\n"), "hearth policy check"),
    Fault("policy.waits", waiting_policy, "hearth policy apply"),
    Fault("policy.tokens", open_role_tokens, "chmod 600", mended=True),
    Fault("policy.project", changed_project, "hearth policy trust"),
    Fault(
        "hooks.missing",
        hooks_of("gemini", rewritten(".gemini/settings.json", lambda tree: tree.pop("hooks"))),
        "hearth connect gemini --hooks",
    ),
    Fault(
        "hooks.incomplete",
        hooks_of("claude-code", rewritten(".claude/settings.json", lambda tree: tree["hooks"].pop("PreToolUse"))),
        "hearth connect claude-code --hooks",
    ),
    Fault("hooks.program", hooks_of("claude-code", moved_hooks), "hearth connect claude-code --hooks"),
    Fault("hooks.trust", hooks_of("codex"), "type /hooks"),
    Fault(
        "hooks.off",
        hooks_of("claude-code", rewritten(".claude/settings.json", lambda tree: tree.update(disableAllHooks=True))),
        "disableAllHooks",
    ),
    Fault(
        "hooks.time",
        hooks_of("gemini", lambda ward: policy(ward, "hook_wait = 300\n")),
        "hearth connect gemini --hooks",
    ),
    Fault("hooks.unheard", hooks_of("claude-code", silent_client), "hearth connect claude-code --hooks"),
    Fault(
        "hooks.broken",
        hooks_of("claude-code", lambda ward: ward.write(ward.path(".claude", "settings.json"), "{")),
        "Mend the file",
    ),
]
