"""Capabilities that clients and servers declare, and those that Hearth declares to either.

Knows the wording of every revision's capabilities; does not know who is connected.
"""

from collections.abc import Mapping

from hearth.mcp import versions
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

ROOTS = "roots/list"
SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"
URL_MODE = "url"
FORM_MODE = "form"
# First revision with URL elicitation and with tools in sampling.
NEWER_QUESTIONS_SINCE = "2025-11-25"

# Declared to a legacy server that serves several clients: the union. Whether a client can take a question is checked
# when there is one.
FULL = json.dumps(
    {"roots": {"listChanged": True}, "sampling": {"context": {}, "tools": {}}, "elicitation": {"form": {}, "url": {}}}
)

# Declared to a client that is offered every server: capabilities cannot change later, servers do.
EVERYTHING: dict[str, object] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}

_LISTED = ("tools", "prompts", "resources")
# Capabilities of the modern schema; everything else that a server can do is named in `extensions` or `experimental`.
_MODERN_SERVER_KEYS = frozenset((*EVERYTHING, "extensions", "experimental"))
_TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
# Hearth offers no tasks, whatever name a server uses for them.
_WITHHELD = {"extensions": (_TASKS_EXTENSION, "tasks"), "experimental": (_TASKS_EXTENSION, "tasks")}


def problem(method: str, params: json.Fields, capabilities: json.Fields, version: str) -> str | None:
    """Return what a client of that revision lacks to be asked that question; None if it lacks nothing."""
    if method == ROOTS:
        return None if _has(capabilities, "roots") else "the client has not declared that it lists roots"
    if method == SAMPLING:
        return _sampling_problem(params, capabilities, version)
    if method == ELICITATION:
        return _elicitation_problem(params, capabilities, version)
    return f"{method} is nothing that a client can be asked for"


def _sampling_problem(params: json.Fields, capabilities: json.Fields, version: str) -> str | None:
    if not _has(capabilities, "sampling"):
        return "the client has not declared sampling"
    if not wants_tools(params):
        return None
    if version < NEWER_QUESTIONS_SINCE:
        return f"the client speaks MCP {version}, which has no tools in sampling"
    if not _has(values.members(capabilities["sampling"]), "tools"):
        return "the client has not declared that it samples with tools (sampling.tools)"
    return None


def _elicitation_problem(params: json.Fields, capabilities: json.Fields, version: str) -> str | None:
    if version < versions.ELICITATION_SINCE:
        return f"the client speaks MCP {version}, which has no elicitation"
    if not _has(capabilities, "elicitation"):
        return "the client has not declared elicitation"
    mode = elicitation_mode(params)
    if mode not in (FORM_MODE, URL_MODE):
        return "the mode of an elicitation is either form or url"
    if version < NEWER_QUESTIONS_SINCE:
        return f"the client speaks MCP {version}, which has no elicitation by URL" if mode == URL_MODE else None
    declared = values.members(capabilities["elicitation"])
    # Without any mode it means the form, which was the only mode once.
    if _has(declared, mode) or (mode == FORM_MODE and not _has(declared, URL_MODE)):
        return None
    return (
        f"the client has not declared elicitation by {mode.upper() if mode == URL_MODE else mode} (elicitation.{mode})"
    )


def required(method: str, params: json.Fields) -> dict[str, object]:
    """Return the capabilities that a client needs to be asked that, for `data.requiredCapabilities` of -32021."""
    if method == ROOTS:
        return {"roots": {}}
    if method == SAMPLING:
        return {"sampling": {"tools": {}} if wants_tools(params) else {}}
    if method == ELICITATION:
        return {"elicitation": {URL_MODE if elicitation_mode(params) == URL_MODE else FORM_MODE: {}}}
    return {}


def wants_tools(params: Mapping[str, RawBytes]) -> bool:
    """Tell whether the model may use tools when it answers this `sampling/createMessage`."""
    return "tools" in params or "toolChoice" in params


def elicitation_mode(params: Mapping[str, RawBytes]) -> str | None:
    """Return `form`, which is also the default, or `url`; None for a mode that is not even a string."""
    return values.text(params["mode"]) if "mode" in params else FORM_MODE


def mirrored(capabilities: json.Fields, era: str) -> Members:
    """Return a server's capabilities as Hearth declares them to a client of that era that is offered it alone."""
    offered: Members = {}
    for name, value in capabilities.items():
        if name == "tasks" or (era == versions.MODERN and name not in _MODERN_SERVER_KEYS):
            continue
        if not _has(capabilities, name):
            continue
        if name in _LISTED:
            # Hearth announces changes even if the server does not: a server may be replaced by another version of
            # itself.
            offered[name] = json.join({**values.members(value), "listChanged": b"true"})
        elif name in _WITHHELD:
            kept = {key: item for key, item in values.members(value).items() if key not in _WITHHELD[name]}
            offered.update({name: json.join(kept)} if kept else {})
        else:
            offered[name] = value
    return offered


def _has(capabilities: json.Fields, name: str) -> bool:
    """Tell whether a capability is declared, as an object. Some peers write null or false for what they do not have."""
    return values.is_object(capabilities.get(name))
