"""What systemctl says, and what follows from it."""

import pytest

from hearth.bridge.activation import ABSENT, START, WAIT, ActivationUnits, judge_units, parse_show, units_of
from hearth.errors import StartError
from hearth.paths import Places

UNITS = ActivationUnits("mcp")


def state(active: str, load: str = "loaded", result: str = "success") -> dict[str, str]:
    return {"LoadState": load, "ActiveState": active, "Result": result}


def test_what_show_prints_is_one_paragraph_for_each_unit() -> None:
    text = "Result=success\nLoadState=loaded\nActiveState=active\n\nResult=exit-code=1\nLoadState=loaded\n"
    assert parse_show(text) == [
        {"Result": "success", "LoadState": "loaded", "ActiveState": "active"},
        {"Result": "exit-code=1", "LoadState": "loaded"},
    ]


@pytest.mark.parametrize(
    ("socket", "service", "verdict"),
    [
        (state("inactive", load="not-found"), state("inactive", load="not-found"), ABSENT),
        (state("inactive", load="masked"), state("inactive"), ABSENT),
        ({}, {}, ABSENT),
        (state("inactive"), state("inactive"), START),
        (state("active"), state("active"), WAIT),
        (state("active"), state("failed"), WAIT),
        (state("activating"), state("inactive"), WAIT),
        (state("deactivating"), state("inactive"), WAIT),
    ],
)
def test_the_states_of_both_units_decide(socket: dict[str, str], service: dict[str, str], verdict: str) -> None:
    assert judge_units(UNITS, socket, service) == verdict


@pytest.mark.parametrize(
    ("socket", "service", "named"),
    [
        (state("failed", result="trigger-limit-hit"), state("inactive"), "mcp.socket has failed (trigger-limit-hit)"),
        (state("inactive"), state("failed", result="exit-code"), "mcp.service has failed (exit-code)"),
    ],
)
def test_a_failed_unit_is_named(socket: dict[str, str], service: dict[str, str], named: str) -> None:
    with pytest.raises(StartError) as caught:
        judge_units(UNITS, socket, service)
    assert named in str(caught.value)


def test_each_profile_has_its_units_and_a_config_path_has_none() -> None:
    default, work = units_of(Places()), units_of(Places("my-work"))
    assert default and work
    assert (default.socket, default.service) == ("mcp.socket", "mcp.service")
    assert work.socket == "mcp@my-work.socket"
    assert units_of(Places(config="/etc/x.toml")) is None
