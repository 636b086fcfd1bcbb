"""Entries in any file that has a table of servers somewhere: put there, taken out, and written back in their own
characters, whatever the file looks like."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.config import editor
from hearth.config.document import parse
from hearth.errors import ConfigError

ENTRY = {"command": "/v/bin/python", "args": ["-I", "-S", "main.py", "--server", "a"], "timeout": 5}
WHOLE = {"command": "/v/bin/python", "args": []}

# --- JSON with everything that people and programs put into it

SPACES = st.sampled_from(
    ["", "", " ", "\n", "\n  ", "\t", "\r\n\t", ' // , } "\n', "/* { , */", "\n/* a\n b */\n", "//\n"]
)
NAMES = st.sampled_from(["a", "b", "mcpServers", "mcp", "x y", "é", "//", "{", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 99),
    st.sampled_from(["", "a", "\\", '"', "// no", "}{", "é🔥", "a\nb", ","]),
)


@st.composite
def json_value(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["scalar", "object", "list"])) if depth else "scalar"
    if kind == "scalar":
        return json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans()))
    if kind == "list":
        return draw(bracketed("[]", [draw(json_value(depth - 1)) for _ in range(draw(st.integers(0, 2)))]))
    return draw(json_object({name: draw(json_value(depth - 1)) for name in sorted(draw(st.sets(NAMES, max_size=3)))}))


@st.composite
def json_object(draw: st.DrawFn, members: dict[str, str]) -> str:
    written = [
        f"{json.dumps(name)}{draw(SPACES)}:{draw(SPACES)}{value}"
        for name, value in draw(st.permutations(sorted(members.items())))
    ]
    return draw(bracketed("{}", written))


@st.composite
def bracketed(draw: st.DrawFn, brackets: str, items: list[str]) -> str:
    inside = ",".join(f"{draw(SPACES)}{item}{draw(SPACES)}" for item in items)
    trailing = f",{draw(SPACES)}" if items and draw(st.booleans()) else ""
    return f"{brackets[0]}{inside}{trailing}{draw(SPACES) if not items else ''}{brackets[1]}"


@st.composite
def json_file(draw: st.DrawFn) -> tuple[bytes, tuple[str, ...]]:
    keys = draw(st.sampled_from([("mcpServers",), ("mcp", "servers"), ("projects", "/p", "mcpServers")]))
    there = draw(st.integers(0, len(keys)))
    # The innermost that is there: the table itself, or what has no such key yet.
    text = draw(members(set(keys[there : there + 1])))
    for key in reversed(keys[:there]):
        text = draw(members({key}, {key: text}))
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return mark + f"{draw(SPACES)}{text}{draw(SPACES)}".encode(), keys


@st.composite
def members(draw: st.DrawFn, without: set[str], fixed: dict[str, str] | None = None) -> str:
    names = draw(st.sets(NAMES.filter(lambda name: name not in without), max_size=3))
    return draw(json_object({**{name: draw(json_value()) for name in sorted(names)}, **(fixed or {})}))


@given(json_file())
def test_any_json_is_edited_rightly(file: tuple[bytes, tuple[str, ...]]) -> None:
    check("settings.json", *file)


# --- TOML

TOML_ENTRIES = [
    '[mcp.NAME]\ncommand = "a" # c\n',
    '[mcp.NAME]\n# first\ncommand = "a"\n\n  [mcp.NAME.env]\n  A = "1"\n# last\n',
    '[mcp]\nNAME = { command = "a" } # one\n',
    '[mcp]\nNAME.command = "a"\nNAME.args = [\n "x", # y\n]\n',
    '[ mcp . "NAME" ]\nargs = ["""\n[mcp.no]\n""", \'\'\'"\'\'\']\nurl = "u"\n',
    'mcp.NAME.command = "a"\nmcp.NAME.env.B = "#"\n',
    'mcp = { NAME = { command = "a", env = {A="1"} }, other = {} }\n',
    '[mcp.NAME.env]\nA = "1"\n\n[mcp.NAME]\ncommand = "a"\n',
]
TOML_OTHERS = ["", "\n", "# a comment\n", "x = 1\n", "[y]\nz = nan\n", "\n\n[[w]]\nv = 1979-05-27\n", "[mcp]\n"]


@st.composite
def toml_file(draw: st.DrawFn) -> bytes:
    pieces = [
        draw(st.sampled_from(TOML_ENTRIES)).replace("NAME", name) if name else draw(st.sampled_from(TOML_OTHERS))
        for name in draw(st.lists(st.sampled_from(["", "", "a", "b", "a-b"]), max_size=5))
    ]
    text = "".join(pieces)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()


@given(toml_file())
def test_any_toml_is_edited_rightly(data: bytes) -> None:
    try:
        tomllib.loads(data.decode().replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError:
        return
    check("config.toml", data, ("mcp",))


# --- what holds for every file


def check(path: str, data: bytes, keys: tuple[str, ...]) -> None:
    """Replaced and written back, the file is as it was; with a new entry, and without it again, it means the same."""
    tree = parse(path, data).tree
    table = editor.value_at(tree, keys) or {}
    names = [name for name in table if isinstance(table[name], dict)]
    if names:
        replaced = editor.put(path, data, keys, dict.fromkeys(names, ENTRY))
        assert editor.value_at(parse(path, replaced).tree, keys) == {**table, **dict.fromkeys(names, ENTRY)}
        texts = editor.written(path, data, keys, names)
        back = editor.rewritten(path, replaced, keys, texts, {name: table[name] for name in names})
        # What TOML may have in two places comes back in one.
        assert back == data or (path == "config.toml" and repr(parse(path, back).tree) == repr(tree))
    added = editor.put(path, data, keys, {"new one": WHOLE})
    assert editor.value_at(parse(path, added).tree, keys) == {**table, "new one": WHOLE}
    left = editor.taken(path, added, (*keys, "new one"))
    assert (editor.value_at(parse(path, left).tree, keys) or {}) == table
    # An object that was empty, in its own way, is so in the usual one.
    assert left == data or not table


@pytest.mark.parametrize("data", [b'{"a": 5}', b'{"a": []}', b'{"a": {"b": "c"}}'])
def test_what_is_on_the_way_and_no_table_is_not_replaced(data: bytes) -> None:
    with pytest.raises(ConfigError, match="nothing was changed"):
        editor.put("settings.json", data, ("a", "b"), {"new": WHOLE})


@pytest.mark.parametrize(
    ("data", "keys", "sentence"),
    [
        (b'{"a": {}, "a": {}}', ("a",), "has 'a' more than once"),
        (b'{"a": {"b": {}, "b": {}}}', ("a", "b"), "has 'a.b' more than once"),
        (b'{"a": {"new": {}, "new": {}}}', ("a",), "has 'a.new' more than once"),
    ],
)
def test_which_of_two_is_meant_is_not_guessed(data: bytes, keys: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        editor.put("settings.json", data, keys, {"new": WHOLE})


@pytest.mark.parametrize(
    ("data", "keys", "expected"),
    [
        (b"", ("a",), '{\n  "a": {\n    "n": {\n      "x": []\n    }\n  }\n}\n'),
        (b"{}", ("a",), '{\n  "a": {\n    "n": {\n      "x": []\n    }\n  }\n}'),
        (b'{"a": null}', ("a", "b"), '{"a": {"b": {"n": {"x": []}}}}'),
        (
            b'{\n\t"z": 1\n}\n',
            ("a", "b"),
            '{\n\t"z": 1,\n\t"a": {\n\t\t"b": {\n\t\t\t"n": {\n\t\t\t\t"x": []\n\t\t\t}\n\t\t}\n\t}\n}\n',
        ),
        (b'{"a": {"b": {}}}', ("a", "b"), '{"a": {"b": {\n  "n": {\n    "x": []\n  }\n}}}'),
    ],
)
def test_tables_on_the_way_are_made(data: bytes, keys: tuple[str, ...], expected: str) -> None:
    assert editor.put("settings.json", data, keys, {"n": {"x": []}}).decode() == expected


def test_several_new_entries_come_in_one_go() -> None:
    new: dict[str, Any] = {"b": {"command": "b"}, "c": {"command": "c"}}
    for path, data in (("m.json", b'{"s": {"a": {"command": "a"}}}'), ("c.toml", b'[s.a]\ncommand = "a"\n')):
        assert list(parse(path, editor.put(path, data, ("s",), new)).tree["s"].items())[1:] == list(new.items())


def test_a_dotted_entry_is_replaced_where_it_stands() -> None:
    data = b'[s]\na.command = "a"\na.args = []\nb = { command = "b" } # b\n[t]\n'
    put = editor.put("c.toml", data, ("s",), {"a": {"url": "u"}, "b": {"url": "v"}})
    assert put == b'[s]\na = { url = "u" }\nb = { url = "v" } # b\n[t]\n'
