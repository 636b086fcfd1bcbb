"""Where clients work, as far as servers that are shared by place have to know."""

from pathlib import Path

import pytest

from hearth.upstreams.client_context import ClientContext, Location, locate
from hearth.wire import json

HERE, THERE = b'{"uri":"file:///here"}', b'{"uri":"file:///there"}'


def test_clients_of_the_same_folder_work_in_the_same_place() -> None:
    assert ClientContext("1", cwd="/here").workspace == ClientContext("2", cwd="/here").workspace
    assert ClientContext("1", cwd="/here").workspace != ClientContext("1", cwd="/there").workspace


def test_roots_count_before_the_folder_and_in_any_order() -> None:
    one = ClientContext("1", cwd="/a", roots=(HERE, THERE))
    assert one.workspace == ClientContext("2", cwd="/b", roots=(THERE, HERE)).workspace
    assert one.workspace != ClientContext("1", cwd="/a", roots=(HERE,)).workspace
    assert one.workspace != ClientContext("1", cwd="/a").workspace


def test_a_client_without_roots_is_told_from_one_that_cannot_list_any() -> None:
    assert ClientContext("1", cwd="/here", roots=()).workspace == ClientContext("2", cwd="/here", roots=()).workspace
    assert ClientContext("1", cwd="/here", roots=()).workspace != ClientContext("2", cwd="/here").workspace


@pytest.mark.parametrize(
    "root",
    [
        {"uri": "file:///home/my project"},
        {"uri": "file:///home/my%20project", "name": "mine"},
        {"uri": "file:///home/my%20project/", "_meta": {"x": 1}},
        {"uri": "FILE://localhost/home/./other/../my%20project"},
    ],
)
def test_a_folder_is_one_workspace_however_its_clients_write_it(root: dict[str, object]) -> None:
    assert (
        ClientContext("1", roots=(json.dumps(root),)).workspace == ClientContext("2", cwd="/home/my project").workspace
    )
    twice = (json.dumps(root), b'{"uri":"file:///home/my%20project"}')
    assert ClientContext("1", roots=twice).workspace == ClientContext("2", cwd="/home/my project").workspace


def test_a_uri_that_names_no_folder_of_this_machine_counts_as_its_text() -> None:
    texts = ["untitled:a", "file://host/a", "https://x/a%20b", "file:", "file:///a%00b", "https://x/a b"]
    assert {ClientContext("1", roots=(json.dumps({"uri": text}),)).workspace for text in texts} == set(texts)
    # A root that has none counts as it is.
    assert ClientContext("1", roots=(b'{"name":"x"}',)).workspace == '{"name":"x"}'


def test_folders_are_told_apart_from_one_whose_name_looks_like_several() -> None:
    several = ClientContext("1", roots=(HERE, THERE))
    assert several.workspace == '["/here","/there"]'
    assert several.workspace != ClientContext("1", cwd="/here /there").workspace


def test_links_are_followed_on_the_disk_and_the_process_runs_in_the_first_folder_that_is_there(tmp_path: Path) -> None:
    real, link, other = tmp_path / "b", tmp_path / "link", tmp_path / "a"
    real.mkdir()
    link.symlink_to(real)
    roots = tuple(json.dumps({"uri": path.as_uri()}) for path in (link, other))
    found = locate(roots, "/elsewhere")
    assert found == Location((str(other), str(real)), str(real))
    tenant = ClientContext("1", cwd="/elsewhere", roots=roots, location=found)
    assert (tenant.folder, tenant.workspace) == (str(real), json.dumps([str(other), str(real)]).decode())
    assert locate(None, str(link)) == Location((str(real),), str(real))
    # With no folder that is there, in the working directory; a relative one is the client's to resolve.
    assert locate((HERE,), "/elsewhere") == Location(("/here",), "/elsewhere")
    assert locate((), "/elsewhere") == Location((), "/elsewhere")
    assert locate(None, "relative") == Location(("relative",), "relative")
    assert locate(None, None) == Location((), None)


def test_a_client_that_works_nowhere_shares_with_nobody() -> None:
    assert ClientContext("1").workspace != ClientContext("2").workspace
    assert ClientContext("1").workspace == ClientContext("1").workspace


def test_the_roots_of_a_place_are_those_of_its_client_as_it_wrote_them() -> None:
    assert ClientContext("1", cwd="/a", roots=(THERE, HERE)).root_list() == b'{"roots":[%b,%b]}' % (THERE, HERE)
    # What the client said counts: its folder is not opened to a server against its word.
    assert json.loads(ClientContext("1", cwd="/a", roots=()).root_list()) == {"roots": []}


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
    assert json.loads(ClientContext("1", cwd=cwd).root_list()) == {"roots": roots}
