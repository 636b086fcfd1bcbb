"""What is kept of logins."""

from pathlib import Path

import pytest

from hearth.config import OAuthSpec, ServerSpec
from hearth.upstreams.oauth.store import Grant, Link, OAuthClient, Store, fingerprint, grant_name

SPEC = ServerSpec(name="far", url="https://mcp.example.com/mcp?key=hidden")
LINK = Link(
    server="far",
    address="https://mcp.example.com/mcp",
    issuer="https://auth.example.com",
    resource="https://mcp.example.com/mcp",
    client_id="me",
    origin="registered",
    token_endpoint="https://auth.example.com/token",
)
GRANT = Grant(access_token="aaaa", refresh_token="rrrr", scopes=("read",), obtained_at=1000.0, expires_in=600.0)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    return Store()


@pytest.mark.parametrize(
    ("now", "left", "is_due"),
    [
        (1000.0, 600.0, False),
        (1539.0, 61.0, False),
        (1540.0, 60.0, True),
        (1600.0, 0.0, True),
        (9000.0, -7400.0, True),
        # Set back a little: the other machine's clock was ahead. By more: nobody knows how old it is.
        (950.0, 650.0, False),
        (900.0, 0.0, True),
    ],
)
def test_a_token_is_due_a_minute_before_its_end_and_whenever_the_clock_makes_no_sense(
    now: float, left: float, is_due: bool
) -> None:
    assert (GRANT.left(now), GRANT.is_due(now)) == (left, is_due)


def test_a_short_token_is_due_after_three_quarters_of_its_life_and_one_without_an_end_never() -> None:
    short = GRANT.replace(expires_in=20.0)
    assert (short.is_due(1014.0), short.is_due(1015.0)) == (False, True)
    endless = GRANT.replace(expires_in=None)
    assert not endless.is_due(1e12) and endless.expires_at is None


def test_nothing_that_is_secret_is_shown_by_its_repr() -> None:
    client = OAuthClient(client_id="me", client_secret="ssss")
    assert "aaaa" not in repr(GRANT) and "rrrr" not in repr(GRANT) and "ssss" not in repr(client)


def test_tokens_are_kept_by_issuer_resource_and_client(store: Store) -> None:
    store.put_link(SPEC, LINK)
    store.put_grant(LINK, GRANT)
    assert store.grant(LINK) == GRANT
    for change in ({"issuer": "https://x.example"}, {"resource": "https://x.example"}, {"client_id": "you"}):
        assert store.grant(LINK.replace(**change)) is None
    assert grant_name(LINK) == grant_name(LINK.replace(server="other", wanted=("write",)))
    found = store.link(SPEC)
    assert found and found.logged_in and found.renews and (found.expires_at, found.granted) == (1600.0, ("read",))
    assert "hidden" not in Path(store.path).read_text()


def test_a_login_is_found_by_the_address_and_the_client_that_is_configured() -> None:
    assert fingerprint(SPEC) == fingerprint(SPEC.replace(name="other"))
    assert fingerprint(SPEC) != fingerprint(SPEC.replace(url="https://mcp.example.com/mcp"))
    assert fingerprint(SPEC) != fingerprint(SPEC.replace(oauth=OAuthSpec(client_id="me")))


def test_what_changes_for_one_server_changes_for_all_with_its_login(store: Store) -> None:
    other = SPEC.replace(name="other", url="https://mcp.example.com/mcp?key=another")
    third = SPEC.replace(url="https://mcp.example.com/third")
    store.put_link(SPEC, LINK)
    store.put_link(other, LINK.replace(server="other"))
    store.put_link(third, LINK.replace(resource="https://mcp.example.com/third"))
    before = store.signature()
    store.update(LINK, wanted=("write",))
    found = [store.link(spec) for spec in (SPEC, other, third)]
    assert [link and link.wanted for link in found] == [("write",), ("write",), ()]
    assert store.signature() != before


def test_dropped_tokens_leave_the_way_to_another_login(store: Store) -> None:
    store.put_link(SPEC, LINK)
    store.put_grant(LINK, GRANT)
    assert store.drop_grant(LINK) and not store.drop_grant(LINK)
    found = store.link(SPEC)
    assert found and not found.logged_in and store.grant(LINK) is None


def test_a_registration_is_kept_by_its_issuer(store: Store) -> None:
    client = OAuthClient(client_id="me", client_secret="ssss", method="client_secret_post", scopes=("read",))
    store.put_client(LINK.issuer, client)
    assert store.client(LINK.issuer) == client and store.client("https://x.example") is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"version": 2, "servers": {}}', '{"version": 1, "servers": [1]}',
     '{"version": 1, "servers": {"x": {"server": 7}, "y": [], "z": {"server": "s"}}}', "[" * 100000],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_none_and_is_replaced(store: Store, text: str) -> None:
    Path(store.path).parent.mkdir(parents=True)
    Path(store.path).write_text(text)
    assert store.links() == {}
    store.put_link(SPEC, LINK)
    assert store.link(SPEC) == LINK
