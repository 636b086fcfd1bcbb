"""`hearth logs`: lines of log files and of the journal, selected by time, as text or JSON, and followed.

Lines in the logs of the daemon and of servers begin with the local time, `2026-11-18 09:30:00,123`. A line without a
time continues the line before it.
"""

import codecs
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import BinaryIO, NamedTuple

import click

from hearth import masking
from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import WholeNumber, with_places
from hearth.cli.messages import json_option
from hearth.control_client import running_daemon, systemd_unit
from hearth.errors import HearthError, Unreachable
from hearth.host import private_files
from hearth.paths import Places

LINES_BY_DEFAULT = 50
# More lines than any log has: all lines that `--since` selects are printed.
ALL_LINES = 1_000_000_000

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:,(\d{3}))?")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "day": 86400, "days": 86400, "w": 604800}
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
_CLOCK = ("%H:%M:%S", "%H:%M")

BLOCK_BYTES = 64 * 1024
# No portable notification exists for a file that grows; a quarter of a second appears immediate.
POLL_SECONDS = 0.25


class LogSelection(NamedTuple):
    """Selection of the log lines to print, and their form: the last `lines` lines since `begin`."""

    follow: bool
    lines: int
    begin: float | None = None
    as_json: bool = False


def span(text: str) -> float | None:
    """Parse `10m`, `2h`, `3d` and the like; return seconds, None for another text."""
    found = _AGO.fullmatch(text.strip())
    return float(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else None


def moment(text: str, now: float) -> float:
    """Parse `10m`, `09:30`, `2026-11-18` and the like; return seconds since 1970. Raises ValueError."""
    text = text.strip()
    if (ago := span(text)) is not None:
        return now - ago
    midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return (midnight - timedelta(days=text == "yesterday")).timestamp()
    for form in (*_FORMS, *_CLOCK):
        try:
            found = datetime.strptime(text, form)
        except ValueError:
            continue
        if form in _CLOCK:
            found = midnight.replace(hour=found.hour, minute=found.minute, second=found.second)
        return found.timestamp()
    raise ValueError(f"{text!r} is no time: say 10m, 2h, 3d, today, 09:30, 2026-11-18 or '2026-11-18 09:30'")


def stamp(line: bytes) -> float | None:
    """Return the time at the beginning of a line, in seconds since 1970; None for a line without a time."""
    found = _STAMP.match(line)
    if found is None:
        return None
    try:
        seconds = time.mktime(time.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return seconds + int(found[2] or 0) / 1000


def since(data: bytes, begin: float) -> bytes:
    """Return the lines from the first one that is not older than `begin`."""
    lines = data.splitlines(keepends=True)
    for index, line in enumerate(lines):
        at = stamp(line)
        if at is not None and at >= begin:
            return b"".join(lines[index:])
    return b""


def document(line: bytes) -> bytes:
    """Return a line as a JSON object on one line: `time`, null if the line has none, and `text`."""
    found = _STAMP.match(line)
    text = line[found.end() :] if found else line
    return entry(stamp(line), text.decode("utf-8", "replace").strip("\r\n").removeprefix(" " if found else ""))


def entry(at: float | None, text: str) -> bytes:
    """Return a time and a text as a JSON object on one line."""
    shown = None if at is None else datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
    return json.dumps({"time": shown, "text": text}).encode() + b"\n"


class TerminalText:
    """Converter from chunks of a log, split anywhere, to text without terminal control sequences."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def __call__(self, data: bytes) -> bytes:
        """Return the characters that these bytes complete, with unsafe ones replaced."""
        return masking.replaced(self._decoder.decode(data)).encode()


class JsonLineFormat:
    """Converter from chunks of a log, split anywhere, to lines of JSON."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> bytes:
        """Return the lines that these bytes complete, as JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(map(document, lines))


# --- following files


def show_file(path: str, wanted: LogSelection) -> None:
    """Print the last lines of a file and, if asked to follow, new lines without end. Raises HearthError."""
    output = sys.stdout.buffer
    convert: Callable[[bytes], bytes] = bytes
    if wanted.as_json:
        convert = JsonLineFormat()
    elif sys.stdout.isatty():
        convert = TerminalText()
    file = _open(path, wanted.follow)
    recent = last_lines(file, wanted.lines)
    recent = _from_predecessor(path, wanted.lines - recent.count(b"\n")) + recent
    if wanted.begin is not None:
        recent = since(recent, wanted.begin)
    if wanted.as_json and not wanted.follow and recent and not recent.endswith(b"\n"):
        # This run treats a line that is still being written as complete.
        recent += b"\n"
    output.write(convert(recent))
    output.flush()
    if not wanted.follow:
        file.close()
        return
    for data in follow(path, file):
        output.write(convert(data))
        output.flush()


def _open(path: str, wait: bool) -> BinaryIO:
    while True:
        try:
            return open(path, "rb", opener=private_files.open_to_read)
        except FileNotFoundError as exc:
            if not wait:
                raise HearthError(f"{path} is gone") from exc
            time.sleep(POLL_SECONDS)
        except OSError as exc:
            raise HearthError(f"cannot read {path}: {exc.strerror}") from exc


def _from_predecessor(path: str, count: int) -> bytes:
    """Return the last lines of the previous, rotated file, because a new file has few lines."""
    if count <= 0:
        return b""
    try:
        with open(f"{path}.1", "rb") as file:
            return last_lines(file, count)
    except OSError:
        return b""


def last_lines(file: BinaryIO, count: int) -> bytes:
    """Return the last lines of a file, and leave its position at the end."""
    position = file.seek(0, os.SEEK_END)
    found = b""
    # One line end more than lines, because the last line ends with one, too.
    while position and found.count(b"\n") <= count:
        step = min(BLOCK_BYTES, position)
        position = file.seek(position - step)
        found = file.read(step) + found
    file.seek(0, os.SEEK_END)
    return b"".join(found.splitlines(keepends=True)[-count:]) if count else b""


def follow(path: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield new content of the file, without end. A rotated file is read to its end first."""
    while True:
        if data := file.read(BLOCK_BYTES):
            yield data
            continue
        if _was_replaced(path, file):
            # The file may have grown between the last read and this check.
            yield file.read()
            file.close()
            file = _open(path, wait=True)
            continue
        time.sleep(POLL_SECONDS)


def _was_replaced(path: str, file: BinaryIO) -> bool:
    try:
        now = os.stat(path)
    except OSError:
        # The rotation is between its two renames; the new file is created with the next line.
        return False
    mine = os.fstat(file.fileno())
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < file.tell()


# --- the verb


@click.command(short_help="Print the daemon's log, or a server's.")
@click.argument("name", required=False, shell_complete=daemon_choice.complete_server)
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.option("--lines", "-n", type=WholeNumber(min=0),
              help=f"How many lines to begin with.  [default: {LINES_BY_DEFAULT}; all with --since]")  # fmt: skip
@click.option("--since", metavar="WHEN",
              help="Only lines from then on: 10m, 2h, 3d, today, 09:30, 2026-11-18, '2026-11-18 09:30'.")  # fmt: skip
@json_option("Print an object on a line for each line: `time` and `text`.")
@with_places
def logs(places: Places, name: str | None, follow: bool, lines: int | None, since: str | None, as_json: bool) -> int:
    """Print the daemon's log: from the journal when systemd starts the daemon, else from its log file.
    With NAME, print what that MCP server has written to its stderr, with time and pid.
    Works whether it runs or not, and wakes nothing.

    Times are local. Lines that are printed with --json have their time in ISO 8601, null where a line has none.

    \b
    Examples:
      hearth logs -n 200
      hearth logs -f
      hearth logs github -f
      hearth logs --since 10m
      hearth logs github --since '2026-11-18 09:30' --json | jq -r .text
    """
    begin = _begin(since)
    count = lines if lines is not None else LINES_BY_DEFAULT if begin is None else ALL_LINES
    wanted = LogSelection(follow, count, begin, as_json)
    if name is not None:
        _print_server(places, name, wanted)
        return 0
    command = journal_command(places, wanted)
    if command and as_json:
        return show_json(command)
    if command:
        sys.stdout.flush()
        os.execvp(command[0], command)
    if not os.path.lexists(places.log):
        raise HearthError(f"there is no log yet: {places.log} is written when the daemon first runs")
    show_file(places.log, wanted)
    return 0


def _begin(since: str | None) -> float | None:
    try:
        return None if since is None else moment(since, time.time())
    except ValueError as exc:
        raise click.UsageError(f"--since: {exc}.") from exc


def _print_server(places: Places, name: str, wanted: LogSelection) -> None:
    path = places.server_log(name)
    # The log of a server that is no longer configured is shown, too.
    if not os.path.lexists(path):
        _explain_absence(places, name, path, wanted.follow)
    show_file(path, wanted)


def _explain_absence(places: Places, name: str, path: str, follow: bool) -> None:
    """Raise an error that says why there is no log; return if a log may still appear."""
    servers = daemon_choice.served(places)
    daemon_choice.check_server_names([name], servers, places.config_file())
    if servers[name].command is None and servers[name].url is None:
        raise HearthError(f"{name!r} is a pack: what it has to say is in the daemon's log, `hearth logs`")
    if servers[name].command is None:
        raise HearthError(f"server {name!r} is reached by its url: what it writes to its stderr stays where it runs")
    if not follow:
        raise HearthError(f"server {name!r} has written nothing to its stderr yet: {path} is not there")


# --- the journal


def journal_command(places: Places, wanted: LogSelection) -> list[str] | None:
    """Return the journalctl command that shows the log, or None if the log is in the file."""
    units = systemd_unit.units_of(places)
    if units is None or not shutil.which("journalctl") or not _systemd_starts_it(places):
        return None
    asked = ["journalctl", *units.scope, "--unit", units.service, "--lines", str(wanted.lines)]
    if wanted.begin is not None:
        asked += ["--since", f"@{wanted.begin:.0f}"]
    if wanted.as_json:
        asked += ["--output", "json"]
    return [*asked, "--follow"] if wanted.follow else asked


def show_json(command: list[str]) -> int:
    """Run a journalctl with `--output json`, print its lines in the form of `hearth logs`, and return its exit code."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.buffer.write(_journal_entry(line))
            sys.stdout.buffer.flush()
    return process.returncode


def _journal_entry(line: bytes) -> bytes:
    fields = json.loads(line)
    message = fields.get("MESSAGE")
    # journalctl prints text that is not UTF-8 as a list of bytes, and very long text as null.
    text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message or "")
    return entry(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, text)


def _systemd_starts_it(places: Places) -> bool:
    daemon = running_daemon.find(places)
    if daemon:
        try:
            with daemon.control() as control:
                return control.status().get("activation") == "systemd"
        except Unreachable:
            # The log of a daemon that does not answer is needed most.
            service = systemd_unit.look(places, "service")
            return bool(service and service.pid == daemon.pid)
    held = systemd_unit.look(places, "socket")
    return bool(held and held.active in {"active", "failed"})
