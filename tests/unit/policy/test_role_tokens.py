"""Role tokens: issued once, stored as hashes, refused when unknown, expired or revoked."""

import errno
import json
import os
import stat
import time
from pathlib import Path

import pytest

from hearth.errors import FileAccessError, Refused, RoleRefused
from hearth.host import private_files
from hearth.policy import role_tokens
from hearth.policy.role_tokens import RoleTokens, token_id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "roles" / "mcp" / "tokens.json"


@pytest.fixture
def tokens(path: Path) -> RoleTokens:
    return RoleTokens(str(path))


def refused(tokens: RoleTokens, token: str) -> RoleRefused:
    with pytest.raises(RoleRefused) as caught:
        tokens.check(token)
    return caught.value


def test_a_token_shows_its_role_and_its_agent(tokens: RoleTokens) -> None:
    token = tokens.issue("tl", agent_id="lead-1")
    holder = tokens.check(token)
    assert (holder.role, holder.agent_id, holder.token_id) == ("tl", "lead-1", token_id(token))
    assert tokens.check(tokens.issue("dev")).agent_id is None


def test_the_file_is_private_and_has_no_token_in_it(tokens: RoleTokens, path: Path) -> None:
    token = tokens.issue("tl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert token not in path.read_text()
    assert token.removeprefix(role_tokens.PREFIX) not in path.read_text()


def test_every_token_is_another(tokens: RoleTokens) -> None:
    assert len({tokens.issue("dev") for _ in range(20)}) == 20
    assert len({each.id for each in tokens.list()}) == 20


def test_a_running_daemon_sees_tokens_that_the_command_line_issues_and_revokes(path: Path, tokens: RoleTokens) -> None:
    daemon = RoleTokens(str(path))
    assert refused(daemon, "hearth-role-x").cause == "unknown"
    token = tokens.issue("dev")
    assert daemon.check(token).role == "dev"
    tokens.revoke(token_id(token))
    assert refused(daemon, token).cause == "revoked"


@pytest.mark.parametrize("forged", ["", "x", "hearth-role-" + "A" * 43, "x" * 10_000, "\ud800", "\0", "nüchtern"])
def test_a_forged_token_is_unknown(tokens: RoleTokens, forged: str) -> None:
    tokens.issue("tl")
    error = refused(tokens, forged)
    assert error.cause == "unknown"
    assert "hearth role token" in str(error)


def test_a_changed_character_makes_a_token_unknown(tokens: RoleTokens) -> None:
    token = tokens.issue("tl")
    assert refused(tokens, token[:-1]).cause == "unknown"
    assert refused(tokens, token + " ").cause == "unknown"
    assert refused(tokens, token.swapcase()).cause == "unknown"


def test_a_token_expires(tokens: RoleTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens.issue("dev", expires_in=60)
    assert tokens.check(token).role == "dev"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    error = refused(tokens, token)
    assert error.cause == "expired"
    assert "expired at" in str(error)
    assert error.exit_code == 5


def test_ended_tokens_are_told_by_their_ids(tokens: RoleTokens, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, short, revoked = tokens.issue("tl"), tokens.issue("tl", None, 60), tokens.issue("tl")
    ids = {token_id(each) for each in (good, short, revoked)}
    assert tokens.ended(ids) == set()
    tokens.revoke(token_id(revoked))
    assert tokens.ended({*ids, "0" * 12}) == {token_id(revoked), "0" * 12}
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert tokens.ended(ids) == {token_id(revoked), token_id(short)}
    path.write_text("[")
    assert tokens.ended(ids) == ids


def test_a_file_that_cannot_be_read_for_a_while_ends_no_token(
    path: Path, tokens: RoleTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tokens.issue("tl")
    daemon = RoleTokens(str(path))

    def too_many(*_: object) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(private_files, "read", too_many)
        assert daemon.ended({token_id(token)}) == set()
        assert refused(daemon, token).cause == "unreadable"
    assert daemon.check(token).role == "tl"
    assert daemon.ended({token_id(token), "0" * 12}) == {"0" * 12}


def test_a_token_is_revoked_by_the_beginning_of_its_id_and_stays_so(tokens: RoleTokens) -> None:
    token, other = tokens.issue("dev"), tokens.issue("dev")
    first = tokens.revoke(token_id(token)[:8])
    assert refused(tokens, token).cause == "revoked"
    assert tokens.check(other).role == "dev"
    assert tokens.revoke(token_id(token)).revoked == first.revoked


@pytest.mark.parametrize("id", ["", "zz", "0" * 70, "../x"])
def test_an_id_that_no_token_has_is_refused(tokens: RoleTokens, id: str) -> None:
    tokens.issue("dev")
    with pytest.raises(Refused, match="role list"):
        tokens.revoke(id)


def test_the_beginning_of_several_ids_is_refused(tokens: RoleTokens) -> None:
    for _ in range(17):
        tokens.issue("dev")
    initials = [each.id[0] for each in tokens.list()]
    (twice, *_) = [each for each in initials if initials.count(each) > 1]
    with pytest.raises(Refused, match="several"):
        tokens.revoke(twice)


@pytest.mark.parametrize("content", ["{", "[]", "null", '{"version": 2, "tokens": []}', '{"version": 1}',
                                     '{"version": 1, "tokens": [{"hash": 3}]}', "[" * 100_000])  # fmt: skip
def test_a_file_that_makes_no_sense_accepts_no_token_and_is_not_overwritten(
    tokens: RoleTokens, path: Path, content: str
) -> None:
    token = tokens.issue("dev")
    path.write_text(content)
    assert refused(tokens, token).cause == "unreadable"
    with pytest.raises(FileAccessError, match="move it away"):
        tokens.issue("dev")
    assert path.read_text() == content


def test_a_token_of_the_wrong_types_makes_the_file_unreadable(tokens: RoleTokens, path: Path) -> None:
    token = tokens.issue("dev")
    tree = json.loads(path.read_text())
    tree["tokens"][0]["expires"] = "tomorrow"
    path.write_text(json.dumps(tree))
    assert refused(tokens, token).cause == "unreadable"


def test_a_named_pipe_or_a_huge_file_in_place_of_the_file_is_refused(tokens: RoleTokens, path: Path) -> None:
    token = tokens.issue("dev")
    path.unlink()
    os.mkfifo(path)
    assert refused(tokens, token).cause == "unreadable"
    path.unlink()
    path.write_bytes(b" " * (role_tokens.FILE_LIMIT_BYTES + 1))
    assert refused(tokens, token).cause == "unreadable"


def test_ended_tokens_are_listed_for_a_month_and_then_dropped(
    tokens: RoleTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens.revoke(token_id(tokens.issue("old")))
    tokens.issue("lasting")
    assert [each.role for each in tokens.list()] == ["old", "lasting"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + role_tokens.ENDED_SECONDS + 1)
    tokens.issue("new")
    assert [each.role for each in tokens.list()] == ["lasting", "new"]


def test_there_is_a_limit_to_the_number_of_tokens(tokens: RoleTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_tokens, "TOKENS_LIMIT", 2)
    tokens.issue("a")
    tokens.issue("b")
    with pytest.raises(Refused, match="hearth role revoke"):
        tokens.issue("c")


def test_names_have_a_limit(tokens: RoleTokens) -> None:
    with pytest.raises(Refused, match="shorten"):
        tokens.issue("r" * 201)
    with pytest.raises(Refused, match="shorten"):
        tokens.issue("dev", label="l" * 201)
