"""What everybody who wants the same at the same time shares, and what nobody waits for."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth import masking
from hearth.config import ServerSpec
from hearth.errors import LoginRequired, UpstreamError, VaultError
from hearth.upstreams import threads
from hearth.upstreams.oauth import account as accounts
from hearth.upstreams.oauth import tokens
from hearth.upstreams.oauth.account import Account, required
from hearth.upstreams.oauth.store import Grant, Link, Store
from hearth.upstreams.threads import SingleFlight

SPEC = ServerSpec(name="far", url="https://mcp.example.com/mcp")
LINK = Link(
    server="far",
    address="https://mcp.example.com/mcp",
    issuer="https://auth.example.com",
    resource="https://mcp.example.com/mcp",
    client_id="me",
    origin="registered",
    token_endpoint="https://auth.example.com/token",
)


def tokens_of(name: str, left: float = 3600.0) -> Grant:
    """Tokens that are good for so long yet."""
    return Grant(
        access_token=f"access-{name}",
        refresh_token=f"refresh-{name}",
        obtained_at=time.time() + left - 3600,
        expires_in=3600.0,
    )


class Fragile(Store):
    """Nothing can be kept in it while it is broken."""

    is_broken = False

    def put_grant(self, link: Link, grant: Grant) -> str:
        if self.is_broken:
            raise VaultError("the disk is full")
        return super().put_grant(link, grant)


class Authority:
    """An authorization server: says what it is told to, and notes the refresh tokens that were shown to it."""

    def __init__(self) -> None:
        self.says: Callable[[], Grant] = lambda: tokens_of("refreshed")
        self.shown: list[str | None] = []

    async def refresh(self, web: object, endpoint: str, client: object, former: Grant, resource: str) -> Grant:
        self.shown.append(former.refresh_token)
        return self.says()

    def deny(self, code: str) -> None:
        def denied() -> Grant:
            raise tokens.Denied(f"it gave no token: {code}", code)

        self.says = denied


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fragile:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    found = Fragile()
    found.put_link(SPEC, LINK)
    return found


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch) -> Authority:
    found = Authority()
    monkeypatch.setattr(tokens, "refresh", found.refresh)
    return found


async def test_one_run_serves_everybody_who_came_while_it_went_on_and_survives_who_leaves() -> None:
    flight: SingleFlight[int] = SingleFlight()
    gate = asyncio.Event()
    runs = 0

    async def work() -> int:
        nonlocal runs
        runs += 1
        await gate.wait()
        return runs

    first = asyncio.create_task(flight.join(work))
    others = [asyncio.create_task(flight.join(work)) for _ in range(9)]
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.set()
    assert await asyncio.gather(*others) == [1] * 9
    assert await flight.join(work) == 2


async def test_a_run_that_fails_fails_for_everybody_and_the_next_is_another() -> None:
    flight: SingleFlight[int] = SingleFlight()

    async def fail() -> int:
        raise ValueError("no")

    async def succeed() -> int:
        return 7

    found = await asyncio.gather(*(flight.join(fail) for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in found] == ["no"] * 3
    assert await flight.join(succeed) == 7


def test_the_error_has_the_command_to_type() -> None:
    problem = required("my server", "needs a login")
    assert str(problem) == "server 'my server' needs a login: type `hearth auth login 'my server'`"
    assert problem.server == "my server"


def test_a_daemon_may_end_while_the_keyring_waits_for_its_person() -> None:
    asked, unlocked, told = threading.Event(), threading.Event(), threading.Event()

    class Locked(Store):
        def signature(self) -> tuple[int, int]:
            return 1, 1

        def link(self, spec: ServerSpec) -> Link | None:
            asked.set()
            unlocked.wait(10)
            told.set()
            return None

    async def body() -> None:
        account = Account(ServerSpec(name="s", url="https://example.com/mcp"), Locked())
        waiting = asyncio.create_task(account.authorization())
        await threads.run(asked.wait)
        waiting.cancel()

    # A loop of its own, because its end is tested.
    asyncio.run(body())
    assert not told.is_set()
    unlocked.set()
    assert told.wait(60)


# --- an authorization server that refuses for a reason that ends no login


async def test_a_token_that_is_still_good_is_used_when_its_refresh_is_refused_and_not_asked_for_by_each_call(
    store: Fragile, authority: Authority
) -> None:
    authority.deny("invalid_request")
    store.put_grant(LINK, tokens_of("former", left=30))
    account = Account(SPEC, store)
    for _ in range(3):
        assert await account.authorization() == "Bearer access-former"
    # Refused by the server as well, it is not asked for either.
    assert not await account.refused(401, "Bearer", "Bearer access-former")
    assert authority.shown == ["refresh-former"]
    assert store.grant(LINK) is not None


async def test_a_refresh_that_is_refused_after_the_token_s_end_is_an_error_that_is_not_asked_for_by_each_call(
    store: Fragile, authority: Authority
) -> None:
    authority.deny("invalid_request")
    store.put_grant(LINK, tokens_of("former", left=-1))
    account = Account(SPEC, store)
    for _ in range(3):
        with pytest.raises(UpstreamError, match=r"cannot be refreshed.*invalid_request"):
            await account.authorization()
    assert authority.shown == ["refresh-former"]
    # Whoever logs in meanwhile does not wait for anything.
    store.put_grant(LINK, tokens_of("new", left=-1))
    authority.says = lambda: tokens_of("refreshed")
    assert await account.authorization() == "Bearer access-refreshed"


async def test_after_the_pause_it_is_asked_again(
    store: Fragile, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "PAUSE_SECONDS", 0.0)
    authority.deny("invalid_request")
    store.put_grant(LINK, tokens_of("former", left=30))
    account = Account(SPEC, store)
    assert await account.authorization() == "Bearer access-former"
    authority.says = lambda: tokens_of("refreshed")
    assert await account.authorization() == "Bearer access-refreshed"


async def test_a_refusal_that_ends_the_login_ends_it_while_the_token_is_still_good(
    store: Fragile, authority: Authority
) -> None:
    authority.deny("invalid_grant")
    store.put_grant(LINK, tokens_of("former", left=30))
    with pytest.raises(LoginRequired, match="hearth auth login far"):
        await Account(SPEC, store).authorization()
    assert store.grant(LINK) is None


# --- tokens that cannot be kept


async def with_unsaved_tokens(store: Fragile) -> Account:
    """An account that alone knows its tokens: the vault has those of before."""
    store.put_grant(LINK, tokens_of("former", left=-1))
    store.is_broken = True
    account = Account(SPEC, store)
    assert await account.authorization() == "Bearer access-refreshed"
    store.is_broken = False
    kept = store.grant(LINK)
    assert kept and kept.access_token == "access-former"
    return account


async def test_a_login_elsewhere_is_taken_while_refreshed_tokens_could_not_be_kept(
    store: Fragile, authority: Authority
) -> None:
    account = await with_unsaved_tokens(store)
    store.put_grant(LINK, tokens_of("new"))
    assert await account.authorization() == "Bearer access-new"
    assert authority.shown == ["refresh-former"]


async def test_a_logout_elsewhere_is_noticed_while_refreshed_tokens_could_not_be_kept(
    store: Fragile, authority: Authority
) -> None:
    account = await with_unsaved_tokens(store)
    store.drop_grant(LINK)
    assert await account.authorization() is None


async def test_a_login_to_another_server_does_not_bring_back_tokens_that_are_spent(
    store: Fragile, authority: Authority
) -> None:
    account = await with_unsaved_tokens(store)
    other = LINK.replace(resource="https://other.example.com/mcp")
    store.put_link(SPEC.replace(name="other", url="https://other.example.com/mcp"), other)
    store.put_grant(other, tokens_of("other"))
    assert await account.authorization() == "Bearer access-refreshed"
    # The next refresh is with what only this daemon has, and is kept.
    authority.says = lambda: tokens_of("second")
    assert await account.refused(401, "Bearer", "Bearer access-refreshed")
    assert await account.authorization() == "Bearer access-second"
    assert authority.shown == ["refresh-former", "refresh-refreshed"]
    kept = store.grant(LINK)
    assert kept and kept.access_token == "access-second"


async def test_a_login_at_another_issuer_while_waiting_for_the_lock_is_used_as_it_is(
    store: Fragile, authority: Authority
) -> None:
    authority.says = lambda: tokens_of("refreshed", left=30)
    account = await with_unsaved_tokens(store)
    lock = store.lock(accounts.grant_name(LINK))
    assert lock.acquire(blocking=False)
    waiting = asyncio.create_task(account.authorization())
    await asyncio.sleep(0)
    elsewhere = LINK.replace(issuer="https://elsewhere.example.com")
    store.put_link(SPEC, elsewhere)
    store.put_grant(elsewhere, tokens_of("new", left=30))
    lock.release()
    assert await waiting == "Bearer access-new"
    assert authority.shown == ["refresh-former"]


# --- what is hidden


async def test_tokens_that_another_daemon_has_refreshed_are_hidden_too(store: Fragile, authority: Authority) -> None:
    store.put_grant(LINK, tokens_of("former", left=30))

    class Late(Store):
        def signature(self) -> tuple[int, int]:
            return 1, 1

    authority.deny("invalid_request")
    account = Account(SPEC, Late())
    assert await account.authorization() == "Bearer access-former"
    store.put_grant(LINK, tokens_of("another"))
    assert masking.everywhere("access-another, refresh-another.") == "access-another, refresh-another."
    assert await account.refused(401, "Bearer", "Bearer access-former")
    assert masking.everywhere("access-another, refresh-another.") == "***, ***."
    assert authority.shown == ["refresh-former"]
