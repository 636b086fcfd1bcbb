"""Every error that Hearth raises on purpose, in one tree.

    HearthError
    ├── ConfigError            the configuration cannot be used as it stands
    ├── WireError              somebody sent bytes that do not follow the protocol
    │   ├── FrameError         … as frames
    │   ├── MessageError       … as JSON-RPC; carries the id when one could be found
    │   │   └── OverLimit      … or more messages than it may; carries when to come back
    │   └── TooLarge           … beyond a limit
    ├── StartError             a daemon could not be started
    │   ├── FileAccessError    … because a folder, a lock or a private file cannot be used; other users of such
    │   │                        files catch this one alone
    │   ├── AlreadyRunning     … because another one is; carries who
    │   │   └── RunsElsewhere  … at another socket; carries which
    │   ├── BadAddress         … because the address that was typed cannot be meant
    │   └── NoUnixSocket       … because a Unix socket is not to be had here
    ├── Unreachable            the daemon did not answer
    │   └── TurnedAway         … but for a sentence why it takes no connection more
    ├── Refused                a request was understood and denied
    │   └── NoRoom             … because too many are there already
    ├── VaultError             a secret could not be stored, or found where it was stored
    └── UpstreamError          an MCP server could not be started, or died
        ├── UpstreamBusy       … or does not read what it is sent
        ├── LoginRequired      … or wants a person to log in first
        └── LoginFailed        … who could not

Each class carries `exit_code`, for the command line, and `rpc_code`, for JSON-RPC. This module imports nothing,
so that the bridge may use it.
"""


class HearthError(Exception):
    """Something went wrong that a person can be told about in one sentence."""

    exit_code = 1
    rpc_code = -32603
    # Details for the client of a JSON-RPC error (its `data`), if there are any.
    data: object = None

    @property
    def result(self) -> bytes | None:
        """Return the raw result that takes the place of the error, where a tool of Hearth's own tells it."""
        return None


class ConfigError(HearthError):
    """The configuration cannot be used. `problems` has one sentence per finding."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class WireError(HearthError):
    """The other side broke the protocol."""

    rpc_code = -32600


class FrameError(WireError):
    """Bytes that are not a frame. The stream cannot be trusted after it."""


class TooLarge(WireError):
    """A message beyond a limit; the sentence names the limit and its setting.

    `id` is its raw id, when it was seen to be the answer to a request.
    """

    def __init__(self, message: str, id: bytes | None = None) -> None:
        super().__init__(message)
        self.id = id


class MessageError(WireError):
    """A line that is not a JSON-RPC message. `id` is its raw id, when there was one to find; `asks`: of a request."""

    # The beginning of the offending line, where a decoder of lines found it; for logs only.
    line = b""

    def __init__(self, message: str, rpc_code: int = -32600, id: bytes | None = None, asks: bool = False) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.id = id
        self.asks = asks


class OverLimit(MessageError):
    """A message beyond what its client may send; the sentence names the limit and its setting."""

    # Not the client's mistake in what it says: the same words will do, later.
    def __init__(self, message: str, reason: str, id: bytes | None, retry_after: int) -> None:
        super().__init__(message, -32603, id)
        self.retry_after = retry_after
        self.reason = reason
        self.data = {"reason": reason, "retryAfterSeconds": retry_after}


class InstallationChanged(HearthError):
    """A part of Hearth cannot be loaded: its files were moved, replaced or removed while the daemon ran."""

    def __init__(self, cause: ImportError) -> None:
        super().__init__(
            f"the installation of Hearth that this daemon runs from was moved, replaced or removed"
            f" ({cause.name or 'a module'} cannot be loaded); `hearth doctor --fix` starts the installed one"
        )


class StartError(HearthError):
    """A daemon could not be started; the sentence says why and what to do."""

    exit_code = 1


class FileAccessError(StartError):
    """A folder, a lock or a private file cannot be used; the sentence says why and what to do."""


class AlreadyRunning(StartError):
    """Another daemon holds the lock."""

    exit_code = 3


class RunsElsewhere(AlreadyRunning):
    """Another daemon of the profile runs with another runtime folder; `socket` names it, as `--socket` does."""

    def __init__(self, socket: str) -> None:
        super().__init__(f"a daemon of this profile already runs: {socket}")
        self.socket = socket


class NoUnixSocket(StartError):
    """The system, or the file system, has no Unix sockets."""


class BadAddress(StartError):
    """An address to listen on that cannot be meant, or has to be meant explicitly."""

    exit_code = 2


class Unreachable(HearthError):
    """The daemon did not answer; the sentence says what to do."""

    exit_code = 4


class TurnedAway(Unreachable):
    """The daemon is well, and takes no connection more; the sentence says why."""


class Refused(HearthError):
    """Understood, and denied."""

    exit_code = 5
    rpc_code = -32602


class NoRoom(Refused):
    """One connection more would be too many; the sentence names the limit. It was counted, and told in the log."""


class VaultError(HearthError):
    """A keyring, or the file in its place, refuses or is silent; the sentence says what to do."""


class UpstreamError(HearthError):
    """An MCP server failed; the sentence names it."""


class UpstreamBusy(UpstreamError):
    """An MCP server does not read its standard input."""


class LoginRequired(UpstreamError):
    """An MCP server wants a person to log in, or to allow more; the sentence has the command to type."""

    def __init__(self, sentence: str, server: str) -> None:
        super().__init__(sentence)
        self.server = server


class LoginFailed(UpstreamError):
    """A login came to nothing; the sentence says why."""
