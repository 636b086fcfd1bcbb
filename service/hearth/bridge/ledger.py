"""Ledger of the lines that wait for an answer, the kept lines and the open questions. No I/O, no clock.

    a line of the client ──add──▶ table ──frames──▶ daemon
          the client ◀──receive── table ◀── answer `re`, or `done`

- A line stays in the table until it is answered or done; an answer to what is not in the table is dropped. That is
  what makes every answer arrive once, whatever dies when.
- `seq` numbers frames, not lines: a line that is sent again gets a new number, so that numbers only grow on every
  connection and `taken` divides what a daemon looked at from what it did not.
- `written` is the last number that the kernel took whole. A line that was written to a daemon that went away may have
  run there (`doubtful`), unless that one never said helloAck, or said goodbye and that it had not looked so far.
- `offered` is the last number that was handed over to be written. As long as the connection is open, a daemon that
  says nothing may still look at all of that: it may be stopped, and go on long after somebody has given up.

Two threads use it: one adds, the other receives. `add`, `park`, `closed` and `reopen` need the caller's lock against
each other; `receive` needs none, because it only removes by key, which the interpreter does in one step.
"""

from hearth.bridge import jsonlite
from hearth.errors import FrameError
from hearth.wire.frames import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

# A request that was in the hands of so many daemons when they died has probably killed them.
DEATHS_LIMIT = 20
HEARTBEAT_SECONDS = 5.0

# How the answer to a line that is not JSON begins: without an id, as none could be found.
NOT_JSON = b'{"jsonrpc":"2.0","error":{"code":-32700'
_ANSWER = b'{"type":"mcp","re":'
_ANSWER_SIZE = len(_ANSWER)


class Ledger:
    """The books of one bridge, over all the daemons that it meets."""

    def __init__(self) -> None:
        self.seq = 0
        self.written = 0
        self.offered = 0
        self.open = False
        self.table: dict[int, bytes] = {}
        # How many daemons died with the line in their hands.
        self.doubtful: dict[int, int] = {}
        self.kept: dict[str, tuple[int, bytes]] = {}
        self.questions: dict[str, None] = {}
        # Lines that the daemon could not read, for standard error.
        self.garbled: list[bytes] = []
        self.session: tuple[str, str] | None = None
        self.heartbeat_seconds = HEARTBEAT_SECONDS
        self._forget_connection()

    def _forget_connection(self) -> None:
        self.welcomed = False
        # Whether the daemon answered something on this connection.
        self.answered = False
        # True: come back at once. False: with the client's next line. None: nothing was said.
        self.goodbye: bool | None = None
        self.taken: int | None = None
        self.refusal: str | None = None
        # Questions for the headers of the target, by their numbers.
        self.wanted: list[int] = []
        # Something other than answers came; the shell looks at the fields above and resets it.
        self.changed = False

    # --- the client's lines

    def add(self, lines: "Sequence[bytes]") -> list[bytes]:
        """Enter lines into the table; return their frames, numbered on from `seq`."""
        table, seq = self.table, self.seq
        # Before the first is in the table: the other thread may give it up at once.
        self.offered = seq + len(lines)
        frames = []
        for line in lines:
            seq += 1
            table[seq] = line
            frames.append(encode(b'{"type":"mcp","seq":%d}' % seq, line))
        self.seq = seq
        return frames

    def park(self, lines: "Iterable[bytes]") -> None:
        """Enter lines while no daemon is there; `reopen` makes their frames."""
        for line in lines:
            self.seq += 1
            self.table[self.seq] = line

    # --- the daemon's frames

    def receive(self, frames: "Iterable[tuple[bytes, bytes]]", lines: list[bytes]) -> None:
        """Take frames; append to `lines` what is for the client, in order. Raises FrameError.

        Lines that were appended before an error are out of the table, so they have to be delivered all the same.
        """
        table, header = self.table, b""
        try:
            for header, payload in frames:
                number = header[_ANSWER_SIZE:-1]
                if number.isdigit() and header[:_ANSWER_SIZE] == _ANSWER:
                    line = table.pop(int(number), None)
                    if line is not None:
                        self.answered = True
                        lines.append(payload)
                        if payload.startswith(NOT_JSON):
                            self.garbled.append(line)
                elif self._receive_other(jsonlite.read(header), payload):
                    lines.append(payload)
        except (TypeError, ValueError, KeyError, AttributeError) as exc:
            raise FrameError(f"the daemon sent a header that makes no sense: {header[:200]!r}") from exc

    def _receive_other(self, fields: "dict[str, Any]", payload: bytes) -> bool:
        """Anything but a plain answer; whether its payload is for the client."""
        kind = fields.get("type")
        if kind == "mcp":
            return self._is_for_client(fields)
        if kind == "ack":
            self._receive_ack(fields)
        elif kind == "keep":
            # As with an answer: what is not in the table was given up, or is a replayed line, which is kept already.
            if fields["seq"] in self.table:
                self.kept[str(fields["key"])] = (fields["seq"], payload)
        elif kind == "helloAck":
            self._receive_welcome(fields)
        elif kind == "goodbye":
            self.goodbye = bool(fields.get("reconnect", True))
            self.taken = None if fields.get("taken") is None else int(fields["taken"])
            self.changed = True
        elif kind == "headersWanted":
            self.wanted.append(int(fields["ask"]))
            self.changed = True
        elif kind == "error":
            self.refusal = str(fields.get("message") or "the daemon refused the connection")
            self.changed = True
        return False

    def _is_for_client(self, fields: "dict[str, Any]") -> bool:
        if "ask" in fields:
            self.questions[str(fields["ask"])] = None
        if "re" not in fields:
            return True
        seq = fields["re"]
        line = self.table.pop(seq, None)
        if line is None:
            return False
        self.answered = True
        if "keep" in fields:
            self.kept[str(fields["keep"])] = (seq, line)
        return True

    def _receive_ack(self, fields: "dict[str, Any]") -> None:
        for key, seq in fields.get("keep", {}).items():
            line = self.table.pop(seq, None)
            # The frame of a replayed line is not in the table: what is kept stays as it is.
            if line is not None:
                self.kept[key] = (seq, line)
        for seq in fields.get("done", ()):
            self.table.pop(seq, None)
        for key in fields.get("drop", ()):
            self.kept.pop(key, None)
        for question in fields.get("answered", ()):
            self.questions.pop(question, None)

    def _receive_welcome(self, fields: "dict[str, Any]") -> None:
        session = (str(fields["sessionId"]), str(fields["secret"]))
        # A daemon that cannot serve has no sessions, and gives every bridge the same id without a secret: resumed
        # under that, all of them would claim to be one. The former session goes on when that daemon has been mended.
        if session[1]:
            self.session = session
        self.heartbeat_seconds = float(fields.get("heartbeatSeconds") or HEARTBEAT_SECONDS)
        self.welcomed = True
        self.changed = True

    # --- from daemon to daemon

    def closed(self) -> tuple[list[str], list[bytes]]:
        """Note the connection's end. Returns the questions to withdraw, and the lines that must not be sent again."""
        self.open = False
        looked_at = self._looked_at()
        hopeless = []
        for seq in [seq for seq in self.table if seq <= looked_at]:
            deaths = self.doubtful[seq] = self.doubtful.get(seq, 0) + 1
            if deaths >= DEATHS_LIMIT:
                hopeless.append(self.table.pop(seq))
        withdrawn = list(self.questions)
        self.questions.clear()
        return withdrawn, hopeless

    def reopen(self) -> list[bytes]:
        """Begin a connection; return the frames of the kept lines, then of the table, numbered on from `written`."""
        self._forget_connection()
        seq = self.written
        frames = []
        for key, (_, line) in sorted(self.kept.items(), key=lambda item: item[1][0]):
            seq += 1
            self.kept[key] = (seq, line)
            frames.append(encode(b'{"type":"mcp","seq":%d,"replay":true}' % seq, line))
        waiting = list(self.table.items())
        doubtful = self.doubtful
        self.table.clear()
        self.doubtful = {}
        for old, line in waiting:
            seq += 1
            self.table[seq] = line
            if old in doubtful:
                self.doubtful[seq] = doubtful[old]
                frames.append(encode(b'{"type":"mcp","seq":%d,"resent":true}' % seq, line))
            else:
                frames.append(encode(b'{"type":"mcp","seq":%d}' % seq, line))
        self.seq = self.offered = seq
        self.open = True
        return frames

    def give_up(self) -> list[tuple[bytes, bool]]:
        """Empty the table: each line, and whether it may have run. For when nobody can be reached."""
        waiting = list(self.table)
        looked_at = self._looked_at()
        given_up = []
        for seq in waiting:
            line = self.table.pop(seq, None)
            if line is not None:
                given_up.append((line, seq in self.doubtful or seq <= looked_at))
        return given_up

    def _looked_at(self) -> int:
        """Return the last number that this daemon, or the one before, may have acted upon, or still may."""
        if self.open:
            last = self.offered
        elif self.welcomed:
            last = self.written
        else:
            # A daemon hands its helloAck to the kernel before it looks at the first line.
            last = 0
        return last if self.taken is None else min(last, self.taken)
