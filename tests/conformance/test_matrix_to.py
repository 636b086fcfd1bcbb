"""Any client on any server through `hearth bridge --to`: every feature between every two revisions, over HTTP."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.conformance.clients import Client, client_of
from support.conformance.expectations import expected
from support.conformance.features import FEATURES, Desk, tried
from support.conformance.revision_site import RevisionSite
from support.conformance.revisions import REVISIONS
from support.conformance.wires import Child
from support.daemon import Scratch


@pytest.fixture(scope="module")
def scratch() -> Iterator[Scratch]:
    """One daemon without a server in its config."""
    with Scratch() as opened:
        opened.configure()
        opened.start()
        yield opened


@pytest.fixture(scope="module")
def sites() -> Iterator[dict[str, RevisionSite]]:
    """A server of each revision."""
    with ExitStack() as stack:
        yield {revision: stack.enter_context(RevisionSite(revision)) for revision in REVISIONS}


@pytest.mark.parametrize("upstream", REVISIONS)
@pytest.mark.parametrize("client", REVISIONS)
def test_any_client_on_any_server_through_a_bridge_with_a_target(
    scratch: Scratch, sites: dict[str, RevisionSite], client: str, upstream: str
) -> None:
    opened: list[Client] = []
    for bare in (False, True):
        name = f"{'bare-' if bare else ''}{client}-{upstream}"
        folder = scratch.home / name
        folder.mkdir()
        wire = Child(folder, scratch.environment(), "--to", f"{sites[upstream].url}/{name}")
        opened.append(client_of(wire, client, name, bare))
        opened[-1].open()
    try:
        desk = Desk(opened[0], opened[1], upstream)
        found = {feature: tried(feature, desk) for feature in FEATURES}
        assert found == {feature: expected(feature, client, upstream) for feature in FEATURES}
    finally:
        for each in opened:
            each.close()
