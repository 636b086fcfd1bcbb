"""The table of this user's processes."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hearth.host import marked_processes, process_table
from hearth.host.process_table import Kin, ProcessInfo, family

# Prints a line when it is ready, then waits for the end of its input.
WAITS = "import os, sys; {}; os.write(1, b'ready\\n'); sys.stdin.buffer.read()"
# As the Python SDK does it: the null device in place of standard input, which is read from a copy.
COPIES = "copy = os.dup(0); os.dup2(os.open(os.devnull, os.O_RDONLY), 0); os.write(1, b'ready\\n'); os.read(copy, 1)"


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(program: str, *words: str, stdin: int = subprocess.PIPE, **settings: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=stdin, stdout=subprocess.PIPE, env=os.environ | settings, cwd="/"
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_process_has_its_words_its_parent_its_folder_and_its_variables(
    started: list["subprocess.Popen[bytes]"],
) -> None:
    started.append(process := start(WAITS.format("pass"), "two words", TOKEN="x"))
    (found,) = (each for each in process_table.own() if each.pid == process.pid)
    assert (found.parent, found.argv[0], found.argv[-1]) == (os.getpid(), sys.executable, "two words")
    assert process_table.folder_of(process.pid) == "/"
    assert process_table.variables_of(process.pid)["TOKEN"] == "x"
    assert process_table.is_on_pipes(found) is True


def test_a_process_that_is_gone_has_neither_folder_nor_variables() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert process_table.folder_of(process.pid) is None
    assert process_table.variables_of(process.pid) == {}
    assert process_table.is_on_pipes(ProcessInfo(process.pid, os.getpid(), ("x",))) is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_copy_of_standard_input_that_the_parent_shares_is_a_pipe(started: list["subprocess.Popen[bytes]"]) -> None:
    started.append(process := start(f"import os; {COPIES}"))
    assert process_table.is_on_pipes(ProcessInfo(process.pid, os.getpid(), ("x",))) is True


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_file_as_standard_input_is_no_pipe(
    started: list["subprocess.Popen[bytes]"], tmp_path: os.PathLike[str]
) -> None:
    with open(os.path.join(tmp_path, "input"), "wb+") as file:
        started.append(
            process := start("import os, signal; os.write(1, b'ready\\n'); signal.pause()", stdin=file.fileno())
        )
    assert process_table.is_on_pipes(ProcessInfo(process.pid, os.getpid(), ("x",))) is False


@pytest.mark.parametrize(
    ("cmdline", "words"),
    [
        (["npm exec a-mcp", "", ""], ("npm", "exec", "a-mcp")),
        (["/opt/My Editor/editor"], ("/opt/My Editor/editor",)),
        (["node", "x y"], ("node", "x y")),
        ([], ()),
    ],
)
def test_a_title_is_split_into_words_and_a_path_is_not(cmdline: list[str], words: tuple[str, ...]) -> None:
    assert process_table._words(cmdline) == words


EVERYBODY = {
    1: Kin(0, 1),
    10: Kin(1, 10),  # the server
    11: Kin(10, 10),  # its child
    12: Kin(11, 12),  # a grandchild in a group of its own
    13: Kin(1, 10),  # of its group, and somebody else's child since its parent died
    14: Kin(13, 14),
    20: Kin(1, 20),
}


@pytest.mark.parametrize(("leader", "members"), [(10, [10, 11, 12, 13, 14]), (20, [20]), (99, [])])
def test_children_their_children_and_orphans_of_the_group_belong_to_a_server(leader: int, members: list[int]) -> None:
    assert family(leader, EVERYBODY) == members


def test_processes_that_are_their_own_parents_are_seen_once() -> None:
    assert family(5, {5: Kin(6, 5), 6: Kin(5, 5)}) == [5, 6]


def test_this_process_has_a_size_and_one_that_is_not_there_has_none() -> None:
    sizes = process_table.of_families([os.getpid(), 2**22 + 1])
    assert (sizes[os.getpid()] or 0) > 1_000_000
    assert sizes[2**22 + 1] is None


# Starts a child in a session of its own, and leaves it behind.
LEAVES = (
    "import os, sys, subprocess; sys.stdout.flush();"
    "p = subprocess.Popen(['sleep', '1000'], start_new_session=True, stdin=subprocess.DEVNULL);"
    "os.write(1, b'ready\\n'); os.write(1, b'%d\\n' % p.pid)"
)


def test_a_descendant_that_left_its_session_is_killed_by_its_mark(started: list["subprocess.Popen[bytes]"]) -> None:
    started.append(other := start(WAITS.format("pass"), HEARTH_AGENT="another"))
    started.append(parent := start(LEAVES, HEARTH_AGENT="of this test"))
    assert parent.stdout
    orphan = int(parent.stdout.readline())
    assert parent.wait() == 0
    descriptor = os.pidfd_open(orphan)
    try:
        assert marked_processes.kill_marked("HEARTH_AGENT", "of this test", 20.0) == []
        assert select.select([descriptor], [], [], 20.0)[0], "the kernel says that it has ended"
    finally:
        os.close(descriptor)
    assert other.poll() is None
