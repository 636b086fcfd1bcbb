"""What a client sees through Hearth against what it sees without. What may differ is written here, and only here."""

import copy
import reprlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

from support.real.scenario.python_client import Document

# The envelope of the modern era's results, which is Hearth's own or made up where the two eras differ.
ENVELOPE = ("resultType", "ttlMs", "cacheScope")
# Lists are sorted by Hearth, so that their order does not depend on who started first.
LISTS = ("tools", "resources", "resourceTemplates", "prompts")
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
# A resource that does not exist has a code of its own in the older era.
LEGACY_NOT_FOUND = -32002
MODERN_NOT_FOUND = -32602
ABSENT = "(absent)"
_TOLD = 20


def comparable(document: Document) -> Document:
    """The steps, without what Hearth may say in its own words."""
    steps: Document = copy.deepcopy(document["steps"])
    for seen in steps.values():
        if "result" in seen:
            _strip(seen["result"])
        if seen.get("error", {}).get("code") == LEGACY_NOT_FOUND:
            seen["error"]["code"] = MODERN_NOT_FOUND
            seen["error"]["message"] = seen["error"]["message"].replace(str(LEGACY_NOT_FOUND), str(MODERN_NOT_FOUND))
        for question in seen.get("questions", ()):
            for params in question.values():
                _strip_question(params)
    return steps


def _strip(result: Document) -> None:
    for key in ENVELOPE:
        result.pop(key, None)
    for key in LISTS:
        if key in result:
            result[key].sort(key=lambda item: item["name"])
            _strip_tasks(result[key])
    _strip_meta(result, SERVER_INFO_KEY)
    # Absent means false.
    if result.get("isError") is False:
        del result["isError"]


def _strip_tasks(items: list[Document]) -> None:
    # Tasks are of one older revision only; absent means that the tool cannot be one.
    for item in items:
        if item.get("execution") == {"taskSupport": "forbidden"}:
            del item["execution"]


def _strip_meta(holder: Document, key: str) -> None:
    meta = holder.get("_meta")
    if isinstance(meta, dict):
        meta.pop(key, None)
        if not meta:
            del holder["_meta"]


def _strip_question(params: Document) -> None:
    # A question of the older era is a request of its own, with a token for its progress.
    _strip_meta(params, "progressToken")
    # Only the older era has it.
    params.pop("elicitationId", None)
    # Absent means a form.
    if params.get("mode") == "form":
        del params["mode"]
    # The SDK's own servers leave these two out in the modern era.
    for key in ("title", "description"):
        params.get("requestedSchema", {}).pop(key, None)


def assert_same(bridged: Document, direct: Document) -> None:
    """The first differences are told by their place."""
    found = list(islice(differences(comparable(bridged), comparable(direct)), _TOLD))
    assert not found, "\n".join(["through Hearth ≠ without:", *found])


def differences(through: Any, without: Any, place: str = "") -> Iterator[str]:
    """Where the two differ, each place on one line."""
    if isinstance(through, dict) and isinstance(without, dict):
        for key in dict.fromkeys([*without, *through]):
            yield from differences(through.get(key, ABSENT), without.get(key, ABSENT), f"{place}/{key}")
    elif isinstance(through, list) and isinstance(without, list) and len(through) == len(without):
        for number, pair in enumerate(zip(through, without, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif through != without:
        yield f"{place}: {reprlib.repr(through)} ≠ {reprlib.repr(without)}"
