"""Where the log of a daemon is: in the journal when systemd starts it, else in its file."""

import json
import shutil
import subprocess
import sys

from hearth.cli.daemon import log_lines
from hearth.cli.daemon.tail import LogSelection
from hearth.control_client import running_daemon, systemd_unit
from hearth.errors import Unreachable
from hearth.paths import Places


def command(places: Places, wanted: LogSelection) -> list[str] | None:
    """The journalctl that shows it, or None when it is in the file."""
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
    """Print what a journalctl with `--output json` prints in the form of `hearth logs`; return its exit code."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.buffer.write(_entry(line))
            sys.stdout.buffer.flush()
    return process.returncode


def _entry(line: bytes) -> bytes:
    fields = json.loads(line)
    message = fields.get("MESSAGE")
    # journalctl prints text that is not UTF-8 as a list of bytes, and very long text as null.
    text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message or "")
    return log_lines.entry(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, text)


def _systemd_starts_it(places: Places) -> bool:
    daemon = running_daemon.find(places)
    if daemon:
        try:
            with daemon.control() as control:
                return control.status().get("activation") == "systemd"
        except Unreachable:
            # Its log is wanted most when it does not answer.
            service = systemd_unit.look(places, "service")
            return bool(service and service.pid == daemon.pid)
    held = systemd_unit.look(places, "socket")
    return bool(held and held.active in {"active", "failed"})
