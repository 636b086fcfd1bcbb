"""The packages whose inner workings Hearth relies on are taken in versions that were tried."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize("name", ["httptools", "starlette", "uvicorn"])
def test_a_version_that_nobody_has_tried_is_not_taken(name: str) -> None:
    needed = map(Requirement, tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"])
    [found] = [each.specifier for each in needed if each.name == name]
    assert found.contains(version(name))
    assert {each.operator for each in found} == {">=", "<"}
