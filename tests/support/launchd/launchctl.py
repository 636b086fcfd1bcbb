"""A scripted launchctl: it records how it is called and remembers what is loaded.

It stands in for launchd, which cannot run here: what it says and its exit codes are written after what launchctl is
known to say, and no Mac has confirmed them.

    python launchctl.py FOLDER ARGUMENT...
"""

import json
import sys
from pathlib import Path

NO_SERVICE, NO_DOMAIN, INPUT_OUTPUT = 113, 112, 5

PRINTED = """\
gui/0/mcp.hearth = {
\tactive count = 1
\tpath = %s
\ttype = LaunchAgent
\tstate = %s
\tprogram = /opt/venv/bin/python
\tdefault environment = {
\t\tPATH => /usr/bin:/bin
\t}
%s\tlast exit code = %s
\tsockets = {
\t\t"mcp" = {
\t\t\tpid = 12
\t\t\ttype = stream
\t\t}
\t}
}
"""


class Launchd:
    """What the script remembers between its calls: `how` it behaves, what is `loaded`, the `calls` so far."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "launchd.json"
        self.how: dict[str, int] = {}
        self.loaded = ""
        self.calls: list[list[str]] = []
        if self._file.exists():
            vars(self).update(json.loads(self._file.read_text()))

    def save(self) -> None:
        kept = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        self._file.write_text(json.dumps(kept))


def put_on_path(folder: Path, **how: int) -> str:
    """Make a `launchctl` in FOLDER/bin; a PATH on which it comes first.

    `old`: before macOS 10.11. `away`: nobody is logged in at the screen. `busy`: so many loads fail before one works.
    `refuses`: none ever works. `pid`: the job runs. `exit`: how it ended last.
    """
    launchd = Launchd(folder)
    launchd.how = how
    launchd.save()
    program = folder / "bin" / "launchctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{folder}" "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def calls(folder: Path) -> list[str]:
    """How it was called so far."""
    return [" ".join(words) for words in Launchd(folder).calls]


def main(folder: Path, words: list[str]) -> int:
    """One call."""
    launchd = Launchd(folder)
    launchd.calls.append(words)
    try:
        return answer(launchd, words[0], words[1:])
    finally:
        launchd.save()


def answer(launchd: Launchd, verb: str, rest: list[str]) -> int:
    old, away = launchd.how.get("old"), launchd.how.get("away")
    if old and verb not in ("load", "unload", "list"):
        return fail(1, f'launchctl: unknown subcommand "{verb}"')
    if away:
        return fail(NO_DOMAIN, "Bad request.\nCould not find domain for user gui: 0")
    if verb in ("print", "list"):
        return show(launchd, verb, rest[0])
    if verb in ("bootstrap", "load"):
        return load(launchd, verb, rest[-1])
    if verb in ("bootout", "unload"):
        launchd.loaded = ""
    return 0


def show(launchd: Launchd, verb: str, what: str) -> int:
    if verb == "print" and what.count("/") == 1:
        print(f"com.apple.xpc.launchd.domain.{what} = {{\n}}")
        return 0
    if not launchd.loaded:
        return fail(NO_SERVICE, "Bad request.\nCould not find service in domain for user gui: 0")
    pid = launchd.how.get("pid")
    ended = launchd.how.get("exit", "(never exited)")
    print(PRINTED % (launchd.loaded, "running" if pid else "not running", f"\tpid = {pid}\n" if pid else "", ended))
    return 0


def load(launchd: Launchd, verb: str, path: str) -> int:
    busy = launchd.how.get("busy", 0)
    if busy or launchd.loaded or launchd.how.get("refuses"):
        launchd.how["busy"] = max(0, busy - 1)
        # `load` says so, and its exit code does not.
        return fail(0 if verb == "load" else INPUT_OUTPUT, "Bootstrap failed: 5: Input/output error")
    launchd.loaded = path
    return 0


def fail(code: int, said: str) -> int:
    print(said, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
