"""What may be said in each revision, to a client and to a server, from the schemas. Pure: it judges one message.

Unknown members are nobody's concern, as in the schemas. What is judged is what a strict peer stumbles over: methods,
error codes, kinds of content, and the other era's words. Both the test's servers and its clients complain by it.
"""

from collections.abc import Iterator
from typing import Any

from support.conformance.revisions import (
    AUDIO_SINCE,
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    ELICITATION_SINCE,
    LINKS_SINCE,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    SERVER_INFO_KEY,
    STRUCTURED_SINCE,
    SUBSCRIPTION_KEY,
    URL_ELICITATION_SINCE,
    VERSION_KEY,
    is_modern,
)

Message = dict[str, Any]

BOTH_ERAS = frozenset(
    {
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
        *("resources/list", "resources/templates/list", "resources/read"),
    }
)
LEGACY_REQUESTS = BOTH_ERAS | {
    *("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
}
MODERN_REQUESTS = BOTH_ERAS | {"server/discover", "subscriptions/listen"}
LEGACY_CLIENT_NOTICES = frozenset(
    f"notifications/{name}" for name in ("initialized", "cancelled", "progress", "roots/list_changed")
)
SERVER_NOTICES = frozenset(
    {
        *("notifications/cancelled", "notifications/progress", "notifications/message"),
        *("notifications/resources/updated", "notifications/resources/list_changed"),
        *("notifications/tools/list_changed", "notifications/prompts/list_changed"),
    }
)
COMPLETED = "notifications/elicitation/complete"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
# On a listen stream, and only there.
SUBSCRIBED = frozenset(name for name in SERVER_NOTICES if name.endswith(("/list_changed", "/updated"))) | {ACKNOWLEDGED}
# May be answered by `input_required`.
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
CACHEABLE = MODERN_REQUESTS - {"tools/call", "prompts/get", "completion/complete", "subscriptions/listen"}

MODERN_META = frozenset(
    {VERSION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, SERVER_INFO_KEY, SUBSCRIPTION_KEY}
)
MODERN_RESULT_KEYS = frozenset({"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"})
MODERN_ERRORS = frozenset({-32020, -32021, -32022})
RESOURCE_NOT_FOUND = -32002
URL_NEEDED = -32042
CONTENT_SINCE = {**dict.fromkeys(("text", "image", "resource"), ""), "audio": AUDIO_SINCE, "resource_link": LINKS_SINCE}


def to_client(revision: str, message: Message, method: str | None = None) -> list[str]:
    """What is wrong about a message that a client got; `method` is that of the request which it answers."""
    judge = _to_modern_client if is_modern(revision) else _to_legacy_client
    return [*judge(revision, message, method), *_content_trouble(revision, message)]


def to_server(revision: str, message: Message) -> list[str]:
    """What is wrong about a message that a server got."""
    return list((_to_modern_server if is_modern(revision) else _to_legacy_server)(revision, message))


# --- legacy


def _to_legacy_client(revision: str, message: Message, method: str | None) -> Iterator[str]:
    yield from (f"modern key {key}" for key in keys_within(message) & MODERN_META)
    name = message.get("method")
    if name is not None and "id" in message:
        if name not in _questions(revision):
            yield f"request {name}"
        if message.get("params", {}).get("mode") == "url" and revision < URL_ELICITATION_SINCE:
            yield "elicitation by URL"
    elif name is not None:
        if name not in SERVER_NOTICES and not (name == COMPLETED and revision >= URL_ELICITATION_SINCE):
            yield f"notification {name}"
    elif "error" in message:
        code = message["error"]["code"]
        if code in MODERN_ERRORS or (code == URL_NEEDED and revision < URL_ELICITATION_SINCE):
            yield f"error {code}"
    else:
        yield from (f"modern result key {key}" for key in message["result"].keys() & MODERN_RESULT_KEYS)


def _questions(revision: str) -> set[str]:
    return {
        *("ping", "roots/list", "sampling/createMessage"),
        *(["elicitation/create"] if revision >= ELICITATION_SINCE else []),
    }


def _to_legacy_server(revision: str, message: Message) -> Iterator[str]:
    yield from (f"modern key {key}" for key in keys_within(message) & MODERN_META)
    name = message.get("method")
    if name is None:
        return
    if name not in (LEGACY_REQUESTS if "id" in message else LEGACY_CLIENT_NOTICES):
        yield f"method {name}"
    yield from (f"modern param {key}" for key in message.get("params", {}).keys() & {"inputResponses", "requestState"})


# --- modern


def _to_modern_client(revision: str, message: Message, method: str | None) -> Iterator[str]:
    name = message.get("method")
    if name is not None and "id" in message:
        yield f"request {name}: servers of this revision have none"
    elif name is not None:
        if name not in SERVER_NOTICES | {ACKNOWLEDGED}:
            yield f"notification {name}"
        tagged = SUBSCRIPTION_KEY in message.get("params", {}).get("_meta", {})
        if tagged is not (name in SUBSCRIBED):
            yield f"{name} {'with' if tagged else 'without'} a subscription id"
    elif "error" in message:
        if message["error"]["code"] in (RESOURCE_NOT_FOUND, URL_NEEDED):
            yield f"error {message['error']['code']}"
    else:
        yield from _modern_result_trouble(message["result"], method)


def _modern_result_trouble(result: Message, method: str | None) -> Iterator[str]:
    kind = result.get("resultType")
    cached = {"ttlMs", "cacheScope"} & result.keys()
    if kind == "complete" and cached != ({"ttlMs", "cacheScope"} if method in CACHEABLE else set()):
        yield f"{method} with {sorted(cached)}"
    elif kind == "input_required":
        if method not in ASKING or cached or not {"inputRequests", "requestState"} & result.keys():
            yield f"an impossible wish for input: {result}"
    elif kind != "complete":
        yield f"resultType {kind}"
    if "name" not in result.get("_meta", {}).get(SERVER_INFO_KEY, {}):
        yield f"{method} without serverInfo"


def _to_modern_server(revision: str, message: Message) -> Iterator[str]:
    name, params = message.get("method"), message.get("params", {})
    if name is None:
        yield "an answer, although servers of this revision ask nothing"
    elif "id" not in message:
        if name != "notifications/cancelled":
            yield f"notification {name}"
    else:
        if name not in MODERN_REQUESTS:
            yield f"method {name}"
        yield from _envelope_trouble(revision, params.get("_meta", {}))


def _envelope_trouble(revision: str, meta: Message) -> Iterator[str]:
    if meta.get(VERSION_KEY) != revision:
        yield f"version {meta.get(VERSION_KEY)}"
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        yield "no capabilities"
    if meta.get(LOG_LEVEL_KEY, "debug") not in LOG_LEVELS:
        yield f"log level {meta[LOG_LEVEL_KEY]}"
    if not isinstance(meta.get("progressToken", ""), str | int):
        yield f"progress token {meta['progressToken']}"


# --- content


def _content_trouble(revision: str, message: Message) -> Iterator[str]:
    result = message.get("result", {})
    blocks = [*result.get("content", []), *(item["content"] for item in result.get("messages", []))]
    for block in blocks:
        kind = block["type"]
        if kind not in CONTENT_SINCE or revision < CONTENT_SINCE[kind]:
            yield f"content of type {kind}"
    yield from _structure_trouble(
        revision, "structuredContent", result, isinstance(result.get("structuredContent"), dict)
    )
    for tool in result.get("tools", []):
        is_object = tool.get("outputSchema", {}).get("type") == "object"
        yield from _structure_trouble(revision, "outputSchema", tool, is_object)


def _structure_trouble(revision: str, key: str, holder: Message, is_object: bool) -> Iterator[str]:
    if key in holder and (revision < STRUCTURED_SINCE or not (is_object or is_modern(revision))):
        yield f"{key} {holder[key]}"


def keys_within(value: object) -> set[str]:
    """Every key at every depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_within, value.values()))
    if isinstance(value, list):
        return set[str]().union(*map(keys_within, value))
    return set()
