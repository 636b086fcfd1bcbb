"""Where the daemon's log goes: to the journal with fields under systemd, to a rotating file otherwise.

At the default level no record carries a payload, and at none a secret that a server was given.
"""

import logging
import os
import sys
from typing import TYPE_CHECKING

from hearth.masking import everywhere

if TYPE_CHECKING:
    from io import TextIOWrapper

ROTATE_BYTES = 2 * 1024 * 1024
ROTATE_COUNT = 3
# Fields that records may carry besides the message; each becomes KEY=value.
FIELDS = ("upstream", "session", "era")


class _Fields(logging.Formatter):
    """The message, then its fields as key=value; whatever it is about, without any server's secrets."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={getattr(record, name)}" for name in FIELDS if hasattr(record, name))
        text = super().format(record)
        return everywhere(f"{text} [{fields}]" if fields else text)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        # By itself first: where a text was cut, a secret may be cut as well, and is known at the end only.
        record.message = everywhere(record.message)
        return super().formatMessage(record)


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """For journald without systemd-python: sd-daemon(3) reads the level from a prefix."""

    _PREFIX = ((logging.ERROR, "<3>"), (logging.WARNING, "<4>"), (logging.INFO, "<6>"))

    def format(self, record: logging.LogRecord) -> str:
        prefix = next((text for level, text in self._PREFIX if record.levelno >= level), "<7>")
        return prefix + super().format(record).replace("\n", " ⏎ ")


def _journal() -> logging.Handler:
    try:
        from systemd.journal import JournalHandler
    except ImportError:
        handler: logging.Handler = _Stderr()
        handler.setFormatter(_Fields("%(name)s: %(message)s"))
        return handler

    class MaskedJournal(JournalHandler):  # type: ignore[misc]
        """The journal has the message and a traceback in fields of their own."""

        def emit(self, record: logging.LogRecord) -> None:
            # Others may be given the same record.
            record = logging.makeLogRecord(record.__dict__)
            record.msg, record.args = everywhere(record.getMessage()), None
            if record.exc_info:
                text = logging.Formatter().formatException(record.exc_info)
                record.msg, record.exc_info, record.exc_text = f"{record.msg}\n{everywhere(text)}", None, None
            super().emit(record)

    return MaskedJournal(SYSLOG_IDENTIFIER="hearth")


def _file(path: str) -> logging.Handler:
    from logging.handlers import RotatingFileHandler

    class PrivateFile(RotatingFileHandler):
        """Each file of the rotation is for this user alone, whatever the mask. One that was deleted is begun anew."""

        def emit(self, record: logging.LogRecord) -> None:
            try:
                if not os.path.exists(self.baseFilename):
                    self._begin_anew()
                super().emit(record)
            except OSError:
                self.handleError(record)

        def _begin_anew(self) -> None:
            # The next record opens it.
            former, self.stream = self.stream, None
            if former:
                former.close()
            os.makedirs(os.path.dirname(self.baseFilename), mode=0o700, exist_ok=True)

        def _open(self) -> "TextIOWrapper":
            file = super()._open()
            os.chmod(self.baseFilename, 0o600)
            return file

    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handler: logging.Handler = PrivateFile(path, maxBytes=ROTATE_BYTES, backupCount=ROTATE_COUNT)
    except OSError:
        # A log that cannot be written is no reason not to serve.
        handler = logging.StreamHandler()
    handler.setFormatter(_Fields("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def set_up(path: str, level: str, journal: bool) -> None:
    """Send the daemon's log to its place. In a terminal it is shown there as well."""
    logging.raiseExceptions = False  # a full disk must not fill stderr, which may be the same disk
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.addHandler(_journal() if journal else _file(path))
    if not journal and sys.stderr is not None and sys.stderr.isatty():
        console = logging.StreamHandler()
        console.setFormatter(_Fields("%(levelname)s %(name)s: %(message)s"))
        root.addHandler(console)
