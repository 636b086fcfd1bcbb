"""Any client on any server: every feature between every two revisions, over every wire, with one test body.

The page docs/matrix.md is what the run found: HEARTH_WRITE_MATRIX=1 (`make matrix`) writes it, and otherwise a run that
finds something else fails.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.conformance import table
from support.conformance.expectations import expected
from support.conformance.features import FEATURES, tried
from support.conformance.revisions import REVISIONS
from support.conformance.stage import WIRES, Stage
from support.daemon import Scratch

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Scratch() as scratch:
        opened = Stage(scratch)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def found() -> dict[table.Cell, str]:
    """What the run finds, by both wires: they agree, because both are what is expected."""
    return {}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("client", REVISIONS)
def test_a_client_of_each_revision_is_offered_the_full_set(stage: Stage, client: str, wire: str) -> None:
    offered = stage.client(client, wire).server["capabilities"]
    assert set(offered) == {"tools", "resources", "prompts", "logging", "completions"}
    assert offered["resources"]["subscribe"] is True
    assert all(offered[name]["listChanged"] is True for name in ("tools", "resources", "prompts"))


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("upstream", REVISIONS)
@pytest.mark.parametrize("client", REVISIONS)
@pytest.mark.parametrize("wire", WIRES)
def test_any_client_on_any_server(
    stage: Stage, found: dict[table.Cell, str], wire: str, client: str, upstream: str, feature: str
) -> None:
    try:
        outcome = tried(feature, stage.desk(client, upstream, wire))
    except BaseException:
        stage.dismiss(client, wire)
        raise
    assert outcome == expected(feature, client, upstream)
    found[client, upstream, feature] = outcome


def test_no_server_was_told_what_its_revision_does_not_know(stage: Stage) -> None:
    assert stage.complaints() == ""


def test_the_page_says_what_the_run_found(found: dict[table.Cell, str]) -> None:
    if os.environ.get("HEARTH_WRITE_MATRIX"):
        PAGE.write_text(table.rendered(found))
    page = PAGE.read_text()
    said = table.read(page)
    assert {cell: said[cell] for cell in found} == found
    if len(found) == len(said):
        assert page == table.rendered(found)
