"""Servers in control groups: born in them, ended with them, and started without them where there are none."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hearth.errors import UpstreamError
from hearth.host import children
from hearth.host.processes import Program
from support.clients import text_of
from support.daemon import Scratch, server
from support.kernel import BOUND_SECONDS, is_gone, until

if sys.platform == "linux":
    import resource

    from hearth.host import process_setup
    from hearth.host.linux import cgroup_child, cgroup_spawner, cgroups
else:
    pytest.skip("control groups are Linux's", allow_module_level=True)

# The loop that the daemon uses.
pytestmark = pytest.mark.loops("uvloop")
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "odd.name-of/a variable": "kept", "BYTES": "\udcff"}


def mounted() -> str:
    """Where version 2 is mounted, be it beside version 1."""
    with open("/proc/self/mounts") as file:
        return next((line.split()[1] for line in file if line.split()[2] == "cgroup2"), "")


@pytest.fixture
def subtree() -> Iterator["cgroups.Subtree"]:
    """A group of our own to divide, which must be empty again at the end."""
    try:
        folder = tempfile.mkdtemp(prefix="hearth-test-", suffix=".service", dir=mounted() or "/none")
    except OSError:
        pytest.skip("no control groups can be made here")
    yield cgroups.Subtree(folder)
    left = cgroups.Group(folder)
    names = os.listdir(folder)
    left.kill()
    until(left.remove, "the groups are removed")
    assert not [name for name in names if name.startswith(cgroups.PREFIX)]


@pytest.fixture
def born(subtree: "cgroups.Subtree") -> Iterator["cgroup_spawner.CgroupSpawner"]:
    """Fork the nursery, before there is a loop as in the daemon."""
    found = cgroup_spawner.fork(subtree)
    yield found
    children._STARTERS.clear()
    found.close()


@pytest.fixture
async def starter(
    subtree: "cgroups.Subtree", born: "cgroup_spawner.CgroupSpawner"
) -> AsyncIterator["cgroup_child.Grouped"]:
    """Start children by the nursery; at the end the groups of all children are gone."""
    found = cgroup_child.Grouped(born)
    children.use(found)
    yield found
    async with asyncio.timeout(BOUND_SECONDS):
        while any(name.startswith(cgroups.PREFIX) for name in os.listdir(subtree.root)):
            await asyncio.sleep(0.01)


def program(script: str, cwd: str = "/") -> Program:
    return Program([sys.executable, "-I", "-S", "-c", script], ENVIRONMENT, cwd)


def python(script: str, cwd: str = "/") -> children.Child:
    return children.spawn("A server", program(script, cwd))


def finish(child: children.Child) -> tuple[bytes, int]:
    """What it said, and how it ended."""
    child.stdin.close()
    said = child.stdout.read()
    child.stdout.close()
    child.stderr.close()
    child.kill()
    code = child.wait()
    child.clear()
    return said, code


async def test_a_child_is_the_daemon_s_own_and_an_ordinary_program(starter: "cgroup_child.Grouped") -> None:
    script = """
import json, os
masks = [line for line in open("/proc/self/status") if line.startswith(("SigIgn", "SigBlk"))]
descriptors = sorted(os.listdir("/proc/self/fd"))
group = open("/proc/self/cgroup").read()
is_leader = os.getpid() == os.getpgrp()
print(json.dumps([os.getppid(), is_leader, os.getcwd(), dict(os.environ), descriptors, masks, group]))
raise SystemExit(7)
"""
    said, code = finish(python(script, "/tmp"))
    parent, is_leader, cwd, environ, descriptors, masks, group = json.loads(said)
    assert (code, parent, is_leader, cwd) == (7, os.getpid(), True, "/tmp")
    assert {**ENVIRONMENT, **environ} == environ
    # The last is of the folder that is being listed.
    assert descriptors[:3] == ["0", "1", "2"] and len(descriptors) == 4
    # Of Python itself: SIGPIPE and SIGXFSZ. 32 and 33 are glibc's own.
    assert [int(line.split()[1], 16) & ~(1 << 12 | 1 << 24 | 1 << 31 | 1 << 32) for line in masks] == [0, 0]
    assert group.strip().rpartition("/")[2].startswith("upstream-A_server~")


@pytest.fixture
def forbidden_cores() -> Iterator[None]:
    """Forbid core dumps with a limit of 4096 bytes in force; requested before the nursery, which inherits it."""
    former = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (4096, former[1]))
        process_setup.forbid_core_dumps()
        yield
    finally:
        process_setup._FORMER.clear()
        resource.setrlimit(resource.RLIMIT_CORE, former)


async def test_a_child_keeps_the_core_limit_that_the_daemon_was_started_with(
    forbidden_cores: None, starter: "cgroup_child.Grouped"
) -> None:
    said, _code = finish(python("import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])"))
    assert int(said) == 4096
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["/no/such/program"], "/", "its command '/no/such/program' does not exist"),
        (["./no-such-program"], "/", "its command '/./no-such-program' does not exist"),
        (["no-such-program"], "/", "its command 'no-such-program' was not found on the daemon's PATH"),
        (["true"], "/no/such/folder", "its folder /no/such/folder does not exist (key cwd)"),
        (["/etc/passwd"], "/", "its command '/etc/passwd' could not be started: [Errno 13]"),
        (["a\0b"], "/", "could not be started"),
    ],
)
async def test_what_cannot_be_started_is_the_same_error_as_without_groups(
    starter: "cgroup_child.Grouped", argv: list[str], cwd: str, words: str
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UpstreamError) as caught:
        children.spawn("it", Program(argv, ENVIRONMENT, cwd))
    assert words in str(caught.value)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert starter.containment == "control groups"


ESCAPE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b'%d' % os.getpid())
        os.close(1)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take `cgroup.kill` away; requested before the nursery, which inherits that."""

    def refuse(path: str, text: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file", path)

    if request.param == "before 5.14":
        monkeypatch.setattr(cgroups, "_write", refuse)


@pytest.mark.parametrize("kernel", ["with cgroup.kill", "before 5.14"], indirect=True)
async def test_who_left_the_process_group_ends_with_the_control_group(
    kernel: None, starter: "cgroup_child.Grouped"
) -> None:
    said, code = finish(python(ESCAPE))
    assert code == 0
    await asyncio.to_thread(until, lambda: is_gone(int(said)), "it is gone")


async def test_those_who_left_the_process_group_are_asked_to_end_as_well(starter: "cgroup_child.Grouped") -> None:
    script = """
import os, signal, time
def bye(*_):
    os.write(1, b'bye '); os._exit(0)
signal.signal(signal.SIGTERM, bye)
if os.fork() == 0:
    os.setsid()
    os.write(1, b'up ')
while True: time.sleep(1)
"""
    child = python(script)
    assert child.stdout.read(3) == b"up "
    child.terminate()
    said = b""
    while said != b"bye bye ":
        said += child.stdout.read(8)
    finish(child)


async def test_groups_that_a_server_has_made_in_its_own_are_ended_and_removed_too(
    subtree: "cgroups.Subtree", starter: "cgroup_child.Grouped"
) -> None:
    child = python("import time; print(1, flush=True); time.sleep(600)")
    child.stdout.read(1)
    (own,) = [name for name in os.listdir(subtree.root) if name.startswith(cgroups.PREFIX)]
    inner = Path(subtree.root, own, "inner", "most")
    inner.mkdir(parents=True)
    (inner / "cgroup.procs").write_text(str(child.pid))
    child.kill()
    assert finish(child)[1] == -signal.SIGKILL


async def test_without_the_nursery_servers_are_started_in_process_groups(
    starter: "cgroup_child.Grouped", caplog: pytest.LogCaptureFixture
) -> None:
    assert starter._spawner
    os.kill(starter._spawner._pid, signal.SIGKILL)
    for _ in range(2):
        assert finish(python("print('here')")) == (b"here\n", 0)
    assert children.containment() == "process groups"
    assert len([line for line in caplog.messages if "no control groups from now on" in line]) == 1


TAKE = "from hearth.host.linux import cgroups as groups; print(groups.take(*__import__('sys').argv[1:]))"


def taken(*words: str, before: str = ":") -> str:
    """What a process finds that looks for groups to divide."""
    command = ["sh", "-c", f'{before}; exec "$0" "$@"', sys.executable, "-c", TAKE, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_outside_of_a_service_nothing_is_taken() -> None:
    assert taken(mounted()) == "None"


def test_where_there_is_no_version_2_nothing_is_taken(tmp_path: Path) -> None:
    assert taken(str(tmp_path)) == "None"


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_service_s_group_is_taken_and_a_read_only_one_is_not(subtree: "cgroups.Subtree", mode: str) -> None:
    stale = Path(subtree.root, "upstream-old-7")
    stale.mkdir()
    base = os.path.dirname(subtree.root)
    enter = f"echo $$ >{subtree.root}/cgroup.procs"
    remount = f"mount -o bind {base} {base} && mount -o remount,bind,ro {base}"
    if mode == "rw":
        assert "Subtree" in taken(base, before=enter)
        assert not stale.exists()
    else:
        inside = f'{enter}; exec unshare --mount sh -c \'{remount}; exec "$0" "$@"\' "$0" "$@"'
        assert taken(base, before=inside) == "None"
        stale.rmdir()


# --- limits


async def test_limits_are_in_the_files_of_the_group_when_the_program_starts(
    subtree: "cgroups.Subtree", starter: "cgroup_child.Grouped"
) -> None:
    available = Path(subtree.root, "cgroup.controllers").read_text().split()
    wanted = {"memory.max": str(64 * 2**20), "cpu.weight": "50"}
    if not {"memory", "cpu"} <= set(available):
        pytest.skip("the memory and cpu controllers of version 2 are not available here")
    script = "import sys; sys.stdin.read()"
    child = children.spawn("s", program(script), wanted)
    (folder,) = Path(subtree.root).glob(cgroups.PREFIX + "*")
    assert {name: (folder / name).read_text().strip() for name in wanted} == wanted
    finish(child)


def test_a_start_for_which_there_are_no_pipes_leaves_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    stand_in = SimpleNamespace(subtree=cgroups.Subtree(str(tmp_path)))
    starter = cgroup_child.Grouped(stand_in)  # type: ignore[arg-type]
    monkeypatch.setattr(os, "pipe", too_many)
    with pytest.raises(OSError, match="Too many"):
        starter.spawn("s", Program(["true"], {}, "/"))
    assert not os.listdir(tmp_path)


def test_limits_are_written_after_their_controllers_are_handed_on(tmp_path: Path) -> None:
    """A plain folder stands for the tree: many machines have no controller in version 2."""
    subtree = cgroups.Subtree(str(tmp_path))
    group = subtree.make("s")
    (tmp_path / "cgroup.subtree_control").write_text("")
    for name in ("memory.max", "cpu.weight"):
        Path(group.folder, name).write_text("")
    assert subtree.limit(group, {"memory.max": "67108864", "cpu.weight": "50"}) == {}
    assert Path(group.folder, "memory.max").read_text() == "67108864"
    assert Path(group.folder, "cpu.weight").read_text() == "50"
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+cpu")


async def test_a_limit_that_cannot_be_in_force_is_logged_and_the_program_runs(
    starter: "cgroup_child.Grouped", caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"nonsense.max": "1"}
    child = children.spawn("s", program("print(1)"), limits)
    assert finish(child) == (b"1\n", 0)
    assert "limit not in force: server=s limit=nonsense.max" in caplog.text


def test_without_control_groups_limits_are_logged_as_not_in_force(caplog: pytest.LogCaptureFixture) -> None:
    child = children.spawn("s", program("print(1)"), {"memory.max": "1"})
    assert finish(child) == (b"1\n", 0)
    assert "limits not in force: server=s limits=['memory.max']" in caplog.text


def test_limits_in_the_config_reach_the_start_of_that_server_only(scratch: Scratch) -> None:
    limits = {"memory_max": "512 MiB", "cpu_weight": 50}
    scratch.configure({"bounded": server("echo", **limits), "free": server("echo")})
    # Started by no service manager: a daemon without control groups, which says what it cannot enforce.
    scratch.start()
    client = scratch.lines().initialized()
    for name in ("bounded", "free"):
        assert text_of(client.call(f"{name}__echo", text=name)) == name
    said = scratch.logged()
    assert "limits not in force: server=bounded limits=['memory.max', 'cpu.weight']: no control group" in said
    assert "server=free limits=" not in said
