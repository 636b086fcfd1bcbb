"""Tokens that end while servers are used: refreshed by one for all, and what is said when they cannot be."""

import json
import threading
from collections.abc import Iterator

import pytest

from support.clients import LinesClient, text_of
from support.daemon import Scratch, server
from support.oauth import KEYRING, Authority, hearth, log_in

VALUES = ".local/state/hearth/vault/oauth.values.json"
LOGIN = "hearth auth login far"


@pytest.fixture
def authority(scratch: Scratch) -> Iterator[Authority]:
    """An authorization server where `far` is logged in to."""
    with Authority() as opened:
        scratch.configure({"far": {"url": opened.url}})
        code, _, err = log_in(scratch, "far")
        assert code == 0, err
        yield opened


def client(scratch: Scratch) -> LinesClient:
    return scratch.lines().initialized()


def served(scratch: Scratch) -> LinesClient:
    """A client of a new daemon, whose first call was answered."""
    scratch.start(**KEYRING)
    found = client(scratch)
    assert text_of(found.call("far__echo", text="x")) == "x"
    return found


def error(found: LinesClient, tool: str = "far__echo") -> str:
    return str(found.call(tool, text="x")["error"]["message"])


def kept(scratch: Scratch) -> dict[str, object]:
    """The tokens as they are kept."""
    values = json.loads((scratch.home / VALUES).read_text())["entries"]
    (grant,) = [json.loads(value) for name, value in values.items() if name.startswith("grant-")]
    return dict(grant)


def in_parallel(clients: list[LinesClient]) -> list[str]:
    """What each gets for a call of its own, all at once."""
    said: list[str] = [""] * len(clients)
    gate = threading.Barrier(len(clients))

    def call(number: int) -> None:
        gate.wait()
        said[number] = text_of(clients[number].call("far__echo", text=str(number)))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def test_ten_clients_at_a_token_that_is_refused_cause_one_refresh(
    scratch: Scratch, authority: Authority, era: str
) -> None:
    scratch.configure({"far": {"url": authority.url, "era": era, "isolation": "session"}})
    scratch.start(**KEYRING)
    clients = [client(scratch) for _ in range(10)]
    for each in clients:
        assert text_of(each.call("far__echo", text="x")) == "x"
    assert authority.count("refresh") == 0
    authority.set(end_access=True, slow=0.2)
    assert in_parallel(clients) == [str(number) for number in range(10)]
    assert (authority.count("refresh"), authority.count("reuse")) == (1, 0)


def test_ten_clients_at_a_token_that_has_expired_cause_one_refresh(scratch: Scratch, authority: Authority) -> None:
    scratch.start(**KEYRING)
    clients = [client(scratch) for _ in range(10)]
    assert text_of(clients[0].call("far__echo", text="x")) == "x"
    # By the clock: nobody has to be refused first.
    _age(scratch, 3600)
    refused = authority.count("401")
    authority.set(slow=0.2)
    assert in_parallel(clients) == [str(number) for number in range(10)]
    assert (authority.count("refresh"), authority.count("401") - refused) == (1, 0)


def _age(scratch: Scratch, seconds: float) -> None:
    """Let the kept tokens be older than they are, as a clock that jumps does."""
    path = scratch.home / VALUES
    document = json.loads(path.read_text())
    values = document["entries"]
    for name, value in values.items():
        if name.startswith("grant-"):
            grant = json.loads(value)
            values[name] = json.dumps({**grant, "obtained_at": grant["obtained_at"] - seconds})
    path.write_text(json.dumps(document))
    index = scratch.home / ".local/state/hearth/oauth/servers.json"
    # Replaced, as Hearth does it.
    temporary = index.with_suffix(".new")
    temporary.write_bytes(index.read_bytes())
    temporary.chmod(0o600)
    temporary.rename(index)


def test_two_daemons_and_their_clients_cause_one_refresh(scratch: Scratch, authority: Authority) -> None:
    other_config = scratch.home / "other.toml"
    other_config.write_text(scratch.config.read_text())
    scratch.start(**KEYRING)
    scratch.start("--config", str(other_config), **KEYRING)
    (socket,) = [str(path) for path in (scratch.runtime / "mcp").glob("*.sock") if path.name != "mcp.sock"]
    others = [scratch.own(LinesClient(socket)) for _ in range(3)]
    for each in others:
        each.initialize()
    clients = [*(client(scratch) for _ in range(3)), *others]
    for each in clients:
        assert text_of(each.call("far__echo", text="x")) == "x"
    authority.set(end_access=True, slow=0.3)
    assert in_parallel(clients) == [str(number) for number in range(6)]
    assert (authority.count("refresh"), authority.count("reuse")) == (1, 0)


def test_a_token_that_ends_soon_is_refreshed_before_and_nobody_notices(scratch: Scratch, authority: Authority) -> None:
    one = served(scratch)
    refused, before = authority.count("401"), kept(scratch)
    _age(scratch, 3600 - 30)
    assert text_of(one.call("far__echo", text="y")) == "y"
    assert (authority.count("refresh"), authority.count("401")) == (1, refused)
    after = kept(scratch)
    assert after["access_token"] != before["access_token"] and after["refresh_token"] != before["refresh_token"]
    assert text_of(one.call("far__echo", text="z")) == "z"
    assert authority.count("refresh") == 1


def test_a_clock_that_was_set_back_costs_one_refresh(scratch: Scratch, authority: Authority) -> None:
    scratch.start(**KEYRING)
    one = client(scratch)
    _age(scratch, -86400)
    assert text_of(one.call("far__echo", text="x")) == "x"
    assert text_of(one.call("far__echo", text="y")) == "y"
    assert authority.count("refresh") == 1


def test_a_refresh_token_that_does_not_rotate_is_kept(scratch: Scratch, authority: Authority) -> None:
    authority.set(rotates=False)
    scratch.start(**KEYRING)
    one, before = client(scratch), kept(scratch)
    for number in range(1, 3):
        authority.set(end_access=True)
        assert text_of(one.call("far__echo", text="x")) == "x"
        assert authority.count("refresh") == number
    assert kept(scratch)["refresh_token"] == before["refresh_token"]


def test_a_login_that_was_taken_back_is_a_clear_error_and_another_login_mends_it(
    scratch: Scratch, authority: Authority
) -> None:
    one = served(scratch)
    authority.set(end_access=True, end_refresh=True)
    said = error(one)
    assert LOGIN in said and "invalid_grant" in said
    assert "needs login" in hearth(scratch, "auth", "status")[1]
    values = (scratch.home / VALUES).read_text()
    assert "access-" not in values and "refresh-" not in values
    # It is not asked again and again for what it has refused.
    asked = authority.count("token")
    assert LOGIN in error(one) and authority.count("token") == asked
    assert log_in(scratch, "far")[0] == 0
    assert text_of(one.call("far__echo", text="x")) == "x"
    assert "access-" not in scratch.logged() and "refresh-" not in scratch.logged()


def test_an_authorization_server_that_is_down_ends_no_login(scratch: Scratch, authority: Authority) -> None:
    one = served(scratch)
    # Still good for a while: it is used as it is.
    _age(scratch, 3600 - 30)
    authority.set(broken=503)
    assert text_of(one.call("far__echo", text="x")) == "x"
    authority.set(end_access=True)
    said = error(one)
    assert "cannot be refreshed" in said or "401" in said
    authority.set(broken=None)
    assert text_of(one.call("far__echo", text="y")) == "y"


def test_a_server_that_refuses_every_token_is_refreshed_for_once(scratch: Scratch, authority: Authority) -> None:
    one = served(scratch)
    # Good for no time at all, whatever it says.
    authority.set(lifetime=-1, says_lifetime=False, end_access=True)
    for _ in range(3):
        assert LOGIN in error(one)
    assert authority.count("refresh") == 1


def test_more_is_asked_for_when_a_tool_wants_it_and_once_only(scratch: Scratch, authority: Authority) -> None:
    one = served(scratch)
    said = error(one, "far__write")
    assert LOGIN in said and "write" in said
    assert text_of(one.call("far__echo", text="x")) == "x"
    _, out, _ = hearth(scratch, "auth", "status", "far", "--json")
    (found,) = json.loads(out)
    assert (found["state"], found["wanted"]) == ("wants more", ["write"])
    assert log_in(scratch, "far")[0] == 0
    assert authority.asked("authorize")[-1]["scopes"] == ["read", "write"]
    assert text_of(one.call("far__write", text="x")) == "x"


def test_what_was_asked_for_and_not_given_is_not_asked_for_for_ever(scratch: Scratch, authority: Authority) -> None:
    scratch.start(**KEYRING)
    one = client(scratch)
    assert LOGIN in error(one, "far__write")
    assert log_in(scratch, "far")[0] == 0
    assert text_of(one.call("far__write", text="x")) == "x"
    authority.set(narrows=True, end_access=True)
    said = error(one, "far__write")
    assert LOGIN not in said and "403" in said


def test_two_calls_that_need_a_login_ask_nobody_for_a_token(scratch: Scratch, authority: Authority) -> None:
    assert hearth(scratch, "auth", "logout", "far")[0] == 0
    asked = authority.count("token")
    scratch.start(**KEYRING)
    one = client(scratch)
    assert LOGIN in error(one) and LOGIN in error(one)
    assert authority.count("token") == asked
    assert LOGIN in scratch.upstream("far")["error"]


def test_a_server_that_needs_a_login_says_so_and_is_announced_after_it(scratch: Scratch, authority: Authority) -> None:
    assert hearth(scratch, "auth", "logout", "far")[0] == 0
    scratch.configure({"far": {"url": authority.url}, "near": server("echo")})
    scratch.start(**KEYRING)
    one = client(scratch)
    assert [name for name in one.tools() if name.startswith("far")] == []
    assert "near__echo" in one.tools()
    assert (scratch.upstream("far")["state"], scratch.upstream("near")["state"]) == ("needs login", "ready")
    assert LOGIN in error(one)
    assert log_in(scratch, "far")[0] == 0
    one.next_called("notifications/tools/list_changed")
    assert "far__echo" in one.tools()
    assert scratch.upstream("far")["state"] == "ready"
    # Also one that was ready when its login ended.
    authority.set(end_access=True, end_refresh=True)
    assert LOGIN in error(one)
    assert scratch.upstream("far")["state"] == "needs login"
    assert log_in(scratch, "far")[0] == 0
    assert text_of(one.call("far__echo", text="x")) == "x"
    assert scratch.upstream("far")["state"] == "ready"


def test_a_login_while_no_daemon_ran_is_known_to_the_next_one(scratch: Scratch, authority: Authority) -> None:
    assert hearth(scratch, "auth", "logout", "far")[0] == 0
    daemon = scratch.start(**KEYRING)
    assert client(scratch).tools() == []
    daemon.end()
    assert log_in(scratch, "far")[0] == 0
    scratch.start(**KEYRING)
    assert client(scratch).tools() == ["far__echo", "far__write"]
