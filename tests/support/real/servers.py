"""The real servers and what is asked of each: a config entry, steps as in the scenario, and what must come out.

State that a server keeps is below the folder that its entry is made for, so that no play finds what another one left.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from support.kernel import BOUND_SECONDS
from support.real.installation import node_server, program
from support.real.scenario.python_client import Document
from support.requirements import needs_program

Entry = dict[str, Any]
Steps = list[dict[str, Any]]
TOOLS = {"name": "tools", "do": "list", "what": "tools"}
RESOURCES = {"name": "resources", "do": "list", "what": "resources"}
PROMPTS = {"name": "prompts", "do": "list", "what": "prompts"}


class Server(NamedTuple):
    """One real server."""

    name: str
    entry: Callable[[Path], Entry]
    # What the steps need besides the server, given as a text that is part of their arguments.
    steps: Callable[[str], Steps]
    check: Callable[[Document], None]


def call(name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"name": name, "do": "call", "tool": tool, "arguments": arguments}


def text(seen: Document) -> str:
    """The text of a result's first block."""
    return str(seen["result"]["content"][0]["text"])


def names(seen: Document, kind: str) -> set[str]:
    """What a list names."""
    return {item["name"] for item in seen["result"][kind]}


# --- git


def git_entry(folder: Path) -> Entry:
    return {"command": program("", "mcp-server-git"), "args": ["--repository", str(make_repository(folder.parent))]}


def make_repository(folder: Path) -> Path:
    """Two commits and a change that is in none; the same hashes wherever it is made."""
    path = folder / "repository"
    if path.exists():
        return path
    run_git(path, "init", "-q", "-b", "trunk", str(path))
    for content, message in (("one\n", "Lit"), ("one\ntwo\n", "Fed")):
        (path / "log.txt").write_text(content)
        run_git(path, "-C", str(path), "add", "log.txt")
        run_git(path, "-C", str(path), "commit", "-q", "-m", message)
    (path / "log.txt").write_text("one\ntwo\nthree\n")
    return path


def run_git(path: Path, *words: str) -> None:
    date = "2026-01-01T00:00:00Z"
    person = {f"GIT_{role}_{key}": "ada@example.com" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(path.parent),
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
        **person,
    }
    subprocess.run([needs_program("git"), *words], env=environment, timeout=BOUND_SECONDS, check=True)


def git_steps(place: str) -> Steps:
    repository = os.path.join(place, "repository")
    return [
        TOOLS,
        call("log", "git_log", repo_path=repository, max_count=5),
        call("status", "git_status", repo_path=repository),
        call("diff", "git_diff_unstaged", repo_path=repository),
        call("commit", "git_show", repo_path=repository, revision="HEAD~1"),
        call("branches", "git_branch", repo_path=repository, branch_type="local"),
        call("no such revision", "git_show", repo_path=repository, revision="nothing"),
    ]


def check_git(steps: Document) -> None:
    assert {"git_log", "git_commit", "git_branch"} <= names(steps["tools"], "tools")
    assert "Lit" in json.dumps(steps["log"]["result"])
    assert "Fed" in json.dumps(steps["log"]["result"])
    assert "log.txt" in text(steps["status"])
    assert "+three" in text(steps["diff"])
    assert "+one" in text(steps["commit"])
    assert "trunk" in text(steps["branches"])
    assert steps["no such revision"]["result"]["isError"]


# --- time


def time_entry(_: Path) -> Entry:
    return {"command": program("", "mcp-server-time"), "args": ["--local-timezone", "UTC"]}


def time_steps(_: str) -> Steps:
    zones = {"source_timezone": "UTC", "time": "12:00"}
    return [
        TOOLS,
        call("converted", "convert_time", **zones, target_timezone="Asia/Tokyo"),
        call("nowhere", "convert_time", **zones, target_timezone="Nowhere/Land"),
    ]


def check_time(steps: Document) -> None:
    assert names(steps["tools"], "tools") == {"get_current_time", "convert_time"}
    assert "T21:00:00+09:00" in text(steps["converted"])
    assert steps["nowhere"]["result"]["isError"]


# --- fetch


class _Page(BaseHTTPRequestHandler):
    """One page, and nothing else: robots.txt is missing, too."""

    def do_GET(self) -> None:
        found = self.path == "/page"
        body = b"<html><body><h1>Hearth</h1><p>Keeps the <b>fire</b>.</p></body></html>" if found else b"none"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def website() -> Iterator[str]:
    """A site on this machine; its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(BOUND_SECONDS)


def fetch_entry(_: Path) -> Entry:
    # The page is on this machine, which the server looks at only when it is told to.
    return {"command": program("fetch", "mcp-server-fetch"), "args": ["--allow-private-ips"]}


def fetch_steps(site: str) -> Steps:
    page = f"{site}/page"
    return [
        TOOLS,
        PROMPTS,
        call("page", "fetch", url=page),
        call("source", "fetch", url=page, raw=True),
        call("part", "fetch", url=page, raw=True, max_length=20),
        call("no page", "fetch", url=f"{site}/nothing"),
        {"name": "prompt", "do": "prompt", "prompt": "fetch", "arguments": {"url": page}},
    ]


def check_fetch(steps: Document) -> None:
    assert names(steps["tools"], "tools") == names(steps["prompts"], "prompts") == {"fetch"}
    assert "**fire**" in text(steps["page"])
    assert "<b>fire</b>" in text(steps["source"])
    assert "<b>fire</b>" not in text(steps["part"])
    assert "**fire**" in steps["prompt"]["result"]["messages"][0]["content"]["text"]


# --- sqlite


def sqlite_entry(folder: Path) -> Entry:
    return {"command": program("sqlite", "mcp-server-sqlite"), "args": ["--db-path", str(folder / "base.db")]}


def sqlite_steps(_: str) -> Steps:
    return [
        TOOLS,
        RESOURCES,
        PROMPTS,
        call("table", "create_table", query="CREATE TABLE fires (name TEXT, heat INTEGER)"),
        call("rows", "write_query", query="INSERT INTO fires VALUES ('hearth', 400), ('candle', 1000)"),
        call("query", "read_query", query="SELECT name FROM fires WHERE heat > 500"),
        call("mistake", "read_query", query="SELECT nothing FROM nowhere"),
        call("insight", "append_insight", insight="Candles are hotter"),
        {"name": "memo", "do": "read", "uri": "memo://insights"},
        {"name": "prompt", "do": "prompt", "prompt": "mcp-demo", "arguments": {"topic": "fire"}},
    ]


def check_sqlite(steps: Document) -> None:
    assert {"read_query", "append_insight"} <= names(steps["tools"], "tools")
    assert [item["uri"] for item in steps["resources"]["result"]["resources"]] == ["memo://insights"]
    assert names(steps["prompts"], "prompts") == {"mcp-demo"}
    assert "candle" in text(steps["query"])
    assert "hearth" not in text(steps["query"])
    assert "Candles are hotter" in steps["memo"]["result"]["contents"][0]["text"]
    assert "fire" in steps["prompt"]["result"]["messages"][0]["content"]["text"]


# --- memory


def memory_entry(folder: Path) -> Entry:
    command, *words = node_server("memory")
    return {"command": command, "args": words, "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}}


def memory_steps(_: str) -> Steps:
    fire = {"name": "Fire", "entityType": "thing", "observations": ["hot"]}
    graph = "memory://knowledge-graph"
    return [
        TOOLS,
        RESOURCES,
        call("created", "create_entities", entities=[fire, {**fire, "name": "Ash", "observations": ["cold"]}]),
        call("related", "create_relations", relations=[{"from": "Fire", "to": "Ash", "relationType": "becomes"}]),
        call("found", "search_nodes", query="cold"),
        call("graph", "read_graph"),
        {"name": "resource", "do": "read", "uri": graph},
        call("wrong", "create_entities", entities="none"),
        call("forgotten", "delete_entities", entityNames=["Ash"]),
        call("rest", "read_graph"),
    ]


def check_memory(steps: Document) -> None:
    assert "create_entities" in names(steps["tools"], "tools")
    assert [entity["name"] for entity in steps["found"]["result"]["structuredContent"]["entities"]] == ["Ash"]
    assert steps["graph"]["result"]["structuredContent"]["relations"][0]["relationType"] == "becomes"
    assert "Ash" in steps["resource"]["result"]["contents"][0]["text"]
    assert "Ash" not in text(steps["rest"])


# --- sequential thinking


def thinking_entry(_: Path) -> Entry:
    command, *words = node_server("sequential-thinking")
    return {"command": command, "args": words, "env": {"DISABLE_THOUGHT_LOGGING": "true"}}


def thinking_steps(_: str) -> Steps:
    rest = {"totalThoughts": 2, "nextThoughtNeeded": True}
    return [
        TOOLS,
        call("first", "sequentialthinking", thought="Wood", thoughtNumber=1, **rest),
        call("second", "sequentialthinking", thought="Flame", thoughtNumber=2, **rest),
        call("wrong", "sequentialthinking", thought="Smoke"),
    ]


def check_thinking(steps: Document) -> None:
    assert names(steps["tools"], "tools") == {"sequentialthinking"}
    assert steps["second"]["result"]["structuredContent"]["thoughtHistoryLength"] == 2


# --- filesystem


def filesystem_entry(folder: Path) -> Entry:
    command, *words = node_server("filesystem")
    shared = folder.parent / "files"
    shared.mkdir(exist_ok=True)
    (shared / "note.txt").write_text("one\ntwo\n")
    return {"command": command, "args": [*words, str(shared)]}


def filesystem_steps(place: str) -> Steps:
    files = os.path.join(place, "files")
    return [
        TOOLS,
        call("allowed", "list_allowed_directories"),
        call("listing", "list_directory", path=files),
        call("text", "read_text_file", path=os.path.join(files, "note.txt"), head=1),
        call("outside", "read_text_file", path=os.path.join(place, "secret.txt")),
    ]


def check_filesystem(steps: Document) -> None:
    assert {"read_text_file", "write_file"} <= names(steps["tools"], "tools")
    assert text(steps["text"]).strip() == "one"
    assert "note.txt" in text(steps["listing"])
    assert steps["outside"]["result"]["isError"]


SERVERS = [
    Server("git", git_entry, git_steps, check_git),
    Server("time", time_entry, time_steps, check_time),
    Server("fetch", fetch_entry, fetch_steps, check_fetch),
    Server("sqlite", sqlite_entry, sqlite_steps, check_sqlite),
    Server("memory", memory_entry, memory_steps, check_memory),
    Server("sequential-thinking", thinking_entry, thinking_steps, check_thinking),
    Server("filesystem", filesystem_entry, filesystem_steps, check_filesystem),
]
