"""Lists that change in bursts, come in pages or never end, and methods that only a server knows."""

import pytest

from support.conformance.clients import Client, Message
from support.conformance.revisions import LEGACY, MODERN, NEWEST_LEGACY
from support.kernel import until
from support.puppets.server import Puppet
from support.puppets.stage import INVALID_PARAMS, METHOD_NOT_FOUND, Actor, Errand, Stage

# Of a list: its method, its name in the result, the wish of a listen stream, and the notice.
KINDS = {
    "tools": ("tools/list", "tools", "toolsListChanged", "notifications/tools/list_changed"),
    "prompts": ("prompts/list", "prompts", "promptsListChanged", "notifications/prompts/list_changed"),
    "resources": ("resources/list", "resources", "resourcesListChanged", "notifications/resources/list_changed"),
    "templates": (
        "resources/templates/list", "resourceTemplates", "resourcesListChanged", "notifications/resources/list_changed",
    ),
}  # fmt: skip
BURST = 500


def item(kind: str, number: int) -> Message:
    """Something on a list."""
    name = {"name": f"item{number}"}
    return {
        "tools": {**name, "inputSchema": {"type": "object"}},
        "prompts": name,
        "resources": {**name, "uri": f"made:up/{number}"},
        "templates": {**name, "uriTemplate": f"made:up/{number}/{{id}}"},
    }[kind]


def watch(client: Client, wish: str) -> None:
    """A modern client asks to be told; a legacy one is told anyway."""
    if client.revision == MODERN:
        client.begin("subscriptions/listen", notifications={wish: True})
        client.next_notice("notifications/subscriptions/acknowledged")


def subscription(actor: Actor) -> Message:
    """What a modern server tags its notices with: the id of the listen stream for lists."""
    if actor.revision != MODERN:
        return {}

    def listens() -> list[object]:
        return [message["id"] for message in actor.record if message.get("method") == "subscriptions/listen"]

    # It is asked before its first client is served, and may read that later.
    first = until(listens, "the server was asked for its notices")[0]
    return {"_meta": {"io.modelcontextprotocol/subscriptionId": first}}


# --- changes


@pytest.mark.parametrize("kind", KINDS)
def test_a_burst_of_notices_is_few_fetches_and_is_told_once_or_twice(
    stage: Stage, revision: str, upstream: str, kind: str
) -> None:
    method, member, wish, notice = KINDS[kind]
    actor = stage.serve(upstream, keys={"isolation": "shared"}, **{member: [item(kind, 1)]})
    client = stage.guest(revision)
    assert len(client.everything(method, member)) == 1
    watch(client, wish)
    fetches = len(actor.told(method))
    puppet, _ = actor.next(method)
    actor.offers[member] = [item(kind, 1), item(kind, 2)]
    puppet.send(*[{"method": notice, "params": subscription(actor)}] * BURST)
    client.next_notice(notice)
    assert len(client.everything(method, member)) == 2
    # Whatever else there is to be told comes before the answer to what is asked after the last fetch.
    actor.caught_up(puppet)
    until(lambda: stage.scratch.upstream("puppet")["instances"][0]["inFlight"] == 0, "it is not fetched any more")
    client.everything(method, member)
    assert len(actor.told(method)) - fetches <= BURST // 20
    assert len([heard for heard in client.notices if heard["method"] == notice]) <= 1


def test_a_server_s_notice_is_passed_on_after_its_list_was_read_again_and_is_equal(
    stage: Stage, revision: str, upstream: str
) -> None:
    actor = stage.serve(upstream, keys={"isolation": "shared"})
    client = stage.guest(revision)
    listed = client.everything("tools/list", "tools")
    watch(client, "toolsListChanged")
    fetches = len(actor.told("tools/list"))
    puppet, _ = actor.next("tools/list")
    puppet.send({"method": "notifications/tools/list_changed", "params": subscription(actor)})
    client.next_notice("notifications/tools/list_changed")
    assert len(actor.told("tools/list")) == fetches + 1
    assert client.everything("tools/list", "tools") == listed


def test_a_notice_about_tools_is_none_about_other_lists_nor_for_who_never_asked(stage: Stage, revision: str) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    asker, other, idle = (stage.guest(revision) for _ in range(3))
    asker.everything("tools/list", "tools")
    watch(asker, "toolsListChanged")
    other.everything("prompts/list", "prompts")
    watch(other, "promptsListChanged")
    puppet, _ = actor.next("tools/list")
    puppet.notify("notifications/tools/list_changed")
    asker.next_notice("notifications/tools/list_changed")
    for client in (other, idle):
        client.everything("prompts/list", "prompts")
        assert client.notices == []


def test_a_server_that_changes_in_the_midst_of_its_first_list_is_asked_again(stage: Stage, revision: str) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    first = actor.offers["tools"]

    def change(puppet: Puppet, message: Message) -> None:
        if message.get("method") == "tools/list" and actor.offers["tools"] is first:
            actor.offers["tools"] = [*first, item("tools", 2)]
            puppet.notify("notifications/tools/list_changed")

    actor.aside = change
    client = stage.guest(revision)
    until(lambda: len(client.everything("tools/list", "tools")) == 2, "the list is the second")


def test_who_never_listed_is_told_nothing_and_who_left_harms_nobody(stage: Stage, revision: str) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    idle, gone, client = (stage.guest(revision, name) for name in ("idle", "gone", "client"))
    gone.everything("tools/list", "tools")
    client.everything("tools/list", "tools")
    watch(client, "toolsListChanged")
    puppet, _ = actor.next("tools/list")
    gone.close()
    actor.offers["tools"] = [item("tools", 2)]
    puppet.notify("notifications/tools/list_changed")
    client.next_notice("notifications/tools/list_changed")
    assert len(idle.everything("tools/list", "tools")) == 1
    assert idle.notices == []


def test_lists_of_one_client_s_own_process_are_not_shown_to_another(stage: Stage) -> None:
    actor = stage.serve()
    one, other = stage.legacy(name="one"), stage.legacy(name="other")
    for client in (one, other):
        assert len(client.everything("tools/list", "tools")) == 1
        Errand(client)
    (mine, first), (theirs, second) = actor.next("tools/call"), actor.next("tools/call")
    assert mine is not theirs
    actor.offers["tools"] = [*actor.offers["tools"], item("tools", 2)]
    mine.notify("notifications/tools/list_changed")
    one.next_notice("notifications/tools/list_changed")
    assert len(one.everything("tools/list", "tools")) == 2
    assert len(other.everything("tools/list", "tools")) == 1
    assert other.notices == []
    mine.say(first, "done")
    theirs.say(second, "done")


# --- pages


class Pages:
    """A server's pages: each has two items and the cursor of the next."""

    def __init__(self, actor: Actor, kind: str, cursors: list[str | None], loops: bool = False) -> None:
        self._kind = kind
        self._cursors = cursors
        self._loops = loops
        self.asked: list[str | None] = []
        self._actor = actor

    def page(self, message: Message) -> Message | None:
        method, member = KINDS[self._kind][:2]
        if message.get("method") != method:
            return None
        cursor = message.get("params", {}).get("cursor")
        number = len(self.asked)
        self.asked.append(cursor)
        following = self._cursors[number % len(self._cursors) if self._loops else number]
        more = {} if following is None else {"nextCursor": following}
        items = [item(self._kind, 2 * number), item(self._kind, 2 * number + 1)]
        return {"result": {**self._actor.result_keys(method), member: items, **more}}


@pytest.mark.parametrize("kind", KINDS)
def test_all_pages_are_one_list(stage: Stage, upstream: str, kind: str) -> None:
    method, member = KINDS[kind][:2]
    actor = stage.actor(upstream, keys={"isolation": "shared"})
    pages = Pages(actor, kind, ["", "c\u00e4 \u2028", None])
    actor.instead = pages.page
    stage.start()
    for revision in (NEWEST_LEGACY, MODERN):
        found = stage.guest(revision).ask(method).result
        assert len(found[member]) == 6
        assert "nextCursor" not in found
    # An empty cursor is one, too.
    assert pages.asked == [None, "", "c\u00e4 \u2028"]


@pytest.mark.parametrize("cursors", [["same"], ["one", "two"]])
def test_a_circle_of_pages_is_cut(stage: Stage, cursors: list[str | None]) -> None:
    actor = stage.actor(keys={"isolation": "shared"})
    pages = Pages(actor, "tools", cursors, loops=True)
    actor.instead = pages.page
    stage.start()
    assert len(stage.modern().everything("tools/list", "tools")) == 2 * (len(cursors) + 1)
    assert len(pages.asked) == len(cursors) + 1


def test_a_list_without_end_is_cut(stage: Stage) -> None:
    actor = stage.actor(keys={"isolation": "shared"})
    actor.instead = Pages(actor, "tools", [str(number) for number in range(2000)]).page
    stage.start()
    assert 100 <= len(stage.modern().everything("tools/list", "tools")) < 4000


def test_every_cursor_of_a_client_is_refused(stage: Stage, revision: str) -> None:
    stage.start()
    client = stage.guest(revision)
    for method, *_ in KINDS.values():
        for cursor in ("", "2", 7, {}):
            error = client.ask(method, cursor=cursor).error
            assert error["code"] == INVALID_PARAMS
            assert "cursor" in error["message"]


# --- methods that Hearth does not know


def test_an_unknown_method_goes_to_the_only_server(stage: Stage, revision: str, upstream: str) -> None:
    actor = stage.serve(upstream)
    errand = Errand(stage.guest(revision), method="vendor/do", what=[1], _meta={"vendor/key": 1})
    puppet, call = actor.next("vendor/do")
    assert call["params"]["what"] == [1]
    assert call["params"]["_meta"]["vendor/key"] == 1
    modern_keys = [key for key in call["params"]["_meta"] if key.startswith("io.modelcontextprotocol/")]
    assert bool(modern_keys) is (upstream == MODERN)
    puppet.answer(call, found={"deep": [None]})
    result = errand.outcome().result
    assert result["found"] == {"deep": [None]}
    assert ("resultType" in result) is (revision == MODERN)


def test_the_only_server_s_error_is_the_answer_but_old_sdks_words_for_an_unknown_method(
    stage: Stage, revision: str, upstream: str
) -> None:
    actor = stage.serve(upstream)
    client = stage.guest(revision)
    for code in (METHOD_NOT_FOUND, INVALID_PARAMS, -32050):
        errand = Errand(client, method="vendor/do", what=1)
        puppet, call = actor.next("vendor/do")
        puppet.refuse(call, code, "No.", {"why": 1})
        expected = METHOD_NOT_FOUND if code == INVALID_PARAMS and upstream != MODERN else code
        assert errand.outcome().error == {"code": expected, "message": "No.", "data": {"why": 1}}


@pytest.mark.parametrize("servers", [0, 2])
def test_an_unknown_method_is_refused_unless_there_is_one_server(stage: Stage, revision: str, servers: int) -> None:
    actors = [stage.actor(name=f"puppet{number}") for number in range(servers)]
    stage.start()
    error = stage.guest(revision).ask("vendor/do", what=1).error
    assert error["code"] == METHOD_NOT_FOUND
    assert "vendor/do" in error["message"]
    assert all(actor.told("vendor/do") == [] for actor in actors)


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_a_method_of_the_other_era_is_not_found_even_where_the_server_has_it(stage: Stage, revision: str) -> None:
    actor = stage.serve(NEWEST_LEGACY if revision == MODERN else MODERN)
    client = stage.guest(revision)
    assert client.everything("tools/list", "tools")
    legacy = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
    for method in legacy if revision == MODERN else ("server/discover", "subscriptions/listen"):
        before = len(actor.told(method))
        assert client.ask(method, level="info", uri="made:up", notifications={}).error["code"] == METHOD_NOT_FOUND
        assert len(actor.told(method)) == before


def test_a_cancelled_unknown_request_is_withdrawn_from_the_server(stage: Stage, revision: str) -> None:
    actor = stage.serve()
    errand = Errand(stage.guest(revision), method="vendor/wait", n=1)
    _, call = actor.next("vendor/wait")
    errand.cancel()
    assert actor.next("notifications/cancelled")[1]["params"]["requestId"] == call["id"]
