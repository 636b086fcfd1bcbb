"""Whose elicitation by URL it is that a server announces as complete."""

from hearth.hub.server_messages import VISITS_LIMIT, UrlVisits
from unit.hub.stage import client, instance, server


def test_who_was_told_of_it_hears_of_its_end_once_and_nobody_else_does() -> None:
    visits, of = UrlVisits(), server()
    (_, one), (_, other) = instance(of), instance(of)
    (first, _), (second, _) = client(), client()
    visits.begun(one, "e-1", first)
    visits.begun(other, "e-1", second)
    assert visits.ended(one, "e-1") is first
    assert visits.ended(one, "e-1") is None
    assert visits.ended(other, "e-2") is None
    assert visits.ended(None, "e-1") is None
    assert visits.ended(other, "e-1") is second


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    visits, (_, connection), (member, _) = UrlVisits(), instance(server()), client()
    for number in range(VISITS_LIMIT + 1):
        visits.begun(connection, f"e-{number}", member)
    assert visits.ended(connection, "e-0") is None
    assert visits.ended(connection, "e-1") is member
    assert visits.ended(connection, f"e-{VISITS_LIMIT}") is member
