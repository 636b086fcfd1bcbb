"""What `hearth config show` may show."""

import json

import pytest
from config_reading import examined

from hearth import secret_patterns
from hearth.config import show
from hearth.config.schema import SERVER_KEYS

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (SECRET, "***"),
        ("", ""),
        ("${TOKEN}", "${TOKEN}"),
        (f"Bearer {SECRET}", "***"),
        ("Bearer ${TOKEN}", "***${TOKEN}"),
        (f"${{TOKEN:-{SECRET}}}", "${TOKEN:-***}"),
        (f"${{A}}{SECRET}${{file:~/x}}", "${A}***${file:~/x}"),
    ],
)
def test_of_a_value_only_references_are_shown(value: str, shown: str) -> None:
    assert show.masked(value) == shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("-y", "package"), ["-y", "package"]),
        (("--api-key", SECRET, "x"), ["--api-key", "***", "x"]),
        ((f"--token={SECRET}",), ["--token=***"]),
        (("-e", f"GITHUB_TOKEN={SECRET}"), ["-e", "GITHUB_TOKEN=***"]),
        (("--token", "--verbose"), ["--token", "--verbose"]),
        (("--token", "${TOKEN}"), ["--token", "${TOKEN}"]),
        (("keyboard", "a=b"), ["keyboard", "a=b"]),
    ],
)
def test_of_arguments_what_sounds_like_a_secret_is_masked(arguments: tuple[str, ...], shown: list[str]) -> None:
    assert show.masked_arguments(arguments) == shown


def test_of_a_url_user_and_query_are_masked() -> None:
    assert (
        secret_patterns.masked_url(f"https://me:{SECRET}@host/mcp?key={SECRET}&b=c#d")
        == "https://***@host/mcp?key=***&b=***#d"
    )
    assert secret_patterns.masked_url("https://host/a@b") == "https://host/a@b"


def test_every_key_of_a_server_that_means_something_to_it_is_shown() -> None:
    text = "[mcpServers.a]\ncommand = 'x'\n[mcpServers.b]\nurl = 'unix:/x.sock'\ntransport = 'sse'\n"
    servers = examined(text).config.servers
    own = {*SERVER_KEYS} - {"command", "args", "env", "cwd", "url", "headers", "oauth", "transport"}
    assert {*show.server(servers["a"])} == {"command", *own}
    assert {*show.server(servers["b"])} == {"url", "transport", *own}


def test_the_document_has_every_value_with_its_origin_and_no_secret() -> None:
    text = f"""idle_timeout = 5
        [mcpServers.a]
        command = "x"
        args = ["--password", "{SECRET}"]
        env = {{ TOKEN = "{SECRET}" }}
        [mcpServers.b]
        url = "https://u:{SECRET}@h"
        headers = {{ Authorization = "Bearer {SECRET}" }}
        """
    shown = show.document(examined(text, "c.toml", environ={"HEARTH_LOG_LEVEL": "debug"}))
    assert SECRET not in json.dumps(shown)
    assert shown["settings"]["idle_timeout"] == {"value": 5.0, "origin": "c.toml:1"}
    assert shown["settings"]["log_level"] == {"value": "debug", "origin": "HEARTH_LOG_LEVEL"}
    assert shown["settings"]["owner.approve"] == {"value": "never", "origin": "default"}
    assert (shown["servers"]["a"]["origin"], shown["servers"]["b"]["origin"]) == ("c.toml:2", "c.toml:6")
