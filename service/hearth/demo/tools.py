"""Tools of the demo server: their names, their definitions, their answers.

Knows nothing of JSON-RPC or of eras. `slow` is only defined here: it takes time, so the protocol runs it.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

# A demo call that sleeps longer than a minute would exceed the timeout of any client.
SLOW_LIMIT_SECONDS = 60.0
SLOW_LIMIT_STEPS = 1000

_NUMBER = {"type": "number"}
_LOOKS_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}

DEFINITIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "add",
        "title": "Add",
        "description": "Add two numbers.",
        "inputSchema": {"type": "object", "properties": {"a": _NUMBER, "b": _NUMBER}, "required": ["a", "b"]},
        "annotations": _LOOKS_ONLY,
    },
    {
        "name": "count",
        "title": "Count",
        "description": "Add one to the counter of this server process and say its value. Agents that share"
        " the process share the counter.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    },
    {
        "name": "slow",
        "title": "Slow",
        "description": "Take some seconds, with progress on the way. Can be cancelled.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "seconds": {"type": "number", "minimum": 0, "maximum": SLOW_LIMIT_SECONDS, "default": 1},
                "steps": {"type": "integer", "minimum": 1, "maximum": SLOW_LIMIT_STEPS, "default": 10},
            },
        },
        "annotations": _LOOKS_ONLY,
    },
    {
        "name": "whoami",
        "title": "Who am I",
        "description": "The process id of the server that answers.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": _LOOKS_ONLY,
    },
)


class BadArgumentsError(Exception):
    """Error for arguments that do not match the tool's schema; the model can read why and try again."""


class Toolbox:
    """Tools that answer at once, and the counter that they share."""

    def __init__(self) -> None:
        self._count = 0
        self._instant: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "add": self._add,
            "count": self._next_count,
            "whoami": lambda _: str(os.getpid()),
        }

    def answers_at_once(self, name: object) -> bool:
        """Tell whether `call` knows the tool."""
        return isinstance(name, str) and name in self._instant

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the tool's text. Raises BadArgumentsError."""
        return self._instant[name](arguments)

    def _add(self, arguments: Mapping[str, Any]) -> str:
        try:
            return str(number(arguments, "a") + number(arguments, "b"))
        except (OverflowError, ValueError) as error:
            raise BadArgumentsError("these numbers are too large to add") from error

    def _next_count(self, arguments: Mapping[str, Any]) -> str:
        self._count += 1
        return str(self._count)


def number(arguments: Mapping[str, Any], name: str, default: float | None = None) -> int | float:
    """Return one numeric argument. Raises BadArgumentsError; true and false are not numbers."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgumentsError(f"{name!r} must be a number")
    return value


def slow_plan(arguments: Mapping[str, Any]) -> tuple[float, int]:
    """Return the seconds and steps of a `slow` call. Raises BadArgumentsError."""
    seconds, steps = number(arguments, "seconds", 1), number(arguments, "steps", 10)
    if not 0 <= seconds <= SLOW_LIMIT_SECONDS:
        raise BadArgumentsError(f"'seconds' must be from 0 to {SLOW_LIMIT_SECONDS:g}")
    if not 1 <= steps <= SLOW_LIMIT_STEPS or steps != int(steps):
        raise BadArgumentsError(f"'steps' must be a whole number from 1 to {SLOW_LIMIT_STEPS}")
    return float(seconds), int(steps)
