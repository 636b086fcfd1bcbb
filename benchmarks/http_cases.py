"""What is measured of HTTP: calls of one client and of many, memory and the first answer, beside others that serve the
same upstream.
"""

from chain import ECHO, HearthChain
from http_client import Crowd
from http_ends import HttpEnd, cold_hearth, cold_peer, hearth_ends, peer_end
from measure import Action, Group, Line
from peers import Peer
from stage import Stage

CALL_ROUNDS, CALLS_PER_ROUND = 11, 100
CROWD_ROUNDS = 7
# Clients that ask at the same time, and how often each does in a round.
CROWDS = {8: 25, 32: 8}
# The slowest takes several seconds.
COLD_ROUNDS = 3
WARMUP_ROUNDS = 1
WIRES = ("socket", "port")
# Of one call's time on a wire beside a peer's; being ahead is enough where nothing else is said.
CALL_LIMITS = {("socket", "contextforge"): 0.7}


def http_lines(peers: list[Peer]) -> list[Line]:
    """Hearth has to be ahead of each of them."""
    names = [peer.name for peer in peers]
    lines = [
        Line(
            f"HTTP on the {wire}, one call after another, p50",
            "http, call",
            wire,
            name,
            CALL_LIMITS.get((wire, name), 1.0),
        )
        for wire in WIRES
        for name in names
    ]
    lines += [
        Line(f"HTTP on the {wire}, {count} clients at once", f"http, {count} clients", wire, name, 1.0, at_most=False)
        for count in CROWDS
        for wire in WIRES
        for name in names
    ]
    # What it costs that every request says again who sends it, and has headers that are compared with its body.
    lines += [Line(f"HTTP on the {wire}, modern, p50", "http, call", f"{wire}, modern", wire, 1.5) for wire in WIRES]
    lines += [Line("HTTP, memory (PSS)", "http, memory", "hearth", name, 1.0) for name in names]
    lines += [Line("HTTP, nothing running, first answer", "http, cold", "hearth", name, 1.0) for name in names]
    return lines


def http_groups(stage: Stage, peers: list[Peer]) -> dict[str, Group]:
    """All groups, over servers that are up and have answered."""
    socket, port = hearth_ends(stage)
    ends = {"socket": socket, "port": port} | {peer.name: peer_end(stage, peer) for peer in peers}
    calls = {name: caller(end) for name, end in ends.items()}
    calls |= {f"{name}, modern": caller(ends[name], modern=True) for name in WIRES}
    crowds = {
        f"http, {count} clients": Group(
            "calls/s", {name: crowd(end, count) for name, end in ends.items()}, CROWD_ROUNDS, WARMUP_ROUNDS
        )
        for count in CROWDS
    }
    memory = {"hearth": socket.pss_mb} | {peer.name: ends[peer.name].pss_mb for peer in peers}
    return {
        "http, call": Group("µs", calls, CALL_ROUNDS, WARMUP_ROUNDS),
        **crowds,
        "http, memory": Group("MB", memory, rounds=3, warmup=0),
        "http, cold": Group("ms", cold_actions(stage, peers), COLD_ROUNDS, warmup=1),
    }


def caller(end: HttpEnd, modern: bool = False) -> Action:
    """One call after another."""
    client = end.client(modern)
    return lambda: client.median_call_us(end.tool, CALLS_PER_ROUND)


def crowd(end: HttpEnd, count: int) -> Action:
    """Many clients, each of which asks one thing after another."""
    clients = Crowd(end.clients(count))
    return lambda: clients.calls_per_second(end.tool, CROWDS[count])


def cold_actions(stage: Stage, peers: list[Peer]) -> dict[str, Action]:
    """From nothing that runs to the first answer."""
    chain = HearthChain(stage, "http-cold", ECHO)
    found: dict[str, Action] = {"hearth": lambda: cold_hearth(stage, chain)}
    for peer in peers:
        found[peer.name] = lambda peer=peer: cold_peer(stage, peer)  # type: ignore[misc]
    return found
