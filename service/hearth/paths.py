"""Paths of sockets, files and folders. Bridge, daemon and command line use the same functions, so that they agree.

MCP clients start the bridge with little more than HOME and PATH, hence nothing here depends on a variable that
such a client drops. Imported by the bridge: standard library only, with heavy imports inside functions.
"""

import os
import sys

# `sun_path` holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
SOCKET_PATH_LIMIT_BYTES = 103 if sys.platform == "darwin" else 107
PIPE_PREFIX = "\\\\.\\pipe\\hearth-"
# CreateNamedPipe takes 256 characters, the prefix included.
PIPE_NAME_LIMIT = 256
DEFAULT_PROFILE = "mcp"
# Folder of the sockets that the administrator of a shared host has set up for its users (units/system). The folder
# belongs to root: everything in it was created by root.
SYSTEM_DIR = "/run/mcp"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
# Characters of a server's name that stay readable in a file name; the limit is 255 bytes, with suffix and number.
_READABLE_CHARACTERS = 60
# Names that no file may have on Windows, whatever its suffix; the last two with a digit.
_WINDOWS_DEVICES = frozenset({"con", "prn", "aux", "nul", "com", "lpt"})


def home_dir() -> str:
    """Return the user's home, also when HOME is unset or relative."""
    if sys.platform == "win32":
        # Not HOME: shells that come with git set it to a path in their own format.
        return os.path.expanduser("~")
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user, known by number only
        return "/"


def _is_mine(path: str) -> bool:
    if sys.platform == "win32":
        return True
    try:
        found = os.stat(path)
    except OSError:
        return False
    return found.st_uid == os.getuid() and (found.st_mode & 0o170000) == 0o040000


def runtime_dir() -> str:
    """Return the folder that exists as long as the login: RUNTIME in the documentation."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if sys.platform not in ("darwin", "win32") and named.startswith("/"):
        return named
    return usual_runtime_dir()


def usual_runtime_dir() -> str:
    """Return the runtime folder as a process without environment variables finds it."""
    if sys.platform in ("darwin", "win32"):
        # Of macOS's own folders for runtime files, TMPDIR is emptied at a restart and Caches whenever room is needed;
        # launchd binds the socket at login, before anything could create the folder again. Windows has Temp only,
        # which is cleaned whenever room is needed.
        return os.path.join(state_dir(), "run")
    usual = f"/run/user/{os.getuid()}"
    return usual if _is_mine(usual) else short_dir()


def system_socket() -> str | None:
    """Return the path of a socket that the administrator may have set up for this user; None if it does not apply.

    This socket takes precedence over the user's own runtime folder, which comes and goes with logins: so there is one
    daemon with and without a login. But an XDG_RUNTIME_DIR that leads elsewhere was set on purpose.
    """
    if sys.platform != "linux":
        return None
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if named.startswith("/") and named.rstrip("/") != f"/run/user/{os.getuid()}":
        return None
    return f"{SYSTEM_DIR}/{os.getuid()}.sock"


def short_dir() -> str:
    """Return a folder with a short path, for socket paths that would be too long. Its owner is checked before use."""
    if sys.platform == "win32":
        return os.path.join(home_dir(), ".mcp")
    return f"/tmp/hearth-{os.getuid()}"


def _base(variable: str, mac: str, windows: str, default: str) -> str:
    if sys.platform == "win32":
        # Some clients drop the variable.
        usual = os.path.join(home_dir(), "AppData", "Roaming" if windows == "APPDATA" else "Local")
        return os.path.join(os.environ.get(windows) or usual, "hearth")
    if sys.platform == "darwin":
        return os.path.join(home_dir(), "Library", mac, "hearth")
    named = os.environ.get(variable, "")
    return os.path.join(named if named.startswith("/") else os.path.join(home_dir(), default), "hearth")


def config_dir() -> str:
    """Return the folder of `config.toml`."""
    return _base("XDG_CONFIG_HOME", "Application Support", "APPDATA", ".config")


def state_dir() -> str:
    """Return the folder of the state that is kept between runs."""
    return _base("XDG_STATE_HOME", "Application Support", "LOCALAPPDATA", ".local/state")


def log_dir() -> str:
    """Return the folder of the logs; on macOS where Console looks for them."""
    if sys.platform == "darwin":
        return _base("", "Logs", "", "")
    # Not platformdirs' `log` and `Logs`: installations have had `logs` from the first release on.
    return os.path.join(state_dir(), "logs")


class Places:
    """Paths of one daemon's files. `key` identifies the daemon: the profile, or a hash of the path of its config.

    `adopted` is the socket that a daemon has inherited: its other files are beside it. `named` is a socket that was
    chosen by its path (`--socket`, HEARTH_SOCKET); the default socket counts as none.
    """

    def __init__(
        self,
        profile: str = DEFAULT_PROFILE,
        config: str | None = None,
        adopted: str | None = None,
        named: str | None = None,
    ) -> None:
        self.profile = profile or DEFAULT_PROFILE
        self.config = _resolved(config) if config else None
        self.key = digest(self.config) if self.config else self.profile
        if self.key.startswith(".") or not _NAME_CHARACTERS.issuperset(self.key):
            raise ValueError(f"{self.key!r} is not a profile name: use letters, digits, '.', '_' and '-'")
        if self.key.endswith(".sock"):  # its folder would be at the path of the other profile's socket
            raise ValueError(f"{self.key!r} is not a profile name: it must not end in '.sock'")
        shared = system_socket() if self.key == DEFAULT_PROFILE else None
        # Whether the system's service manager holds the socket, not the user's own.
        self.system_wide = shared is not None and (adopted == shared if adopted else os.path.exists(shared))
        if shared and self.system_wide:
            self.socket = shared
            self.folder = shared.removesuffix(".sock")
        else:
            name = self.key + ".sock"
            known = adopted if adopted and os.path.basename(adopted) == name else None
            base = os.path.dirname(known) if known else os.path.join(runtime_dir(), "mcp")
            self.socket = known or _endpoint(base, self.key)
            self.folder = os.path.join(base, self.key)
        self.named = named if named and named != self.socket and named != self.folder + ".sock" else None
        if self.named:
            self._move(self.named)
        self.registry = os.path.join(self.folder, "daemon.json")
        self.daemon_lock = os.path.join(self.folder, "daemon.lock")
        self.start_lock = os.path.join(self.folder, "start.lock")
        self.log = os.path.join(log_dir(), self.key + ".log")
        self.server_logs = os.path.join(log_dir(), "servers", self.key)
        self.learned = os.path.join(state_dir(), "learned", self.key + ".json")
        self.catalogue = os.path.join(state_dir(), "catalogue", self.key)
        self.last_config = os.path.join(state_dir(), "config", self.key)
        self.pins = os.path.join(state_dir(), "pins", self.key)
        self.sessions = os.path.join(state_dir(), "sessions", self.key)
        self.audit = os.path.join(state_dir(), "audit", self.key)
        self.grants = os.path.join(state_dir(), "grants", self.key)
        self.last_policy = os.path.join(state_dir(), "policy", self.key)
        self.roles = os.path.join(state_dir(), "roles", self.key)
        self.trusted = os.path.join(state_dir(), "trusted", self.key)
        self.agents = os.path.join(state_dir(), "agents", self.key)
        self.worktrees = os.path.join(state_dir(), "worktrees", self.key)

    def _move(self, socket: str) -> None:
        """Use another socket. Lock and registry are beside it, as they are beside the default one."""
        self.system_wide = False
        if sys.platform == "win32":
            self.socket = socket
            return
        self.socket = fitting_socket_path(socket)
        self.folder = socket.removesuffix(".sock") if socket.endswith(".sock") else socket + ".d"

    def config_file(self) -> str:
        """Return the config file that this daemon reads; it need not exist."""
        if self.config:
            return self.config
        folder = config_dir()
        if self.profile != DEFAULT_PROFILE:
            folder = os.path.join(folder, "profiles", self.profile)
        return os.path.join(folder, "config.toml")

    def policy_file(self) -> str:
        """Return the policy file of this daemon, beside its config; it need not exist."""
        return os.path.join(os.path.dirname(self.config_file()), "policy.toml")

    def server_log(self, name: str) -> str:
        """Return the log file of a server's stderr; it need not exist."""
        return os.path.join(self.server_logs, safe_name(name) + ".log")

    def role_tokens(self) -> str:
        """Return the file with the hashes of role tokens; it need not exist."""
        return os.path.join(self.roles, "tokens.json")

    def agent_tokens(self) -> str:
        """Return the folder of the token files of running agents; it need not exist."""
        return os.path.join(self.folder, "agents")

    def private_folders(self) -> list[str]:
        """Return the folders that no other user may enter, outermost first."""
        if self.system_wide:
            # The folder above belongs to root, and every user may traverse it.
            return [self.folder]
        if self.named:
            # The user chose the folder of the socket, too; Hearth must not change its mode.
            return [*([short_dir()] if self.socket.startswith(short_dir() + "/") else []), self.folder]
        folders = [os.path.dirname(self.folder), self.folder]
        if sys.platform != "win32":
            folders.insert(1, os.path.dirname(self.socket))
        # In /tmp, any user could have created it before.
        shared = [short_dir()] if any(folder.startswith(short_dir()) for folder in folders) else []
        return list(dict.fromkeys(shared + folders))

    def arguments(self) -> list[str]:
        """Return the command-line arguments with which another process finds the same daemon."""
        if self.config:
            return ["--config", self.config]
        return [] if self.profile == DEFAULT_PROFILE else ["--profile", self.profile]

    def bridge_arguments(self) -> list[str]:
        """Return the arguments with which a bridge finds this daemon, whichever variables its client drops."""
        if self.named:
            return [*self.arguments(), "--socket", self.named]
        if self.system_wide or sys.platform in ("darwin", "win32"):
            return self.arguments()
        is_usual = self.folder == os.path.join(usual_runtime_dir(), "mcp", self.key)
        return self.arguments() if is_usual else [*self.arguments(), "--socket", self.folder + ".sock"]


def socket_path(written: str) -> str:
    """Return the path in `--socket` or HEARTH_SOCKET: a path, or `unix:PATH`. Raises ValueError."""
    if written.startswith("tcp:"):
        raise ValueError(f"{written!r} is no path: a daemon on TCP is found by its registry entry")
    path = os.path.expanduser(written.removeprefix("unix:"))
    if not path:
        raise ValueError(f"{written!r} names no socket")
    if sys.platform == "win32" and path.startswith("\\\\"):
        return path
    return os.path.abspath(path)


def _resolved(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError as exc:  # a relative path has no meaning in a folder that was removed
        raise ValueError(
            f"{path!r} cannot be found from here: the current folder is gone; give the whole path"
        ) from exc


def digest(text: str, surrogates: str = "surrogateescape") -> str:
    """Return a short stable name for a path, or for any other text."""
    # Not hashlib: it loads OpenSSL, 4 MB that the bridge would carry for one hash.
    from _blake2 import blake2s

    return blake2s(text.encode("utf-8", surrogates), digest_size=8).hexdigest()


def safe_name(name: str) -> str:
    """Return a server's name as part of a file name, unique for each name on every file system.

    A short name in lower case stays as it is. Any other gets a digest after a `~`, which no such name contains;
    upper-case names too, because some file systems ignore case.
    """
    readable = "".join(character if character in _NAME_CHARACTERS else "_" for character in name)
    readable = readable[:_READABLE_CHARACTERS]
    plain = readable == name == name.lower() and name == name.strip(".") != ""
    if plain and name.split(".")[0].rstrip("123456789") not in _WINDOWS_DEVICES:
        return name
    return f"{readable.replace('.', '_')}~{digest(name, 'surrogatepass')}"


def _endpoint(base: str, key: str) -> str:
    """Return the daemon's endpoint: a socket in the folder, or on Windows a named pipe."""
    if sys.platform == "win32":
        from hearth import sids

        return pipe_name(sids.own(), key)
    return fitting_socket_path(os.path.join(base, key + ".sock"))


def pipe_name(sid: str, key: str) -> str:
    """Return the named pipe of one user's daemon. Pipes have one name space for all users, and ignore case. Pure."""
    name = f"{PIPE_PREFIX}{sid}-{key.lower()}"
    return name if len(name) <= PIPE_NAME_LIMIT else f"{PIPE_PREFIX}{sid}-{digest(key.lower())}"


def fitting_socket_path(path: str) -> str:
    """Return the path itself, or a stable short replacement if it is too long for the kernel."""
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT_BYTES:
        return path
    return os.path.join(short_dir(), digest(path) + ".sock")
