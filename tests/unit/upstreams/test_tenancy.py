"""Where clients work, as far as servers that are shared by place have to know."""

import pytest

from hearth.upstreams.tenancy import Tenant
from hearth.wire import json

HERE, THERE = b'{"uri":"file:///here"}', b'{"uri":"file:///there"}'


def test_clients_of_the_same_folder_work_in_the_same_place() -> None:
    assert Tenant("1", cwd="/here").workspace == Tenant("2", cwd="/here").workspace
    assert Tenant("1", cwd="/here").workspace != Tenant("1", cwd="/there").workspace


def test_roots_count_before_the_folder_and_in_any_order() -> None:
    one = Tenant("1", cwd="/a", roots=(HERE, THERE))
    assert one.workspace == Tenant("2", cwd="/b", roots=(THERE, HERE)).workspace
    assert one.workspace != Tenant("1", cwd="/a", roots=(HERE,)).workspace
    assert one.workspace != Tenant("1", cwd="/a").workspace


def test_a_client_without_roots_is_told_from_one_that_cannot_list_any() -> None:
    assert Tenant("1", cwd="/here", roots=()).workspace == Tenant("2", cwd="/here", roots=()).workspace
    assert Tenant("1", cwd="/here", roots=()).workspace != Tenant("2", cwd="/here").workspace


def test_a_client_that_works_nowhere_shares_with_nobody() -> None:
    assert Tenant("1").workspace != Tenant("2").workspace
    assert Tenant("1").workspace == Tenant("1").workspace


def test_the_roots_of_a_place_are_those_of_its_client_as_it_wrote_them() -> None:
    assert Tenant("1", cwd="/a", roots=(THERE, HERE)).root_list() == b'{"roots":[%b,%b]}' % (THERE, HERE)
    # What the client said counts: its folder is not opened to a server against its word.
    assert json.loads(Tenant("1", cwd="/a", roots=()).root_list()) == {"roots": []}


@pytest.mark.parametrize(
    ("cwd", "roots"),
    [
        ("/home/me/my project", [{"uri": "file:///home/me/my%20project", "name": "my project"}]),
        ("/", [{"uri": "file:///", "name": "/"}]),
        ("relative", []),
        ("", []),
        (None, []),
    ],
)
def test_the_root_of_a_client_that_lists_none_is_its_folder(cwd: str | None, roots: list[object]) -> None:
    assert json.loads(Tenant("1", cwd=cwd).root_list()) == {"roots": roots}
