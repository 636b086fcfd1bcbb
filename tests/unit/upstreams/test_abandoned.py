"""Requests that were given up: for how long a server may still be busy with them."""

import pytest

from hearth.upstreams import abandoned
from hearth.upstreams.abandoned import AbandonedRequests


@pytest.mark.parametrize("is_modern", [True, False])
def test_a_request_is_open_until_the_server_answers_it(is_modern: bool) -> None:
    requests = AbandonedRequests()
    assert not requests
    requests.add(4, "ann", 6)
    requests.add(5, "bob", 6)
    assert requests and requests.owners(is_modern) == {"ann", "bob"}
    requests.answered(4)
    assert requests.owners(is_modern) == {"bob"}


def test_a_modern_server_that_answers_what_came_later_is_done_with_it_and_a_legacy_one_may_not_be() -> None:
    requests = AbandonedRequests()
    requests.add(4, "ann", 6)
    requests.answered(5)
    assert requests.owners(is_modern=True) == {"ann"}
    requests.answered(6)
    assert requests.owners(is_modern=True) == set()
    assert requests.owners(is_modern=False) == {"ann"}


def test_a_request_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = AbandonedRequests()
    requests.add(4, "ann", 6)
    monkeypatch.setattr(abandoned, "ABANDONED_SECONDS", 0.0)
    assert requests.owners(is_modern=False) == set()
    assert not requests


def test_of_too_many_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandoned, "ABANDONED_LIMIT", 2)
    requests = AbandonedRequests()
    for number in (1, 2, 3):
        requests.add(number, number, 4)
    assert requests.owners(is_modern=False) == {2, 3}
