"""How verbose servers are, and who hears what."""

import pytest

from hearth.hub.bindings import LogLevels, most_verbose, reaches_level
from hearth.mcp import versions
from hearth.upstreams.instance import Instance
from unit.conversations import Recorded
from unit.hub.stage import client, instance, offering, sent, server


@pytest.mark.parametrize(
    ("level", "threshold", "heard"),
    [
        ("debug", None, True),
        ("made up", None, True),
        (None, None, True),
        ("debug", "debug", True),
        ("info", "debug", True),
        ("debug", "info", False),
        ("emergency", "alert", True),
        ("alert", "emergency", False),
        # By rank, not by the alphabet.
        ("notice", "warning", False),
        ("error", "warning", True),
        ("made up", "debug", False),
        (None, "debug", False),
        ("error", "made up", False),
    ],
)
def test_a_message_is_heard_at_or_above_the_threshold(level: str | None, threshold: str | None, heard: bool) -> None:
    assert reaches_level(level, threshold) is heard


def test_the_most_verbose_is_the_lowest_that_was_set() -> None:
    assert most_verbose(["error", None, "notice", "made up"]) == "notice"
    assert most_verbose([None, "made up"]) is most_verbose([]) is None


def staged(declared: bytes = b'{"logging":{}}', era: str = versions.LEGACY) -> tuple[Instance, Recorded]:
    of = server()
    return instance(of, offering(declared=declared, era=era))


def hold(on: Instance, level: str | None = None, era: str = versions.LEGACY) -> None:
    member, _ = client(era)
    member.log_level = level
    on.holders.add(member)


def levels(connection: Recorded) -> list[str]:
    return [request["params"]["level"] for request in connection.sent if request["method"] == "logging/setLevel"]


def test_a_server_is_as_verbose_as_the_most_curious_of_those_who_use_it() -> None:
    on, connection = staged()
    for level in ("error", "debug", "warning"):
        hold(on, level)
        LogLevels().sync(on)
    assert levels(connection) == ["error", "debug"]
    on.holders.clear()
    hold(on, "warning")
    LogLevels().sync(on)
    assert levels(connection)[2:] == ["warning"]


def test_a_server_is_told_nothing_as_long_as_nobody_has_set_a_level() -> None:
    on, connection = staged()
    hold(on)
    hold(on, None, versions.MODERN)
    LogLevels().sync(on)
    assert connection.sent == []


def test_one_client_s_wish_for_silence_does_not_silence_another_that_set_nothing() -> None:
    on, connection = staged()
    hold(on)
    hold(on, "emergency")
    LogLevels().sync(on)
    assert levels(connection) == ["info"]


def test_a_modern_client_that_names_no_level_wants_nothing() -> None:
    on, connection = staged()
    hold(on, None, versions.MODERN)
    hold(on, "error")
    LogLevels().sync(on)
    assert levels(connection) == ["error"]


def test_a_request_that_names_a_level_makes_the_server_more_verbose_and_never_quieter() -> None:
    on, connection = staged()
    hold(on, "warning")
    LogLevels().sync(on)
    for wanted in ("error", "warning", "debug", "info"):
        LogLevels().sync(on, wanted)
    assert levels(connection) == ["warning", "debug"]


def test_a_request_s_level_is_forgotten_when_those_who_use_the_server_change() -> None:
    on, connection = staged()
    LogLevels().sync(on, "debug")
    hold(on, "error")
    LogLevels().sync(on)
    assert levels(connection) == ["debug", "error"]


def test_a_retry_that_names_a_level_counts_like_any_request() -> None:
    on, connection = staged()
    member, _ = client(versions.MODERN)
    of = server()
    LogLevels().attached(sent(member, of, on))
    assert levels(connection) == []
    LogLevels().attached(sent(member, of, on, b"2", meta={versions.LOG_LEVEL_KEY: "notice"}))
    assert levels(connection) == ["notice"]


@pytest.mark.parametrize(
    ("declared", "era"), [(b'{"tools":{}}', versions.LEGACY), (b'{"logging":{}}', versions.MODERN)]
)
def test_a_server_without_levels_and_one_that_is_told_with_every_request_are_left_alone(
    declared: bytes, era: str
) -> None:
    on, connection = staged(declared, era)
    hold(on, "debug")
    LogLevels().sync(on)
    LogLevels().sync(on, "debug")
    assert connection.sent == []


def test_a_level_that_could_not_be_set_is_tried_again() -> None:
    on, connection = staged()
    hold(on, "debug")
    connection.broken = True
    LogLevels().sync(on)
    connection.broken = False
    LogLevels().sync(on)
    LogLevels().sync(on)
    assert levels(connection) == ["debug"]
