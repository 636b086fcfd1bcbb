"""Desktop notifications, where the platform has a program for them. Best effort: nothing waits for one."""

import html
import shutil
import subprocess
import sys

# A notification daemon that does not answer must not leave processes behind.
_SECONDS = 10
_SCRIPT = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"


def command(title: str, body: str) -> list[str] | None:
    """Return the command that shows a notification; None where there is no such program.

    The texts are arguments, never part of a script and never an option. notify-send's body may hold markup, which is
    escaped. Characters that do not show become spaces: NUL cannot be an argument, and others reorder the text.
    """
    title, body = _visible(title), _visible(body)
    if sys.platform == "darwin":
        return ["/usr/bin/osascript", "-e", _SCRIPT, "--", title, body]
    program = shutil.which("notify-send") if sys.platform == "linux" else None
    if program is None:
        return None
    return [program, "--app-name=Hearth", f"--expire-time={_SECONDS * 1000}", "--", title, html.escape(body, False)]


def _visible(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def show(title: str, body: str) -> None:
    """Show a notification in the background; without a desktop, do nothing."""
    import threading

    argv = command(title, body)
    if argv is not None:
        threading.Thread(target=_run, args=(argv,), daemon=True, name="notification").start()


def _run(argv: list[str]) -> None:
    try:
        subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        pass
