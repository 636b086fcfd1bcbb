"""The lines of keys, against texts that were written together with the lines that their keys stand on."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.config.positions import JsonPositions, TomlPositions, blank_comments

Path = tuple[str | int, ...]


def paths_of(tree: Any, path: Path = ()) -> list[Path]:
    """Every key and every item of a parsed tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, value in items for found in [(*path, key), *paths_of(value, (*path, key))]]


def lines_of(positions: JsonPositions | TomlPositions, text: str, tree: Any) -> dict[Path, int]:
    offsets = {path: positions.offset_of(path) for path in paths_of(tree)}
    return {path: text.count("\n", 0, offset) + 1 for path, offset in offsets.items() if offset is not None}


class Writer:
    """Writes a text, and notes on which line each key was put."""

    def __init__(self, layout: st.DataObject, spaces: list[str], endings: tuple[str, ...] = ("",)) -> None:
        self.text = ""
        self.lines: dict[Path, int] = {}
        self._layout = layout
        self._spaces = st.sampled_from(spaces)
        self._endings = st.sampled_from(endings)

    def put(self, text: str, path: Path | None = None) -> None:
        if path is not None:
            self.lines.setdefault(path, self.text.count("\n") + 1)
        self.text += text

    def space(self) -> None:
        self.text += self._layout.draw(self._spaces)

    def ending(self) -> None:
        self.text += self._layout.draw(self._endings)


# What a scanner that only looked for brackets, quotes and hashes would stumble over.
NASTY = st.text(st.sampled_from("ab\"'\\#[]{}=,.:/*\n\té "), max_size=8)
KEYS = st.one_of(st.sampled_from(["a", "b", "command", "a.b"]), NASTY)
SCALARS = st.one_of(NASTY, st.integers(-9, 9), st.booleans(), st.floats(0, 1))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
TABLES = st.dictionaries(KEYS, TREES, max_size=4)


def write_json(writer: Writer, tree: Any, path: Path = ()) -> None:
    if not isinstance(tree, dict | list):
        writer.put(json.dumps(tree))
        return
    is_table = isinstance(tree, dict)
    writer.put("{" if is_table else "[")
    for number, key in enumerate(tree):
        writer.put("," if number else "")
        writer.space()
        inner = (*path, key if is_table else number)
        writer.put(json.dumps(key) if is_table else "", inner)
        if is_table:
            writer.space()
            writer.put(":")
            writer.space()
        write_json(writer, tree[key] if is_table else key, inner)
        writer.space()
    if tree:
        writer.ending()
        writer.space()
    writer.put("}" if is_table else "]")


@given(TABLES, st.data())
def test_every_key_of_a_json_text_has_its_line(tree: dict[str, Any], layout: st.DataObject) -> None:
    writer = Writer(layout, ["", " ", "\n", "\n\n\t"])
    writer.space()
    write_json(writer, tree)
    assert lines_of(JsonPositions(writer.text), writer.text, tree) == writer.lines


@given(TABLES, st.data())
def test_comments_and_trailing_commas_move_nothing(tree: dict[str, Any], layout: st.DataObject) -> None:
    writer = Writer(layout, ["", " ", "\n", '// "{\n', "/* ,]\n} */", "/**/", "// ,\n//}\n"], ("", ","))
    writer.space()
    write_json(writer, tree)
    plain = blank_comments(writer.text)
    assert json.loads(plain) == tree
    assert len(plain) == len(writer.text)
    assert lines_of(JsonPositions(plain), plain, tree) == writer.lines


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('{"a": [1, 2 , ], }', {"a": [1, 2]}),
        ('{"a": ",]", "b": "//", }', {"a": ",]", "b": "//"}),
        ('{"a": 1, // b\n}', {"a": 1}),
        ('{"a": 1 /* , */ , /* } */ }', {"a": 1}),
        ('{"a": "\\",}", }', {"a": '",}'}),
    ],
)
def test_what_editors_leave_in_json_is_blanked(text: str, tree: dict[str, Any]) -> None:
    assert json.loads(blank_comments(text)) == tree


@pytest.mark.parametrize("text", ['{"a": 1,,}', "{,}", "[,]", '{"a": 1 "b": 2}', '{"a": 1} // x\n}', '{"a": "x'])
def test_what_is_wrong_in_json_stays_wrong(text: str) -> None:
    with pytest.raises(ValueError, match="column"):
        json.loads(blank_comments(text))


def test_an_unclosed_comment_hides_the_rest_in_linear_time() -> None:
    # 2 MB that a backtracking pattern would look at a billion times.
    assert blank_comments("{}" + "/* " * 700_000).strip() == "{}"


def toml_string(text: str, form: int) -> str:
    """The text as one of TOML's four kinds of strings, where that kind can hold it."""
    if form == 1 and "'" not in text and "\n" not in text and "\t" not in text:
        return f"'{text}'"
    if form == 2 and "'''" not in text and not text.endswith("'") and not text.startswith("\n"):
        return f"'''{text}'''"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    if form == 3 and not text.startswith("\n"):
        return f'"""{escaped}"""'
    escaped = escaped.replace("\n", "\\n")
    return f'"{escaped}"'


class TomlWriter(Writer):
    def key(self, name: str) -> str:
        return name if name.isalpha() and name.isascii() else toml_string(name, self._layout.draw(st.integers(0, 1)))

    def value(self, tree: Any, path: Path) -> None:
        if isinstance(tree, list):
            self.put("[")
            for number, item in enumerate(tree):
                self.put("," if number else "")
                self.space()
                self.put("", (*path, number))
                self.value(item, (*path, number))
            self.space()
            self.put("]")
        elif isinstance(tree, dict):
            self.put("{ ")
            for number, (key, item) in enumerate(tree.items()):
                self.put(", " if number else "")
                self.put(self.key(key), (*path, key))
                self.put(" = ")
                self.value(item, (*path, key))
            self.put(" }")
        elif isinstance(tree, str):
            self.put(toml_string(tree, self._layout.draw(st.integers(0, 3))))
        else:
            self.put(json.dumps(tree))

    def table(self, tree: dict[str, Any], path: Path = (), dotted: str = "") -> None:
        """Plain values first, then tables under headers of their own or with dotted keys."""
        forms = {key: self._layout.draw(st.sampled_from(["inline", "header", "dotted"])) for key in tree}
        later = {key: item for key, item in tree.items() if isinstance(item, dict) and item and forms[key] == "header"}
        for key, item in tree.items():
            if key not in later:
                self.put("\n")
                self.space()
                self.assignment(key, item, path, forms[key] == "dotted")
        for key, item in later.items():
            self.put("\n")
            self.space()
            header = f"{dotted}.{self.key(key)}" if dotted else self.key(key)
            self.put(f"[ {header} ]" if forms[key] else "", (*path, key))
            self.table(item, (*path, key), header)

    def assignment(self, key: str, item: Any, path: Path, is_dotted: bool) -> None:
        if is_dotted and isinstance(item, dict) and len(item) == 1:
            ((inner, value),) = item.items()
            self.put(self.key(key), (*path, key))
            self.put(" . " + self.key(inner), (*path, key, inner))
            self.put(" = ")
            self.value(value, (*path, key, inner))
        else:
            self.put(self.key(key), (*path, key))
            self.put(" = ")
            self.value(item, (*path, key))


@given(TABLES, st.data())
def test_every_key_of_a_toml_text_has_its_line(tree: dict[str, Any], layout: st.DataObject) -> None:
    writer = TomlWriter(layout, ["", "\n", "# a = [\n", '# """\n\n'])
    writer.table(tree)
    assert tomllib.loads(writer.text) == tree
    assert lines_of(TomlPositions(writer.text), writer.text, tree) == writer.lines


@pytest.mark.parametrize(
    "odd",
    [
        *('"""a"""', '""""a"""', '"""a""""', '"""a"""""', '"""\\""""', '"""\\\n"""', '""""""'),
        *("'''a'''", "''''a'''''", "'''\\'''", "'\\'", '"#"', '"]"', "1979-05-27 07:32:00", "[[], [[]], {}]"),
    ],
)
def test_the_end_of_every_odd_value_is_found(odd: str) -> None:
    text = f'a = {odd} # "\nb = [ {odd}, # ]\n{odd} ]\nc = {{ d = {odd}, e = 1 }}\nf = 1\n'
    tomllib.loads(text)
    shift = odd.count("\n")
    lines = lines_of(TomlPositions(text), text, tomllib.loads(text))
    assert (lines["b", 1], lines["c", "e"], lines["f",]) == (3 + 2 * shift, 4 + 4 * shift, 5 + 4 * shift)


def test_arrays_of_tables_are_counted() -> None:
    text = "[[a]]\nx = 1\n[[a]]\ny = 1\n[a.b]\nz = 1\n[[a.c]]\n[[a.c]]\nw = 1\n"
    assert lines_of(TomlPositions(text), text, tomllib.loads(text)) == {
        ("a",): 1,
        ("a", 0): 1,
        ("a", 0, "x"): 2,
        ("a", 1): 3,
        ("a", 1, "y"): 4,
        ("a", 1, "b"): 5,
        ("a", 1, "b", "z"): 6,
        ("a", 1, "c"): 7,
        ("a", 1, "c", 0): 7,
        ("a", 1, "c", 1): 8,
        ("a", 1, "c", 1, "w"): 9,
    }


def test_a_key_that_is_not_there_has_no_line() -> None:
    assert TomlPositions("a = 1").offset_of(("b",)) is None
    assert JsonPositions('{"a": 1}').offset_of(("b",)) is None
    assert JsonPositions('{"a": 1}').offset_of(("a", "b")) is None
