"""A server into a config file and out of it again: nothing else changes, whatever the file looks like."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.config import editor
from hearth.config.document import parse
from hearth.errors import ConfigError

ENTRY: dict[str, Any] = {"command": "uvx", "args": ["mcp-server-time", "--x"], "env": {"TOKEN": "${keyring:t}"}}

TOML = {
    "empty": "",
    "only a line end": "\n",
    "only comments": "# one\n\n# two\n",
    "no line end at the end": 'idle_timeout = 5\n[mcpServers.a]\ncommand = "a"',
    "comments everywhere": (
        '# head\nidle_timeout = 5 # five\n\n# about a\n[mcpServers.a] # a\ncommand = "a" # c\n# in a\nargs = []\n\n'
        '# about b\n[mcpServers.b]\ncommand = "b"\n\n# tail\n'
    ),
    "settings behind the servers": '[mcpServers.a]\ncommand = "a"\n\n# about the owner\n[owner]\napprove = "never"\n',
    "servers in two places": '[mcpServers.a]\ncommand = "a"\n[owner]\n[mcpServers.b]\ncommand = "b"\n',
    "odd indentation": '\t[mcpServers.a]\n\t\t  command   =   "a"\n\n\n\n   # x\n',
    "a table of its own": "[mcpServers]\n",
    "inline entries": '[mcpServers]\na = { command = "a" } # x\nb = {command="b"}\n',
    "dotted keys": '[mcpServers]\na.command = "a"\na.args = ["x",\n  "y", # why\n]\n',
    "dotted keys at the top": 'mcpServers.a.command = "a"\nidle_timeout = 5\n',
    "inline": 'mcpServers = { a = { command = "a" } } # all\nidle_timeout = 5\n',
    "inline and empty": "mcpServers = {}\n",
    "inline and blank": "mcpServers = { } # none\n",
    "sub-tables": '[mcpServers.a]\ncommand = "a"\n[mcpServers.a.env]\nA = "1"\n\n[mcpServers.b]\nurl = "http://b"\n',
    "long strings": "[mcpServers.a]\ncommand = \"\"\"\\\n   a\"\"\"\nargs = ['''\n[mcpServers.time]\n''']\n",
    "quoted names": '[mcpServers."a.b c"]\ncommand = "a"\n[ mcpServers . \'x\' ]\ncommand = "#"\n',
    "many empty lines": '\n\n\n[mcpServers.a]\n\n\ncommand = "a"\n\n\n\n',
}

JSON = {
    "usual": '{\n  "mcpServers": {\n    "a": {\n      "command": "a"\n    }\n  },\n  "other": [1, 2]\n}\n',
    "compact": '{"mcpServers":{"a":{"command":"a"}},"x":1}',
    "no servers yet": '{\n    "mcpServers": {},\n    "other": true\n}',
    "no servers yet, compact": '{"mcpServers":{}}',
    "tabs": '{\n\t"mcpServers": {\n\t\t"a": {"command": "a"}\n\t}\n}\n',
    "trailing commas": '{\n  "mcpServers": {\n    "a": {"command": "a"},\n  },\n}\n',
    "comments": (
        '// mine, hands off\n{\n  /* all */ "mcpServers": { // here\n    // about a, and more\n'
        '    "a": {"command": "a"} // a, b\n'
        "    /* the end, really */\n  } // done\n}\n"
    ),
    "comments and trailing commas": '{\n  "mcpServers": {\n    "a": {"command": "a"}, // a\n    // b, c\n  }\n}\n',
    "VS Code's name": '{\n  "servers": {\n    "a": {"command": "a"}\n  }\n}\n',
    "on one line": '{ "mcpServers": { "a": { "command": "a" } } }\n',
    "keys that look like others": '{"x": {"mcpServers": {"time": 1}}, "mcpServers": {"a": {"command": "// {"}}}',
    "surrogates and escapes": '{"mcpServers": {"\\u0061": {"command": "\\"}, {\\""}}}',
}

SHAPES = {
    **{f"toml, {name}": ("config.toml", text) for name, text in TOML.items()},
    **{f"json, {name}": ("mcp.json", text) for name, text in JSON.items()},
}


def encodings(text: str) -> dict[str, bytes]:
    windows = text.replace("\n", "\r\n")
    return {
        "plain": text.encode(),
        "CRLF": windows.encode(),
        "BOM": b"\xef\xbb\xbf" + text.encode(),
        "UTF-16": b"\xff\xfe" + windows.encode("utf-16-le"),
        "UTF-16 BE": b"\xfe\xff" + text.encode("utf-16-be"),
        "mixed line ends": text.replace("\n", "\r\n", text.count("\n") // 2).encode(),
    }


@pytest.mark.parametrize("encoding", encodings(""))
@pytest.mark.parametrize("shape", SHAPES)
def test_added_and_removed_again_leaves_every_byte_as_it_was(shape: str, encoding: str) -> None:
    name, text = SHAPES[shape]
    data = encodings(text)[encoding]
    added = editor.added(name, data, "time", ENTRY)
    former, tree = parse(name, data).tree, parse(name, added).tree
    key = "servers" if "servers" in tree else "mcpServers"
    assert tree == {**former, key: {**former.get(key, {}), "time": ENTRY}}
    assert list(tree[key]) == [*former.get(key, {}), "time"]
    assert editor.removed(name, added, "time") == data


@pytest.mark.parametrize("shape", [shape for shape, (_, text) in SHAPES.items() if "a" in text and "omma" in text])
def test_an_entry_that_somebody_wrote_is_removed(shape: str) -> None:
    name, text = SHAPES[shape]
    tree = parse(name, text.encode()).tree
    key = "servers" if "servers" in tree else "mcpServers"
    for server in tree[key]:
        left = editor.removed(name, text.encode(), server)
        meant = {other: entry for other, entry in tree[key].items() if other != server}
        assert parse(name, left).tree.get(key, {}) == meant


@pytest.mark.parametrize("encoding", encodings(""))
@pytest.mark.parametrize("shape", SHAPES)
def test_an_entry_is_replaced(shape: str, encoding: str) -> None:
    name, text = SHAPES[shape]
    added = editor.added(name, encodings(text)[encoding], "time", ENTRY)
    replaced = editor.added(name, added, "time", {"url": "https://t"})
    tree = parse(name, replaced).tree
    assert tree.get("mcpServers", tree.get("servers"))["time"] == {"url": "https://t"}
    assert editor.added(name, replaced, "time", ENTRY) == added


def test_comments_stay_with_the_tables_that_they_are_above() -> None:
    assert editor.removed("c.toml", TOML["comments everywhere"].encode(), "a").decode() == (
        '# head\nidle_timeout = 5 # five\n\n# about a\n\n# about b\n[mcpServers.b]\ncommand = "b"\n\n# tail\n'
    )


def test_all_tables_of_an_entry_are_removed() -> None:
    assert editor.removed("c.toml", TOML["sub-tables"].encode(), "a").decode() == '[mcpServers.b]\nurl = "http://b"\n'


def test_an_entry_with_sub_tables_is_replaced_where_it_is() -> None:
    text = '[mcpServers.a]\ncommand = "a"\n\n[owner]\n\n[mcpServers.a.env]\nA = "1"\n'
    replaced = editor.added("c.toml", text.encode(), "a", {"url": "http://a"}).decode()
    assert replaced == '[mcpServers.a]\nurl = "http://a"\n\n[owner]\n'


def test_a_new_table_is_indented_as_the_others_are() -> None:
    added = editor.added("c.toml", TOML["odd indentation"].encode(), "time", {"url": "http://t"}).decode()
    assert added.endswith('\n\t[mcpServers.time]\n\t\t  url = "http://t"\n')


def test_new_json_has_the_indentation_of_the_file() -> None:
    assert editor.added("m.json", JSON["tabs"].encode(), "time", {"url": "http://t"}).decode() == (
        '{\n\t"mcpServers": {\n\t\t"a": {"command": "a"},\n\t\t"time": {\n\t\t\t"url": "http://t"\n\t\t}\n\t}\n}\n'
    )


def test_a_comment_beside_the_last_json_entry_stays_beside_it() -> None:
    added = editor.added("m.json", JSON["comments"].encode(), "time", {"url": "http://t"}).decode()
    assert '"a": {"command": "a"}, // a, b\n    "time": {\n' in added


def test_json_without_servers_gets_some() -> None:
    added = editor.added("m.json", b'{\n  "theme": "dark"\n}\n', "time", ENTRY)
    assert json.loads(added) == {"theme": "dark", "mcpServers": {"time": ENTRY}}
    assert added.startswith(b'{\n  "theme": "dark",\n  "mcpServers": {\n    "time": {\n')


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"time": {"command": "a"}, "time": {"command": "b"}}}',
        '{"mcpServers": {"a": {"command": "a"}, /* whose? */ "time": {"command": "b"}}}',
    ],
)
def test_json_that_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="by hand"):
        editor.removed("m.json", text.encode(), "time")


@pytest.mark.parametrize("data", [b"[mcpServers", b"a = 1\na = 2\n", b"\xff\xfe\x00", b"{"])
def test_what_is_no_config_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        editor.added("config.toml", data, "time", ENTRY)


@pytest.mark.parametrize("name", ["config.toml", "mcp.json", "mcp.jsonc"])
def test_a_new_file_is_right_and_says_what_it_is(name: str) -> None:
    made = editor.added(name, None, "time", ENTRY)
    assert parse(name, made).tree == {"mcpServers": {"time": ENTRY}}
    assert name != "config.toml" or made.startswith(b"# What Hearth serves.")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXTS.filter(str.strip), TEXTS, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_any_name_and_any_text_is_written_so_that_it_is_read_as_it_was(
    name: str, command: str, args: list[str], env: dict[str, str]
) -> None:
    entry = {"command": command, "args": args, "env": env, "start_timeout": 1.5, "disabled": False}
    for path, data in (("c.toml", b""), ("c.toml", b"mcpServers = {}"), ("m.json", b'{"mcpServers":{}}')):
        added = editor.added(path, data, name, entry)
        assert parse(path, added).tree["mcpServers"] == {name: entry}
        assert editor.removed(path, added, name) == data


@given(st.lists(st.sampled_from(list(TOML.values())), max_size=3), st.integers(0, 3))
def test_pieces_of_files_put_together_are_edited_rightly_or_refused(parts: list[str], line_ends: int) -> None:
    text = ("\n" * line_ends).join(parts)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        added = editor.added("c.toml", text.encode(), "time", ENTRY)
    except ConfigError:
        return
    assert editor.removed("c.toml", added, "time") == text.encode()


@pytest.mark.parametrize("encoding", encodings(""))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "at", [("drain_timeout",), ("idle_timeout",), ("owner", "approve"), ("mcpServers", "a", "pin")]
)
def test_one_value_is_assigned_and_taken_out_again(shape: str, encoding: str, at: tuple[str, ...]) -> None:
    name, text = SHAPES[shape]
    data = encodings(text)[encoding]
    former = parse(name, data).tree if text.strip() or name.endswith("toml") else {}
    where = ("servers", *at[1:]) if at[0] == "mcpServers" and "servers" in former else at
    if len(at) == 3 and not editor.value_at(former, where[:2]):
        return
    assigned = editor.assigned(name, data, at, True)
    assert editor.value_at(parse(name, assigned).tree, where) is True
    assert editor.value_at(parse(name, editor.assigned(name, assigned, at, "other")).tree, where) == "other"
    if editor.value_at(former, where) is None:
        left = parse(name, editor.unassigned(name, assigned, at)).tree
        assert {**left, "owner": left.get("owner") or {}} == {**former, "owner": former.get("owner") or {}}


def test_a_value_stands_behind_those_of_its_table_and_comments_stay() -> None:
    text = TOML["comments everywhere"].encode()
    set_once = editor.assigned("c.toml", text, ("drain_timeout",), 7)
    assert set_once == text.replace(b"# five\n", b"# five\ndrain_timeout = 7\n")
    assert editor.unassigned("c.toml", set_once, ("drain_timeout",)) == text
    in_server = editor.assigned("c.toml", text, ("mcpServers", "a", "disabled"), True)
    assert in_server == text.replace(b"args = []\n", b"args = []\ndisabled = true\n")


def test_the_first_value_of_a_file_stands_before_its_tables() -> None:
    text = b'# head\n\n# about a\n[mcpServers.a]\ncommand = "a"\n'
    assigned = editor.assigned("c.toml", text, ("idle_timeout",), 7)
    assert assigned == b'# head\n\nidle_timeout = 7\n\n# about a\n[mcpServers.a]\ncommand = "a"\n'


def test_taking_out_what_is_not_there_changes_nothing() -> None:
    text = TOML["comments everywhere"].encode()
    assert editor.unassigned("c.toml", text, ("owner", "approve")) == text
