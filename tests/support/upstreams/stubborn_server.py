"""A server that does not want to go: it and its child ignore signals and the end of stdin.

    stubborn_server.py [FILE] [--escape]

Ignored are SIGTERM, SIGINT and SIGHUP. FILE gets a line `PID GRANDCHILD` at the start. With --escape the
grandchild leaves the process group by a session of its own. Tools: `echo` (read-only) and `pids`, which
answers `PID GRANDCHILD`.
"""

import os
import signal
import sys

import stdio


def grandchild(escape: bool) -> int:
    """Fork one that sleeps until it is killed; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    stdio.limit_lifetime()  # alarms are not inherited
    if escape:
        os.setsid()
    while True:
        signal.pause()


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
files = [word for word in sys.argv[1:] if not word.startswith("--")]
pids = f"{os.getpid()} {grandchild('--escape' in sys.argv)}"
for path in files:
    stdio.note(path, pids)
tools = [stdio.described("echo", readOnlyHint=True), stdio.described("pids", readOnlyHint=True)]
stdio.serve("stubborn", tools, {"echo": stdio.echo, "pids": lambda _: stdio.text(pids)})
while True:
    signal.pause()
