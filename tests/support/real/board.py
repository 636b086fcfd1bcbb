"""What the scenario is played with: one server on the official SDK that speaks both eras.

For `board` Hearth chooses the era by the client; for the others the config has chosen, so that half of the plays are
translated.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from support.real.comparison import assert_same
from support.real.installation import SCENARIO
from support.real.scenario.python_client import Document

SERVER = {"command": sys.executable, "args": [str(SCENARIO / "server.py")]}
SERVERS = {"board": SERVER, "old-board": {**SERVER, "era": "legacy"}, "new-board": {**SERVER, "era": "modern"}}


def scenario() -> dict[str, Any]:
    """The description that all clients follow."""
    return json.loads((SCENARIO / "scenario.json").read_text(encoding="utf-8"))


def prefixed(description: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The scenario for a client that sees all servers."""
    for step in description["steps"]:
        for key in {"tool", "prompt", "release"} & set(step):
            step[key] = prefix + step[key]
        if step.get("ref", {}).get("type") == "ref/prompt":
            step["ref"]["name"] = prefix + step["ref"]["name"]
    return description


def assert_same_among_others(found: Document, direct: Document, prefix: str) -> None:
    """What a client saw of the first server, among all of them, against what it sees without Hearth."""
    found = only_of(found, prefix)
    # Among several servers it is Hearth that says so.
    error = found["steps"]["no such resource"]["error"]
    assert "no server has the resource note://nowhere" in error["message"]
    error["message"] = direct["steps"]["no such resource"]["error"]["message"]
    assert_same(found, direct)


def only_of(document: Document, prefix: str) -> Document:
    """What was listed of the first server: its names without the prefix; its URIs are as they were."""
    for seen in document["steps"].values():
        result = seen.get("result", {})
        for kind in {"tools", "prompts"} & set(result):
            found = [item for item in result[kind] if item["name"].startswith(prefix)]
            result[kind] = [{**item, "name": item["name"].removeprefix(prefix)} for item in found]
        for kind, key in (("resources", "uri"), ("resourceTemplates", "uriTemplate")):
            if kind in result:
                # The other two servers have the same ones, which are told apart by Hearth's own scheme.
                found = [*filter(is_own(key), result[kind])]
                assert len(result[kind]) == len(SERVERS) * len(found)
                result[kind] = found
    return document


def is_own(key: str) -> Callable[[Document], bool]:
    """Whether an item's URI is as its server gave it."""
    return lambda item: not item[key].startswith("hearth:")
