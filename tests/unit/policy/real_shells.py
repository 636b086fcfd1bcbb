"""Real shells as a judge of the splitter: the words that bash gives to the commands of a text."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, settings

BASH = "/bin/bash"
# One run of bash decides about this many texts.
TEXTS_OF_ONE_RUN = 30
RUN_SECONDS = 30

# Every builtin is switched off but these two, so that any word is the name of a command that is not found: bash then
# calls the function, which writes the words that it was given. Each text is run twice: after `&&` a command runs if
# all have succeeded, after `||` if all have failed.
RECORDER = r"""
command_not_found_handle() { printf '%s\0' "$number" "$#" "$@" >> "$record"; ((status == 0)); }
record=$1; shift
enable -n $(compgen -b | /bin/grep -vx -e printf -e eval -e enable)
enable -n enable
PATH=/nonexistent
number=0
for text do
    for status in 0 1; do eval -- "$text"; done
    ((number += 1))
done
"""
KEPT = {"printf", "eval"}

FRAGMENTS = [
    *("git", "push", "feature/x", "x", "y", "-", "--", "-m", "if", "then", "fi", "time", "do", "in", "function"),
    *(" ", " ", " ", " ", "\t", "'", "'", '"', '"', "\\", "$", "`", ";", ";", "&&", "||", "|", "&", "|&", ";;"),
    *(">", "<", "<<", "2>&1", "(", ")", "{", "}", "*", "?", "[", "]", "~", "#", "!", "=", "A=", "A+=", "^", "%", "%1"),
    *(
        "\n",
        "\r",
        "\x0b",
        "\x01",
        ",",
        ":",
        "@",
        "+",
        ".",
        "/",
        "é",
        "\u00a0",
        "\u2028",
        "\uff1b",
        "\u200b",
        "''",
        '""',
    ),
    *("$x", "${x}", "$(x)", "`x`", "{x,y}", "\\'", '\\"', "\\\\", "$'x'", "<(x)", "[[", "]]", "((", "))", "x=y", "0"),
]

# A text is short, so nothing is gained by shrinking it at the price of hundreds of further runs.
batches = settings(
    max_examples=15,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large),
)


def recorded(sources: list[str]) -> list[set[tuple[str, ...]]]:
    """Return the words of the commands that bash runs, for each text."""
    with TemporaryDirectory() as folder:
        record = Path(folder) / "record"
        record.touch()
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", RECORDER, "recorder", str(record), *sources],
            cwd=folder,
            env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=RUN_SECONDS,
            check=False,
        )
        fields = record.read_bytes().split(b"\0")[:-1]
    found: list[set[tuple[str, ...]]] = [set() for _ in sources]
    while fields:
        number, count = int(fields[0]), int(fields[1])
        found[number].add(tuple(os.fsdecode(field) for field in fields[2 : 2 + count]))
        fields = fields[2 + count :]
    return found
