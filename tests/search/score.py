"""`python tests/search/score.py`: how good the search is by the tuning set, question by question; by the other, in sum."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from corpus import Question, questions, tools

from hearth.mcp.tool_index import Tool, ToolIndex


class Score(NamedTuple):
    """Of a set of questions: how many have a right tool first, among five, and the mean of 1 / its place."""

    top1: float
    top5: float
    mrr: float


def index() -> ToolIndex:
    """The corpus, under names that the questions use."""
    return ToolIndex(
        Tool(f"{server}/{tool['name']}", server, tool["name"], {key: json.dumps(value).encode() for key, value in tool.items()})
        for server, tool in tools()
    )


def places(searched: ToolIndex, asked: list[Question]) -> list[int | None]:
    """For each question the place of the first right tool, from 1; None beyond the fiftieth."""
    found = []
    for question in asked:
        names, _ = searched.find(question.text, 50)
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


if __name__ == "__main__":
    searched = index()
    asked = questions("tuning")
    found = places(searched, asked)
    for question, place in zip(asked, found, strict=True):
        if place is None or place > 1:
            names, _ = searched.find(question.text, 3)
            print(f"{place or '-':>3}  {question.text}  ({', '.join(names)})")
    print("tuning    ", score(found))
    if "--evaluation" in sys.argv:
        print("evaluation", score(places(searched, questions("evaluation"))))
