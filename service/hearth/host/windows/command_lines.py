"""Commands as Windows wants them: one line of text, and the program's file with its ending. Pure but for the looking.

`npx` and its like are scripts there (`npx.cmd`), which only cmd.exe can run. That is not told arguments but a line,
which it reads as its own language; so each argument is quoted such that it arrives as it was.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence

# What cmd.exe runs; everything else is run by the system itself.
SCRIPT_ENDINGS = (".bat", ".cmd")
# Where the environment does not say.
_USUAL_ENDINGS = ".COM;.EXE;.BAT;.CMD"
# What cmd.exe takes for nothing else than itself. (A caret inside quotes is one of them, outside it is not.)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")
# An expression that is empty, inside the percent signs that cmd.exe would else pair with the next one.
_PERCENT = "%%cd:~,%"


def folded(environment: Mapping[str, str]) -> dict[str, str]:
    """The same environment where capitals make no difference; of two names that are one, the latter's value."""
    return {name.upper(): value for name, value in environment.items()}


def find(program: str, environment: Mapping[str, str], cwd: str) -> str | None:
    """The file of a program, by the PATH and the PATHEXT of its environment; None if there is none.

    Unlike shutil.which it does not look into the daemon's own folder first, and completes a path as well.
    """
    endings = [ending for ending in environment.get("PATHEXT", _USUAL_ENDINGS).split(";") if ending]
    if program.lower().endswith(tuple(ending.lower() for ending in endings)):
        endings = [""]
    folders = [cwd] if os.path.dirname(program) else environment.get("PATH", "").split(os.pathsep)
    files = (os.path.join(folder, program + ending) for folder in folders if folder for ending in endings)
    return next(filter(os.path.isfile, files), None)


def line(program: str, arguments: Sequence[str], shell: str) -> str:
    """The command line that runs this file; `shell` is cmd.exe's. Raises ValueError for what no line can carry."""
    if not program.lower().endswith(SCRIPT_ENDINGS):
        return subprocess.list2cmdline([program, *arguments])
    words = " ".join([f'"{program}"', *map(quoted_for_script, arguments)])
    # Extensions on, delayed expansion (`!`) off, no AutoRun; of the line in quotes, the outermost are taken off.
    return f'"{shell}" /e:ON /v:OFF /d /c "{words}"'


def quoted_for_script(argument: str) -> str:
    """An argument that arrives in a script's program as it is. Raises ValueError."""
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
                # Those before a quote are doubled for the program; the quote itself is doubled for cmd.exe.
                quoted += "\\" * backslashes + '"'
            backslashes = 0
        quoted += _PERCENT if character == "%" else character
    return '"' + quoted + "\\" * backslashes + '"'
