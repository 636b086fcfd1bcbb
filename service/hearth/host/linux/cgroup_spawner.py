"""Cgroup spawner: a small single-threaded process that starts the MCP servers, each in a control group of its own.

A server must be in its group before its first instruction, or a process that it forks at once is out of reach. The
daemon cannot do that itself: the daemon has threads, so after a fork nothing but exec may run (`preexec_fn` can hang on
a lock that another thread held, and also copies the page tables of the whole daemon), and Python's vfork does not
support control groups. A wrapper program that is executed first costs an interpreter's start for each server; a shell
as wrapper would drop variables that it does not accept from the environment.

So the spawner is forked from the daemon before anything heavy is imported. For each server it calls clone3(2) with
CLONE_INTO_CGROUP, which needs Linux 5.7, and CLONE_PARENT: the new process is a child of the daemon, which waits for it
as for any other. The spawner exits with the daemon, when the daemon's end of the socket closes.
"""

import errno
import marshal
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import NoReturn

from hearth.host import process_setup
from hearth.host.linux import cgroups
from hearth.host.processes import Program

assert sys.platform == "linux", "imported on Linux only"

# clone3(2). The system call has the same number on every architecture.
_CLONE3 = 435
_CLONE_PARENT = 0x8000
_CLONE_INTO_CGROUP = 0x200000000
# struct clone_args up to the field `cgroup`.
_CLONE_ARGS = struct.Struct("11Q")
_HEAD = struct.Struct("!I")
# Answer to the daemon: pid, the step that failed, errno. Report of the child: the last two of these.
_ANSWER = struct.Struct("!iBi")
_FAILURE = struct.Struct("!Bi")
_FOLDER, _PROGRAM = 1, 2
# Time from the request to the server's exec. A start that takes longer hangs on a file system that does not answer.
BIRTH_SECONDS = 10.0
# Python ignores the first two. The spawner ignores the others, which may be sent to all processes of the service.
_PIPE_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SpawnerLost(Exception):
    """Error of a spawner that does not answer: servers have to be started without it."""


class CgroupSpawner:
    """Daemon's side of the spawner. Used by one thread."""

    def __init__(self, pid: int, connection: socket.socket, subtree: cgroups.Subtree) -> None:
        self.subtree = subtree
        self._pid = pid
        self._connection = connection
        connection.settimeout(BIRTH_SECONDS)

    def bear(self, group: cgroups.Group, program: Program, stdio: Sequence[int]) -> int:
        """Start a program in the group, as leader of a process group; return its pid. Raises OSError, SpawnerLost."""
        words = [os.fsencode(word) for word in program.argv]
        settings = {os.fsencode(name): os.fsencode(value) for name, value in program.environment.items()}
        body = marshal.dumps((words, settings, os.fsencode(program.cwd)))
        folder = os.open(group.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            socket.send_fds(self._connection, [_HEAD.pack(len(body))], [folder, *stdio])
            self._connection.sendall(body)
            pid, step, code = _ANSWER.unpack(_receive(self._connection, _ANSWER.size))
        except (OSError, EOFError) as exc:
            raise SpawnerLost(str(exc) or "it has ended") from exc
        finally:
            os.close(folder)
        if pid < 0:
            raise SpawnerLost(f"clone3: {os.strerror(code)}")
        if code:
            os.waitpid(pid, 0)
            raise OSError(code, os.strerror(code), program.cwd if step == _FOLDER else program.argv[0])
        return int(pid)

    def put_to_use(self) -> None:
        """Start servers through the spawner from now on."""
        from hearth.host.children import use
        from hearth.host.linux.cgroup_child import Grouped

        use(Grouped(self))

    def close(self) -> None:
        """Kill the spawner and wait for its end. No request to exit is sent: the spawner may hang on a file."""
        self._connection.close()
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def start() -> CgroupSpawner | None:
    """Fork the spawner; return None where control groups are unavailable. Call it while there is only one thread."""
    subtree = cgroups.take()
    return fork(subtree) if subtree else None


def fork(subtree: cgroups.Subtree) -> CgroupSpawner:
    """Fork the spawner for that subtree."""
    mine, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _attend(its)
    its.close()
    return CgroupSpawner(pid, mine, subtree)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# --- the spawner's side


def _attend(connection: socket.socket) -> NoReturn:
    status = 1
    try:
        _settle_in(connection.fileno())
        clone = _Clone()
        while True:
            head, descriptors, _, _ = socket.recv_fds(connection, _HEAD.size, 4)
            if not head:
                break
            for descriptor in descriptors:
                # recv_fds takes flags and, before Python 3.13 at least, ignores them.
                os.set_inheritable(descriptor, False)
            head += _receive(connection, _HEAD.size - len(head))
            words, settings, cwd = marshal.loads(_receive(connection, _HEAD.unpack(head)[0]))
            connection.sendall(_ANSWER.pack(*_bear(clone, descriptors, words, settings, cwd)))
            for descriptor in descriptors:
                os.close(descriptor)
        status = 0
    finally:
        os._exit(status)


def _settle_in(keep: int) -> None:
    for number in _END_SIGNALS:
        # The spawner exits when the daemon does.
        signal.signal(number, signal.SIG_IGN)
    process_setup.close_inherited({keep})
    with open("/proc/self/comm", "w") as file:
        file.write("hearth-nursery")


class _Clone:
    """System call clone3 as a fork: it returns in the child, too. The C library's fork supports neither flag."""

    def __init__(self) -> None:
        import ctypes

        # Not CDLL: the GIL must be held on both sides.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_size_t]
        self._call.restype = ctypes.c_long
        self._ctypes = ctypes

    def __call__(self, group: int) -> int:
        """Return 0 in the child; in the parent the child's pid, or the negated errno."""
        arguments = _CLONE_ARGS.pack(_CLONE_PARENT | _CLONE_INTO_CGROUP, 0, 0, 0, 0, 0, 0, 0, 0, 0, group)
        pid: int = self._call(_CLONE3, arguments, len(arguments))
        return pid if pid >= 0 else -self._ctypes.get_errno()


def _bear(
    clone: _Clone, descriptors: list[int], words: list[bytes], settings: dict[bytes, bytes], cwd: bytes
) -> tuple[int, int, int]:
    group, *stdio = descriptors
    reading, writing = os.pipe()
    pid = clone(group)
    if pid == 0:
        _become(stdio, words, settings, cwd, writing)
    os.close(writing)
    # The exec closes the pipe and so ends this read.
    failure = os.read(reading, _FAILURE.size) if pid > 0 else b""
    os.close(reading)
    if pid < 0:
        return -1, 0, -pid
    step, code = _FAILURE.unpack(failure) if failure else (0, 0)
    return pid, step, code


def _become(stdio: list[int], words: list[bytes], settings: dict[bytes, bytes], cwd: bytes, report: int) -> NoReturn:
    step = _FOLDER
    try:
        os.setpgid(0, 0)
        for number, descriptor in enumerate(stdio):
            os.dup2(descriptor, number)
        for signum in (*_PIPE_SIGNALS, *_END_SIGNALS):
            signal.signal(signum, signal.SIG_DFL)
        process_setup.restore_core_dumps()
        os.chdir(cwd)
        step = _PROGRAM
        os.execvpe(words[0], words, settings)
    except OSError as exc:
        os.write(report, _FAILURE.pack(step, exc.errno or errno.EIO))
    except ValueError:
        # An argument contains NUL.
        os.write(report, _FAILURE.pack(step, errno.EINVAL))
    finally:
        os._exit(127)
