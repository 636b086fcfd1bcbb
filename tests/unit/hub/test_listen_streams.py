"""Subscriptions of modern clients: what is honoured, and what goes out on which of them."""

import pytest

from hearth.errors import MessageError
from hearth.hub.subscriptions import KEY_LIMIT_BYTES, ListenStream, keep_name
from hearth.mcp import versions
from hearth.mcp.catalog import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS
from hearth.wire import json
from unit.hub.stage import client

ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def listening(id: bytes = b'"s1"', **wanted: object) -> tuple[ListenStream, list[dict[str, object]]]:
    """A subscription, and what its client hears, once it does."""
    member, sink = client(versions.MODERN)
    listen = ListenStream(member, 0, id, json.split(json.dumps(wanted)))
    heard: list[dict[str, object]] = []
    sink.notify = lambda payload, topic=None, about=None: heard.append(json.loads(payload) | {"topic": topic})  # type: ignore[method-assign]
    sink.tell = lambda payload, about=None: heard.append(json.loads(payload))  # type: ignore[method-assign]
    return listen, heard


def test_everything_is_tagged_with_the_subscription_s_id() -> None:
    listen, heard = listening(**ALL)
    listen.acknowledge()
    listen.changed(TOOLS)
    listen.updated("r:1", json.split(b'{"uri":"own:1","_meta":{"io.modelcontextprotocol/subscriptionId":7,"k":1}}'))
    listen.complete()
    assert [message.get("method") for message in heard] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        None,
    ]
    metas = [(message.get("params") or message["result"])["_meta"] for message in heard]  # type: ignore[index]
    assert [meta[versions.SUBSCRIPTION_ID_KEY] for meta in metas] == ["s1"] * 4
    assert heard[2]["params"] == {"uri": "r:1", "_meta": {"k": 1, versions.SUBSCRIPTION_ID_KEY: "s1"}}
    assert (heard[3]["id"], heard[3]["result"]["resultType"]) == ("s1", "complete")  # type: ignore[index]


@pytest.mark.parametrize(
    ("wanted", "honoured"),
    [
        (ALL, ALL),
        ({}, {}),
        ({"toolsListChanged": False, "promptsListChanged": 1, "madeUp": True}, {}),
        (
            {"resourceSubscriptions": ["r:2", "r:1", 7, "r:2"], "toolsListChanged": True},
            {"toolsListChanged": True, "resourceSubscriptions": ["r:2", "r:1"]},
        ),
        ({"resourceSubscriptions": []}, {}),
    ],
)
def test_what_is_known_and_wanted_is_honoured(wanted: dict[str, object], honoured: dict[str, object]) -> None:
    listen, heard = listening(**wanted)
    listen.acknowledge()
    assert heard[0]["params"]["notifications"] == honoured  # type: ignore[index]


@pytest.mark.parametrize("uris", [7, "r:1", {"r:1": True}])
def test_resources_that_are_no_list_are_bad_params(uris: object) -> None:
    with pytest.raises(MessageError):
        listening(resourceSubscriptions=uris)


def test_only_changes_that_were_wanted_are_told() -> None:
    listen, heard = listening(resourcesListChanged=True)
    listen.is_open = True
    for kind in KINDS:
        listen.changed(kind)
    assert {message["method"] for message in heard} == {"notifications/resources/list_changed"}
    assert [listen.wants(kind) for kind in (TOOLS, PROMPTS, RESOURCES, TEMPLATES)] == [False, False, True, True]


def test_notices_of_different_subscriptions_and_resources_are_different_topics() -> None:
    topics = []
    for id in (b"1", b'"1"'):
        listen, heard = listening(id, **ALL)
        listen.is_open = True
        listen.changed(TOOLS)
        listen.changed(PROMPTS)
        listen.updated("r:1", {})
        listen.updated("r:2", {})
        topics += [message["topic"] for message in heard]
    assert len(set(topics)) == len(topics) == 8


def test_a_notice_before_the_acknowledgement_waits_for_it() -> None:
    listen, heard = listening(toolsListChanged=True, resourceSubscriptions=["r:1"])
    listen.updated("r:1", {})
    listen.changed(TOOLS)
    listen.changed(TOOLS)
    assert heard == []
    listen.acknowledge()
    assert [message["method"] for message in heard] == [
        "notifications/subscriptions/acknowledged",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ]


def test_the_key_of_a_subscription_fits_into_a_header_whatever_its_client_calls_it() -> None:
    keys = [listening(b'"%b"' % (b"x" * size))[0].keep for size in (1, 5000, 5001)]
    assert all(len(key) < KEY_LIMIT_BYTES + 20 for key in keys)
    assert len(set(keys)) == 3


def test_what_is_kept_under_a_name_is_of_one_kind() -> None:
    assert keep_name("listen", b"1") != keep_name("subscribe", b"1")
    assert keep_name("listen", b"\xff") == "listen:\ufffd"
