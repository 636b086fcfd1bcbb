"""Checker of docstrings, comments and log lines: the language rules of CONTRIBUTING.md.

    python tests/support/plain_english.py FILE...      list violations as FILE:LINE: rule: sentence

Text in backticks and in double or typographic quotes is a quotation, and exempt.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# Openings that leave a reader without a subject. Nouns and verbs do not.
OPENINGS = (
    "what", "who", "whoever", "those", "all of them", "it", "they", "nobody", "somebody", "anybody", "that which",
)  # fmt: skip
# Literary or archaic phrases, and words for starting and stopping that systemd, asyncio and MCP do not use.
PHRASES = (
    r"anew", r"in vain", r"(?:is|are|was|were) to be", r"of (?:its|their|his|her|one's) own accord", r"unlit", r"lit",
    r"(?:go|goes|going|went|gone) out",
)  # fmt: skip
# Verbs of another mood at the beginning of a function's docstring that ruff's D401 does not know.
_NOT_IMPERATIVE = re.compile(
    r"(?:The|A|An|Whether|Which|How|When|Where|Why|This|These|Every|Each|All|None|No|One|Same|As|If)\b"
)
_QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’", re.DOTALL)
_OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b", re.IGNORECASE)
_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"“])|(?<=:)\s*\n|\n\s*[-*] |\n\s*\n")
# Comments for programs.
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|!|pyright|mypy:|ruff:)")
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})


class Violation(NamedTuple):
    """One sentence that breaks one rule."""

    line: int
    rule: str
    sentence: str


def check(source: str) -> list[Violation]:
    """Return the violations in one module, in the order of their lines."""
    tree = ast.parse(source)
    return sorted({*_docstrings(tree), *_comments(source), *_log_lines(tree)})


def check_text(text: str, line: int) -> Iterator[Violation]:
    """Yield the violations in one text that begins on that line."""
    plain = _QUOTED.sub(lambda match: "Q" * len(match[0].replace("\n", "")) + "\n" * match[0].count("\n"), text)
    for sentence in _SENTENCE_END.split(plain):
        begin = sentence.strip(" \t\n-*#:.")
        shown = " ".join(begin.split())[:80]
        if _OPENING.match(begin):
            yield Violation(line, "opening", shown)
        if phrase := _PHRASE.search(begin):
            yield Violation(line, f"phrase {phrase[0].lower()!r}", shown)


def _docstrings(tree: ast.Module) -> Iterator[Violation]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None:
            continue
        line = node.body[0].lineno
        yield from check_text(text, line)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
            first = text.split("\n", 1)[0]
            if _NOT_IMPERATIVE.match(first):
                yield Violation(line, "imperative", first[:80])


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function is read as an attribute: its docstring is a noun phrase, as an attribute's is."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter", "fixture"})


def _comments(source: str) -> Iterator[Violation]:
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        line = token.start[0]
        # A comment behind code stands by itself; one below another goes on with its sentence.
        if block and (line != last + 1 or token.line.split("#", 1)[0].strip()):
            yield from check_text("\n".join(block), start)
            block = []
        if not block:
            start = line
        block.append(token.string.lstrip("# "))
        last = line
    if block:
        yield from check_text("\n".join(block), start)


def _log_lines(tree: ast.Module) -> Iterator[Violation]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _LOG_METHODS
            and ast.unparse(node.func.value) in ("log", "logger", "self._log")
        ):
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield from check_text(argument.value, argument.lineno)


def main(paths: Iterable[str]) -> int:
    """Print the violations of files; return 1 if there are any."""
    count = 0
    for path in paths:
        for violation in check(Path(path).read_text(encoding="utf-8")):
            count += 1
            print(f"{path}:{violation.line}: {violation.rule}: {violation.sentence}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
