"""The bridge's command line, without argparse (8 ms). Knows names and values, nothing of what they cause."""

import os

from hearth.errors import HearthError
from hearth.paths import DEFAULT_PROFILE, Places, socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hearth.bridge.target import BridgeTarget

USAGE = """\
Usage: hearth bridge [OPTIONS]
       hearth bridge --to URL [--header 'NAME: VALUE']... [OPTIONS]

Connects one MCP client (standard input and output, one JSON-RPC message per line) with Hearth's daemon, starts the
daemon when none runs, and survives its restarts. MCP clients run it; `hearth connect --print` prints the entry to
paste into a client's config. By hand:

  echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | hearth bridge
  hearth bridge --to https://mcp.example.com/mcp --header 'Authorization: Bearer ${keyring:example}'

Options:
  --server NAME    offer one server only, under its tools' own names
  --mode MODE      full: every tool is listed; search: five tools that find, describe and call all others; auto: search
                   where there are many. Without it the daemon's config decides (mode)
  --role ROLE      the role that this client claims
  --token-file PATH
                   show the token in this file, which only you can read: a role token, which `hearth role token` has
                   written, or that of an agent, which the daemon has written. Every role but the default one needs a
                   token. The file is read again at each connection
  --agent-id ID    the agent that this client is; refused if the token is another agent's
  --profile NAME   the daemon of another profile
  --config PATH    the daemon of this config file (also: HEARTH_CONFIG in the environment)
  --socket PATH    the daemon at this socket (also: HEARTH_SOCKET in the environment)
  --no-start       start no daemon; end with exit code 1 and a sentence when none runs
  --to URL         another server than those in the config, for this client alone: any that speaks MCP over HTTP, of
                   either era. http://..., https://..., or HTTP on a Unix socket, unix:/PATH/OF/SOCKET[:/REQUEST]
                   (without a request it is /mcp). The daemon connects to it; goes with every option but --server
  --header 'NAME: VALUE'
                   sent with every request of --to; may be given several times. ${env:NAME}, ${file:PATH} and
                   ${keyring:NAME} are filled in, so that no secret has to stand in a client's config. Without an
                   Authorization among them, what `hearth auth login` has stored for the URL is used
  -h, --help       this text

It ends when standard input ends, after it has delivered what was still owed. Trouble is told on standard error."""

MODES = ("full", "search", "auto")
# With every character escaped, three values and a folder of PATH_MAX bytes still fit into a header of 64 KiB.
_VALUE_LIMIT_CHARACTERS = 1000
_FOLDER_LIMIT_CHARACTERS = 4096
_NAMES = frozenset(
    {
        *("--server", "--mode", "--role", "--agent-id", "--profile", "--config", "--socket", "--no-start"),
        *("--to", "--header", "--token-file"),
    }
)
# Paths, which the system limits, and an address with a limit of its own.
_UNLIMITED_NAMES = frozenset({"--profile", "--config", "--socket", "--to", "--token-file"})
_HEADER_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
# Headers that say how a message is framed, or repeat what it says; another value would only break it.
_NOT_TO_BE_SET = frozenset(
    {
        *("content-length", "content-type", "transfer-encoding", "connection", "accept", "accept-encoding", "upgrade"),
        *("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"),
    }
)
_HINT = "`hearth bridge --help` lists the options"


class UsageError(HearthError):
    """There is nothing to run: the text is for the person who typed."""

    def __init__(self, text: str, exit_code: int = 2, command: str = "bridge") -> None:
        super().__init__(text if exit_code == 0 else f"hearth {command}: {text}")
        self.exit_code = exit_code


class Options:
    """Options of one bridge."""

    def __init__(
        self, values: "dict[str, str]", environ: "Mapping[str, str]", headers: "Sequence[tuple[str, str]]" = ()
    ) -> None:
        self.server = values.get("--server")
        self.role = values.get("--role")
        self.agent_id = values.get("--agent-id")
        self.mode = values.get("--mode")
        # A path: the token itself is in no process's arguments.
        self.token_file = values.get("--token-file")
        # Whether a daemon is started when none runs.
        self.starts = "--no-start" not in values
        self.environ = environ
        self.places = places_of(values.get("--profile"), values.get("--config"), values.get("--socket"), environ)
        if self.mode is not None and self.mode not in MODES:
            raise UsageError(f"--mode is full, search or auto, not {self.mode!r}")
        self.target: BridgeTarget | None = None
        if "--to" in values:
            from hearth.bridge import target

            self.target = target.BridgeTarget(values["--to"], list(headers), environ)

    def greeting(self) -> "dict[str, str | None]":
        """Return the keys about this client for `hello`."""
        try:
            folder: str | None = os.getcwd()
        except OSError:
            # The folder has been removed.
            folder = None
        if folder and len(folder) > _FOLDER_LIMIT_CHARACTERS:
            folder = None
        return {
            "cwd": folder,
            "clientId": os.urandom(8).hex(),
            "server": self.server,
            "role": self.role,
            "agentId": self.agent_id,
            "mode": self.mode,
        }


def places_of(profile: str | None, config: str | None, socket: str | None, environ: "Mapping[str, str]") -> Places:
    """Return the places of the daemon that options or variables name. Raises UsageError."""
    if profile and config:
        raise UsageError("--profile and --config both name a daemon; give one of them")
    if not profile:
        config = config or environ.get("HEARTH_CONFIG")
    socket = socket or environ.get("HEARTH_SOCKET")
    try:
        return Places(profile or DEFAULT_PROFILE, config or None, named=socket_path(socket) if socket else None)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def parse(argv: list[str], environ: "Mapping[str, str]") -> Options:
    """Read the arguments. Raises UsageError, also for `--help`."""
    values: dict[str, str] = {}
    headers: list[tuple[str, str]] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("-h", "--help"):
            raise UsageError(USAGE, exit_code=0)
        if name not in _NAMES:
            raise UsageError(f"{word!r} is not known here; {_HINT}")
        if name == "--no-start":
            if equals:
                raise UsageError(f"{name} takes no value; {_HINT}")
            values[name] = name
            continue
        if not equals:
            value = next(words, "")
        if not value:
            raise UsageError(f"{name} needs a value; {_HINT}")
        if name == "--header":
            headers.append(_header(value))
            continue
        if name not in _UNLIMITED_NAMES and len(value) > _VALUE_LIMIT_CHARACTERS:
            raise UsageError(f"the value of {name} is over the limit of {_VALUE_LIMIT_CHARACTERS} characters")
        values[name] = value
    if headers and "--to" not in values:
        raise UsageError("--header goes with --to only: the daemon is not reached by HTTP")
    if "--to" in values and "--server" in values:
        raise UsageError("--server and --to both name a server; give one of them")
    return Options(values, environ, headers)


def _header(written: str) -> tuple[str, str]:
    """Name and value of a header as it was given. No sentence shows the value."""
    name, colon, value = written.partition(":")
    name = name.strip()
    if not colon or not name or not (_HEADER_CHARACTERS.issuperset(name)):
        raise UsageError("--header is written 'NAME: VALUE', as in --header 'Authorization: Bearer ${keyring:NAME}'")
    if name.lower() in _NOT_TO_BE_SET:
        raise UsageError(f"--header {name} is the bridge's own to send; leave it out")
    if any(character < " " and character != "\t" for character in value):
        raise UsageError(f"--header {name} has a line end or another control character in it")
    return name, value.strip()
