"""What doctor found, as text."""

import click

from hearth.cli.daemon.doctor import finding_lines
from hearth.findings import Finding


def own(name: str, client: str = "claude-code", title: str = "Claude Code") -> Finding:
    message = f"{title}: {name} in /f runs a process of its own"
    return Finding("clients.own", "note", message, f"hearth connect {client}", client)


def test_what_is_found_again_and_again_of_a_client_is_grouped() -> None:
    lines = finding_lines([own("time"), own("git"), own("time", "codex", "Codex")], verbose=False)
    assert [click.unstyle(line).strip() for line in lines[1:]] == [
        "note    Claude Code: 2 entries [clients.own]",
        "- time in /f runs a process of its own",
        "- git in /f runs a process of its own",
        "→ hearth connect claude-code",
        "note    Codex: time in /f runs a process of its own [clients.own]",
        "→ hearth connect codex",
    ]
