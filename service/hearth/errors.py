"""Tree of all errors that Hearth raises on purpose.

    HearthError
    ├── ConfigError            the configuration cannot be used as it stands
    ├── WireError              a peer sent bytes that do not follow the protocol
    │   ├── FrameError         … as frames
    │   ├── MessageError       … as JSON-RPC; carries the id when one could be found
    │   │   └── OverLimit      … or more messages than allowed; carries when to retry
    │   ├── HookFormatError    … as the input of a client's hook
    │   └── TooLarge           … beyond a limit
    ├── FileAccessError        a folder, a lock or a private file cannot be used
    ├── StartError             a daemon could not be started
    │   ├── AlreadyRunning     … because another one runs; carries which
    │   │   └── RunsElsewhere  … at another socket; carries which
    │   ├── BadAddress         … because the given address makes no sense
    │   └── NoUnixSocket       … because there are no Unix sockets here
    ├── Unreachable            the daemon did not answer
    │   └── TurnedAway         … except with the reason why it accepts no more connections
    ├── Refused                a request was understood and denied
    │   ├── NoRoom             … because there are too many already
    │   ├── PersonRequired     … because it comes from below an agent
    │   └── RoleRefused        … because no valid token shows the role
    ├── InstallationChanged    a module cannot be loaded any more
    ├── VaultError             a secret could not be stored, or found where it was stored
    ├── AgentError             a coding agent could not be started, refused a request, or died; carries its code
    └── UpstreamError          an MCP server could not be started, or died
        ├── UpstreamBusy       … or does not read its input
        ├── LoginRequired      … or requires a login first
        └── LoginFailed        … which failed

Each class carries `exit_code`, for the command line, and `rpc_code`, for JSON-RPC. This module imports nothing,
so that the bridge may use it.
"""


class HearthError(Exception):
    """Base class of Hearth's errors: each has one sentence for the user."""

    exit_code = 1
    rpc_code = -32603
    # Details for the client of a JSON-RPC error (its `data`), if there are any.
    data: object = None

    @property
    def result(self) -> bytes | None:
        """Raw result that replaces the error, if a tool of Hearth's own reports it."""
        return None


class ConfigError(HearthError):
    """Error for an unusable configuration. `problems` has one sentence per problem."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class WireError(HearthError):
    """Error for a peer that violates the protocol."""

    rpc_code = -32600


class FrameError(WireError):
    """Error for bytes that are not a frame. The stream cannot be trusted afterwards."""


class HookFormatError(WireError):
    """Error for the input of a client's hook that is not known to mean what it says."""


class TooLarge(WireError):
    """Error for a message beyond a limit; the sentence names the limit and its setting.

    `id` is its raw id, if the message was recognised as the answer to a request.
    """

    def __init__(self, message: str, id: bytes | None = None) -> None:
        super().__init__(message)
        self.id = id


class MessageError(WireError):
    """Error for a line that is not a JSON-RPC message. `id` is its raw id, if found; `asks`: it is a request's."""

    # The beginning of the offending line, if a line decoder found it; for logs only.
    line = b""

    def __init__(self, message: str, rpc_code: int = -32600, id: bytes | None = None, asks: bool = False) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.id = id
        self.asks = asks


class OverLimit(MessageError):
    """Error for a message beyond a limit of its client; the sentence names the limit and its setting."""

    # The message itself is valid: the same message will succeed later.
    def __init__(self, message: str, reason: str, id: bytes | None, retry_after: int) -> None:
        super().__init__(message, -32603, id)
        self.retry_after = retry_after
        self.reason = reason
        self.data = {"reason": reason, "retryAfterSeconds": retry_after}


class InstallationChanged(HearthError):
    """Error for a module of Hearth whose files were moved, replaced or removed while the daemon ran."""

    def __init__(self, cause: ImportError) -> None:
        super().__init__(
            f"the installation of Hearth that this daemon runs from was moved, replaced or removed"
            f" ({cause.name or 'a module'} cannot be loaded); `hearth doctor --fix` starts the installed one"
        )


class FileAccessError(HearthError):
    """Error for an unusable folder, lock or private file; the sentence says why and what to do."""


class StartError(HearthError):
    """Error for a daemon that could not be started; the sentence says why and what to do."""


class AlreadyRunning(StartError):
    """Error for a start while another daemon holds the lock."""

    exit_code = 3


class RunsElsewhere(AlreadyRunning):
    """Error for a start while a daemon of the profile runs with another runtime folder.

    `socket` names that daemon, as `--socket` does.
    """

    def __init__(self, socket: str) -> None:
        super().__init__(f"a daemon of this profile already runs: {socket}")
        self.socket = socket


class NoUnixSocket(StartError):
    """Error for a system or file system without Unix sockets."""


class BadAddress(StartError):
    """Error for an address to listen on that makes no sense, or that must be confirmed explicitly."""

    exit_code = 2


class Unreachable(HearthError):
    """Error for a daemon that did not answer; the sentence says what to do."""

    exit_code = 4


class TurnedAway(Unreachable):
    """Error for a healthy daemon that accepts no more connections; the sentence says why."""


class Refused(HearthError):
    """Error for a request that was understood and denied."""

    exit_code = 5
    rpc_code = -32602


class NoRoom(Refused):
    """Error for a connection beyond the limit, which the sentence names. The refusal was already counted and logged."""


class PersonRequired(Refused):
    """Error for a command that is for a person, from a process below an agent."""


class RoleRefused(Refused):
    """Error for a role or agent token that is unknown, expired or revoked; the sentence says which and what to do."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        # "unknown", "expired", "revoked" or "unreadable", for counters and the audit log.
        self.cause = cause
        self.data = {"reason": "role", "cause": cause}


class VaultError(HearthError):
    """Error for a keyring, or the file in its place, that refuses or does not answer; the sentence says what to do."""


class AgentError(HearthError):
    """Error for a coding agent that failed; the sentence names it.

    `code` is the JSON-RPC code with which it refused a request; 0 for any other failure.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class UpstreamError(HearthError):
    """Error for an MCP server that failed; the sentence names it."""


class UpstreamBusy(UpstreamError):
    """Error for an MCP server that does not read its standard input."""


class LoginRequired(UpstreamError):
    """Error for an MCP server that requires a login or more permissions; the sentence has the command to type."""

    def __init__(self, sentence: str, server: str) -> None:
        super().__init__(sentence)
        self.server = server


class LoginFailed(UpstreamError):
    """Error for a login that failed; the sentence says why."""
