"""The tables under `packs`: what they mean, and what is refused with which words."""

import importlib

import pytest
from config_reading import config_of, examined

from hearth.config.schema import PACKS


def problems(text: str, name: str = "config.toml") -> list[str]:
    return examined(text, name).problems


def test_a_pack_is_off_unless_it_is_enabled() -> None:
    assert config_of("").packs == {}
    assert config_of("[packs.hearth]").packs["hearth"].disabled
    assert not config_of("[packs.hearth]\nenabled = true").packs["hearth"].disabled


def test_json_has_the_same_key() -> None:
    found = config_of('{"mcpServers": {}, "packs": {"hearth": {"enabled": true, "pin": true}}}', "c.json")
    assert (found.packs["hearth"].disabled, found.packs["hearth"].pin) == (False, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("packs = 1", "config.toml:1: packs must be a table of packs, not 1"),
        ("\n[packs.heart]", "config.toml:2: pack 'heart' is not known; did you mean 'hearth'?"),
        ("[packs.zzz]", "config.toml:1: pack 'zzz' is not known; known: hearth"),
        ("[packs]\nhearth = true", "pack 'hearth' must be a table with enabled in it"),
        (
            "[packs.hearth]\nenable = true",
            "config.toml:2: pack 'hearth': key 'enable' is not known; did you mean 'enabled'?",
        ),
        ("[packs.hearth]\nenabled = 1", "config.toml:2: pack 'hearth': enabled must be"),
        ("[pack.hearth]\nenabled = true", "key 'pack' is not known; did you mean 'packs'?"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, problem: str) -> None:
    (found,) = problems(text)
    assert problem in found


@pytest.mark.parametrize("first", ["server", "pack"])
def test_a_server_by_the_name_of_a_pack_is_an_error_that_names_both(first: str) -> None:
    tables = ['[mcpServers.hearth]\ncommand = "x"', "[packs.hearth]\nenabled = true"]
    (found,) = problems("\n".join(tables if first == "server" else reversed(tables)))
    server, pack = ("1", "3") if first == "server" else ("3", "1")
    assert found.startswith(f"config.toml:{server}: server 'hearth' has the name of the pack 'hearth'")
    assert f"(config.toml:{pack})" in found


def test_a_server_may_have_the_name_of_a_pack_that_is_off() -> None:
    assert "hearth" in config_of('[mcpServers.hearth]\ncommand = "x"\n[packs.hearth]\nenabled = false').servers


def test_every_pack_has_a_module() -> None:
    for name in PACKS:
        assert callable(importlib.import_module(f"hearth.packs.{name.replace('-', '_')}").create)
