"""docs/configuration.md and the code say the same."""

import re
import tomllib
from pathlib import Path

import pytest
from config_reading import config_of

from hearth.config.model import HEARTHS_OWN_KEYS, Config, ServerSpec, pack_spec
from hearth.config.schema import PACK_KEYS, SERVER_KEYS, SETTINGS
from hearth.config.show import pack, setting_value

PAGE = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
NOT_SET = "not set"


def table(marker: str) -> dict[str, str]:
    """Key to default, as the table behind the marker has them."""
    rows = PAGE.partition(f"<!-- {marker}:")[2].partition("\n\n")[0].splitlines()[3:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows]
    assert all(len(row) == 5 and len(row[3]) > 20 for row in cells), "each key has a default and a reason"
    return {row[1].strip("`"): row[2].strip("`") for row in cells}


def value(cell: str) -> object:
    return None if cell == NOT_SET else tomllib.loads(f"x = {cell}")["x"]


def test_every_setting_is_documented_with_its_default() -> None:
    documented = {key: SETTINGS[key].check(value(cell)) for key, cell in table("settings").items()}
    assert documented == {key: setting_value(Config(), key) for key in SETTINGS}
    assert list(documented) == list(SETTINGS)


def test_every_key_of_a_server_is_documented_with_its_default() -> None:
    documented = {
        key: None if cell == NOT_SET else SERVER_KEYS[key].check(value(cell)) for key, cell in table("servers").items()
    }
    blank = ServerSpec(name="x")
    assert documented == {key: getattr(blank, key) for key in SERVER_KEYS}
    assert list(documented) == list(SERVER_KEYS)


def test_every_key_of_a_pack_is_documented_with_its_default() -> None:
    documented = {
        key: None if cell == NOT_SET else PACK_KEYS[key].check(value(cell)) for key, cell in table("packs").items()
    }
    assert documented == pack(pack_spec("x"))
    assert list(documented) == list(PACK_KEYS)


def test_the_page_tells_which_keys_a_reload_leaves_running_processes_for() -> None:
    rows = PAGE.partition("<!-- reload:")[2].partition("\n\n")[0].splitlines()
    named = {frozenset(re.findall(r"`(\w+)`", row.split("|")[1])) for row in rows if row.startswith("| ")}
    assert HEARTHS_OWN_KEYS in named
    # Every other one that is named is a setting, but for the one that means removal.
    assert frozenset().union(*named) - HEARTHS_OWN_KEYS - {"disabled"} <= set(SETTINGS)


def test_every_field_of_the_model_can_be_configured() -> None:
    assert {key.partition(".")[0] for key in SETTINGS} == {*Config.fields} - {
        "servers",
        "packs",
        "path",
        "hash",
        "warnings",
    }
    assert {*SERVER_KEYS} == {*ServerSpec.fields} - {"name"}


@pytest.mark.parametrize("language", ["toml", "json"])
def test_the_examples_are_right(language: str) -> None:
    (example,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert len(config_of(example, f"config.{language}").servers) == 2
