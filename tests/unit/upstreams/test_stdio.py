"""What a server says is handled within a budget for each turn of the loop, in order and without loss."""

import asyncio

import pytest

from hearth.upstreams.stdio import TURN_MESSAGES, MessageReader, pieces
from hearth.wire import json
from hearth.wire.lines import Item

LIMIT = 2**20


class Reader:
    """The owner of an intake: keeps the numbers of what it is handed, and whether the pipe is held."""

    def __init__(self) -> None:
        self.portions: list[list[int]] = []
        self.held: list[bool] = []
        self.intake = MessageReader(LIMIT, self.take, self.held.append)

    def take(self, items: list[Item], data: bytes) -> None:
        self.portions.append([int(bytes(item.fields["n"])) for item in items if isinstance(item, json.Message)])

    @property
    def numbers(self) -> list[int]:
        return [number for portion in self.portions for number in portion]

    async def settle(self) -> None:
        while self.held and self.held[-1]:
            await asyncio.sleep(0)


@pytest.fixture
def reader() -> Reader:
    return Reader()


def said(*numbers: int) -> bytes:
    return b"".join(message(number) + b"\n" for number in numbers)


def message(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"m","n":%d}' % number


def test_what_is_within_the_budget_is_handled_at_once_and_holds_nothing(reader: Reader) -> None:
    numbers = list(range(TURN_MESSAGES))
    reader.intake.receive(said(*numbers))
    assert (reader.portions, reader.held) == ([numbers], [])


async def test_what_is_over_the_budget_waits_for_its_turn_and_holds_the_pipe_meanwhile(reader: Reader) -> None:
    numbers = list(range(3 * TURN_MESSAGES + 1))
    reader.intake.receive(said(*numbers))
    assert (reader.numbers, reader.held) == (numbers[:TURN_MESSAGES], [True])
    await asyncio.sleep(0)
    assert (reader.numbers, reader.held) == (numbers[: 2 * TURN_MESSAGES], [True])
    await reader.settle()
    assert (reader.numbers, reader.held) == (numbers, [True, False])
    assert max(map(len, reader.portions)) == TURN_MESSAGES


async def test_messages_in_an_array_count_one_by_one(reader: Reader) -> None:
    numbers = list(range(3 * TURN_MESSAGES))
    reader.intake.receive(b"[%b]\n" % b",".join(map(message, numbers)))
    assert reader.numbers == numbers[:TURN_MESSAGES]
    await reader.settle()
    assert (reader.numbers, max(map(len, reader.portions))) == (numbers, TURN_MESSAGES)


async def test_what_is_read_once_more_comes_behind_what_waits(reader: Reader) -> None:
    data = said(*range(4 * TURN_MESSAGES))
    half = len(data) // 2 + 3
    reader.intake.receive(data[:half])
    reader.intake.receive(data[half:])
    await reader.settle()
    assert reader.numbers == list(range(4 * TURN_MESSAGES))


def test_one_long_line_is_not_cut(reader: Reader) -> None:
    reader.intake.receive(said(1).replace(b'"m"', b'"%b"' % (b"m" * 100_000)))
    assert reader.numbers == [1]


async def test_what_waits_of_a_server_that_has_exited_is_handled_at_once(reader: Reader) -> None:
    numbers = list(range(3 * TURN_MESSAGES))
    reader.intake.receive(said(*numbers))
    reader.intake.release()
    assert (reader.numbers, reader.held) == (numbers, [True, False])
    reader.intake.receive(said(*numbers))
    assert reader.numbers == numbers * 2
    await asyncio.sleep(0)
    assert reader.held == [True, False]


async def test_an_exit_that_is_noticed_over_a_message_changes_no_order() -> None:
    class Exiting(Reader):
        def take(self, items: list[Item], data: bytes) -> None:
            if not self.portions:
                self.intake.release()
            super().take(items, data)

    reader = Exiting()
    reader.intake.receive(said(*range(3 * TURN_MESSAGES)))
    assert reader.numbers == list(range(3 * TURN_MESSAGES))


async def test_what_waits_is_dropped_when_the_server_is_given_up_and_the_pipe_stays_held(reader: Reader) -> None:
    reader.intake.receive(said(*range(3 * TURN_MESSAGES)))
    reader.intake.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (reader.numbers, reader.held) == (list(range(TURN_MESSAGES)), [True])


async def test_a_failure_over_one_portion_does_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Reader):
        def take(self, items: list[Item], data: bytes) -> None:
            super().take(items, data)
            if len(self.portions) == 2:
                raise RuntimeError("over one portion")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    reader = Failing()
    reader.intake.receive(said(*range(4 * TURN_MESSAGES)))
    await reader.settle()
    assert reader.numbers == list(range(4 * TURN_MESSAGES))


@pytest.mark.parametrize("data", [b"", b"a", b"a\n", b"a\nb", b"a\nb\nc\nd\ne\n", b"\n\n\n\n\n\n", b"a\nb\nc\nd\ne"])
def test_pieces_are_the_whole_data_by_so_many_lines(data: bytes) -> None:
    found = list(pieces(data, 2))
    assert b"".join(found) == data
    assert all(piece.count(b"\n") <= 2 for piece in found)
