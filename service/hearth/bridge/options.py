"""The bridge's command line, without argparse (8 ms). Knows names and values, nothing of what they cause."""

import os

from hearth.errors import HearthError
from hearth.paths import DEFAULT_PROFILE, Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE = """\
Usage: hearth bridge [OPTIONS]

Connects one MCP client (standard input and output, one JSON-RPC message per line) with Hearth's daemon, starts the
daemon when none runs, and survives its restarts. MCP clients run it; `hearth connect --print` prints the entry to
paste into a client's config. By hand:

  echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | hearth bridge

Options:
  --server NAME    offer one server only, under its tools' own names
  --mode MODE      full: every tool is listed; search: three tools that find, describe and call all others; auto: search
                   where there are many. Without it the daemon's config decides (mode)
  --role ROLE      the role that this client claims
  --agent-id ID    the agent that this client is
  --profile NAME   the daemon of another profile
  --config PATH    the daemon of this config file (also: HEARTH_CONFIG in the environment)
  -h, --help       this text

It ends when standard input ends, after it has delivered what was still owed. Trouble is told on standard error."""

MODES = ("full", "search", "auto")
# With every character escaped, three values and a folder of PATH_MAX bytes still fit into a header of 64 KiB.
_VALUE_LIMIT_CHARACTERS = 1000
_FOLDER_LIMIT_CHARACTERS = 4096
_HINT = "`hearth bridge --help` lists the options"


class UsageError(HearthError):
    """There is nothing to run: the text is for the person who typed."""

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text if exit_code == 0 else f"hearth bridge: {text}")
        self.exit_code = exit_code


class Options:
    """What was asked for."""

    __slots__ = ("agent_id", "environ", "mode", "places", "role", "server")

    def __init__(self, values: "dict[str, str]", environ: "Mapping[str, str]") -> None:
        self.server = values.get("--server")
        self.role = values.get("--role")
        self.agent_id = values.get("--agent-id")
        self.mode = values.get("--mode")
        self.environ = environ
        self.places = _places(values.get("--profile"), values.get("--config"), environ)
        if self.mode is not None and self.mode not in MODES:
            raise UsageError(f"--mode is full, search or auto, not {self.mode!r}")

    def greeting(self) -> "dict[str, str | None]":
        """What the daemon is told about this client in `hello`."""
        try:
            folder: str | None = os.getcwd()
        except OSError:
            # It has been removed.
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


def _places(profile: str | None, config: str | None, environ: "Mapping[str, str]") -> Places:
    if profile and config:
        raise UsageError("--profile and --config both name a daemon; give one of them")
    if not profile:
        config = config or environ.get("HEARTH_CONFIG")
    try:
        return Places(profile or DEFAULT_PROFILE, config or None)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def parse(argv: list[str], environ: "Mapping[str, str]") -> Options:
    """Read the arguments. Raises UsageError, also for `--help`."""
    values: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("-h", "--help"):
            raise UsageError(USAGE, exit_code=0)
        if name == "--to":
            raise UsageError("--to is not available yet; put the server's url into Hearth's config instead")
        if name not in ("--server", "--mode", "--role", "--agent-id", "--profile", "--config"):
            raise UsageError(f"{word!r} is not known here; {_HINT}")
        if not equals:
            value = next(words, "")
        if not value:
            raise UsageError(f"{name} needs a value; {_HINT}")
        if name not in ("--profile", "--config") and len(value) > _VALUE_LIMIT_CHARACTERS:
            raise UsageError(f"the value of {name} is over the limit of {_VALUE_LIMIT_CHARACTERS} characters")
        values[name] = value
    return Options(values, environ)
