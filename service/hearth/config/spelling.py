"""Suggestions for misspelt names. Loaded only when a name is wrong: the comparison costs an import."""

from collections.abc import Iterable

# Below this ratio, the nearest name is a guess that only confuses.
SUGGESTION_RATIO = 0.6
# In another client's file a foreign key is usually not meant for Hearth; from this ratio on it is a typing
# error. One wrong letter in the shortest key (`env`, `envs`) is 0.857; `timeout` to `eof_timeout` is 0.82.
SLIP_RATIO = 0.85


def nearest(name: str, known: Iterable[str], ratio: float = SUGGESTION_RATIO) -> str | None:
    """Return the known name that is most similar, whatever its case and separators; None if none is similar."""
    import difflib

    by_letters = {_letters(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=ratio)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def unknown(name: str, suggestion: str | None) -> str:
    """Return the sentence about a key that is not known."""
    return f"key {name!r} is not known" + (f"; did you mean {suggestion!r}?" if suggestion else "")
