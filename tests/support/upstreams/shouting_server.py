"""A server that says a lot on its stderr.

Tools: `say` {text} writes the text there as it is, `echo` {text} (read-only) answers, `flood` begins to write there as
fast as the pipe takes it and goes on until the server ends, `die` {text} writes the text and exits with code 3.
"""

import os
import threading

import stdio

NOISE = b"noise that nobody wants to read\n" * 2000


def shout(text: str) -> stdio.Message:
    """Write it whole."""
    os.write(2, text.encode("utf-8", "surrogateescape"))
    return stdio.text("said")


def flood() -> stdio.Message:
    """Begin to make noise."""

    def go_on() -> None:
        while True:
            os.write(2, NOISE)

    threading.Thread(target=go_on, daemon=True).start()
    return stdio.text("begun")


def die(text: str) -> stdio.Message:
    """The last words."""
    os.write(2, text.encode())
    os._exit(3)


stdio.serve(
    "shouting",
    [stdio.described(name) for name in ("say", "flood", "die")] + [stdio.described("echo", readOnlyHint=True)],
    {
        "say": lambda request: shout(str(stdio.arguments(request).get("text"))),
        "echo": stdio.echo,
        "flood": lambda _: flood(),
        "die": lambda request: die(str(stdio.arguments(request).get("text"))),
    },
)
