"""Config files of MCP clients as they are found on people's machines: every client's words in every way of writing, and
oddities by hand. Built here, and the same in every run.

A file is either edited or refused; which of the two it has to be stands with it, and so do the names of its entries.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hearth.clients.table import Table

Tree = dict[str, Any]


class Config(NamedTuple):
    """One file. `refusal`: a part of the sentence with which it is refused, if it has to be."""

    title: str
    client: str
    data: bytes
    keys: tuple[str, ...]
    entries: tuple[str, ...]
    refusal: str = ""

    @property
    def name(self) -> str:
        """What the file is called."""
        return "config.toml" if self.client == "codex" else "settings.json"


# --- what is in them

STDIO = {
    "command": "npx",
    "args": ["-y", "@modelcontextprotocol/server-github"],
    "env": {"GITHUB_TOKEN": "ghp_0123abcd"},
}
ODD_TEXTS = {
    "command": "C:\\Program Files\\node.exe",
    "args": ["// no comment", "a,}b", 'quo"ted', "ünïcødé 🔥", "{\n}"],
}

CLIENTS: dict[str, tuple[tuple[str, ...], Tree]] = {
    "claude-code": (
        ("projects", "/home/a/p", "mcpServers"),
        {
            "numStartups": 12,
            "tipsHistory": {"new-user-warmup": 3},
            "mcpServers": {"sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp"}},
            "projects": {
                "/home/a/q": {"allowedTools": []},
                "/home/a/p": {
                    "allowedTools": ["Bash(ls:*)"],
                    "history": [{"display": "what is in // this { file", "pastedContents": {}}],
                    "mcpServers": {
                        "github": {"type": "stdio", **STDIO},
                        "odd": {"type": "stdio", **ODD_TEXTS},
                        "api": {
                            "type": "http",
                            "url": "https://api.example.com/mcp",
                            "headers": {"X-Key": "${KEY:-none}"},
                        },
                    },
                    "hasTrustDialogAccepted": True,
                },
            },
            "userID": "0123456789abcdef",
        },
    ),
    "claude-desktop": (
        ("mcpServers",),
        {"globalShortcut": "Ctrl+Space", "mcpServers": {"github": STDIO, "odd": ODD_TEXTS}},
    ),
    "gemini": (
        ("mcpServers",),
        {
            "theme": "GitHub",
            "mcpServers": {
                "github": {**STDIO, "timeout": 30000, "trust": False, "includeTools": ["search"]},
                "http": {"httpUrl": "http://localhost:3000/mcp", "headers": {"Authorization": "Bearer $TOKEN"}},
                "sse": {"url": "http://localhost:3000/sse"},
                "odd": ODD_TEXTS,
            },
            "mcp": {"allowed": ["github", "http"]},
            "selectedAuthType": "oauth-personal",
        },
    ),
    "cursor": (
        ("mcpServers",),
        {
            "mcpServers": {
                "github": {**STDIO, "envFile": "${workspaceFolder}/.env"},
                "api": {"url": "https://a.example/mcp"},
            }
        },
    ),
    "vscode": (
        ("servers",),
        {
            "inputs": [{"type": "promptString", "id": "key", "description": "API key", "password": True}],
            "servers": {
                "github": {"type": "stdio", **STDIO, "dev": {"watch": "src/**"}},
                "api": {
                    "type": "http",
                    "url": "https://a.example/mcp",
                    "headers": {"Authorization": "Bearer ${input:key}"},
                },
                "odd": {"type": "stdio", **ODD_TEXTS},
            },
        },
    ),
    "windsurf": (
        ("mcpServers",),
        {"mcpServers": {"github": {**STDIO, "disabledTools": ["x"]}, "api": {"serverUrl": "https://a.example/mcp"}}},
    ),
    "zed": (
        ("context_servers",),
        {
            "theme": {"mode": "system", "light": "One Light"},
            "buffer_font_size": 14.5,
            "context_servers": {
                "github": {"source": "custom", **STDIO},
                "old": {"command": {"path": "uvx", "args": ["mcp-server-git"], "env": None}, "settings": {}},
            },
            "languages": {"Python": {"format_on_save": "off"}},
        },
    ),
    "opencode": (
        ("mcp",),
        {
            "$schema": "https://opencode.ai/config.json",
            "model": "anthropic/claude-sonnet-4-5",
            "mcp": {
                "github": {
                    "type": "local",
                    "command": ["npx", "-y", "x"],
                    "environment": {"A": "{env:A}"},
                    "enabled": True,
                },
                "api": {"type": "remote", "url": "https://a.example/mcp", "headers": {"X": "{file:~/.key}"}},
            },
            "keybinds": {"leader": "ctrl+x"},
        },
    ),
    "cline": (
        ("mcpServers",),
        {
            "mcpServers": {
                "github": {**STDIO, "disabled": False, "autoApprove": ["search_repositories"], "timeout": 60},
                "api": {"type": "streamableHttp", "url": "https://a.example/mcp", "autoApprove": []},
            }
        },
    ),
    "jetbrains": (("mcpServers",), {"mcpServers": {"github": STDIO, "odd": ODD_TEXTS}}),
}


def _names(tree: Tree, keys: tuple[str, ...]) -> tuple[str, ...]:
    for key in keys:
        tree = tree[key]
    return tuple(tree)


# --- how they are written


class Style(NamedTuple):
    """A way to write JSON."""

    indent: str | None = "  "  # None: on one line
    depth: int = 99  # what is deeper than this is on one line
    colon: str = ": "
    trailing_comma: bool = False
    comments: bool = False
    step: Callable[[str], str] = lambda text: text


def json_text(value: Any, style: Style, level: int = 0) -> str:
    """The value in that style."""
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    brackets = "{}" if isinstance(value, dict) else "[]"
    parts = [
        f"{json.dumps(key, ensure_ascii=False)}{style.colon}{json_text(item, style, level + 1)}"
        for key, item in value.items()
    ] if isinstance(value, dict) else [json_text(item, style, level + 1) for item in value]  # fmt: skip
    if style.indent is None or level >= style.depth:
        return brackets[0] + ", ".join(parts) + brackets[1]
    inner, outer = style.indent * (level + 1), style.indent * level
    lines = [
        part + ("," if number + 1 < len(parts) or style.trailing_comma else "") for number, part in enumerate(parts)
    ]
    if style.comments:
        lines = [f'/* {level} */ {line} // the {number}th, with {{ and "' for number, line in enumerate(lines)]
        lines = [f"// before {number}\n{inner}{line}" for number, line in enumerate(lines)]
    return brackets[0] + "\n" + "\n".join(inner + line for line in lines) + f"\n{outer}{brackets[1]}"


JSON_STYLES: dict[str, Callable[[Tree], bytes]] = {
    "two spaces": lambda tree: (json_text(tree, Style()) + "\n").encode(),
    "four spaces, no line end": lambda tree: json_text(tree, Style("    ")).encode(),
    "tabs": lambda tree: (json_text(tree, Style("\t")) + "\n").encode(),
    "no indentation": lambda tree: (json_text(tree, Style("")) + "\n").encode(),
    "three spaces and odd colons": lambda tree: json_text(tree, Style("   ", colon=" :  ")).encode(),
    "one line": lambda tree: json_text(tree, Style(None)).encode(),
    "compact": lambda tree: json.dumps(tree, separators=(",", ":")).encode(),
    "entries on one line": lambda tree: json_text(tree, Style(depth=2)).encode(),
    "tables on one line": lambda tree: (json_text(tree, Style(depth=1)) + "\n\n\n").encode(),
    "CRLF": lambda tree: (json_text(tree, Style()) + "\n").replace("\n", "\r\n").encode(),
    "BOM": lambda tree: b"\xef\xbb\xbf" + json_text(tree, Style()).encode(),
    "BOM and CRLF": lambda tree: b"\xef\xbb\xbf" + json_text(tree, Style("\t")).replace("\n", "\r\n").encode(),
    "UTF-16": lambda tree: json_text(tree, Style()).replace("\n", "\r\n").encode("utf-16"),
    "mixed line ends": lambda tree: json_text(tree, Style()).replace("\n", "\r\n", 9).encode(),
    "comments": lambda tree: ("// all mine\n" + json_text(tree, Style(comments=True)) + "\n/* end */\n").encode(),
    "comments and trailing commas": lambda tree: json_text(tree, Style(comments=True, trailing_comma=True)).encode(),
    "trailing commas and CRLF": lambda tree: json_text(tree, Style(trailing_comma=True)).replace("\n", "\r\n").encode(),
    "everything escaped": lambda tree: _escaped(json.dumps(tree, indent=1, ensure_ascii=False)).encode(),
}  # fmt: skip


def _escaped(text: str) -> str:
    """Every e as an escape, also in keys."""
    return text.replace("e", "\\u0065").replace("tru\\u0065", "true").replace("fals\\u0065", "false")


def _in_json() -> Iterator[Config]:
    for client, (keys, tree) in CLIENTS.items():
        for style, write in JSON_STYLES.items():
            yield Config(f"{client}, {style}", client, write(tree), keys, _names(tree, keys))


# --- Codex

TOML: dict[str, str] = {
    "as Codex writes it": (
        'model = "gpt-5.2-codex"\nmodel_reasoning_effort = "high"\n\n'
        '[projects."/home/a/p"]\ntrust_level = "trusted"\n\n'
        '[mcp_servers.github]\ncommand = "npx"\nargs = ["-y", "@modelcontextprotocol/server-github"]\n\n'
        '[mcp_servers.github.env]\nGITHUB_TOKEN = "ghp_0123abcd"\n\n'
        '[mcp_servers.api]\nurl = "https://a.example/mcp"\nbearer_token_env_var = "TOKEN"\nstartup_timeout_sec = 20.5\n'
    ),
    "inline environment": (
        '[mcp_servers.git]\ncommand = "uvx"\nargs = ["mcp-server-git"]\nenv = { A = "1", "B.C" = "2" }\n'
    ),
    "inline entries": '[mcp_servers]\ngit = { command = "uvx" } # git\n\n# two\ntime = {command="uvx", args=["x",]}\n',
    "inline table": 'mcp_servers = { git = { command = "uvx" }, time = { url = "http://t" } } # all\nmodel = "x"\n',
    "dotted keys": '[mcp_servers]\ngit.command = "uvx" # what\ngit.args = ["a",\n  "b", # why\n]\ntime.url = "http://t"\n',
    "dotted keys at the top": (
        'mcp_servers.git.command = "uvx"\nmcp_servers.git.env.A = "1"\nmodel = "x"\n\n[tui]\nx = 1\n'
    ),
    "comments everywhere": (
        '# head\nmodel = "x" # x\n\n# about git\n[mcp_servers.git] # git\n# inside\ncommand = "uvx" # c\n\n# not yet\n'
        'args = [ # open\n  "a", # a\n] # close\n\n# about tui\n[tui]\nnotifications = true\n# tail'
    ),
    "odd indentation": '\t[mcp_servers.git]\n\t\t  command   =   "uvx"\n\n\n\n   [  mcp_servers . time ]\n url="http://t"\n',
    "quoted names": (
        '[mcp_servers."a.b c"]\ncommand = "a"\n[mcp_servers.\'x"y\']\ncommand = "#"\n["mcp_servers"."ü"]\nurl = "u"\n'
    ),
    "long strings": "[mcp_servers.git]\ncommand = '''\nuvx'''\nargs = [\"\"\"\n[mcp_servers.no]\n\"\"\", 'C:\\x']\n",
    "tables in two places": '[mcp_servers.git]\ncommand = "a"\n[tui]\nx = 1\n[mcp_servers.time]\ncommand = "b"\n',
    "an entry in two places": '[mcp_servers.git]\ncommand = "a"\n\n[tui]\nx = 1\n\n[mcp_servers.git.env]\nA = "1"\n',
    "settings that only TOML has": (
        "at = 2026-11-16T10:00:00Z\nday = 2026-11-16\nnothing = nan\nmost = inf\nhex = 0xff\n\n[mcp_servers.git]\n"
        'command = "a"\nstartup_timeout_sec = 1_0\ntool_timeout_sec = 2e1\nenabled = true\nenabled_tools = ["x"]\n'
    ),
    "arrays of tables": (
        '[[hooks]]\nx = 1\n\n[[hooks]]\nx = 2\n[hooks.deep]\ny = 1\n\n[mcp_servers.git]\ncommand = "a"\n'
    ),
    "no line end": '[mcp_servers.git]\ncommand = "a"',
    "many empty lines": '\n\n\n[mcp_servers.git]\n\n\ncommand = "a"\n\n\n\n',
    "no servers": 'model = "x"\n',
    "an empty table": 'model = "x"\n[mcp_servers]\n',
    "empty": "",
    "only comments": "# nothing yet\n",
}
TOML_STYLES: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
}


def _in_toml() -> Iterator[Config]:
    import tomllib

    for shape, text in TOML.items():
        names = tuple(tomllib.loads(text).get("mcp_servers", {}))
        for style, write in TOML_STYLES.items():
            yield Config(f"codex, {shape}, {style}", "codex", write(text), ("mcp_servers",), names)


# --- oddities

A = b'{"command": "a"}'
ODD_NAMES = '{"mcpServers": {"a.b": {"command": "a"}, "ü \\"🔥\\\\": {"command": "b"}, "": {"url": "u"}}}'
LONG_HISTORY = b", ".join([b'{"display": "' + b"x" * 900 + b'"}'] * 3000)
MANY = tuple(f"s{number}" for number in range(60))


def _cursor(title: str, data: bytes, *entries: str, refusal: str = "") -> Config:
    return Config(f"cursor, {title}", "cursor", data, ("mcpServers",), entries, refusal)


def _codex(title: str, data: bytes, refusal: str) -> Config:
    return Config(f"codex, {title}", "codex", data, ("mcp_servers",), (), refusal)


ODDITIES = [
    _cursor("empty", b""),
    _cursor("white space", b" \r\n\t\n"),
    _cursor("a BOM alone", b"\xef\xbb\xbf"),
    _cursor("an empty object", b"{}"),
    _cursor("an empty object with air", b"\n{\n\n}\n"),
    _cursor("an empty table", b'{\n    "mcpServers": {}\n}\n'),
    _cursor("an empty table with air", b'{\n  "mcpServers": {\n\n  }\n}\n'),
    _cursor("an empty table with a comment", b'{\n  "mcpServers": {\n    // none yet\n  }\n}\n'),
    _cursor("null for a table", b'{"theme": "x",\n "mcpServers": null\n}\n'),
    _cursor("another key last", b'{"mcpServers": {"a": %s}, "z": 0}' % A, "a"),
    _cursor("a comment beside the last entry", b'{\n"mcpServers": {\n"a": %s // a\n}\n}' % A, "a"),
    _cursor("a comment inside an entry", b'{"mcpServers": {"a": {/* why */ "command": "a" // x\n}}}', "a"),
    _cursor("brackets in strings", b'{"}": "{", "mcpServers": {"a": {"command": "}]//", "args": ["/*", "*/"]}}}', "a"),
    _cursor("the table's name elsewhere", b'{"x": {"mcpServers": {"n": 1}}, "mcpServers": {"a": %s}}' % A, "a"),
    _cursor("names with everything", ODD_NAMES.encode(), "a.b", 'ü "🔥\\', ""),
    _cursor(
        "numbers that are no others",
        b'{"x": [1e400, -0.0, 1E5, 12345678901234567890], "mcpServers": {"a": %s}}' % A,
        "a",
    ),
    _cursor("half a surrogate pair", b'{"x": "\\ud83d", "mcpServers": {"a": {"command": "\\ude00"}}}', "a"),
    _cursor("keys twice elsewhere", b'{"x": {"y": 1, "y": 2}, "z": 1, "z": 2, "mcpServers": {"a": %s}}' % A, "a"),
    _cursor("huge", b'{"history": [%s], "mcpServers": {"a": %s}}' % (LONG_HISTORY, A), "a"),
    _cursor(
        "many entries", b'{"mcpServers": {%s}}' % b",\n".join(b'"%s": %s' % (name.encode(), A) for name in MANY), *MANY
    ),
    _cursor("deep beside it", b'{"x": %s, "mcpServers": {"a": %s}}' % (b"[" * 200 + b"]" * 200, A), "a"),
    _cursor("old line ends", b'{\r"mcpServers": {\r"a": %s\r}\r}\r' % A, "a"),
    _cursor("form feeds between", b'{\x0c"mcpServers": {}}', refusal="is not valid JSON"),
    _cursor(
        "the table twice", b'{"mcpServers": {"a": %s}, "mcpServers": {"b": %s}}' % (A, A), "b", refusal="more than once"
    ),
    _cursor(
        "an entry twice",
        b'{"mcpServers": {"a": {"command": "1"}, "a": {"command": "2"}}}',
        "a",
        refusal="more than once",
    ),
    _cursor("cut off", b'{"mcpServers": {"a": {"command": "a"', refusal="is not valid JSON"),
    _cursor("a comment that does not end", b'{"mcpServers": {} /* }', refusal="is not valid JSON"),
    _cursor("more behind it", b'{"mcpServers": {}} {"mcpServers": {}}', refusal="is not valid JSON"),
    _cursor(
        "left over from a merge", b'<<<<<<< HEAD\n{"mcpServers": {}}\n=======\n>>>>>>> b\n', refusal="is not valid JSON"
    ),
    _cursor("only a comment", b"// nothing yet\n", refusal="is not valid JSON"),
    _cursor("single quotes", b"{'mcpServers': {}}", refusal="is not valid JSON"),
    _cursor("bare keys", b"{mcpServers: {}}", refusal="is not valid JSON"),
    _cursor("a comma too many", b'{"mcpServers": {,}}', refusal="is not valid JSON"),
    _cursor("a raw line end in a string", b'{"mcpServers": {"a": {"command": "a\nb"}}}', refusal="is not valid JSON"),
    _cursor("a list", b'[{"mcpServers": {}}]', refusal="must be a JSON object"),
    _cursor("a string", b'"mcpServers"', refusal="must be a JSON object"),
    _cursor("a list for a table", b'{"mcpServers": [{"name": "a"}]}', refusal="must be an object with servers in it"),
    _cursor("a string for a table", b'{"mcpServers": "none"}', refusal="must be an object with servers in it"),
    _cursor("Latin-1", '{"mcpServers": {"ä": {"command": "a"}}}'.encode("latin-1"), refusal="is not text in UTF-8"),
    _cursor("UTF-16 without a mark", '{"mcpServers": {}}'.encode("utf-16-le"), refusal="is not valid JSON"),
    _cursor("half of UTF-16", b"\xff\xfe{", refusal="is not text in UTF-8"),
    _cursor("zeros", b"\0" * 512, refusal="is not valid JSON"),
    _cursor("a picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", refusal="is not text in UTF-8"),
    _cursor("nested beyond all measure", b'{"mcpServers": ' + b'{"a": ' * 100_000, refusal="is nested too deeply"),
    Config(
        "claude-code, no such project yet",
        "claude-code",
        b'{\n  "projects": {\n    "/q": {}\n  }\n}\n',
        ("projects", "/p", "mcpServers"),
        (),
    ),
    Config(
        "claude-code, a project that is a list",
        "claude-code",
        b'{"projects": []}',
        ("projects", "/p", "mcpServers"),
        (),
        "must be an object",
    ),
    _codex("a table twice", b'[mcp_servers.a]\ncommand = "a"\n[mcp_servers.a]\ncommand = "b"\n', "is not valid TOML"),
    _codex("a key twice", b'[mcp_servers.a]\ncommand = "a"\ncommand = "b"\n', "is not valid TOML"),
    _codex("cut off", b'[mcp_servers.a]\ncommand = "', "is not valid TOML"),
    _codex("a list of tables", b'[[mcp_servers]]\nname = "a"\n', "must be an object with servers in it"),
    _codex("a number for a table", b"mcp_servers = 5\n", "must be an object with servers in it"),
    _codex("Latin-1", 'model = "ä"\n'.encode("latin-1"), "is not text in UTF-8"),
    _codex("old line ends", b'model = "x"\r[mcp_servers.a]\rcommand = "a"\r', "is not valid TOML"),
]

CONFIGS = [*_in_json(), *_in_toml(), *ODDITIES]
EDITED = [config for config in CONFIGS if not config.refusal]
REFUSED = [config for config in CONFIGS if config.refusal]


def put(folder: Path, config: Config) -> Table:
    """Such a file, as it would be found."""
    path = folder / config.name
    path.write_bytes(config.data)
    return Table(config.client, str(path), config.keys, "user", None)
