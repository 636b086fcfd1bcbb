"""One child on pipes: started, given up half way, stopped by the bounded sequence, and what it said last."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hearth.errors import UpstreamBusy, UpstreamError
from hearth.upstreams import child_process, stderr
from hearth.upstreams.child_process import Process
from hearth.upstreams.connection import Connection
from hearth.upstreams.stdio import TURN_MESSAGES, StdioConnection
from hearth.wire import json
from support.kernel import is_gone, until
from unit.conversations import Hearer

ENVIRONMENT = {"PATH": os.environ.get("PATH", "")}
# The loop that the daemon uses.
pytestmark = pytest.mark.loops("uvloop")


class Child(Process):
    """A process that keeps what it said."""

    def __init__(self) -> None:
        super().__init__("child", self._said, self._gone, lambda: None, str)
        self.output = b""
        self.codes: list[int] = []
        self.ended = asyncio.Event()

    def _said(self, data: bytes) -> None:
        self.output += data

    def _gone(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()

    async def run(self, script: str) -> None:
        await self.start([sys.executable, "-I", "-S", "-c", script], ENVIRONMENT, "/", {})


@pytest.fixture
async def child() -> AsyncIterator[Child]:
    """Make a child that has to be gone when the test is over, and is killed if it is not."""
    found = Child()
    yield found
    if found.pid and not found.exited.is_set():
        os.killpg(found.pid, signal.SIGKILL)
    assert found.pid == 0 or is_gone(found.pid)


class Counter(Hearer):
    """The owner of a connection: counts its notices, and how many came between two turns of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.most = self._in_this_turn = 0

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        self.count += 1
        self._in_this_turn += 1
        self.most = max(self.most, self._in_this_turn)

    async def watch(self, until: Callable[[], bool]) -> None:
        while not until():
            self._in_this_turn = 0
            await asyncio.sleep(0)


NOTICE = r'{"jsonrpc":"2.0","method":"notifications/x"}'


async def test_a_server_that_floods_its_output_has_a_budget_in_each_turn_of_the_loop() -> None:
    owner = Counter()
    command = ["/bin/sh", "-c", f"exec yes '{NOTICE}'"]
    connection = StdioConnection("flood", owner, (command, ENVIRONMENT, "/"), (2**20, 2**20))
    # From the start on: the server may write before all of its pipes are connected, which takes some turns.
    watching = asyncio.create_task(owner.watch(lambda: owner.count > 50_000))
    await connection.open()
    try:
        await watching
        # The end of one turn and the beginning of the next may both come between two looks of the counter.
        assert owner.most <= 2 * TURN_MESSAGES
    finally:
        await connection.stop()


async def test_what_a_server_wrote_before_its_exit_is_read_however_much_it_is() -> None:
    owner = Counter()
    command = ["/bin/sh", "-c", f"yes '{NOTICE}' | head -n 20000"]
    connection = StdioConnection("flood", owner, (command, ENVIRONMENT, "/"), (2**20, 2**20))
    await connection.open()
    await owner.watch(lambda: ("closed", "it ended by itself (exit code 0)") in owner.told)
    assert owner.count == 20_000


@pytest.mark.parametrize("turns", range(6))
async def test_a_start_that_is_given_up_at_any_moment_can_be_stopped(turns: int, child: Child) -> None:
    starting = asyncio.create_task(child.run("import sys; sys.stdin.read()"))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await child.stop()
    await asyncio.gather(starting, return_exceptions=True)
    await child.stop()


async def test_a_child_that_ends_with_its_input_is_left_to_do_so(child: Child) -> None:
    await child.run("import sys; sys.stdin.read(); print('bye', flush=True); sys.exit(7)")
    await child.stop()
    await child.ended.wait()
    assert (child.output, child.codes) == (b"bye\n", [7])


async def test_a_child_that_ignores_the_end_of_its_input_is_terminated(
    monkeypatch: pytest.MonkeyPatch, child: Child
) -> None:
    monkeypatch.setattr(child_process, "EOF_GRACE_SECONDS", 0.05)
    await child.run("import time; time.sleep(600)")
    await child.stop()
    await child.ended.wait()
    assert child.codes == [-signal.SIGTERM]


async def test_a_child_that_ignores_everything_is_killed(monkeypatch: pytest.MonkeyPatch, child: Child) -> None:
    monkeypatch.setattr(child_process, "EOF_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(child_process, "TERM_GRACE_SECONDS", 0.05)
    await child.run(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    )
    while not child.output:
        await asyncio.sleep(0.01)
    await child.stop()
    await child.ended.wait()
    assert child.codes == [-signal.SIGKILL]


async def test_what_a_child_wrote_before_its_death_comes_before_the_news_of_it(child: Child) -> None:
    await child.run("import os; os.write(1, b'x' * 60000); os._exit(3)")
    await child.ended.wait()
    assert (len(child.output), child.codes) == (60000, [3])


async def test_an_output_that_somebody_else_holds_open_delays_the_news_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, child: Child
) -> None:
    monkeypatch.setattr(child_process, "LAST_WORDS_SECONDS", 0.1)
    # The grandchild leaves the group, so it survives its parent, which waits for that, and keeps the pipes.
    await child.run(
        "import os, time\nreading, writing = os.pipe()\nif os.fork() == 0:\n  os.setsid()\n"
        "  print(os.getpid(), flush=True)\n  os.close(writing)\n  time.sleep(600)\n"
        "os.close(writing)\nos.read(reading, 1)"
    )
    await child.ended.wait()
    assert child.codes == [0]
    while not child.output:
        await asyncio.sleep(0.01)
    os.kill(int(child.output), signal.SIGKILL)


async def test_the_end_of_a_child_kills_the_rest_of_its_process_group(child: Child) -> None:
    # The grandchild stays in the group, holds no pipe of the daemon and ignores SIGTERM and SIGHUP.
    await child.run(
        "import os, signal, time\n"
        "for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "  for descriptor in range(3): os.close(descriptor)\n"
        "  time.sleep(600)\n"
        "print(pid, flush=True)"
    )
    await child.ended.wait()
    grandchild = int(child.output)
    try:
        until(lambda: is_gone(grandchild), "the grandchild is gone")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)


def open_pidfds() -> int:
    """Count the pidfds of this process."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        # The listing's own descriptor is closed by now.
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum("pidfd" in link for link in links)


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd is Linux's")
async def test_the_pidfd_of_a_child_is_closed_when_the_child_has_ended(child: Child) -> None:
    before = open_pidfds()
    await child.run("import sys; sys.stdin.read()")
    assert open_pidfds() == before + 1
    await child.stop()
    await child.ended.wait()
    assert open_pidfds() == before


async def test_the_last_lines_of_stderr_are_kept_and_long_ones_cut(child: Child) -> None:
    await child.run("import sys\nfor i in range(200): print(i, 'e' * 3000, file=sys.stderr)")
    await child.ended.wait()
    assert len(child.stderr) == stderr.RING_LINES
    assert child.stderr[-1].startswith("199 ")
    assert max(len(line) for line in child.stderr) == stderr.RING_CHARACTERS


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["/no/such/program"], "/", "its command '/no/such/program' does not exist"),
        (["./no-such-program"], "/", "its command '/./no-such-program' does not exist"),
        (["true"], "/no/such/folder", "its folder /no/such/folder does not exist (key cwd)"),
        (["/etc/passwd"], "/", "its command '/etc/passwd' could not be started"),
        (["a\0b"], "/", "could not be started"),
    ],
)
async def test_what_cannot_be_started_is_an_error_with_the_reason(
    argv: list[str], cwd: str, words: str, child: Child
) -> None:
    with pytest.raises(UpstreamError) as caught:
        await child.start(argv, ENVIRONMENT, cwd, {})
    assert words in str(caught.value)
    await child.stop()


async def test_a_script_whose_interpreter_is_gone_is_not_said_to_be_missing(tmp_path: Path, child: Child) -> None:
    script = tmp_path / "serve"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(UpstreamError, match="the interpreter in its first line does not exist"):
        await child.start([str(script)], ENVIRONMENT, "/", {})
    await child.stop()


async def test_a_full_queue_is_an_error_and_only_for_what_has_a_limit(child: Child) -> None:
    await child.run("import time; time.sleep(600)")
    child.write(b"x" * 500_000, limit=1000)
    with pytest.raises(UpstreamBusy, match="does not read its input"):
        child.write(b"y", limit=1000)
    child.write(b"cancel")
    os.killpg(child.pid, signal.SIGKILL)
    await child.ended.wait()
    with pytest.raises(UpstreamError, match="is not running"):
        child.write(b"z")


async def test_without_pidfds_as_on_macos_every_child_s_end_is_noticed_and_no_thread_of_the_loop_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    children = [Child() for _ in range(3)]
    for number, child in enumerate(children):
        await child.run(f"import sys; sys.stdin.read(); sys.exit({number})")
    assert await asyncio.to_thread(lambda: "free") == "free"
    for child in children:
        await child.stop()
        await child.ended.wait()
    assert [child.codes for child in children] == [[0], [1], [2]]
