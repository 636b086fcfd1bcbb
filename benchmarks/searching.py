"""Search over very many tools: how long the index takes, a question to it, and `find_tools` from a client's end."""

import json
import os
import sys
from time import perf_counter_ns, process_time_ns

from chain import ECHO, HERE, PYTHON, HearthChain
from client import ChainError, Client, check_answers, request
from measure import Action
from stage import Stage

sys.path.insert(0, os.path.join(HERE, "..", "tests"))

from hearth.mcp.tool_index import Tool, ToolIndex
from search.corpus import questions, tools

# More than anybody has in one place, by the design.
TOOLS = 2000
MANY = [PYTHON, "-I", "-S", os.path.join(HERE, "many_tools_server.py"), str(TOOLS)]
QUESTIONS = [asked.text for name in ("tuning", "evaluation") for asked in questions(name)]
FOUND = 8


def searched() -> list[Tool]:
    """The corpus again and again, on servers of other names, as offerings hold it."""
    found: list[Tool] = []
    for number in range(TOOLS // len(tools()) + 1):
        for server, definition in tools():
            raw = {key: json.dumps(value).encode() for key, value in definition.items()}
            found.append(Tool(f"{server}{number}__{definition['name']}", f"{server}{number}", definition["name"], raw))
    return found[:TOOLS]


def index_actions() -> dict[str, Action]:
    """Milliseconds of CPU for the index."""
    everything = searched()

    def build() -> float:
        begin = process_time_ns()
        ToolIndex(everything)
        return (process_time_ns() - begin) / 1e6

    return {"build": build}


def question_actions() -> dict[str, Action]:
    """Milliseconds for one question, the median over all; each is asked for the first time, or again."""
    everything = searched()

    def p50(index: ToolIndex) -> float:
        times, answered = [], 0
        for text in QUESTIONS:
            begin = perf_counter_ns()
            names, _ = index.find(text, FOUND)
            times.append(perf_counter_ns() - begin)
            answered += bool(names)
        if answered < len(QUESTIONS) * 0.9:
            raise ChainError(f"only {answered} of {len(QUESTIONS)} questions found anything")
        return sorted(times)[len(times) // 2] / 1e6

    def first() -> float:
        return p50(ToolIndex(everything))

    known = ToolIndex(everything)
    return {"first": first, "again": lambda: p50(known)}


def find_actions(stage: Stage) -> dict[str, Action]:
    """Microseconds for `find_tools`, and for a direct call of a tool, through the same bridge and daemon."""
    chain = HearthChain(stage, "search", ECHO, {"many": MANY})
    client = chain.bridge([*chain.printed, "--mode", "search"]).client
    client.open()
    listed = client.ask(1, "tools/call", {"name": "find_tools", "arguments": {"query": ""}})
    told = listed["result"]["content"][0]["text"]
    if f"many ({TOOLS})" not in told:
        raise ChainError(f"not all tools are there: {told[:400]}")
    return {
        "find_tools": lambda: median_question_us(client),
        "direct call": lambda: client.median_call_us(chain.tool, len(QUESTIONS)),
    }


def median_question_us(client: Client) -> float:
    """The median time of one `find_tools` after another, each with another question."""
    times = []
    for key, text in enumerate(QUESTIONS, 1):
        line = request(key, "tools/call", {"name": "find_tools", "arguments": {"query": text, "limit": FOUND}})
        begin = perf_counter_ns()
        answer = client.exchange(line)
        times.append(perf_counter_ns() - begin)
        check_answers(answer, {key})
    return sorted(times)[len(times) // 2] / 1e3
