"""MCP server of the demo on standard input and output: `python -I -m hearth.demo.server`.

A thread reads; the main thread answers and times slow calls. A thread is used instead of select, because Windows
cannot select on a pipe. The server exits when its input ends.
"""

import math
import os
import queue
import signal
import sys
import threading
import time

from hearth.demo.protocol import DemoConversation, Toolbox


def _read_lines(lines: "queue.SimpleQueue[bytes | None]") -> None:
    for line in sys.stdin.buffer:
        if line.strip():
            lines.put(line)
    lines.put(None)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def serve() -> None:
    """Answer until the input ends."""
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # Daemon thread: a reader that is blocked on a pipe must not keep a finished server alive.
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    conversation = DemoConversation(Toolbox())
    while True:
        wait = conversation.next_due() - time.monotonic()
        try:
            line = lines.get(timeout=None if math.isinf(wait) else max(0.0, wait))
        except queue.Empty:
            conversation.advance(time.monotonic())
        else:
            if line is None:
                return
            conversation.receive_line(line, time.monotonic())
            conversation.advance(time.monotonic())
        _write(conversation.data_to_send())


def main() -> None:
    """Run the server until its input ends."""
    # In a terminal, Ctrl-C should end the server without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        serve()
    except BrokenPipeError:
        # The reader of the answers has closed the pipe, so there is nothing to report to.
        os._exit(0)


if __name__ == "__main__":
    main()
