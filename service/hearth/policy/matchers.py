"""Templates of a permission: of a command's words, and of a tool's arguments. Each has captures with a kind.

    git push [-u] {remote:remote} {branch:branch}      words; `[…]` is optional
    git add {files:path...}                            one or more words of that kind
    pytest [--maxfail={count:word}]                    a capture inside a word
    {branch}                                           short for {branch:branch}

A capture never takes a word that begins with `-`: an option that the template does not list does not match. Which of
several readings a template has is settled from left to right: an optional part is taken if the rest then fits.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hearth.policy.captures import KINDS, Captured, NoMatch, Surroundings

# More than any command line of a person has.
TEMPLATE_WORDS_LIMIT = 64
# Steps of a search that does not remember where it failed: a position costs more to remember than to try again.
FORGETFUL_STEPS = 50
# Programs that run the program in their arguments: a rule that takes access away asks about them.
WRAPPERS = frozenset({
    "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval", "exec", "fish", "flock",
    "ionice", "ksh", "nice", "nohup", "parallel", "script", "setsid", "sh", "ssh", "stdbuf", "strace", "su", "sudo",
    "time", "timeout", "unshare", "watch", "xargs", "zsh",
})  # fmt: skip

_CAPTURE = re.compile(r"\{([a-z][a-z0-9_]*)(?::([A-Za-z0-9_]+))?(\.\.\.)?\}")
_PIECES = re.compile(r"\[|\]|[^\s\[\]]+")
# Words that mean themselves; two verbs of git push as `git push` does.
_PLAIN = re.compile(r"(?!(?i:http-push|send-pack)$)[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_LINE_ENDS = {ord(character): " " for character in "\t\n\r"}


class BadTemplate(ValueError):
    """Error for a template that cannot be read: a phrase to follow its key."""


class Capture(NamedTuple):
    """Capture of a template. `prefix` and `suffix` are the literal text around it in its word."""

    name: str
    kind: str
    repeated: bool = False
    prefix: str = ""
    suffix: str = ""

    def take(self, word: str, around: Surroundings) -> str:
        """Return the captured value of a word. Raises NoMatch."""
        if not word.startswith(self.prefix) or not word.endswith(self.suffix):
            raise NoMatch("{} is not {} and a value", word, self.prefix)
        value = word[len(self.prefix) : len(word) - len(self.suffix)]
        if not value or value.startswith("-") or len(word) < len(self.prefix) + len(self.suffix):
            raise NoMatch("{} is an option that the permission does not list", word)
        return KINDS[self.kind](value, around)


class Optional(NamedTuple):
    """Optional part of a template."""

    items: tuple["Item", ...]


Item = str | Capture | Optional


class CommandTemplate(NamedTuple):
    """Template of one simple command. `lead` has the words that it begins with; `is_fixed`: no word may be left out."""

    text: str
    items: tuple[Item, ...]
    lead: tuple[str, ...]
    is_fixed: bool

    @property
    def captures(self) -> list[Capture]:
        """Captures in the order in which they stand."""
        return list(_captures(self.items))

    def is_other(self, head: "CommandHead") -> bool:
        """Tell whether a command of the same program is another one beyond doubt, by its second word."""
        if len(self.lead) < 2 or head.word != self.lead[0] or not head.is_plain or head.second is None:
            return False
        return head.second != self.lead[1] and head.second.casefold() != self.lead[1].casefold()

    def match_once(self, words: tuple[str, ...], around: Surroundings) -> Captured:
        """Do the same as `match`, once for all rules and grants that use the template. Raises NoMatch."""
        key = id(self), words
        found = around.matches.get(key)
        if found is None:
            try:
                found = around.matches[key] = self.match(words, around)
            except NoMatch as exc:
                around.matches[key] = exc
                raise
        if isinstance(found, NoMatch):
            raise found
        return found

    def match(self, words: Sequence[str], around: Surroundings) -> Captured:
        """Return the captured values. Raises NoMatch."""
        for index, literal in enumerate(self.lead):
            if index == len(words):
                raise NoMatch("the command has no {}", literal, certain=True)
            if words[index] != literal:
                if index:
                    raise _other_literal(words[index], literal, _is_other_word(words[index], literal))
                is_other = _is_other_program(words[0], literal) and not self._is_run_by(words)
                raise _other_literal(words[0], literal, is_other)
        if self.is_fixed:
            return self._match_one_by_one(words, around)
        found: Captured = {}
        attempt = _Attempt(words, around)
        if not attempt.fits(self.items[len(self.lead) :], len(self.lead), found):
            raise attempt.reason or NoMatch("the command is not of that form")
        return found

    def _is_run_by(self, words: Sequence[str]) -> bool:
        """Tell whether another program may run a command like this: `find -exec git push …`, `uv run git push …`."""
        names = [_program_name(word) for word in words]
        if self.lead[0].casefold() not in names:
            return False
        return len(self.lead) < 2 or self.lead[1].casefold() in names[names.index(self.lead[0].casefold()) + 1 :]

    def _match_one_by_one(self, words: Sequence[str], around: Surroundings) -> Captured:
        found: Captured = {}
        refusal: NoMatch | None = None
        for item, word in zip(self.items, words, strict=False):
            if isinstance(item, Capture):
                found[item.name] = [item.take(word, around)]
            elif word != item:
                # Only if every capture takes its word, the command is understood, and is another one.
                refusal = refusal or _other_literal(word, str(item), _is_other_word(word, str(item)))
        if len(words) > len(self.items):
            raise NoMatch("{} is more than the permission lists", words[len(self.items)])
        if len(words) < len(self.items):
            raise NoMatch("the command has fewer words than the permission lists")
        if refusal is not None:
            raise refusal
        return found


def _other_literal(word: str, literal: str, certain: bool) -> NoMatch:
    return NoMatch("{} stands where the permission has {}", word, literal, certain=certain)


class CommandHead(NamedTuple):
    """First words of a simple command. `program`: the name in it, as the most lenient file system compares it.

    `names`: later words as names of programs, which another program may run.
    """

    word: str
    program: str
    is_wrapper: bool
    second: str | None
    is_plain: bool
    names: frozenset[str]


def head_of(words: Sequence[str]) -> CommandHead:
    """Return the first words of a simple command."""
    program = _program_name(words[0])
    second = words[1] if len(words) > 1 else None
    is_plain = second is not None and _PLAIN.fullmatch(second) is not None
    return CommandHead(
        words[0], program, program in WRAPPERS, second, is_plain, frozenset(map(_program_name, words[1:]))
    )


def _program_name(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2].casefold().removesuffix(".exe")


def _is_other_program(word: str, literal: str) -> bool:
    name = _program_name(word)
    return name != literal.casefold() and name not in WRAPPERS


def _is_other_word(word: str, literal: str) -> bool:
    return _PLAIN.fullmatch(word) is not None and word.casefold() != literal.casefold()


class _Attempt:
    """Search for a reading of the words. After some steps failed positions are remembered, so the time is bounded."""

    def __init__(self, words: Sequence[str], around: Surroundings) -> None:
        self._words = words
        self._around = around
        self._failed: set[tuple[tuple[Item, ...], int]] = set()
        self._steps = 0
        self.reason: NoMatch | None = None

    def fits(self, items: tuple[Item, ...], at: int, found: Captured) -> bool:
        if not items:
            return self._is_end(at)
        self._steps += 1
        if self._steps <= FORGETFUL_STEPS:
            return self._first_fits(items[0], items[1:], at, found)
        if (items, at) in self._failed:
            return False
        if self._first_fits(items[0], items[1:], at, found):
            return True
        self._failed.add((items, at))
        return False

    def _is_end(self, at: int) -> bool:
        if at == len(self._words):
            return True
        self.reason = self.reason or NoMatch("{} is more than the permission lists", self._words[at])
        return False

    def _first_fits(self, item: Item, rest: tuple[Item, ...], at: int, found: Captured) -> bool:
        if isinstance(item, Optional):
            return self.fits(item.items + rest, at, found) or self.fits(rest, at, found)
        if at == len(self._words):
            return False
        if isinstance(item, str):
            if self._words[at] == item:
                return self.fits(rest, at + 1, found)
            self.reason = self.reason or _other_literal(self._words[at], item, certain=False)
            return False
        return self._capture_fits(item, rest, at, found)

    def _capture_fits(self, item: Capture, rest: tuple[Item, ...], at: int, found: Captured) -> bool:
        try:
            value = item.take(self._words[at], self._around)
        except NoMatch as exc:
            exc.certain = False
            self.reason = exc
            return False
        found.setdefault(item.name, []).append(value)
        if item.repeated and self.fits((item, *rest), at + 1, found):
            return True
        if self.fits(rest, at + 1, found):
            return True
        found[item.name].pop()
        return False


def _captures(items: Sequence[Item]) -> Iterator[Capture]:
    for item in items:
        if isinstance(item, Capture):
            yield item
        elif isinstance(item, Optional):
            yield from _captures(item.items)


def parse_command(template: str) -> CommandTemplate:
    """Parse the template of a command. Raises BadTemplate."""
    pieces = _PIECES.findall(template)
    if not pieces:
        raise BadTemplate("must not be empty")
    if len(pieces) > TEMPLATE_WORDS_LIMIT:
        raise BadTemplate(f"has over {TEMPLATE_WORDS_LIMIT} words")
    items, rest = _items(pieces, depth=0)
    if rest:
        raise BadTemplate("has a `]` without its `[`")
    if not isinstance(items[0], str):
        raise BadTemplate("must begin with the name of a program, and not with a capture or an optional part")
    lead = itertools.takewhile(lambda item: isinstance(item, str) and item[0] != "-", items)
    is_fixed = not any(isinstance(item, Optional) or (isinstance(item, Capture) and item.repeated) for item in items)
    found = CommandTemplate(template, tuple(items), tuple(map(str, lead)), is_fixed)
    _check_names(found.captures)
    return found


def _items(pieces: list[str], depth: int) -> tuple[list[Item], list[str]]:
    items: list[Item] = []
    while pieces:
        piece, pieces = pieces[0], pieces[1:]
        if piece == "]":
            return items, pieces if depth else ["]"]
        if piece == "[":
            if depth:
                raise BadTemplate("has an optional part inside another one")
            inner, pieces = _items(pieces, depth + 1)
            if not inner:
                raise BadTemplate("has an empty `[]`")
            items.append(Optional(tuple(inner)))
        else:
            items.append(parse_word(piece))
    if depth:
        raise BadTemplate("has a `[` without its `]`")
    return items, []


def parse_word(piece: str) -> str | Capture:
    """Parse one word of a template: a literal, or a capture with literal text around it. Raises BadTemplate."""
    found = _CAPTURE.search(piece)
    if found is None:
        if "{" in piece or "}" in piece:
            raise BadTemplate(f"has {piece!r}, which is no capture; write {{name:kind}}, for example {{branch:branch}}")
        return piece
    if _CAPTURE.search(piece, found.end()):
        raise BadTemplate(f"has two captures in one word: {piece!r}")
    name, kind, repeated = found[1], found[2] or found[1], bool(found[3])
    if kind not in KINDS:
        from hearth.config.schema import nearest

        near = nearest(kind, KINDS)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(KINDS)}"
        raise BadTemplate(f"has a capture {found[0]} of a kind that is not known; {hint}")
    prefix, suffix = piece[: found.start()], piece[found.end() :]
    if "{" in prefix + suffix or "}" in prefix + suffix:
        raise BadTemplate(f"has {piece!r}, which is no capture")
    return Capture(name, kind, repeated, prefix, suffix)


def _check_names(captures: Sequence[Capture]) -> None:
    names = [capture.name for capture in captures]
    for name in names:
        if names.count(name) > 1:
            raise BadTemplate(f"has two captures with the name {name!r}")


# Key that stands for all further arguments, whatever they hold.
REST = "*"


class ArgumentTemplate(NamedTuple):
    """Template of a tool's arguments: by key, a literal text or a capture. Keys that it does not list do not match."""

    required: Mapping[str, str | Capture]
    optional: Mapping[str, str | Capture]
    has_rest: bool

    @property
    def captures(self) -> list[Capture]:
        """Captures in the order in which they stand."""
        items = [*self.required.values(), *self.optional.values()]
        return [item for item in items if isinstance(item, Capture)]

    def match(self, values: Mapping[str, object], around: Surroundings) -> Captured:
        """Return the captured values. Raises NoMatch."""
        for key in self.required:
            if key not in values:
                raise NoMatch("there is no argument {}", key)
        found: Captured = {}
        for key, value in values.items():
            item = self.required.get(key, self.optional.get(key))
            if item is not None:
                self._take(key, item, value, around, found)
            elif not self.has_rest:
                raise NoMatch("the permission does not list the argument {}", key)
        return found

    def _take(self, key: str, item: str | Capture, value: object, around: Surroundings, found: Captured) -> None:
        values = value if isinstance(value, list) and isinstance(item, Capture) and item.repeated else [value]
        for single in values:
            plain = _plain(single)
            if plain is None:
                raise NoMatch("the argument {} is not a plain value", key)
            if isinstance(item, Capture):
                found.setdefault(item.name, []).append(_value_of(item, plain, around))
            elif plain != item:
                is_other = _PLAIN.fullmatch(plain) is not None
                raise NoMatch("the argument {} is not {}", key, item, certain=is_other)


def _value_of(item: Capture, plain: str, around: Surroundings) -> str:
    if item.kind != "text":
        return item.take(plain, around)
    # A message has lines, and may begin with a dash: no shell reads it.
    KINDS["text"](plain if plain.isprintable() else plain.translate(_LINE_ENDS), around)
    return plain


def _plain(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


def parse_arguments(table: Mapping[str, object]) -> ArgumentTemplate:
    """Parse the templates of arguments; a key with `?` at its end is optional. Raises BadTemplate."""
    required: dict[str, str | Capture] = {}
    optional: dict[str, str | Capture] = {}
    has_rest = False
    for key, value in table.items():
        if key == REST:
            if value != REST:
                raise BadTemplate('must have "*" for the key "*": further arguments, whatever they hold')
            has_rest = True
            continue
        if not isinstance(value, str) or not value:
            raise BadTemplate(f"must have a text for the key {key!r}")
        item = parse_word(value) if "{" in value else value
        if key.endswith("?"):
            optional[key[:-1]] = item
        else:
            required[key] = item
    found = ArgumentTemplate(required, optional, has_rest)
    _check_names(found.captures)
    return found
