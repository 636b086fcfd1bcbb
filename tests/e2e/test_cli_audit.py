"""`hearth audit` as typed, over a log that a daemon has written."""

import json
import os
import select
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cli_home import HEARTH, PATIENCE_SECONDS, Home, scratch_home
from hearth.policy.audit_files import AuditEntry
from hearth.policy.audit_store import AuditStore
from unit.policy.audit_logs import segments, tamper


@pytest.fixture
def home() -> Iterator[Home]:
    yield from scratch_home()


def folder(home: Home) -> Path:
    return Path(home.home, ".local", "state", "hearth", "audit", "mcp")


def write(home: Home, *entries: AuditEntry) -> None:
    store = AuditStore(str(folder(home)))
    store.append(entries, durable=True)
    store.close()


def call(tool: str, **fields: object) -> AuditEntry:
    made = AuditEntry(time.time(), "call", session="s1", role="dev", server="github", tool=tool, decision="allow")
    return made._replace(**fields)  # type: ignore[arg-type]


@pytest.fixture
def trail(home: Home) -> Home:
    now = time.time()
    write(
        home,
        call("old", time=now - 7200),
        call("list_issues", client="codex", agent="a1", duration=0.25, outcome="ok"),
        call("merge_pr", kind="decision", decision="deny", decided_by="lead", channel="tool", reason="not yet"),
        call("merge_pr", kind="decision", role="tl", decision="allow", decided_by="person", channel="cli"),
    )
    return home


def tools(home: Home, *words: str) -> list[str]:
    return [json.loads(line)["tool"] for line in home.ok("audit", "--json", *words).splitlines()]


def test_no_log_is_no_failure(home: Home) -> None:
    assert "There is no audit log" in home.ok("audit")
    assert home.ok("audit", "--json") == ""
    assert "nothing to verify" in home.ok("audit", "--verify")
    assert not folder(home).exists()


def test_rows_are_shown_in_columns_that_have_something(trail: Home) -> None:
    head, *rows = trail.ok("audit").splitlines()
    assert head.split() == [
        *("TIME", "KIND", "ROLE", "AGENT", "SESSION", "CLIENT", "TOOL", "DECISION", "BY", "OUTCOME", "TOOK", "REASON")
    ]
    assert len(rows) == 4
    assert "github__list_issues" in rows[1] and "250 ms" in rows[1]
    assert rows[2].endswith("not yet") and "lead/tool" in rows[2]


def test_rows_as_json_have_every_key(trail: Home) -> None:
    row = json.loads(trail.ok("audit", "--json", "-n", "1"))
    assert list(row) == [
        *("seq", "time", "kind", "session", "client", "agent", "role", "server", "tool", "digest", "decision"),
        *("decidedBy", "channel", "reason", "outcome", "duration", "hash"),
    ]
    assert (row["seq"], row["decidedBy"], row["client"], len(row["hash"])) == (4, "person", None, 64)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 4),
        (["-n", "2"], 2),
        (["-n", "0"], 0),
        (["--since", "1h"], 3),
        (["--until", "1h"], 1),
        (["--role", "tl"], 1),
        (["--tool", "merge_*"], 2),
        (["--tool", "merge_*", "--decision", "deny"], 1),
        (["--client", "codex"], 1),
        (["--agent", "a?"], 1),
        (["--server", "other"], 0),
        (["--session", "s1", "--kind", "decision"], 2),
    ],
)
def test_filters_select(trail: Home, words: list[str], count: int) -> None:
    assert len(tools(trail, *words)) == count


def test_nothing_that_fits_is_said(trail: Home) -> None:
    assert "No row" in trail.ok("audit", "--role", "nobody")


def test_a_time_that_is_none_is_refused(trail: Home) -> None:
    assert "--until: 'x' is no time" in trail.fails(2, "audit", "--until", "x")


def test_control_characters_reach_no_terminal_and_no_program(home: Home) -> None:
    write(home, call("evil\x1b[2J\u202e\n", reason="\x07"))
    assert "\x1b" not in home.ok("audit")
    assert "\x1b" not in home.ok("audit", "--json")


def test_following_shows_new_rows(trail: Home) -> None:
    with subprocess.Popen(
        [HEARTH, "audit", "-f", "-n", "1", "--json", "--kind", "call"], env=trail.environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            assert next_row(process)["tool"] == "list_issues"
            write(trail, call("denied", kind="decision"), call("new"))
            assert next_row(process)["tool"] == "new"
            write(trail, call("newer"))
            assert next_row(process)["tool"] == "newer"
        finally:
            process.terminate()


def next_row(process: "subprocess.Popen[bytes]") -> dict[str, object]:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE_SECONDS)[0]
    row: dict[str, object] = json.loads(process.stdout.readline())
    return row


def test_following_waits_for_a_log_that_is_not_there_yet(home: Home) -> None:
    with subprocess.Popen([HEARTH, "audit", "-f", "--json"], env=home.environment, stdout=subprocess.PIPE) as process:
        try:
            write(home, call("first"))
            assert next_row(process)["tool"] == "first"
        finally:
            process.terminate()


def test_an_export_is_a_private_file_of_json_lines(trail: Home) -> None:
    path = os.path.join(trail.home, "out.jsonl")
    assert "2 rows are in" in trail.ok("audit", "--kind", "decision", "--export", path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path, encoding="utf-8") as file:
        assert [json.loads(line)["seq"] for line in file] == [3, 4]
    assert "left alone" in trail.fails(5, "audit", "--export", path)
    assert json.loads(trail.ok("audit", "--json", "--export", path + "2"))["rows"] == 4
    assert sorted(os.listdir(trail.home)) == [".local", "out.jsonl", "out.jsonl2"]


def test_an_export_that_cannot_be_written_is_a_sentence(trail: Home) -> None:
    assert "cannot write /proc/x" in trail.fails(1, "audit", "--export", "/proc/x")


def test_an_untouched_log_verifies(trail: Home) -> None:
    assert "Rows 1 to 4 are as they were written, and 1 recorded head agrees" in trail.ok("audit", "--verify")
    shown = json.loads(trail.ok("audit", "--verify", "--json"))
    assert (shown["ok"], shown["first"], shown["last"], shown["problems"]) == (True, 1, 4, [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE entries SET decision = 'allow' WHERE seq = 3", "row 3 was changed"),
        ("DELETE FROM entries WHERE seq = 2", "row 3 follows row 1"),
        ("DELETE FROM entries WHERE seq = 4", "the end is missing: rows 4 to 4"),
    ],
)
def test_a_log_that_was_tampered_with_fails(trail: Home, change: str, words: str) -> None:
    tamper(segments(folder(trail))[0], change)
    assert words in trail.fails(1, "audit", "--verify")
    shown = trail.run("audit", "--verify", "--json")
    assert shown.returncode == 1
    assert words in " ".join(json.loads(shown.stdout)["problems"])


def test_heads_in_the_daemons_log_are_compared(trail: Home) -> None:
    logs = Path(trail.home, ".local", "state", "hearth", "logs")
    logs.mkdir(parents=True)
    line = f"2026-11-18 09:30:00,123 INFO hearth.policy.audit: audit head count=9 hash={'0' * 64}\n"
    (logs / "mcp.log.2").write_text(line)
    assert "the end is missing: rows 5 to 9" in trail.fails(1, "audit", "--verify")
    assert trail.ok("audit", "--verify", "--since", "2026-11-18 10:00")


def test_verification_takes_no_filters(trail: Home) -> None:
    assert "leave out --role" in trail.fails(2, "audit", "--verify", "--role", "dev")


def test_a_missing_key_is_a_sentence(trail: Home) -> None:
    (folder(trail) / "key").unlink()
    assert "key is missing; restore it" in trail.fails(1, "audit", "--verify")
    assert len(tools(trail)) == 4


def test_a_damaged_file_is_a_sentence(trail: Home) -> None:
    segments(folder(trail))[0].write_bytes(b"x" * 5000)
    assert "`hearth audit --verify` checks its files" in trail.fails(1, "audit")
    trail.fails(1, "audit", "--verify")


def test_heads_in_the_journal_are_compared(trail: Home) -> None:
    programs = Path(trail.folder, "bin")
    programs.mkdir()
    stand_in = programs / "journalctl"
    # Stands for systemd's own, which has no journal of a unit here; tests/e2e/systemd has a real one.
    stand_in.write_text(f'#!/bin/sh\necho "$@" > {trail.folder}/asked\necho "audit head count=7 hash={"0" * 64}"\n')
    stand_in.chmod(0o755)
    path = f"{programs}:{trail.environment['PATH']}"
    assert "rows 5 to 7 were written" in trail.fails(1, "audit", "--verify", "--since", "2026-11-18", PATH=path)
    asked = Path(trail.folder, "asked").read_text()
    assert "--unit mcp.service" in asked
    assert "--since @" in asked


def test_a_journal_that_cannot_be_read_is_noted(trail: Home) -> None:
    programs = Path(trail.folder, "bin")
    programs.mkdir()
    (programs / "journalctl").write_text("#!/bin/sh\necho Compiled without pattern matching support. >&2\nexit 1\n")
    (programs / "journalctl").chmod(0o755)
    done = trail.run("audit", "--verify", PATH=f"{programs}:{trail.environment['PATH']}")
    assert done.returncode == 0
    assert "the journal cannot be read (Compiled without pattern matching support.)" in done.stderr
