"""Causes that doctor recognises in the line that says why a server failed. Pure: a text in, a check and a fix out."""

import re
from typing import NamedTuple

from hearth.upstreams.stdio import STRAY_MARK

STDOUT_FIX = "Have it write its messages to stderr: see its options, or report it to its author."
# With an underscore: a word in capitals alone is as often a name or an emphasis.
_NAME = r"['\"`$]*(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
_IS_MISSING = (
    r"['\"`]?(?: environment| env)?(?: variable)?,? (?:is |was |must be |has |are )?"
    r"(?:not set|unset|missing|required|undefined|not defined|not provided|not found|not been set|set\b|provided)"
)
# As programs say that a variable is missing: Python's KeyError, "X is not set", "missing environment variable X".
_MISSING_VARIABLE = (
    re.compile(r"KeyError: ['\"](?P<name>[A-Z][A-Z0-9_]+)['\"]"),
    re.compile(_NAME + _IS_MISSING),
    re.compile(r"(?i:missing|required|requires|undefined|please set|you must set|provide)[^.|]{0,40}?\s" + _NAME),
)


class FailureCause(NamedTuple):
    """A recognised cause: the id of its check, and what to do about it."""

    check: str
    fix: str


def find(error: str) -> FailureCause | None:
    """Recognise the cause of a failure."""
    if name := missing_variable(error):
        fix = (
            f'`hearth secret set {name}`, and env = {{ {name} = "${{keyring:{name}}}" }} in its entry of the config'
            " (or the value itself where it is no secret)."
        )
        return FailureCause("servers.variable", fix)
    return FailureCause("servers.stdout", STDOUT_FIX) if STRAY_MARK in error else None


def missing_variable(error: str) -> str:
    """Return the name of the environment variable that a server says it lacks; empty if it names none."""
    found = next(filter(None, (pattern.search(error) for pattern in _MISSING_VARIABLE)), None)
    return found["name"] if found else ""
