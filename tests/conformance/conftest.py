"""What the tests of corners share."""

from collections.abc import Iterator

import pytest

from support.conformance.edge_case_calls import NEWEST_LEGACY
from support.conformance.edge_cases import Corner
from support.conformance.revisions import MODERN
from support.daemon import Scratch


@pytest.fixture
def corner() -> Iterator[Corner]:
    """A daemon between clients and servers of any era, which do what the test says."""
    with Scratch() as scratch:
        opened = Corner(scratch)
        yield opened
        opened.close()


@pytest.fixture(params=[NEWEST_LEGACY, MODERN])
def revision(request: pytest.FixtureRequest) -> str:
    """Name the revision of a client: the newest of each era in turn."""
    return request.param
