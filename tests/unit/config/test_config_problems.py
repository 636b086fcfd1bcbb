"""What is wrong with a config, said with file, line, key and the nearest right name."""

import pytest
from config_reading import config_of, examined

# Each problem without the name of the file.
SECONDS = "must be a number of seconds from 0 to 1000000000, not"
NAME = "must be a name without scheme, port or path:"
ORIGIN = "must be an origin as browsers send it:"
TOML_PROBLEMS = {
    "idle_timout = 3": "1: key 'idle_timout' is not known; did you mean 'idle_timeout'?",
    "\n\nidleTimeout = 3": "3: key 'idleTimeout' is not known; did you mean 'idle_timeout'?",
    "colour = 3": "1: key 'colour' is not known",
    "[servers.a]\ncommand = 'x'": "1: key 'servers' is not known; did you mean 'mcpServers'?",
    "[owner]\naprove = 'never'": "2: key 'owner.aprove' is not known; did you mean 'owner.approve'?",
    "'owner.approve' = 'never'": "1: key 'owner.approve' is not known; write 'approve' inside the table 'owner'",
    "owner = 3": "1: owner must be a table, not 3",
    "agents.providers = 3": "1: agents.providers must be a table of providers, not 3",
    "agents.providers.a = 3": "1: provider 'a': must be a table, not a number: put it in quotes",
    "[agents.providers.a]\nargs = ['x']": "1: provider 'a': needs a command",
    "[agents.providers.a]\ncommand = 'x'\nargs = 3": (
        "3: provider 'a': args must be a list of texts, not a number: put it in quotes"
    ),
    "mcpServers = []": "1: mcpServers must be a table of servers, not a list",
    "idle_timeout = true": f"1: idle_timeout {SECONDS} true",
    "idle_timeout = '60'": f"1: idle_timeout {SECONDS} '60'",
    "idle_timeout = -1": f"1: idle_timeout {SECONDS} -1",
    "idle_timeout = nan": f"1: idle_timeout {SECONDS} nan",
    "idle_timeout = inf": f"1: idle_timeout {SECONDS} inf",
    "idle_timeout = 0x" + "f" * 5000: f"1: idle_timeout {SECONDS} a number so large",
    "idle_timeout = 1979-05-27": f"1: idle_timeout {SECONDS} datetime.date(1979, 5, 27)",
    "heartbeat_interval = 0": "1: heartbeat_interval must be a number of seconds from 0.01 to 1000000000, not 0",
    "max_connections = 1.5": "1: max_connections must be a whole number from 1 to 1048576, not 1.5",
    "message_limit = '64 parsec'": (
        "1: message_limit must be a number of bytes from 4096 to 267386880,"
        " or a text such as \"64 MiB\", not '64 parsec'"
    ),
    "listen = 'tcp:0.0.0.0:80'": (
        '1: listen must be "unix:/PATH/OF/SOCKET" or "tcp:127.0.0.1:PORT", not \'tcp:0.0.0.0:80\''
    ),
    "listen = 'unix:d.sock'": '1: listen must be "unix:/PATH/OF/SOCKET" or "tcp:127.0.0.1:PORT", not \'unix:d.sock\'',
    "allowed_uids = 1000": "1: allowed_uids must be a list of numeric ids, not 1000",
    "allowed_uids = [\n 1,\n 'me' ]": "3: allowed_uids must be a numeric id from 0 to 4294967294, not 'me'",
    "log_level = 'warn'": '1: log_level must be "debug" or "info" or "warning" or "error", not \'warn\'',
    "mcpServers.a = 3": "1: server 'a' must be a table with a command or a url, not 3",
    "[mcpServers.a]": "1: server 'a' has neither a command nor a url; give it one of them",
    "[mcpServers.a]\ncommand = 'x'\nurl = 'http://x'": "1: server 'a' has both a command and a url; remove one of them",
    "http_hosts = ['a.example', 'Other:13860']": f"1: http_hosts {NAME} \"Other\", not 'Other:13860'",
    "http_hosts = ['http://a.example/mcp']": f"1: http_hosts {NAME} \"a.example\", not 'http://a.example/mcp'",
    "http_hosts = ['[::1]:80']": f"1: http_hosts {NAME} \"[::1]\", not '[::1]:80'",
    "http_hosts = ['*']": "1: http_hosts must be a name such as \"hearth.example\", and not a pattern for many: '*'",
    "http_hosts = ['']": "1: http_hosts must be a name such as \"hearth.example\", and not a pattern for many: ''",
    "http_origins = [\n'https://a.b',\n'https://a.b/']": (
        f"3: http_origins {ORIGIN} \"https://a.b\", not 'https://a.b/'"
    ),
    "http_origins = ['a.b']": f"1: http_origins {ORIGIN} \"https://a.b\", not 'a.b'",
    "http_origins = ['http://a.b:80']": f"1: http_origins {ORIGIN} \"http://a.b\", not 'http://a.b:80'",
    "http_origins = ['chrome-extension://abc/']": (
        f"1: http_origins {ORIGIN} \"chrome-extension://abc\", not 'chrome-extension://abc/'"
    ),
    "http_origins = ['*']": (
        "1: http_origins must be an origin such as \"https://app.example\", and not a pattern for many: '*'"
    ),
    "http_origins = ['https://*.a.b']": (
        "1: http_origins must be an origin such as \"https://app.example\", and not a pattern for many: 'https://*.a.b'"
    ),
    "[mcpServers.a]\ncomand = 'x'": "2: server 'a': key 'comand' is not known; did you mean 'command'?",
    "[mcpServers.a]\ncommand = 'x'\nautoApprove = []": "3: server 'a': key 'autoApprove' is not known",
    "[mcpServers.a]\ncommand = ''": "2: server 'a': command must not be empty",
    "[mcpServers.a]\ncommand = ['x']": "2: server 'a': command must be a text, not a list",
    "[mcpServers.a]\ncommand = 'x'\nargs = 'y'": "3: server 'a': args must be a list of texts, not a text",
    "[mcpServers.a]\ncommand = 'x'\nargs = [\n 'y', #\n 3]": (
        "5: server 'a': args.1 must be a text, not a number: put it in quotes"
    ),
    "[mcpServers.a]\ncommand = 'x'\n[mcpServers.a.env]\nA = ''\nB = 3": (
        "5: server 'a': env.B must be a text, not a number: put it in quotes"
    ),
    "[mcpServers.a]\ncommand = 'x'\nenv = { 'A=B' = '' }": "3: server 'a': env.A=B cannot be the name of a variable",
    "[mcpServers.a]\nurl = 'http://x'\nheaders = { 'A b' = '' }": (
        "3: server 'a': headers.A b cannot be the name of a header"
    ),
    "[mcpServers.a]\nurl = 'ftp://x'": "2: server 'a': url must begin with http://, https:// or unix:/",
    "[mcpServers.a]\nurl = 'http:///mcp'": "2: server 'a': url has no host",
    "[mcpServers.a]\nurl = 'unix:x.sock'": (
        "2: server 'a': url must give the whole path of the socket, as in unix:/run/user/1000/name.sock"
    ),
    "[mcpServers.a]\nurl = 'http://x'\ntransport = 'ws'": (
        '3: server \'a\': transport must be "auto" or "http" or "sse", not \'ws\''
    ),
    "[mcpServers.a]\ncommand = 'x'\nisolation = 'private'": (
        '3: server \'a\': isolation must be "auto" or "shared" or "workspace" or "session", not \'private\''
    ),
    "[mcpServers.a]\ncommand = 'x'\nmax_concurrency = 0": (
        "3: server 'a': max_concurrency must be a whole number from 1 to 65536, not 0"
    ),
    "[mcpServers.a]\ncommand = 'x'\ncall_timeout = -1": f"3: server 'a': call_timeout {SECONDS} -1",
    '[mcpServers.a]\ncommand = "x\\u0000y"': (
        "2: server 'a': command has a NUL character in it, which no program can be given"
    ),
    "[mcpServers.a]\ncommand = 'x'\ndisabled = 'no'": "3: server 'a': disabled must be true or false, not 'no'",
    "[mcpServers.a]\ncommand = 'x'\nera = 'new'": (
        '3: server \'a\': era must be "auto" or "legacy" or "modern" or "client", not \'new\''
    ),
    "[mcpServers.'']\ncommand = 'x'": "1: server '' needs a name",
    "a = " + "9" * 5000: " has a number with thousands of digits",
    "a = " + "[" * 20_000: " is nested too deeply for a config file",
}

JSON_PROBLEMS = {
    '{"mcpServers": {\n"a": {\n"comand": "x"}}}': "3: server 'a': key 'comand' is not known; did you mean 'command'?",
    '{"mcpServers": {},\n"idleTimeout": 3}': "2: key 'idleTimeout' is not known; did you mean 'idle_timeout'?",
    '{"mcpServer": {}}': "1: key 'mcpServer' is not known; did you mean 'mcpServers'?",
    '{"mcpServers": {"a": {"command": "x", "args": [\n"\\ud800"]}}}': (
        "2: server 'a': args.0 has half of a surrogate pair in it, which is no character"
    ),
    '{"mcpServers": {"a": {"command": "x", "env": {\n"A": 1}}}}': (
        "2: server 'a': env.A must be a text, not a number: put it in quotes"
    ),
    '{"mcpServers": {}, "idle_timeout": NaN}': f"1: idle_timeout {SECONDS} nan",
    '{"mcpServers": {"a": null}}': "1: server 'a' must be a table with a command or a url, not null",
    '{"mcpServers": {"a": {"type": "http"}}}': "1: server 'a' has neither a command nor a url; give it one of them",
    '{\n"a": 1\n"b": 2}': "3: is not valid JSON: Expecting ',' delimiter",
    '{"a": 1}\n}': "2: is not valid JSON: Extra data",
    "[]": "1: must be a JSON object with mcpServers in it",
    '{"a": ' + "9" * 5000 + "}": " has a number with thousands of digits",
    "[" * 200_000: " is nested too deeply for a config file",
}


@pytest.mark.parametrize("text", TOML_PROBLEMS, ids=lambda text: repr(text[:40]))
def test_a_problem_in_toml_is_one_sentence_with_its_line(text: str) -> None:
    assert examined(text, "c.toml").problems == [f"c.toml:{TOML_PROBLEMS[text]}"]


@pytest.mark.parametrize(
    ("text", "line"), [("\n\nidle_timeout = \n", 3), ('a = 3\nb = "\n', 2), ("a = 1\na = 2\n", 2), ("\n[a\n", 2)]
)
def test_toml_that_does_not_parse_has_the_line_of_the_parser(text: str, line: int) -> None:
    (problem,) = examined(text, "c.toml").problems
    assert problem.startswith(f"c.toml:{line}: is not valid TOML: ")


@pytest.mark.parametrize("text", JSON_PROBLEMS, ids=lambda text: repr(text[:40]))
def test_a_problem_in_json_is_one_sentence_with_its_line(text: str) -> None:
    assert examined(text, "c.json").problems == [f"c.json:{JSON_PROBLEMS[text]}"]


@pytest.mark.parametrize(("data", "line"), [(b"\xff", 1), (b"a = 1\n# \xe4\n", 2), (b'{\r\n"a": "\xc3"}', 2)])
def test_what_is_not_utf_8_names_the_line(data: bytes, line: int) -> None:
    assert examined(data, "c").problems == [f"c:{line}: is not text in UTF-8; save the file as UTF-8"]


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = "a = 1\nidle_timeout = 'x'\n[mcpServers.a]\ncomand = 'x'\nargs = 3\n[mcpServers.b]\n"
    found = examined(text, environ={"HEARTH_LOG_LEVEL": "loud"}, flags={"drain_timeout": -1, "colour": "x"})
    assert [problem.split(" ")[0] for problem in found.problems] == [
        *("config.toml:1:", "config.toml:2:", "config.toml:4:", "config.toml:5:", "config.toml:6:"),
        *("HEARTH_LOG_LEVEL", "--drain-timeout", "--colour"),
    ]


def test_a_problem_never_shows_what_may_be_a_secret() -> None:
    found = examined("[mcpServers.a]\ncommand = 'x'\nenv = { A = 's3cret\\u0000' , B = 12345 }\nargs = 's3cret'\n")
    assert found.problems
    assert not any("s3cret" in problem or "12345" in problem for problem in found.problems)


def test_a_long_value_is_shortened() -> None:
    (problem,) = examined(f"log_level = '{'x' * 1000}'").problems
    assert len(problem) < 200


def test_a_variable_with_a_slip_is_warned_of_and_a_foreign_one_is_not() -> None:
    environ = {"HEARTH_IDLE_TIMOUT": "1", "HEARTH_OF_GOLD": "1", "HEARTH_CONFIG": "/x", "HEARTHSTONE": "1"}
    found = examined("", environ=environ)
    assert found.problems == []
    assert found.warnings == ["the variable HEARTH_IDLE_TIMOUT is not known; did you mean HEARTH_IDLE_TIMEOUT?"]


# As the clients write them, each with something that Hearth does not know.
CLAUDE_CODE = """{
  "numStartups": 12, "tipsHistory": {"shift-enter": 3}, "projects": {"/home/me": {"mcpServers": {}}},
  "autoUpdates": true, "timeout": 3, "env": {}, "permissions": {"allow": []}, "model": "x",
  "mcpServers": {"github": {"type": "stdio", "command": "npx", "args": ["-y"], "env": {}}}
}"""
VS_CODE = """{
  // VS Code's own file
  "inputs": [{"type": "promptString", "id": "token", "password": true,},],
  "servers": {
    "github": {"type": "http", "url": "https://api.example.com/mcp", "gallery": true,},
    /* "old": {}, */
  },
}"""
CLINE = """{
  "mcpServers": {
    "a": {"command": "x", "disabled": true, "autoApprove": ["y"], "timeout": 60},
    "b": {"command": "x", "disabled": false, "alwaysAllow": []}
  }
}"""
GEMINI = """{
  "theme": "Default", "selectedAuthType": "oauth-personal",
  "mcpServers": {
    "a": {"httpUrl": "https://x", "trust": false, "cwd": null},
    "b": {"command": "x", "includeTools": ["y"]}
  }
}"""


@pytest.mark.parametrize("text", [CLAUDE_CODE, VS_CODE, CLINE, GEMINI], ids=["claude", "vscode", "cline", "gemini"])
def test_the_files_of_other_clients_are_read_as_they_are(text: str) -> None:
    found = examined(text, "settings.json")
    assert found.problems == []
    assert found.config.servers


def test_a_mode_that_is_another_clients_table_is_left_alone_and_a_misspelt_one_is_not() -> None:
    assert examined('{"mode": {"build": {}}, "mcpServers": {}}', "opencode.json").problems == []
    (problem,) = examined('{"mode": "serach", "mcpServers": {}}', "c.json").problems
    assert 'mode must be "full" or "search" or "auto"' in problem
    (problem,) = examined("[mode]\nbuild = 1\n").problems
    assert "mode" in problem


def test_foreign_keys_are_silent_at_the_top_and_warned_of_in_an_entry() -> None:
    assert examined(CLAUDE_CODE, "c.json").warnings == []
    assert examined(VS_CODE, "c.json").warnings == []
    assert examined(CLINE, "c.json").warnings == [
        "c.json:3: server 'a': autoApprove is another client's and is ignored",
        "c.json:3: server 'a': timeout is another client's and is ignored",
        "c.json:4: server 'b': alwaysAllow is another client's and is ignored",
    ]


def test_disabled_is_honoured_in_json() -> None:
    servers = config_of(CLINE, "c.json").servers
    assert (servers["a"].disabled, servers["b"].disabled) == (True, False)


def test_other_clients_names_for_url_are_taken_in_json_only() -> None:
    servers = config_of(GEMINI, "c.json").servers
    assert (servers["a"].url, servers["a"].cwd) == ("https://x", None)
    (problem,) = examined("[mcpServers.a]\nhttpUrl = 'https://x'").problems
    assert "key 'httpUrl' is not known" in problem


@pytest.mark.parametrize(
    ("written", "transport"),
    [
        ('"type": "sse"', "sse"),
        ('"type": "SSE"', "sse"),
        ('"type": "streamable-http"', "http"),
        ('"type": "streamableHttp"', "http"),
        ('"type": "http"', "auto"),
        ('"type": "stdio"', "auto"),
        ('"type": null', "auto"),
        ('"transport": "sse"', "sse"),
        ('"transport": "http"', "http"),
        ('"transport": "auto"', "auto"),
        ('"transport": "streamable_http"', "http"),
        ('"transport": "http", "type": "sse"', "http"),
        ('"type": "sse", "transport": "auto"', "auto"),
        ('"transportType": "sse"', "sse"),
    ],
)
def test_other_clients_words_for_a_transport_are_understood_in_json(written: str, transport: str) -> None:
    found = examined(f'{{"mcpServers": {{"a": {{"url": "http://x", {written}}}}}}}', "c.json")
    assert (found.problems, found.warnings) == ([], [])
    assert found.config.servers["a"].transport == transport


@pytest.mark.parametrize("value", ['"websocket"', "3", '{"type": "sse"}', "[]"])
def test_a_transport_that_hearth_does_not_have_is_warned_of_in_json(value: str) -> None:
    found = examined(f'{{"mcpServers": {{"a": {{"url": "http://x", "type": {value}}}}}}}', "c.json")
    assert found.warnings == ["c.json:1: server 'a': type is not a transport that Hearth has, and is ignored"]
    assert found.config.servers["a"].transport == "auto"


def test_a_transport_says_nothing_about_a_command_in_json() -> None:
    found = examined('{"mcpServers": {"a": {"command": "x", "type": "sse"}}}', "c.json")
    assert (found.warnings, found.config.servers["a"].transport) == ([], "auto")


def test_a_json_file_without_servers_is_warned_of() -> None:
    found = examined('{"name": "my-package", "version": "1.0.0"}', "package.json")
    assert (found.problems, len(found.warnings)) == ([], 1)


def test_keys_written_twice_in_json_are_warned_of() -> None:
    found = examined('{"mcpServers": {"a": {"command": "x"},\n"a": {"command": "y",\n"command": "z"}}}', "c.json")
    found.warn_of_repeated_keys()
    assert found.config.servers["a"].command == "z"
    assert found.warnings == [
        "c.json:2: key 'a' is written more than once; only the last one counts",
        "c.json:3: key 'command' is written more than once; only the last one counts",
    ]


@pytest.mark.parametrize("name", ["my server", "a.b", "ünder", "a/b"])
def test_a_name_that_tools_cannot_carry_is_accepted_with_a_warning(name: str) -> None:
    found = examined(f"[mcpServers.'{name}']\ncommand = 'x'\n")
    assert found.problems == []
    assert (list(found.config.servers), len(found.warnings)) == ([name], 1)


def test_what_means_nothing_to_a_server_is_warned_of() -> None:
    text = "[mcpServers.a]\nurl = 'http://x'\nargs = ['y']\n[mcpServers.b]\ncommand = 'x'\ncwd = 'here'\n"
    text += "isolation = 'shared'\n[mcpServers.c]\ncommand = 'x'\ncwd = 'here'\ntransport = 'http'\n"
    assert examined(text, "c.toml").warnings == [
        "c.toml:3: server 'a': args does nothing without a command",
        "c.toml:6: server 'b': cwd is relative, so it is taken from your home folder; write the whole path",
        "c.toml:11: server 'c': transport does nothing without a url",
    ]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\xef\xbb\xbfidle_timeout = 7\r\n\r\n[mcpServers.a]\r\ncommand = 'x'\r\n", "c.toml"),
        ('\ufeffidle_timeout = 7\r\nmcpServers.a.command = "x"'.encode("utf-16-le"), "c.toml"),
        (b'\xef\xbb\xbf{"idle_timeout": 7,\r\n "mcpServers": {"a": {"command": "x"}}}\r\n', "c.json"),
        (b'{"idle_timeout": 7, "mcpServers": {"a": {"command": "x"}}}', "c.toml"),
        (b'// c\n{"idle_timeout": 7, "mcpServers": {"a": {"command": "x"}}}', "settings"),
        (b"idle_timeout = 7\n[mcpServers.a]\ncommand = 'x'\n", "settings"),
    ],
)
def test_the_format_is_told_by_the_content(data: bytes, name: str) -> None:
    found = config_of(data, name)
    assert (found.idle_timeout, list(found.servers)) == (7.0, ["a"])


@pytest.mark.parametrize("name", ["c.toml", "c.json"])
def test_an_empty_file_is_an_empty_config(name: str) -> None:
    assert config_of(b" \n", name).servers == {}
