"""What answers HTTP in the comparison: Hearth on its socket and on a port, and the programs of others, before the same
upstream.

Knows how each is started, found and weighed; measures nothing else.
"""

import os
import socket
import subprocess
from contextlib import closing, suppress
from time import perf_counter_ns

from chain import ECHO, HEARTH, PYTHON, HearthChain, gone, wait_until
from client import INITIALIZE, ChainError, request
from http_client import Address, HttpClient, answer_of
from measure import milliseconds
from peers import Peer
from stage import Child, Stage

# A peer imports for seconds on a busy machine.
START_SECONDS = 60.0
# A socket is handed over as a service manager does it: as descriptor 3, to a process that finds its own pid named.
HANDED_OVER = ["/bin/sh", "-c", 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"', "sh"]


class HttpEnd:
    """Something that serves `echo` over HTTP at an address."""

    def __init__(self, name: str, address: Address, child: Child, headers: dict[str, str] | None = None) -> None:
        self.name = name
        self.address = address
        self._child = child
        self._headers = headers or {}
        self.tool = self._tool()

    def client(self, modern: bool = False) -> HttpClient:
        """One that has shaken hands."""
        found = HttpClient(self.address, self._headers, modern)
        found.open()
        return found

    def clients(self, count: int, modern: bool = False) -> list[HttpClient]:
        """Some that have."""
        return [self.client(modern) for _ in range(count)]

    def _tool(self) -> str:
        client = self.client()
        listed = client.tools()
        client.close()
        found = [name for name in listed if name in ("echo", "echo__echo")]
        if not found:
            raise ChainError(f"{self.name}: tools/list shows no echo: {listed}")
        return found[0]

    def pss_mb(self) -> float:
        """The memory of all its processes but the upstream."""
        pids = [pid for pid in tree(self._child.pid) if not is_upstream(pid)]
        return sum(pss_kb(pid) for pid in pids) / 1024


def hearth_ends(stage: Stage) -> tuple[HttpEnd, HttpEnd]:
    """One daemon, on its socket and on a port."""
    chain = HearthChain(stage, "http", ECHO, settings=NO_LIMITS)
    port = free_port()
    words = [HEARTH, "serve", "--transport", "http", "--http-port", str(port)]
    child = stage.spawn(words, chain.env)
    wait_until(lambda: answers(chain.socket) and answers(("127.0.0.1", port)), "the daemon to listen")
    token = subprocess.run(
        [HEARTH, "token", "show"], env=chain.env, capture_output=True, text=True, check=True
    ).stdout.strip()
    bearer = {"Authorization": f"Bearer {token}"}
    return HttpEnd("socket", chain.socket, child), HttpEnd("port", ("127.0.0.1", port), child, bearer)


# Clients at a port may send so many messages a second; here they are to send as many as they can.
NO_LIMITS = {"port_rate_limit": "0", "port_in_flight_limit": "0"}


def peer_end(stage: Stage, peer: Peer) -> HttpEnd:
    """A peer that is up."""
    port = free_port()
    child = spawned(stage, peer, port)
    address = ("127.0.0.1", port)
    wait_until(lambda: answers(address), f"{peer.name} to listen", START_SECONDS)
    return HttpEnd(peer.name, address, child)


def spawned(stage: Stage, peer: Peer, port: int) -> Child:
    """A peer that is about to come."""
    env = {**stage.env(peer.name), **peer.env}
    return stage.spawn(peer.words(ECHO, port, env["HOME"]), env)


def cold_hearth(stage: Stage, chain: HearthChain) -> float:
    """From a request on a socket that nobody has accepted yet to its answer, in milliseconds; the daemon ends again."""
    os.makedirs(os.path.dirname(chain.socket), mode=0o700, exist_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        with suppress(FileNotFoundError):
            os.unlink(chain.socket)
        listener.bind(chain.socket)
        listener.listen()
        begin = perf_counter_ns()
        client = HttpClient(chain.socket, {})
        client.send(opening(client))
        child = stage.spawn([*HANDED_OVER, PYTHON, "-I", "-m", "hearth.daemon"], chain.env, listener.fileno())
        answer = client.receive()
        passed = milliseconds(begin)
        answer_of(*answer)
        client.close()
        ended(child, chain.daemon_pid())
    return passed


def cold_peer(stage: Stage, peer: Peer) -> float:
    """From the start of a peer to its first answer, in milliseconds; it ends again."""
    port = free_port()
    begin = perf_counter_ns()
    child = spawned(stage, peer, port)
    wait_until(lambda: answers(("127.0.0.1", port)), f"{peer.name} to listen", START_SECONDS)
    client = HttpClient(("127.0.0.1", port), {})
    client.send(opening(client))
    answer = client.receive()
    passed = milliseconds(begin)
    answer_of(*answer)
    client.close()
    ended(child, child.pid)
    return passed


def opening(client: HttpClient) -> bytes:
    """`initialize`, as the bytes of a request."""
    return client.post(request(0, "initialize", INITIALIZE).rstrip())


def ended(child: Child, *pids: int) -> None:
    """Terminate it, and wait until all of it has gone."""
    everything = {pid for root in (child.pid, *pids) for pid in tree(root)}
    for pid in (*pids, child.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, 15)
    wait_until(lambda: all(gone(pid) for pid in everything), "all of it to end", START_SECONDS)
    os.close(child.stdin)
    os.close(child.stdout)


def free_port() -> int:
    """One that nobody has, for the moment."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def answers(address: Address) -> bool:
    """Whether somebody takes connections there."""
    with closing(socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)) as found:
        return found.connect_ex(address) == 0


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:
        with suppress(OSError), open(f"/proc/{each}/task/{each}/children") as listed:
            found += [int(word) for word in listed.read().split()]
    return found


def is_upstream(pid: int) -> bool:
    """Whether it is the server itself, which all have behind them."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")[1:-1] == [word.encode() for word in ECHO[1:]]


def pss_kb(pid: int) -> int:
    """Its share of the memory that it uses, in what the kernel calls kB."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        line = next(line for line in rollup if line.startswith("Pss:"))
    return int(line.split()[1])
