"""Processes of this user: their table, the ones that belong to a server, their memory, the savings by sharing servers.

psutil reads all of it on every platform: on macOS and Windows only private structures of the kernel give an exact
command line otherwise. psutil is imported by the first use, which no daemon makes at its start.

The measure of memory is PSS where the kernel reports it: memory that processes share, such as the interpreter itself,
is counted once and not per process, so a sum over processes is correct. Otherwise it is RSS, for the whole sum, and
the name says which.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

PSS, RSS = "PSS", "RSS"
# Programs by which a client may start its bridge; they wait for it.
LAUNCHERS = frozenset(
    {"sh", "bash", "dash", "zsh", "fish", "env", "uv", "uvx", "pipx", "cmd.exe", "powershell.exe", "uv.exe", "uvx.exe"}
)


class ProcessInfo(NamedTuple):
    """Process with its parent and command line. `argv` is never empty."""

    pid: int
    parent: int
    argv: tuple[str, ...]


def own() -> list[ProcessInfo]:
    """List the processes of this user, without zombies and processes that hide their command line."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "ppid", "cmdline", *(["uids"] if hasattr(os, "getuid") else [])]):
        values = process.info
        argv = _words(values["cmdline"] or ())
        if argv and _is_own(values.get("uids")):
            found.append(ProcessInfo(values["pid"], values["ppid"] or 0, argv))
    return found


def _words(cmdline: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line. A program that sets its title, as npm does, leaves one string and padding."""
    words = [word for word in cmdline if word]
    is_title = len(words) == 1 and not os.path.isabs(words[0])
    return tuple(words[0].split() if is_title else words)


def _is_own(uids: object) -> bool:
    if sys.platform == "win32":
        # Another user's command line cannot be read.
        return True
    return getattr(uids, "real", None) == os.getuid()


def argv_of(pid: int) -> tuple[str, ...]:
    """Return the command line of a process; empty if the process is gone, is a zombie or hides it."""
    import psutil

    try:
        return _words(psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return ()


def ancestors(pid: int) -> list[int]:
    """Return a process and its ancestors, nearest first; without the process that adopts orphans.

    Empty if the process, or one of them, ends meanwhile: nothing tells then whose child it was.
    """
    import psutil

    found = []
    try:
        process: psutil.Process | None = psutil.Process(pid)
        while process is not None and process.pid > 1:
            found.append(process.pid)
            process = process.parent()
    except psutil.NoSuchProcess:
        return []
    except psutil.Error:
        # Another user's process, above all of this user's.
        pass
    return found


def client_of(pid: int, is_bridge: bool) -> int | None:
    """Return the process of the client at the other end of a connection: a bridge's is the one that started it.

    A shell or a package runner in between is not the client: commands that the client runs are not below it.
    """
    import psutil

    if not is_bridge:
        return pid
    found = None
    try:
        process = psutil.Process(pid).parent()
        # A bridge whose client is gone was adopted by the init process or by the user's service manager.
        while process is not None and process.pid > 1 and (name := process.name()) != "systemd":
            found = process.pid
            if name not in LAUNCHERS or _leads_session(found):
                break
            process = process.parent()
    except psutil.Error:
        pass
    return found


def _leads_session(pid: int) -> bool:
    """Tell whether a process leads a session, as the shell of a terminal does: a person types there."""
    if sys.platform == "win32":
        return False
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def folder_of(pid: int) -> str | None:
    """Return the working folder of a process; None if the process is gone or the folder cannot be read."""
    import psutil

    try:
        return str(psutil.Process(pid).cwd()) or None
    except psutil.Error:
        return None


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it is gone or cannot be read."""
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


def is_on_pipes(process: ProcessInfo) -> bool | None:
    """Tell whether another program holds the other end of a process's standard input; None where that is unknown.

    Servers on the Python SDK put /dev/null there and read from a copy. Then a pipe that the parent also has decides.
    """
    files = _open_files(process.pid)
    if not files:
        return None
    first = files.get("0", "")
    if first != os.devnull:
        return first.startswith(("pipe:", "socket:"))
    common = {*files.values()} & {*_open_files(process.parent).values()}
    return True if any(name.startswith("pipe:") for name in common) else None


def _open_files(pid: int) -> dict[str, str]:
    """Return the target of each descriptor of a process; empty without /proc, or where it may not be read."""
    folder = f"/proc/{pid}/fd"
    found = {}
    try:
        for name in os.listdir(folder):
            try:
                found[name] = os.readlink(f"{folder}/{name}")
            except FileNotFoundError:
                continue
    except OSError:
        return {}
    return found


# --- memory


class Weight(NamedTuple):
    """Memory of some processes: the total, and the part that no other process maps.

    Where the system does not report shared memory, both are the RSS.
    """

    whole: int
    private: int


class Measure(NamedTuple):
    """Way to measure a process: its name, and a function that raises psutil.Error."""

    name: str
    of: Callable[[int], Weight]


def _rollup(pid: int) -> Weight:
    import psutil

    found = psutil.Process(pid).memory_full_info()
    return Weight(int(found.pss), int(found.uss))


def _resident(pid: int) -> Weight:
    import psutil

    size = int(psutil.Process(pid).memory_info().rss)
    return Weight(size, size)


def _knows_pss() -> bool:
    import psutil

    try:
        _rollup(os.getpid())
    except (AttributeError, OSError, psutil.Error):
        # Not Linux, or a kernel or a container that does not report it.
        return False
    return True


def choose() -> Measure:
    """Return the best measure available on this system."""
    return Measure(PSS, _rollup) if _knows_pss() else Measure(RSS, _resident)


def total(measure: Measure, pids: Sequence[int]) -> int:
    """Sum the bytes of these processes; a process that has ended meanwhile counts as 0. Raises PermissionError."""
    import psutil

    size = 0
    for pid in pids:
        try:
            size += measure.of(pid).whole
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as exc:
            raise PermissionError(f"the memory of process {pid} may not be read") from exc
    return size


class Kin(NamedTuple):
    """Parent and process group of a process."""

    parent: int
    group: int


def families(leaders: Iterable[int]) -> dict[int, list[int]]:
    """Map each process to itself, its descendants and the members of its group, orphans included, in one snapshot."""
    found = _everybody()
    return {leader: family(leader, found) for leader in leaders}


def family(leader: int, everybody: dict[int, Kin]) -> list[int]:
    """Return the processes that belong to one leader."""
    if leader not in everybody:
        return []
    children: dict[int, list[int]] = {}
    for pid, kin in everybody.items():
        children.setdefault(kin.parent, []).append(pid)
    waiting = [pid for pid, kin in everybody.items() if pid == leader or kin.group == leader]
    members: dict[int, None] = {}
    while waiting:
        pid = waiting.pop()
        if pid not in members:
            members[pid] = None
            waiting += children.get(pid, ())
    return sorted(members)


def of_families(leaders: Sequence[int]) -> dict[int, int | None]:
    """Return the bytes of each process with its family; None for one that has ended or cannot be measured."""
    return {leader: weight.whole if weight else None for leader, weight in weights_of_families(leaders).items()}


def weights_of_families(leaders: Sequence[int]) -> dict[int, Weight | None]:
    """Measure each process with its family; None for one that has ended or cannot be measured."""
    return {leader: weigh(members) for leader, members in families(leaders).items()}


def weigh(pids: Sequence[int]) -> Weight | None:
    """Sum the memory of these processes; None if none is left, or if one may not be read."""
    import psutil

    measure, found = choose(), []
    for pid in pids:
        try:
            found.append(measure.of(pid))
        except psutil.NoSuchProcess:
            continue
        except (OSError, psutil.Error):
            # Another user's process, or one that may not be read.
            return None
    return Weight(sum(each.whole for each in found), sum(each.private for each in found)) if found else None


def _everybody() -> dict[int, Kin]:
    import psutil

    found = {each.pid: each.info for each in psutil.process_iter(["ppid", "create_time"])}

    def parent(pid: int) -> int:
        """Return the parent; 0 if it has ended, or if a newer process may have its pid."""
        above, born = found[pid]["ppid"] or 0, found[pid]["create_time"]
        its = found[above]["create_time"] if above in found else None
        return above if its is not None and born is not None and its <= born else 0

    return {pid: Kin(parent(pid), _group(pid)) for pid in found}


def _group(pid: int) -> int:
    """Return the process group; on Windows, which has none, the process itself, so orphans are not recognized."""
    if sys.platform == "win32":
        return pid
    try:
        return os.getpgid(pid)
    except OSError:
        return pid


# --- the status document


def with_memory(found: dict[str, Any]) -> dict[str, Any]:
    """Add the memory of each server's processes to the document, and the savings by sharing them.

    Never call this in the daemon's loop: the kernel takes milliseconds to count a large process, which would block it.
    """
    instances = [each for server in found.get("upstreams") or [] for each in server.get("instances") or []]
    pids = [pid for each in instances for pid in each.get("pids") or []]
    weights = weights_of_families(pids) if pids else {}
    for each in [*instances, *(found.get("upstreams") or [])]:
        known = [weight.whole for pid in each.get("pids") or [] if (weight := weights.get(pid)) is not None]
        each["memoryBytes"] = sum(known) if known else None
    bridges = [each.get("pid") for each in found.get("sessions") or [] if each.get("wire") == "frames"]
    own = weigh([pid for pid in [found.get("pid"), *bridges] if isinstance(pid, int)]) if pids else None
    found["savings"] = savings(instances, weights, own)
    return found


def savings(
    instances: list[dict[str, Any]], weights: Mapping[int, Weight | None], own: Weight | None
) -> dict[str, Any] | None:
    """Compare the running instances with a setup in which each session has an instance of its own.

    Return None if nothing runs. `own` is the daemon with its bridges. Memory that processes share is counted once on
    both sides, so only the private memory of an instance is multiplied.
    """
    running = [each for each in instances if each.get("pids")]
    if not running:
        return None
    whole, apart, runs_apart = own.whole if own else 0, 0, 0
    for each in running:
        known = [weight for pid in each["pids"] if (weight := weights.get(pid)) is not None]
        users = max(1, int(each.get("sessions") or 0))
        whole += sum(weight.whole for weight in known)
        apart += sum(weight.whole + (users - 1) * weight.private for weight in known)
        runs_apart += users
    return {
        "measure": choose().name,
        "runs": len(running),
        "runsApart": runs_apart,
        "memoryBytes": whole,
        "memoryApartBytes": apart,
    }
