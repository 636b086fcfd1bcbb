"""Setup of the daemon's log: the journal with fields under systemd, a rotating file otherwise.

At the default level no record carries a payload, and at no level a secret that a server was given. The first lines of a
server's stdout that are not MCP do not count as payload: they are logged, truncated and masked.
"""

import logging
import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from hearth.host.linux.systemd import Journal, is_behind_stderr
from hearth.masking import escaped, everywhere

if TYPE_CHECKING:
    from io import TextIOWrapper

ROTATE_BYTES = 2 * 1024 * 1024
ROTATE_COUNT = 3
STDERR = 2
# Records that wait for a client that reads its server's stderr late, or never …
UNHEEDED_RECORDS = 1000
# … and how long the shutdown waits for them.
UNHEEDED_CLOSE_SECONDS = 0.5
# Fields that records may carry besides the message: key=value in a text, and the field of this name in the journal.
JOURNAL_FIELDS = {"upstream": "HEARTH_SERVER", "session": "HEARTH_SESSION", "era": "HEARTH_ERA"}
# The journal uses the priorities of syslog.
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class _Fields(logging.Formatter):
    """Formatter that appends the fields as key=value and masks the secrets of all servers."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={getattr(record, name)}" for name in JOURNAL_FIELDS if hasattr(record, name))
        text = super().format(record)
        # A name or a line of a server may have control characters for the terminal on which the log is read.
        return escaped(everywhere(f"{text} [{fields}]" if fields else text))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        # The message alone first: where a text was truncated, a secret may be truncated too, and such a secret is
        # recognized only at the end of a text.
        record.message = everywhere(record.message)
        return super().formatMessage(record)


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Handler for stderr where another program reads it in place of the journal, with the prefixes of sd-daemon(3)."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_priority(record)}>" + super().format(record).replace("\n", " ⏎ ")


def _priority(record: logging.LogRecord) -> int:
    """Return the priority of syslog(3) for a record's level."""
    return next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)


class _Journal(logging.Handler):
    """Handler that writes to the journal, with fields. Records that the journal does not take go to stderr."""

    def __init__(self, journal: Journal, profile: str) -> None:
        super().__init__()
        self._journal = journal
        self._constant = {"SYSLOG_IDENTIFIER": "hearth", "HEARTH_PROFILE": profile}
        self._stderr = _stderr()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            taken = self._journal.send(self._fields(record))
        except Exception:
            self.handleError(record)
        else:
            if not taken:
                self._stderr.handle(record)

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        named = {key: getattr(record, name) for name, key in JOURNAL_FIELDS.items() if hasattr(record, name)}
        return {
            "MESSAGE": self.format(record),
            "PRIORITY": str(_priority(record)),
            **self._constant,
            **{key: everywhere(str(value)) for key, value in named.items()},
            "LOGGER": record.name,
            "CODE_FILE": record.pathname,
            "CODE_LINE": str(record.lineno),
            "CODE_FUNC": record.funcName or "",
        }

    def close(self) -> None:
        self._journal.close()
        super().close()


def _journal(profile: str) -> logging.Handler:
    if not is_behind_stderr():
        return _stderr()
    handler = _Journal(Journal(), profile)
    # Everything else has a field of its own; JOURNAL_FIELDS are in the text as well, for people.
    handler.setFormatter(_Fields("%(message)s"))
    return handler


def _stderr() -> logging.Handler:
    handler = _Stderr()
    handler.setFormatter(_Fields("%(name)s: %(message)s"))
    return handler


class _PrivateFile(logging.FileHandler):
    """Rotating log file that only this user may read, whatever the umask. A deleted file is created again.

    Records that cannot be written go to `spare`, if there is one. The base class is not RotatingFileHandler, because
    `logging.handlers` brings pickle and sockets along: 3 ms of every start.
    """

    def __init__(self, path: str, spare: logging.Handler | None) -> None:
        self._spare = spare
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not os.path.exists(self.baseFilename):
                self._close_stream()
                os.makedirs(os.path.dirname(self.baseFilename), mode=0o700, exist_ok=True)
            elif os.path.getsize(self.baseFilename) >= ROTATE_BYTES:
                self._rotate()
            # Opens the file where there is no stream.
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the base class's name
        if self._spare:
            self._spare.handle(record)

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._spare:
                self._spare.close()

    def _rotate(self) -> None:
        self._close_stream()
        names = [self.baseFilename, *(f"{self.baseFilename}.{number}" for number in range(1, ROTATE_COUNT + 1))]
        for newer, older in reversed(list(pairwise(names))):
            try:
                os.replace(newer, older)
            except (FileNotFoundError, PermissionError):
                # On Windows another process may have the file open, so that it cannot be renamed: the file grows, and
                # no record is lost.
                pass

    def _close_stream(self) -> None:
        former, self.stream = self.stream, None
        if former:
            former.close()

    def _open(self) -> "TextIOWrapper":
        file = super()._open()
        os.chmod(self.baseFilename, 0o600)
        return file


def _file(path: str, spare: logging.Handler | None = None) -> logging.Handler:
    """Return a handler for the log file; records that cannot be written (full disk) go to `spare`, if there is one."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handler: logging.Handler = _PrivateFile(path, spare)
    except OSError:
        # The daemon serves even if the log cannot be written.
        return spare or logging.NullHandler()
    handler.setFormatter(_Fields("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def _unheeded() -> logging.Handler:
    """Return a handler for a stderr that the client may never read: a full pipe costs records, not the loop's time."""
    import queue
    import threading

    class Unheeded(logging.Handler):
        """Queue whose records a thread writes; at the end, a thread that still waits for a reader is abandoned."""

        def __init__(self) -> None:
            super().__init__()
            self.waiting: queue.Queue[str | None] = queue.Queue(UNHEEDED_RECORDS)
            self._thread = threading.Thread(target=self._write_all, name="stderr", daemon=True)

        def emit(self, record: logging.LogRecord) -> None:
            try:
                if self._thread.ident is None:
                    # Started with the first record: most of these handlers are spares that are never used.
                    self._thread.start()
                self.waiting.put_nowait(self.format(record) + "\n")
            except Exception:
                self.handleError(record)

        def _write_all(self) -> None:
            while (text := self.waiting.get()) is not None:
                try:
                    os.write(STDERR, text.encode("utf-8", "backslashreplace"))
                except OSError:
                    # The reader has gone.
                    pass

        def close(self) -> None:
            try:
                self.waiting.put_nowait(None)
                if self._thread.ident is not None:
                    self._thread.join(UNHEEDED_CLOSE_SECONDS)
            except queue.Full:
                pass
            super().close()

    handler = Unheeded()
    handler.setFormatter(_Fields("%(levelname)s %(name)s: %(message)s"))
    return handler


def set_up_beside_client(level: str) -> None:
    """Send the log to standard error, as clients expect of a server that they started."""
    _replace_handlers(level, _unheeded())


def _replace_handlers(level: str, *handlers: logging.Handler) -> None:
    logging.raiseExceptions = False  # a full disk must not fill stderr, which may be the same disk
    root = logging.getLogger()
    root.setLevel(level.upper())
    for former in list(root.handlers):
        root.removeHandler(former)
        former.close()
    for handler in handlers:
        root.addHandler(handler)


def set_up(path: str, level: str, journal: bool, profile: str, aloud: bool = False) -> None:
    """Configure the daemon's log. On a terminal, or with `aloud`, it goes to standard error as well.

    Standard error also gets the records that cannot be written to the file: once, and not if it is that file itself.
    """
    if journal:
        _replace_handlers(level, _journal(profile))
    elif sys.stderr is None or _is_stderr(path):
        _replace_handlers(level, _file(path))
    elif aloud or sys.stderr.isatty():
        _replace_handlers(level, _file(path), _unheeded())
    else:
        _replace_handlers(level, _file(path, spare=_unheeded()))


def _is_stderr(path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(STDERR))
    except OSError:
        return False
