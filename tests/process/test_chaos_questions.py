"""A question of a daemon that has died: it is withdrawn, and a late answer to it reaches nothing."""

from collections.abc import Iterator

import pytest

from support.chaos.client import Client, Message
from support.chaos.frames import Framed, status
from support.chaos.home import Home
from support.kernel import until

YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "decline"}


@pytest.fixture
def owner(home: Home) -> Iterator[Client]:
    """A client that owns the daemon and can be asked."""
    with Client(home) as client:
        client.greet(elicitation={})
        yield client


def is_question_of(message: Message, daemon_id: str) -> bool:
    """Whether that daemon asks there."""
    return message.get("method") == "elicitation/create" and message["id"].startswith(f"hearth-{daemon_id}-")


def ask_for_shutdown(asker: Framed, owner: Client) -> Message:
    """Let another session ask for the end; return the question that the owner gets."""
    daemon_id = asker.greet()["daemonId"]
    asker.send(type="shutdown", seq=1, restart=False)
    return owner.wait(lambda message: is_question_of(message, daemon_id), "the owner is asked")


def wait_until_back(home: Home, owner: Client, former: int) -> None:
    """Until the owner's bridge has its session in the next daemon."""
    assert owner.result(owner.request("ping")) == {}
    assert home.daemon() not in (None, former)
    until(lambda: owner.pid in [session["pid"] for session in status(home)["sessions"]], "the session is back")


def test_a_late_answer_to_a_dead_daemons_question_reaches_nothing(home: Home, owner: Client) -> None:
    with Framed(home) as asker:
        old = ask_for_shutdown(asker, owner)
        former = home.kill_daemon()
    assert owner.notice("notifications/cancelled")["params"]["requestId"] == old["id"]
    wait_until_back(home, owner, former)
    with Framed(home) as asker:
        # The same question is open in the new daemon: the late yes must not be taken for an answer to it.
        new = ask_for_shutdown(asker, owner)
        assert new["id"] != old["id"]
        before = status(home)
        owner.send({"id": old["id"], "result": YES})
        assert owner.text(owner.call("read", key="later")) == "read later"
        owner.send({"id": new["id"], "result": NO})
        assert asker.receive("shutdown")[0]["ok"] is False
    after = status(home)
    assert (after["daemonId"], after["pid"]) == (before["daemonId"], before["pid"])


def test_an_answer_that_comes_while_no_daemon_is_there_reaches_nothing(home: Home, owner: Client) -> None:
    with Framed(home) as asker:
        old = ask_for_shutdown(asker, owner)
        former = home.kill_daemon()
        owner.send({"id": old["id"], "result": YES})
    wait_until_back(home, owner, former)
    second = home.daemon()
    assert owner.text(owner.call("once", key="later")) == "once later"
    assert home.daemon() == second
    assert owner.leave() == 0


def test_a_question_that_was_answered_is_not_withdrawn_when_the_daemon_dies(home: Home, owner: Client) -> None:
    with Framed(home) as asker:
        owner.send({"id": ask_for_shutdown(asker, owner)["id"], "result": NO})
        assert asker.receive("shutdown")[0]["ok"] is False
        # Written behind the acknowledgement of the answer, so the bridge has seen that one too.
        assert owner.result(owner.request("ping")) == {}
        former = home.kill_daemon()
    wait_until_back(home, owner, former)
    assert not any(message.get("method") == "notifications/cancelled" for message in owner.received)
