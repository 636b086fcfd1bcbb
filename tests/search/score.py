"""How good the search is, by both sets of questions.

    python tests/search/score.py [--evaluation]

Of the tuning set it also tells which questions do not have a right tool first. Of the other it tells figures only, at
the end of tuning; the one that counts withholds every synonym that only its own questions have a use for: the same hand
has written both.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hearth.mcp import tool_index
from hearth.mcp.tool_index import Tool, ToolIndex, question_words
from search.corpus import Question, questions, tools

# Beyond it nobody looks.
PLACES = 50


class Score(NamedTuple):
    """Of a set of questions: how many have a right tool first, among five, and the mean of 1 / its place."""

    top1: float
    top5: float
    mrr: float


def index() -> ToolIndex:
    """The corpus, under names that the questions use."""
    return ToolIndex(
        Tool(f"{server}/{definition['name']}", server, definition["name"], raw(definition))
        for server, definition in tools()
    )


def raw(definition: Mapping[str, object]) -> dict[str, bytes]:
    """A definition as servers' offerings hold it."""
    return {key: json.dumps(value).encode() for key, value in definition.items()}


def places(searched: ToolIndex, asked: list[Question]) -> list[int | None]:
    """For each question the place of the first right tool, from 1."""
    found = []
    for question in asked:
        names, _ = searched.find(question.text, PLACES)
        found.append(next((place for place, name in enumerate(names, 1) if name in question.expected), None))
    return found


def score(found: list[int | None]) -> Score:
    """The three figures."""
    count = len(found)
    return Score(
        sum(place == 1 for place in found) / count,
        sum(place is not None and place <= 5 for place in found) / count,
        sum(1 / place for place in found if place) / count,
    )


def words(name: str) -> set[str]:
    """Every word of a set's questions."""
    return {word for question in questions(name) for word in question_words(question.text)}


@contextmanager
def without_synonyms(withheld: set[str]) -> Iterator[None]:
    """Search as if nobody had thought of those words."""
    former = tool_index.SYNONYMS
    tool_index.SYNONYMS = {word: others for word, others in former.items() if word not in withheld}
    try:
        yield
    finally:
        tool_index.SYNONYMS = former


def evaluation_score() -> Score:
    """The score that counts."""
    with without_synonyms(words("evaluation") - words("tuning")):
        return score(places(index(), questions("evaluation")))


def main() -> None:
    """Print."""
    searched, asked = index(), questions("tuning")
    found = places(searched, asked)
    for question, place in zip(asked, found, strict=True):
        if place != 1:
            print(f"{place or '-':>3}  {question.text}  ({', '.join(searched.find(question.text, 3)[0])})")
    print("tuning:                                ", score(found))
    if "--evaluation" in sys.argv:
        print("evaluation:                            ", evaluation_score())
        print("evaluation, with all synonyms:         ", score(places(searched, questions("evaluation"))))
        with without_synonyms(words("evaluation") | words("tuning")):
            print("evaluation, without any:               ", score(places(index(), questions("evaluation"))))


if __name__ == "__main__":
    main()
