"""Requests that were given up: for how long a server may still be busy with them."""

import pytest

from hearth.upstreams import connection as module
from hearth.upstreams.connection import AbandonedRequests


def test_a_request_is_open_until_the_server_answers_it() -> None:
    requests = AbandonedRequests()
    assert not requests
    requests.add(4, "ann")
    requests.add(5, "bob")
    requests.add(6, "bob")
    assert requests and requests.owners() == {"ann", "bob"}
    requests.answered(4)
    requests.answered(5)
    requests.answered(7)
    assert requests.owners() == {"bob"}
    requests.answered(6)
    assert not requests


def test_a_request_is_not_remembered_for_ever() -> None:
    requests = AbandonedRequests()
    requests.add(4, "ann", 0.0)
    assert requests
    assert requests.owners() == set()
    assert not requests


def test_of_too_many_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ABANDONED_LIMIT", 2)
    requests = AbandonedRequests()
    for number in (1, 2, 3):
        requests.add(number, number)
    assert requests.owners() == {2, 3}


def test_a_server_that_will_stop_has_noticed_when_it_answers_what_was_sent_later() -> None:
    requests = AbandonedRequests()
    requests.add(4, "ann", noticed_by=6)
    requests.add(5, "bob")
    requests.answered(5 - 2)
    assert requests.owners() == {"ann", "bob"}
    requests.answered(7)
    assert requests.owners() == {"bob"}
