"""Another program on Windows: without a window, outside of its starter's job, with nothing but one pipe in common."""

import os
import sys
from time import monotonic, sleep

assert sys.platform == "win32", "imported on Windows only"

import _winapi  # noqa: E402
import msvcrt  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# More than a program that has something to say writes; the rest is not kept.
_OUTPUT_LIMIT_BYTES = 64 * 1024
# Such a pipe cannot be waited for with a limit, only looked at. Short against the daemon's start.
_LOOK_SECONDS = 0.01
_ACCESS_DENIED = 5
# A console of its own that is never shown, which its own children share; and Ctrl-C of ours does not reach it.
_FLAGS = _winapi.CREATE_NO_WINDOW | _winapi.CREATE_NEW_PROCESS_GROUP


class _StartupInfo:
    """Settings that `_winapi.CreateProcess` reads; `subprocess` has the same fields, and costs too much here."""

    dwFlags = _winapi.STARTF_USESTDHANDLES  # noqa: N815
    wShowWindow = 0  # noqa: N815

    def __init__(self, source: int | None, null: int, output: int) -> None:
        self.hStdInput = null if source is None else source
        self.hStdOutput = null
        self.hStdError = output
        # Nothing else that happens to be inheritable is handed on.
        self.lpAttributeList = {"handle_list": [null, output, *([] if source is None else [source])]}


class WindowsChild:
    """A program whose standard error is read through a pipe."""

    def __init__(
        self, command: list[str], environment: "Mapping[str, str]", numbered: bool = False, told: bytes = b""
    ) -> None:
        """Start it. Raises OSError.

        `numbered`: it also gets the pipe's number as its last argument. `told`: its standard input.
        """
        self.output = b""
        self._reader, writer = _winapi.CreatePipe(None, 0)
        source = None
        try:
            source = _pipe_with(told) if told else None
            os.set_handle_inheritable(writer, True)
            if numbered:
                command = [*command, str(writer)]
            self._process = _create(command, dict(environment), source, writer)
        except BaseException:
            _winapi.CloseHandle(self._reader)
            raise
        finally:
            _winapi.CloseHandle(writer)
            if source is not None:
                _winapi.CloseHandle(source)

    def read(self, deadline: float, enough: bytes | None = None) -> bool:
        """Collect its output until the line `enough` or the end. False: neither came in time."""
        while monotonic() < deadline:
            try:
                waiting = int(_winapi.PeekNamedPipe(self._reader)[0])
                data, _ = _winapi.ReadFile(self._reader, waiting) if waiting else (b"", 0)
            except BrokenPipeError:
                return True
            if not data:
                sleep(_LOOK_SECONDS)
                continue
            self.output = (self.output + data)[-_OUTPUT_LIMIT_BYTES:]
            if enough is not None and enough in self.output.splitlines():
                return True
        return False

    def kill(self) -> None:
        """End it, if it has not ended."""
        try:
            _winapi.TerminateProcess(self._process, 1)
        except OSError:
            pass  # the program has ended

    def close(self) -> None:
        """Read no more of it."""
        _winapi.CloseHandle(self._reader)
        _winapi.CloseHandle(self._process)


def _pipe_with(data: bytes) -> int:
    """Return a pipe with those bytes and then its end, made so large that writing them waits for no reader."""
    source, writer = _winapi.CreatePipe(None, len(data))
    try:
        os.set_handle_inheritable(source, True)
        _winapi.WriteFile(writer, data)
    except BaseException:
        _winapi.CloseHandle(source)
        raise
    finally:
        _winapi.CloseHandle(writer)
    return source


def _create(command: list[str], environment: dict[str, str], source: int | None, output: int) -> int:
    """Start it; the handle of its process."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.set_inheritable(null, True)
        info = _StartupInfo(source, msvcrt.get_osfhandle(null), output)
        line = " ".join(map(quoted, command))
        try:
            made = _create_process(line, _FLAGS | _winapi.CREATE_BREAKAWAY_FROM_JOB, environment, info)
        except OSError as exc:
            if exc.winerror != _ACCESS_DENIED:
                raise
            # The client's job lets nobody out: the daemon ends with the client, and the next bridge starts another.
            made = _create_process(line, _FLAGS, environment, info)
    finally:
        os.close(null)
    process, thread = made[:2]
    _winapi.CloseHandle(thread)
    return process


def _create_process(
    line: str, flags: int, environment: dict[str, str], info: _StartupInfo
) -> tuple[int, int, int, int]:
    return _winapi.CreateProcess(None, line, None, None, True, flags, environment, None, info)


def quoted(word: str) -> str:
    """Return a word of a command line, as the C runtime of the other program takes it apart."""
    if word and not set(word) & set(' \t"'):
        return word
    text, backslashes = "", ""
    for character in word:
        # Backslashes mean themselves but before a quote, where each is doubled.
        text += f'{backslashes}\\"' if character == '"' else character
        backslashes = backslashes + character if character == "\\" else ""
    return f'"{text}{backslashes}"'
