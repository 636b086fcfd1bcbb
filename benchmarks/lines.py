"""Lines of the table: what is measured, what it is compared with, and what it must stay within."""

from authorizing import WAITING
from cases import CROWD, SESSIONS
from deciding import KINDS, RULES
from driving import CROWD as AGENTS
from driving import RECORDS
from measure import Line
from searching import TOOLS

LINES = [
    Line("first answer, daemon warm, printed command", "start", "printed", "python -I -S -c pass", 1.6),
    Line("first answer, daemon warm, `hearth bridge`", "start", "typed", "python -I -S -c pass", 4.0),
    Line("first answer, no daemon running", "start", "cold", 'python -c "import asyncio"', 2.2),
    Line(f"lists of {CROWD} servers, 8 slow or dead, warm", "lists", "crowd, warm", "one fast, warm", 3.0),
    Line(f"lists of {CROWD} servers, 8 slow or dead, no daemon", "lists", "crowd, cold", "one fast, cold", 3.0),
    Line("one call after another, p50", "call", "hearth", "socat", 1.7),
    Line("pipelined calls", "pipeline", "hearth", "socat", 0.45, at_most=False),
    Line("pipelined calls, upstream that costs almost nothing", "swift", "hearth", "socat", None),
    Line("legacy client, modern server, p50", "eras", "translated", "same era", 1.5),
    Line("one call after another beside a server that floods, p50", "flood", "flooded", "quiet", 5.0),
    Line(
        "legacy client beside a modern one, one process, p50",
        "both",
        "legacy, one process",
        "legacy, own process",
        1.15,
    ),
    Line(
        "modern client beside a legacy one, one process, p50",
        "both",
        "modern, one process",
        "modern, own process",
        1.15,
    ),
    Line("server of both eras, clients of both, resident", "both memory", "one process", "a process for each era", 0.6),
    Line(f"index of {TOOLS:,} tools, CPU", "index", "build", None, 100.0),
    Line(f"a question to {TOOLS:,} tools, its words not asked for before, p50", "question", "first", None, 1.0),
    Line(f"the same again, p50 of {TOOLS:,} tools", "question", "again", None, 1.0),
    Line(f"`find_tools` over {TOOLS:,} tools, p50", "find", "find_tools", "direct call", 4.0),
    Line(
        "`hearth hook`, as a client runs it, decided", "hook", "decided, client's command", "python -I -S -c pass", 2.5
    ),
    Line("`hearth hook`, spawn to exit, decided", "hook", "decided", "python -I -S -c pass", 2.5),
    Line("`hearth hook`, spawn to exit, no policy", "hook", "no policy", "python -I -S -c pass", 2.0),
    Line("audit, an entry of the event loop", "audit entry", "record", None, 5.0),
    Line("audit, a row of the writer, CPU", "audit row", "row", None, 40.0),
    Line("audit, a decision until it is on the disk, p50", "audit decision", "decision", "two synced files", 6.0),
    Line(f"a decision by a tool's name among {RULES} rules, CPU", "decision", "by name", None, 10.0),
    Line(f"the first decision by a tool's name among {RULES} rules, CPU", "decision", "first by name", None, 10.0),
    *(Line(f"a decision about {kind}, CPU", "decision", kind, None, 200.0) for kind in KINDS),
    Line("one call after another under a policy, p50", "policy", "allowed", "no policy", 1.1),
    Line("the same with a path and 4 KB of text, p50", "policy text", "allowed", "no policy", 1.1),
    Line("the same, granted by its arguments, p50", "policy grant", "granted", "no policy", 1.4),
    Line("the same, granted by a path in its arguments, p50", "policy grant", "granted, path", "no policy, path", 1.9),
    Line("audit of one call after another", "audit", "audited", "no audit", round(1 / 1.1, 2), at_most=False),
    Line(f"one call after another beside {WAITING} that wait for approval, p50", "pending", "waiting", "none", 1.1),
    Line("`create_agent` of an echo agent, first chunk", "agents", "create_agent", "direct", 1.5),
    Line(
        f"prompt to one of {AGENTS} agents beside 10,000 updates a second",
        "agents flood",
        "among updates",
        "alone",
        1.5,
    ),
    Line(f"{RECORDS} idle agents on record, resident in the daemon", "agent records", "idle", None, 2.0),
    Line("bridge, resident", "memory", "bridge", None, 11.0),
    Line(f"daemon, resident, 1 upstream, {SESSIONS} sessions", "memory", "daemon", None, 30.0),
]
