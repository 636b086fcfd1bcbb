"""The parsers under fuzzing. A target takes one input and lets only what is not meant to happen escape."""

from collections.abc import Callable
from random import Random

from fuzz.inputs import ARGUMENTS, CONFIG, POLICY, WIRE
from hearth.bridge import jsonlite
from hearth.bridge.client_io import LineSplitter
from hearth.config.layers import Examination
from hearth.errors import ConfigError, FrameError, MessageError, TooLarge, WireError
from hearth.policy.decision import decide
from hearth.policy.loader import parse as parse_policy
from hearth.policy.shell import split
from hearth.wire import json, values
from hearth.wire.frames import FrameDecoder
from hearth.wire.lines import AnyItem, Assembler, LineDecoder
from hearth.wire.sniff import DetectedProtocol, sniff

_LIMITS = [60, 300, 1 << 20]


def check_json(data: bytes, random: Random) -> None:
    """What is read can be taken apart and put together again, and is then the same."""
    try:
        message = json.parse(data)
    except MessageError as error:
        assert error.rpc_code in (-32700, -32600)
    else:
        check_message(message)
    check_batch(data)
    check_document(data)


def check_batch(data: bytes) -> None:
    """A batch is never empty, and each message in it is one by itself."""
    try:
        items = json.parse_batch(data).items
    except MessageError as error:
        assert error.rpc_code in (-32700, -32600)
        return
    assert 0 < len(items) <= json.BATCH_LIMIT
    for item in items:
        if isinstance(item, json.Message):
            check_message(item)


def check_document(data: bytes) -> None:
    try:
        json.loads(data)
    except MessageError:
        pass
    try:
        fields = json.split(data)
        again = json.split(json.join(fields))
    except MessageError:
        return
    # What is not UTF-8 is refused at the door; a level behind it need only not crash.
    assert not is_utf8(data) or again == fields


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_message(message: json.Message) -> None:
    line = json.join(message.fields)
    again = json.parse(line)
    assert (again.id, again.method) == (message.id, message.method) and json.join(again.fields) == line
    assert b"\n" not in line and b"\r" not in line
    if message.id is not None:
        hash(values.id_key(message.id))
    for raw in message.fields.values():
        values.text(raw)
        values.integer(raw)
        values.members(raw)
        check_elements(raw)
    json.dumps(message.method)


def check_elements(raw: json.Raw) -> None:
    try:
        values.elements(raw)
    except MessageError:
        pass


def check_lines(data: bytes, random: Random) -> None:
    """The same items come out whatever the cut; all of them are messages, batches or typed errors."""
    limit = _LIMITS[int(random.random() * len(_LIMITS))]
    whole = read_lines([data], LineDecoder(limit, flatten=False))
    cut = int(random.random() * (len(data) + 1))
    chunks = [data[:cut], data[cut : cut + 7], data[cut + 7 :]]
    again = read_lines(chunks, LineDecoder(limit, flatten=False))
    assert [type(item) for item in again] == [type(item) for item in whole]
    for item in whole:
        assert isinstance(item, json.Message | json.Batch | MessageError | TooLarge)
    flat = read_lines(chunks, LineDecoder(limit))
    assert len(flat) == sum(len(item.items) if isinstance(item, json.Batch) else 1 for item in whole)


def read_lines(chunks: list[bytes], decoder: LineDecoder[AnyItem]) -> list[AnyItem]:
    items: list[AnyItem] = []
    for chunk in chunks:
        items += decoder.receive_data(chunk)
    return items + decoder.receive_eof()


def check_assembler(data: bytes, random: Random) -> None:
    """Lines that somebody else has cut, at places of his own."""
    assembler = Assembler(300, flatten=False)
    size = 1 + int(random.random() * (len(data) + 1))
    for start in range(0, min(len(data), 8 * size), size):
        for item in assembler.receive_line(data[start : start + size]):
            assert isinstance(item, json.Message | json.Batch | MessageError | TooLarge)
    assert len(assembler.receive_eof()) <= 1


def check_frames(data: bytes, random: Random) -> None:
    """Frames or one typed error; headers and payloads go on to their own parsers."""
    decoder = FrameDecoder(_LIMITS[int(random.random() * len(_LIMITS))])
    cut = int(random.random() * (len(data) + 1))
    try:
        for header, payload in decoder.receive_data(data[:cut]) + decoder.receive_data(data[cut:]):
            check_header(header)
            check_json(payload, random)
        decoder.receive_eof()
    except WireError:
        pass


def check_header(header: bytes) -> None:
    try:
        jsonlite.read(header)
    except FrameError:
        pass


def check_sniff(data: bytes, random: Random) -> None:
    """Some answer, which more bytes do not change."""
    early = sniff(data[: int(random.random() * (len(data) + 1))])
    late = sniff(data)
    assert early is None or early is late
    assert late is None or isinstance(late, DetectedProtocol)


def check_splitter(data: bytes, random: Random) -> None:
    """The bridge's own lines: none blank, none over the limit."""
    limit = _LIMITS[int(random.random() * len(_LIMITS))]
    splitter = LineSplitter(limit)
    for line in splitter.receive_data(data) + splitter.receive_eof():
        assert line.strip() and len(line) <= limit


def check_config(data: bytes, random: Random) -> None:
    """A configuration with its problems, or the error that it is none."""
    found = Examination("fuzz.json" if random.random() < 0.5 else "fuzz.toml")
    try:
        found.read_file(data)
    except ConfigError:
        return
    found.warn_of_repeated_keys()
    found.finish()
    assert all(isinstance(problem, str) for problem in found.problems)


# Every parser gets its share of the inputs: (share, what they are made from, what takes them).
def check_policy(data: bytes, random: Random) -> None:
    """A policy is read, or its problems are said."""
    try:
        parse_policy("/nowhere/policy.toml", data)
    except ConfigError as error:
        assert error.problems


_TEAM = parse_policy("/nowhere/policy.toml", POLICY[0])
_GRANTED = {"git", "pytest", "make", "npm", "cargo", "go"}


def check_decision(data: bytes, random: Random) -> None:
    """Every call is decided; what is allowed could be read, and runs nothing but what is granted."""
    tool = random.choice(["Bash", "Read", "Write", "Other"])
    decision = decide(_TEAM, "dev", None, tool, data, "/nowhere/work")
    assert decision.outcome in ("allow", "ask", "deny")
    assert decision.reason and decision.source
    if decision.outcome == "allow" and tool == "Bash":
        commands = split(json.loads(data)["command"])
        assert {command.words[0] for command in commands} <= _GRANTED


TARGETS: list[tuple[float, list[bytes], Callable[[bytes, Random], None]]] = [
    (0.36, WIRE, check_json),
    (0.20, WIRE, check_lines),
    (0.10, WIRE, check_assembler),
    (0.14, WIRE, check_frames),
    (0.10, WIRE, check_sniff),
    (0.04, WIRE, check_splitter),
    (0.02, CONFIG, check_config),
    (0.005, POLICY, check_policy),
    (0.035, ARGUMENTS, check_decision),
]
