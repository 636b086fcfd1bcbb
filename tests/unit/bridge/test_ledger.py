"""The ledger: examples for each rule, then daemons that live and die at random."""

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hearth.bridge.ledger import DEATHS_LIMIT, Ledger
from hearth.errors import FrameError
from hearth.wire.frames import FrameDecoder

WELCOME = (b'{"type":"helloAck","sessionId":"s","secret":"x","heartbeatSeconds":3}', b"")


def header(**keys: Any) -> bytes:
    return json.dumps(keys, separators=(",", ":")).encode()


def opened(frames: list[bytes]) -> list[tuple[dict[str, Any], bytes]]:
    return [(json.loads(head), payload) for head, payload in FrameDecoder().receive_data(b"".join(frames))]


def received(ledger: Ledger, *frames: tuple[bytes, bytes]) -> list[bytes]:
    """What these frames hold for the client."""
    lines: list[bytes] = []
    ledger.receive(frames, lines)
    return lines


def connected(ledger: Ledger) -> list[tuple[dict[str, Any], bytes]]:
    """A new daemon welcomes us and takes everything; what it took."""
    frames = ledger.reopen()
    ledger.written += len(frames)
    received(ledger, WELCOME)
    return opened(frames)


def said(ledger: Ledger, *lines: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """The client's lines, taken whole by the kernel."""
    frames = ledger.add(lines)
    ledger.written += len(frames)
    return opened(frames)


@pytest.fixture
def ledger() -> Ledger:
    """A ledger that a daemon has welcomed."""
    made = Ledger()
    connected(made)
    return made


def test_lines_are_numbered_from_one(ledger: Ledger) -> None:
    assert said(ledger, b"a", b"b") == [({"type": "mcp", "seq": 1}, b"a"), ({"type": "mcp", "seq": 2}, b"b")]
    assert said(ledger, b"c")[0][0]["seq"] == 3


def test_parked_lines_are_numbered_from_one_when_a_daemon_is_there() -> None:
    ledger = Ledger()
    ledger.park([b"a", b"b"])
    assert [head for head, _ in connected(ledger)] == [{"type": "mcp", "seq": 1}, {"type": "mcp", "seq": 2}]


@pytest.mark.parametrize(
    "head", [b'{"type":"mcp","re":1}', b'{ "re": 1, "type": "mcp" }', header(type="mcp", re=1, x=2)]
)
def test_an_answer_is_passed_on_once(ledger: Ledger, head: bytes) -> None:
    said(ledger, b"a")
    assert received(ledger, (head, b"answer"), (head, b"again")) == [b"answer"]
    assert ledger.answered and not ledger.table


def test_what_the_kernel_did_not_take_is_not_in_doubt(ledger: Ledger) -> None:
    ledger.add([b"a", b"b", b"c"])
    ledger.written += 1
    ledger.closed()
    assert [(head.get("resent"), head["seq"], line) for head, line in connected(ledger)] == [
        (True, 2, b"a"),
        (None, 3, b"b"),
        (None, 4, b"c"),
    ]


def test_a_replayed_line_that_is_acknowledged_as_kept_is_replayed_again(ledger: Ledger) -> None:
    said(ledger, b"a")
    received(ledger, (header(type="ack", seq=1, done=[1], keep={"k": 1}), b""))
    for seq in (2, 3):
        ledger.closed()
        assert connected(ledger) == [({"type": "mcp", "seq": seq, "replay": True}, b"a")]
        received(ledger, (header(type="ack", seq=seq, done=[seq], keep={"k": seq}), b""))


def test_no_number_is_used_twice_and_none_is_left_out() -> None:
    ledger = Ledger()
    seen = [head["seq"] for head, _ in connected(ledger)]
    seen += [head["seq"] for head, _ in said(ledger, b"a", b"b")]
    received(ledger, (header(type="mcp", re=1, keep="k"), b""))
    ledger.closed()
    ledger.park([b"c"])
    seen += [head["seq"] for head, _ in connected(ledger)]
    seen += [head["seq"] for head, _ in said(ledger, b"d")]
    assert seen == list(range(1, len(seen) + 1))


def test_a_line_kept_late_is_replayed_in_the_order_of_the_client(ledger: Ledger) -> None:
    said(ledger, b"initialize", b"initialized")
    received(ledger, (header(type="ack", seq=2, keep={"b": 2}), b""), (header(type="mcp", re=1, keep="a"), b"answer"))
    ledger.closed()
    assert [line for _, line in connected(ledger)] == [b"initialize", b"initialized"]


def test_parts_of_a_line_are_kept_under_keys_of_their_own_and_the_line_is_not(ledger: Ledger) -> None:
    said(ledger, b"[level,subscribe]", b"other")
    received(
        ledger,
        (header(type="keep", seq=1, key="level"), b"level"),
        (header(type="keep", seq=1, key="uri"), b"subscribe"),
        (header(type="mcp", re=2, keep="other"), b""),
    )
    ledger.closed()
    assert [(head.get("replay"), head.get("resent"), line) for head, line in connected(ledger)] == [
        (True, None, b"level"),
        (True, None, b"subscribe"),
        (True, None, b"other"),
        (None, True, b"[level,subscribe]"),
    ]
    received(ledger, (header(type="mcp", re=6), b"answer"), (header(type="ack", seq=6, drop=["uri"]), b""))
    ledger.closed()
    assert [line for _, line in connected(ledger)] == [b"level", b"other"]


def test_a_part_of_a_line_that_is_not_in_the_table_is_not_kept(ledger: Ledger) -> None:
    said(ledger, b"a")
    ledger.give_up()
    received(ledger, (header(type="keep", seq=1, key="k"), b"part"))
    assert not ledger.kept


def test_the_welcome_is_remembered_for_the_next_daemon(ledger: Ledger) -> None:
    assert (ledger.session, ledger.heartbeat_seconds, ledger.welcomed) == (("s", "x"), 3.0, True)
    ledger.closed()
    ledger.reopen()
    assert (ledger.session, ledger.welcomed) == (("s", "x"), False)


def test_a_welcome_without_a_secret_is_no_session_and_leaves_the_former_one() -> None:
    ledger = Ledger()
    degraded = (header(type="helloAck", sessionId="degraded", secret=""), b"")
    ledger.reopen()
    received(ledger, degraded)
    assert (ledger.session, ledger.welcomed) == (None, True)
    ledger.closed()
    connected(ledger)
    ledger.closed()
    ledger.reopen()
    received(ledger, degraded)
    assert ledger.session == ("s", "x")


def test_giving_up_tells_what_may_have_run(ledger: Ledger) -> None:
    said(ledger, b"a", b"b")
    received(ledger, (header(type="goodbye", reconnect=False, taken=1), b""))
    assert (ledger.goodbye, ledger.changed) == (False, True)
    ledger.closed()
    ledger.park([b"c"])
    assert ledger.give_up() == [(b"a", True), (b"b", False), (b"c", False)]
    assert ledger.table == {}


def test_what_an_open_connection_was_offered_may_still_run() -> None:
    ledger = Ledger()
    ledger.park([b"parked"])
    ledger.written += len(ledger.reopen())
    said(ledger, b"written")
    # A writer is stuck in a daemon that is stopped: it goes on when that one does.
    ledger.add([b"offered"])
    ledger.park([b"later"])
    assert ledger.give_up() == [(b"parked", True), (b"written", True), (b"offered", True), (b"later", False)]


def test_what_a_connection_that_ended_without_a_welcome_was_sent_has_not_run() -> None:
    ledger = Ledger()
    ledger.reopen()
    said(ledger, b"a")
    ledger.closed()
    assert ledger.give_up() == [(b"a", False)]


def test_beyond_what_a_goodbye_says_nothing_runs_though_the_connection_is_open(ledger: Ledger) -> None:
    said(ledger, b"a", b"b")
    received(ledger, (header(type="goodbye", reconnect=True, taken=1), b""))
    assert ledger.give_up() == [(b"a", True), (b"b", False)]


def test_a_line_that_many_daemons_died_of_is_not_sent_again(ledger: Ledger) -> None:
    said(ledger, b"poison")
    for _ in range(DEATHS_LIMIT - 1):
        assert ledger.closed() == ([], [])
        assert [line for _, line in connected(ledger)] == [b"poison"]
    assert ledger.closed() == ([], [b"poison"])
    assert connected(ledger) == []


def test_questions_are_withdrawn_once(ledger: Ledger) -> None:
    assert received(ledger, (header(type="mcp", ask="q1"), b"?"), (header(type="mcp", ask="q2"), b"?")) == [b"?", b"?"]
    received(ledger, (header(type="ack", answered=["q1", "unknown"]), b""))
    assert ledger.closed() == (["q2"], [])
    assert ledger.closed() == ([], [])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b'"mcp"',
        b"{",
        b'{"type":"mcp"',
        b'{"type":"mcp"} ',
        b"\xff\xfe",
        b'{"type":"ack","done":5}',
        b'{"type":"ack","keep":[1]}',
        b'{"type":"keep","seq":[1],"key":"k"}',
        b'{"type":"keep","seq":1}',
        b'{"type":"helloAck"}',
        b'{"type":"goodbye","taken":"soon"}',
        b"[" * 5000,
        b'{"type":"mcp","re":%s}' % (b"9" * 5000),
        b'{"type":"mcp","re":[1]}',
    ],
)
def test_a_header_that_makes_no_sense_is_a_frame_error(ledger: Ledger, head: bytes) -> None:
    said(ledger, b"a")
    with pytest.raises(FrameError):
        received(ledger, (head, b"payload"))


def test_an_answer_before_a_header_that_makes_no_sense_is_delivered(ledger: Ledger) -> None:
    said(ledger, b"a")
    lines: list[bytes] = []
    with pytest.raises(FrameError):
        ledger.receive([(b'{"type":"mcp","re":1}', b"answer"), (b"[]", b"")], lines)
    assert (lines, ledger.table) == ([b"answer"], {})


def test_a_header_of_an_unknown_type_is_ignored() -> None:
    assert received(Ledger(), (b'{"type":"weather"}', b"sun"), (b"{}", b"")) == []


class Outages(RuleBasedStateMachine):
    """A client that talks, daemons that answer and die as they like, a kernel that takes as much as it likes."""

    @initialize()
    def begin(self) -> None:
        self.ledger = Ledger()
        self.count = 0
        self.up = False
        self.inbox: dict[int, bytes] = {}  # what the living daemon has, by number
        self.looked_at: set[bytes] = set()  # what any daemon may have acted upon
        self.answers: dict[bytes, int] = {}
        self.kept: dict[str, bytes] = {}
        self.finished: set[bytes] = set()
        self.last_seq = 0

    @rule(number=st.integers(1, 4), taken=st.integers(0, 4))
    def client_speaks(self, number: int, taken: int) -> None:
        lines = [b"%d" % (self.count + index) for index in range(number)]
        self.count += number
        if not self.up:
            self.ledger.park(lines)
            return
        frames = self.ledger.add(lines)
        if taken < number:
            # The kernel took a part of it, because the daemon has just died.
            self._take(frames[:taken])
            self.daemon_dies()
        else:
            self._take(frames)

    def _take(self, frames: list[bytes]) -> None:
        self.ledger.written += len(frames)
        for head, line in opened(frames):
            assert head["seq"] == self.last_seq + 1
            self.last_seq = head["seq"]
            if "replay" not in head:
                assert head.get("resent", False) == (line in self.looked_at)
            self.inbox[head["seq"]] = b"" if "replay" in head else line

    @precondition(lambda self: not self.up)
    @rule(part=st.floats(0, 1), welcomes=st.booleans())
    def daemon_appears(self, part: float, welcomes: bool) -> None:
        self.inbox = {}
        frames = self.ledger.reopen()
        assert sorted([line for head, line in opened(frames) if "replay" in head]) == sorted(self.kept.values())
        waiting = [line for head, line in opened(frames) if "replay" not in head]
        assert waiting == sorted(waiting, key=int)
        self.up = True
        if welcomes:
            received(self.ledger, WELCOME)
        taken = frames if part > 0.5 else frames[: int(len(frames) * part)]
        self._take(taken)
        if len(taken) < len(frames) or not welcomes:
            self.daemon_dies()

    @precondition(lambda self: self.up and self.inbox)
    @rule(data=st.data(), keep=st.sampled_from([None, "a", "b"]), twice=st.booleans())
    def daemon_answers(self, data: Any, keep: str | None, twice: bool) -> None:
        seq = data.draw(st.sampled_from(sorted(self.inbox)))
        line = self.inbox.pop(seq)
        head = header(type="mcp", re=seq, keep=keep) if keep else b'{"type":"mcp","re":%d}' % seq
        out = received(self.ledger, *[(head, b"to " + line)] * (2 if twice else 1))
        # An empty line stands for a replayed one, whose answer is swallowed.
        assert out == ([b"to " + line] if line else [])
        if line:
            self.answers[line] = self.answers.get(line, 0) + 1
            if keep:
                self.kept[keep] = line

    @precondition(lambda self: self.up and self.inbox)
    @rule(data=st.data(), keep=st.sampled_from([None, "a", "b"]))
    def daemon_is_done_with_a_line(self, data: Any, keep: str | None) -> None:
        seq = data.draw(st.sampled_from(sorted(self.inbox)))
        line = self.inbox.pop(seq)
        extra = {"keep": {keep: seq}} if keep else {}
        assert received(self.ledger, (header(type="ack", seq=seq, done=[seq], **extra), b"")) == []
        if line:
            self.finished.add(line)
            if keep:
                self.kept[keep] = line

    @precondition(lambda self: self.up and self.inbox)
    @rule(data=st.data(), key=st.sampled_from(["a", "b"]))
    def daemon_keeps_a_part_of_a_line(self, data: Any, key: str) -> None:
        seq = data.draw(st.sampled_from(sorted(self.inbox)))
        part = b"part of " + self.inbox[seq]
        assert received(self.ledger, (header(type="keep", seq=seq, key=key), part)) == []
        if self.inbox[seq]:
            self.kept[key] = part

    @precondition(lambda self: self.up)
    @rule()
    def daemon_dies(self) -> None:
        if self.ledger.welcomed:
            self.looked_at |= {line for line in self.inbox.values() if line}
        self._close()

    @precondition(lambda self: self.up and self.ledger.welcomed)
    @rule(data=st.data())
    def daemon_says_goodbye_and_leaves(self, data: Any) -> None:
        taken = data.draw(st.sampled_from([0, *sorted(self.inbox)]))
        received(self.ledger, (header(type="goodbye", reconnect=True, taken=taken), b""))
        self.looked_at |= {line for seq, line in self.inbox.items() if line and seq <= taken}
        self._close()

    def _close(self) -> None:
        _, hopeless = self.ledger.closed()
        self.finished |= set(hopeless)
        self.up = False

    @invariant()
    def every_line_is_owed_or_finished_and_never_both(self) -> None:
        if not hasattr(self, "ledger"):
            return
        owed = list(self.ledger.table.values())
        assert len(owed) == len(set(owed))
        ended = set(self.answers) | self.finished
        assert not ended & set(owed)
        assert ended | set(owed) == {b"%d" % index for index in range(self.count)}
        assert all(count == 1 for count in self.answers.values())


TestOutages = Outages.TestCase
TestOutages.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
