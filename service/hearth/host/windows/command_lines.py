"""Command lines for Windows: one line of text, and the program's file with its extension. Pure but for the file lookup.

`npx` and similar programs are scripts there (`npx.cmd`), which only cmd.exe can run. cmd.exe receives a line instead
of arguments and parses it in its own language, so each argument is quoted such that it arrives unchanged.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence

# Extensions of files that cmd.exe runs; the system itself runs everything else.
SCRIPT_ENDINGS = (".bat", ".cmd")
# Extensions to try if the environment has no PATHEXT.
_USUAL_ENDINGS = ".COM;.EXE;.BAT;.CMD"
# Characters without a special meaning in cmd.exe. (A caret inside quotes has none either, outside it has one.)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")
# An empty expression inside the percent signs, which cmd.exe would otherwise pair with the next one.
_PERCENT = "%%cd:~,%"


def folded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with upper-case names; of two names that become equal, the last one's value."""
    return {name.upper(): value for name, value in environment.items()}


def find(program: str, environment: Mapping[str, str], cwd: str) -> str | None:
    """Find the file of a program by the PATH and the PATHEXT of its environment; None if there is none.

    Unlike shutil.which it does not search the daemon's own folder first, and completes a path as well.
    """
    endings = [ending for ending in environment.get("PATHEXT", _USUAL_ENDINGS).split(";") if ending]
    if program.lower().endswith(tuple(ending.lower() for ending in endings)):
        endings = [""]
    folders = [cwd] if os.path.dirname(program) else environment.get("PATH", "").split(os.pathsep)
    files = (os.path.join(folder, program + ending) for folder in folders if folder for ending in endings)
    return next(filter(os.path.isfile, files), None)


def line(program: str, arguments: Sequence[str], shell: str) -> str:
    """Return the command line that runs this file; `shell` is the path of cmd.exe.

    Raises ValueError for an argument that no line can carry.
    """
    if not program.lower().endswith(SCRIPT_ENDINGS):
        return subprocess.list2cmdline([program, *arguments])
    words = " ".join([f'"{program}"', *map(quoted_for_script, arguments)])
    # Extensions on, delayed expansion (`!`) off, no AutoRun; cmd.exe strips the outermost quotes of the line.
    return f'"{shell}" /e:ON /v:OFF /d /c "{words}"'


def quoted_for_script(argument: str) -> str:
    """Quote an argument so that it arrives unchanged in a script's program. Raises ValueError."""
    if any(character in argument for character in "\r\n\0"):
        raise ValueError(f"the argument {argument!r} has a line end, which a script (.cmd) cannot be given")
    if argument and _PLAIN.issuperset(argument) and not argument.endswith("\\"):
        return argument
    quoted, backslashes = "", 0
    for character in argument:
        if character == "\\":
            backslashes += 1
        else:
            if character == '"':
                # Backslashes before a quote are doubled for the program; the quote itself is doubled for cmd.exe.
                quoted += "\\" * backslashes + '"'
            backslashes = 0
        quoted += _PERCENT if character == "%" else character
    return '"' + quoted + "\\" * backslashes + '"'
