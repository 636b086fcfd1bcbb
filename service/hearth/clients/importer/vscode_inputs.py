"""What VS Code asks a person for when it starts a server: `inputs` beside the servers of a file. Reads only."""

from typing import Any, NamedTuple

from hearth.clients import discovery


class Input(NamedTuple):
    """One question. `choices` are the answers that are possible, where not any is."""

    name: str
    description: str
    default: str | None = None
    is_password: bool = False
    choices: tuple[str, ...] = ()
    # Answered by a command of the editor, and by nobody here.
    is_command: bool = False


def read(path: str) -> dict[str, Input]:
    """The questions of a file, by their names. Raises ConfigError for a file that cannot be read."""
    document = discovery.opened(path)
    listed = document.tree.get("inputs") if document else None
    found = [_input(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {each.name: each for each in found if each.name}


def _input(raw: dict[str, Any]) -> Input:
    name, description, default = (_text(raw.get(key)) for key in ("id", "description", "default"))
    options = raw.get("options")
    return Input(
        name or "",
        description or name or "",
        default,
        raw.get("password") is True,
        tuple(choice for each in options if (choice := _choice(each))) if isinstance(options, list) else (),
        raw.get("type") == "command",
    )


def _choice(raw: object) -> str | None:
    return _text(raw.get("value")) if isinstance(raw, dict) else _text(raw)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
