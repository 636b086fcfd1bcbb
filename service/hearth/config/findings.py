"""What is wrong with a configuration, collected so that all of it is told at once.

Loaded only when there is something to tell: finding the nearest name and the line of a key costs.
"""

from collections.abc import Iterable

# Below it the nearest name is a guess that only confuses.
SUGGEST_RATIO = 0.6
# A foreign key in another client's file is as a rule not Hearth's; from here on it is a slip of the pen.
SLIP_RATIO = 0.85


def nearest(name: str, known: Iterable[str], ratio: float = SUGGEST_RATIO) -> str | None:
    """The known name most like this one, whatever its case and separators; None if there is none like it."""
    import difflib

    plain = {_plain(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=ratio)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").rpartition(".")[2]


def unknown(name: str, suggestion: str | None) -> str:
    """The sentence about a key that is not known."""
    hint = f"; did you mean {suggestion!r}?" if suggestion else ""
    return f"key {name!r} is not known{hint}"
