"""Grants: what fits a call, what is on disk, and files that cannot be read or written."""

import tomllib
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.policy.grants import ALWAYS, ONCE, ONCE_SECONDS, SESSION, CallGrant, GrantKey, GrantStore

KEY = GrantKey("principal", "count", "once", "definition", "digest")


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Files:
    """The two files of a store, and stores on them."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state" / "grants.json"
        self.always = folder / "approvals.toml"
        self.clock = Clock()

    def store(self) -> GrantStore:
        return GrantStore(str(self.state), str(self.always), self.clock)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def grant(scope: str = ONCE, key: GrantKey = KEY, by: str = "person", is_persons: bool = True) -> CallGrant:
    return CallGrant("a1", scope, "dev", key, by, is_persons=is_persons)


def test_a_grant_for_one_call_is_taken_once_also_by_the_next_daemon(files: Files) -> None:
    files.store().give(grant())
    store = files.store()
    assert store.take(KEY, "dev") is not None
    assert store.take(KEY, "dev") is None
    assert files.store().take(KEY, "dev") is None


def test_a_grant_for_one_call_ends_after_a_while(files: Files) -> None:
    store = files.store()
    store.give(grant())
    files.clock.time += ONCE_SECONDS + 1
    assert store.list() == []
    assert store.take(KEY, "dev") is None


@pytest.mark.parametrize("field", GrantKey._fields)
@pytest.mark.parametrize("scope", [ONCE, SESSION, ALWAYS])
def test_a_grant_fits_no_other_call(files: Files, scope: str, field: str) -> None:
    store = files.store()
    store.give(grant(scope))
    found = store.take(KEY._replace(**{field: "another"}), "dev")
    assert (found is not None) == (scope == ALWAYS and field == "principal")


@pytest.mark.parametrize("scope", [ONCE, SESSION, ALWAYS])
def test_a_grant_serves_no_other_role(files: Files, scope: str) -> None:
    store = files.store()
    store.give(grant(scope))
    assert store.take(KEY, "ops") is None
    assert store.take(KEY, "dev") is not None


def test_a_lead_s_grant_does_not_serve_where_a_person_must_decide(files: Files) -> None:
    files.store().give(grant(by="lead", is_persons=False))
    store = files.store()
    assert store.take(KEY, "dev", is_for_person=True) is None
    assert store.take(KEY, "dev") is not None


def test_a_decision_that_cannot_be_written_does_not_count_later_either(files: Files) -> None:
    store = files.store()
    files.state.parent.write_text("a file in the folder's place")
    with pytest.raises(FileAccessError):
        store.give(grant())
    with pytest.raises(FileAccessError):
        store.wait(KEY, "a1")
    files.state.parent.unlink()
    assert store.take(KEY, "dev") is None
    store.give(grant(key=KEY._replace(digest="other")))
    assert files.store().interrupted == set()


RUBBISH = (
    "[]",
    "{",
    "\0",
    '{"once": 3}',
    '{"once": [{"key": [1, 2, 3, 4, 5]}]}',
    '{"waiting": [["a"]]}',
    "[" * 200_000,
)


@pytest.mark.parametrize("text", RUBBISH, ids=range(len(RUBBISH)))
def test_a_state_file_of_rubbish_grants_nothing(files: Files, text: str) -> None:
    files.store().give(grant())
    files.state.write_text(text)
    store = files.store()
    assert store.take(KEY, "dev") is None
    assert store.interrupted == set()


@pytest.mark.parametrize("name", ["Zed 😀", "a\x7fb", 'quote " \\ and\nline', "\udc80"])
def test_names_of_any_characters_leave_the_file_readable(files: Files, name: str) -> None:
    store = files.store()
    store.give(grant(ALWAYS, by=name))
    store.give(grant(ALWAYS, KEY._replace(digest="other")))
    assert len(tomllib.loads(files.always.read_text())["always"]) == 2
    assert files.store().take(KEY, "dev") is not None


MISTAKES = ("[[always]]\nid = 1\n", "always = 3\n", "rubbish", 'always = ["x"]\n', "x = " + "[" * 200_000)


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_a_file_with_a_mistake_grants_nothing_and_is_not_overwritten(files: Files, text: str) -> None:
    files.always.write_text(text)
    store = files.store()
    assert store.take(KEY, "dev") is None
    with pytest.raises(FileAccessError, match="correct or remove it"):
        store.give(grant(ALWAYS))
    assert files.always.read_text() == text
    files.always.unlink()
    store.give(grant(ALWAYS))
    assert store.take(KEY, "dev") is not None
