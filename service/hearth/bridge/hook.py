"""`hearth hook`: one call of a client's hook, handed to the daemon and answered. Starts as the bridge does.

    standard input ─▶ frame `hook` ─▶ daemon ─▶ frame `hookAnswer` ─▶ standard output, exit code

Without a policy file nothing is read, started or said. With one, whatever goes wrong in a hook that decides is a deny:
exit code 2 with the reason on standard error, which every client understands. `[hooks] on_error = "pass"` opens it.
Standard library only; knows no format of any client.
"""

import os
from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep

from hearth.bridge import client_io, connector, jsonlite
from hearth.bridge.options import UsageError, places_of
from hearth.errors import HearthError
from hearth.wire.frames import FrameDecoder, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.connector import Stream
    from hearth.paths import Places

USAGE = """\
Usage: hearth hook EVENT --client CLIENT [OPTIONS]

Answers a hook of Claude Code, Codex or Gemini CLI by Hearth's policy: reads the client's JSON on standard input, asks
the daemon (and starts it when none runs), and answers in the client's own form. Clients run it; `hearth connect CLIENT
--hooks` writes it into their settings. Without a policy.toml it does nothing. By hand:

  echo '{"session_id":"x","cwd":"/tmp","tool_name":"Bash","tool_input":{"command":"ls"}}' |
    hearth hook pre-tool-use --client claude

EVENT is the client's name of the event in lower case with hyphens: pre-tool-use, permission-request, stop, before-tool,
session-start and so on. docs/hooks.md lists them.

Options:
  --client CLIENT    claude, codex or gemini
  --token-file PATH  the role token of this client, as `hearth role token` wrote it, or the token of an agent
  --agent-id ID      the agent that this client is; refused if the token or the process is another agent's
  --wait SECONDS     deny when there is no answer after so long; must be less than the client's own time limit
                     [default: 55]
  --profile NAME     the daemon of another profile
  --config PATH      the daemon of this config file
  --socket PATH      the daemon at this socket
  -h, --help         this text

HEARTH_CONFIG and HEARTH_SOCKET in the environment are not read: a client may load a project's file of variables, and an
agent may write that. `hearth connect` writes the options where they are needed."""

# Events that decide nothing, whatever their client: a failure has nothing to deny. Any other event counts as deciding.
PASSING_EVENTS = frozenset(
    {
        *("post-tool-use", "post-tool-use-failure", "permission-denied", "notification", "user-prompt-submit"),
        *("stop", "subagent-start", "subagent-stop", "pre-compact", "post-compact", "session-start", "session-end"),
        *("after-tool", "before-agent", "after-agent", "before-model", "after-model", "before-tool-selection"),
        *("pre-compress", "worker-exit"),
    }
)
CLIENTS = ("claude", "codex", "gemini")
# Above the daemon's own limit for a decision (hook_wait, 50 s), and below the time limit that `connect` writes.
WAIT_SECONDS = 55.0
# No client waits longer for a hook.
WAIT_LIMIT_SECONDS = 3600
# As the daemon has it (policy/hook_formats.py). One byte more tells that it was exceeded.
PAYLOAD_LIMIT_BYTES = 4 * 1024 * 1024
# An answer has a reason of a page at most.
_ANSWER_LIMIT_BYTES = 1024 * 1024
_POLICY_LIMIT_BYTES = 4 * 1024 * 1024
# Daemons that may end while they decide: one that is restarted, and one that was told to stop just then.
_DAEMONS = 3
_PAUSE_SECONDS = 0.05
# Exit code by which every client denies, with the reason on standard error.
DENIED = 2
_NAMES = ("--client", "--token-file", "--agent-id", "--wait", "--profile", "--config", "--socket")
_HINT = "`hearth hook --help` lists the options"


class HookOptions:
    """Options of one call."""

    __slots__ = ("agent_id", "client", "event", "places", "token_file", "wait")

    def __init__(self, event: str, values: "dict[str, str]") -> None:
        self.event = event
        self.client = values.get("--client", "")
        if self.client not in CLIENTS:
            given = f", not {self.client!r}" if self.client else ""
            raise _usage(f"--client is claude, codex or gemini{given}")
        self.token_file = values.get("--token-file")
        self.agent_id = values.get("--agent-id")
        try:
            self.wait = float(values.get("--wait", WAIT_SECONDS))
        except ValueError as exc:
            raise _usage(f"--wait is a number of seconds, not {values['--wait']!r}") from exc
        if not 0 < self.wait <= WAIT_LIMIT_SECONDS:
            raise _usage(f"--wait is more than 0 and at most {WAIT_LIMIT_SECONDS} seconds")
        # Without the environment, which is the client's: an agent may have written it.
        self.places = places_of(values.get("--profile"), values.get("--config"), values.get("--socket"), {})


def _usage(text: str) -> UsageError:
    return UsageError(f"{text}; {_HINT}", command="hook")


def parse(argv: list[str]) -> HookOptions:
    """Read the arguments. Raises UsageError, also for `--help`."""
    values: dict[str, str] = {}
    events: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("-h", "--help"):
            raise UsageError(USAGE, exit_code=0)
        if name in _NAMES:
            value = value if equals else next(words, "")
            if not value:
                raise _usage(f"{name} needs a value")
            values[name] = value
        elif word.startswith("-") or events:
            raise _usage(f"{word!r} is not known here")
        else:
            events.append(word)
    if not events:
        raise _usage("the event is missing")
    return HookOptions(events[0], values)


def main(argv: list[str]) -> int:
    """Answer one call of a hook. Returns only when there is nothing to answer."""
    try:
        options = parse(argv)
    except UsageError as end:
        os.write(1 if end.exit_code == 0 else 2, f"{end}\n".encode())
        return end.exit_code
    # Not by way of the interpreter's end, which takes as long as the question.
    os._exit(HookProcess(options).run() if has_policy(options.places) else 0)


def has_policy(places: "Places") -> bool:
    """Tell whether there is a policy, as the daemon sees it. A file that cannot be looked at counts as one.

    A link that leads nowhere is one, too, and so is the last policy where its removal waits for `hearth policy apply`.
    """
    try:
        os.lstat(places.policy_file())
    except (FileNotFoundError, NotADirectoryError):
        return _waits_for_removal(places.last_policy)
    except OSError:
        pass
    return True


def _waits_for_removal(last_policy: str) -> bool:
    try:
        with open(last_policy, "rb") as file:
            return b"manual" in file.read()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


class _Failure(Exception):
    """Exception: there is no decision. The text is the reason."""


class HookProcess:
    """One call of a hook under a policy."""

    def __init__(self, options: HookOptions) -> None:
        self._options = options
        self._deadline = monotonic() + options.wait
        # Held from the moment the answer is known: the other thread then has nothing to say.
        self._answering = allocate_lock()

    def run(self) -> int:
        """Return the exit code, after everything is written."""
        client_io.make_whole()
        start_new_thread(self._expire, ())
        try:
            found = self._ask(self._frame())
        except _Failure as exc:
            return self._fail(str(exc))
        except BaseException as exc:
            # A client passes a hook that ends with a traceback, also with that of an interrupt.
            return self._fail(f"the hook failed ({type(exc).__name__}: {exc}); is Hearth's installation complete?")
        if found[0].get("policy") is False:
            places = self._options.places
            if not has_policy(places):
                return 0
            return self._fail(f"the daemon has not loaded {places.policy_file()}; `hearth restart` makes it do so")
        return self._tell(found[0], found[1])

    def _tell(self, header: "dict[str, object]", output: bytes) -> int:
        self._answering.acquire()
        try:
            client_io.write_output(output)
            if header.get("stderr"):
                os.write(client_io.ERRORS, str(header["stderr"]).encode("utf-8", "replace"))
        except OSError:
            # The client waits no longer, so the tool does not run.
            return DENIED
        code = header.get("exitCode")
        return code if isinstance(code, int) else DENIED

    def _expire(self) -> None:
        """Deny when the time is over, whatever the main thread waits for."""
        sleep(max(0.0, self._deadline - monotonic()))
        os._exit(self._fail(f"there was no answer within {self._options.wait:g} s"))

    def _fail(self, reason: str) -> int:
        """Say why there is no decision; return the exit code that this means to the client."""
        self._answering.acquire()
        passes = self._options.event in PASSING_EVENTS or _passes_errors(self._options.places.policy_file())
        end = "" if passes else " The tool was not run."
        said = f"Hearth's policy could not be asked: {reason.rstrip('.')}.{end}\n"
        try:
            os.write(client_io.ERRORS, said.encode("utf-8", "replace"))
        except OSError:
            pass
        return 0 if passes else DENIED

    # --- the question

    def _frame(self) -> bytes:
        options = self._options
        payload = _read_input()
        if len(payload) > PAYLOAD_LIMIT_BYTES:
            raise _Failure(f"the hook's input is over the limit of {PAYLOAD_LIMIT_BYTES} bytes.")
        token = f',"roleToken":{jsonlite.quote(_read_token(options.token_file))}' if options.token_file else ""
        named = f'"event":{jsonlite.quote(options.event)},"client":"{options.client}"'
        if options.agent_id:
            named += f',"agentId":{jsonlite.quote(options.agent_id)}'
        return encode(f'{{"type":"hook","seq":1,{named}{token}}}'.encode(), payload)

    def _ask(self, frame: bytes) -> "tuple[dict[str, object], bytes]":
        for number in range(_DAEMONS):
            sock, token = self._connect()
            # Over TCP the token comes first, in a frame that is short enough to be read from anybody.
            greeting = encode(f'{{"type":"heartbeat","token":{jsonlite.quote(token)}}}'.encode()) if token else b""
            try:
                _send(sock, greeting + frame)
                found = _receive(sock)
            except OSError:
                found = None
            finally:
                sock.close()
            if found is not None:
                return found
            sleep(_PAUSE_SECONDS * (number + 1))
        raise _Failure(f"{_DAEMONS} daemons ended while they decided; `hearth logs` may say why.")

    def _connect(self) -> "tuple[Stream, str]":
        try:
            return connector.open_stream(self._options.places.socket), ""
        except OSError:
            return self._find()

    def _find(self) -> "tuple[Stream, str]":
        """Connect to a daemon that is elsewhere, or start one. Raises _Failure."""
        from hearth.bridge import activation, finder

        places: Places = self._options.places
        while True:
            try:
                found = finder.attempt(places)
                if found.absent:
                    found = activation.start(places, finder.attempt, self._deadline)
            except HearthError as exc:
                raise _Failure(f"the daemon cannot be reached: {exc}") from exc
            if found.sock:
                return found.sock, found.token
            # The other thread ends this loop.
            sleep(_PAUSE_SECONDS)


def _read_input() -> bytes:
    pieces, size = [], 0
    while size <= PAYLOAD_LIMIT_BYTES:
        piece = client_io.read_input()
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _read_token(path: str) -> str:
    from hearth.bridge import role_token

    try:
        return role_token.read(path)
    except HearthError as exc:
        raise _Failure(str(exc)) from exc


def _send(sock: "Stream", data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[sock.send(left) :]


def _receive(sock: "Stream") -> "tuple[dict[str, object], bytes] | None":
    """Return header and payload of the answer; None if the daemon ended before. Raises _Failure for a refusal."""
    decoder = FrameDecoder(_ANSWER_LIMIT_BYTES)
    while data := sock.recv(client_io.CHUNK_BYTES):
        try:
            frames = decoder.receive_data(data)
        except HearthError as exc:
            from hearth.bridge.replies import refusal_in

            raise _Failure(f"the daemon refused: {refusal_in(data) or exc}") from exc
        for raw, payload in frames:
            header = jsonlite.read(raw)
            if header.get("type") == "error":
                said = str(header.get("message"))
                is_old = said.startswith("unknown frame type")
                advice = "; `hearth restart` brings the daemon to this version" if is_old else ""
                raise _Failure(f"the daemon refused: {said}{advice}")
            if header.get("type") == "hookAnswer":
                return header, payload
    return None


def _passes_errors(policy: str) -> bool:
    """Tell whether the policy says `[hooks] on_error = "pass"`. A file that cannot be read does not."""
    import tomllib

    try:
        with open(policy, "rb", buffering=0) as file:
            tree = tomllib.loads(file.read(_POLICY_LIMIT_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return False
    hooks = tree.get("hooks")
    return isinstance(hooks, dict) and hooks.get("on_error") == "pass"
