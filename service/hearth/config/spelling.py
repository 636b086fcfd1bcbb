"""The nearest right name. Loaded only when a name is wrong: the comparison costs an import."""

from collections.abc import Iterable

# Below it the nearest name is a guess that only confuses.
SUGGESTION_RATIO = 0.6
# In another client's file a foreign key is as a rule not meant for Hearth; from here on it is a slip of the
# pen. One wrong letter in the shortest key (`env`, `envs`) is 0.857; `timeout` to `eof_timeout` is 0.82.
SLIP_RATIO = 0.85


def nearest(name: str, known: Iterable[str], ratio: float = SUGGESTION_RATIO) -> str | None:
    """The known name that is most like this one, whatever its case and separators; None if none is."""
    import difflib

    by_letters = {_letters(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=ratio)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def unknown(name: str, suggestion: str | None) -> str:
    """The sentence about a key that is not known."""
    return f"key {name!r} is not known" + (f"; did you mean {suggestion!r}?" if suggestion else "")
