"""What a client sees through Hearth against what it sees without. What may differ is written here, and only here."""

import copy
from collections.abc import Mapping
from typing import Any

from real.scenario.python_client import Document

# The envelope of the modern era's results, which is Hearth's own or made up where the two eras differ.
ENVELOPE = ("resultType", "ttlMs", "cacheScope")
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"


def comparable(document: Document) -> Document:
    """The steps, without what Hearth may say in its own words."""
    steps: Document = copy.deepcopy(document["steps"])
    for seen in steps.values():
        if "result" in seen:
            _strip(seen["result"])
        for question in seen.get("questions", ()):
            for params in question.values():
                _strip_question(params)
    return steps


def _strip(result: Document) -> None:
    for key in ENVELOPE:
        result.pop(key, None)
    _strip_meta(result, SERVER_INFO_KEY)
    # Absent means false.
    if result.get("isError") is False:
        del result["isError"]


def _strip_meta(holder: Document, key: str) -> None:
    meta = holder.get("_meta")
    if isinstance(meta, dict):
        meta.pop(key, None)
        if not meta:
            del holder["_meta"]


def _strip_question(params: Document) -> None:
    # A question of the older era is a request of its own, with a token for its progress.
    _strip_meta(params, "progressToken")
    # Absent means a form.
    if params.get("mode") == "form":
        del params["mode"]
    # The SDK's own servers leave these two out in the modern era.
    for key in ("title", "description"):
        params.get("requestedSchema", {}).pop(key, None)


def assert_same(bridged: Document, direct: Document) -> None:
    """Step by step, so that a failure names the step."""
    through, without = comparable(bridged), comparable(direct)
    assert list(through) == list(without)
    differing = {name: (through[name], without[name]) for name in through if through[name] != without[name]}
    assert not differing, _told(differing)


def _told(differing: Mapping[str, tuple[Any, Any]]) -> str:
    return "\n".join(f"{name}:\n  bridged {pair[0]!r}\n  direct  {pair[1]!r}" for name, pair in differing.items())
