"""What servers say on their stderr, on disk: private, bounded, and at nobody's cost."""

import os
import stat
from pathlib import Path

import pytest

from hearth.host.line_files import FILE_BYTES
from support.clients import LinesClient
from support.daemon import Scratch, server
from support.kernel import until


def folder(scratch: Scratch) -> Path:
    return scratch.log.parent / "servers" / "mcp"


def texts(path: Path) -> list[tuple[str, str]]:
    """Pid and text of each line."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line.split("[", 1)[1].split("]")[0], line.split("] ", 1)[1]) for line in lines]


def served(scratch: Scratch, **keys: object) -> LinesClient:
    scratch.serve({"loud": server("shouting", **keys)})
    return attached(scratch)


def attached(scratch: Scratch) -> LinesClient:
    client = scratch.lines().initialized()
    assert client.call("loud__echo", text="up")["result"]["content"][0]["text"] == "up"
    return client


def test_lines_are_kept_with_the_pid_in_a_file_of_the_user_s_alone(scratch: Scratch) -> None:
    served(scratch).call("loud__say", text="one\ntwo\n")
    path = folder(scratch) / "loud.log"
    until(lambda: len(texts(path)) == 2, "both lines are there")
    (pid,) = scratch.upstream("loud")["pids"]
    assert texts(path) == [(str(pid), "one"), (str(pid), "two")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_several_instances_of_a_server_write_one_file(scratch: Scratch) -> None:
    clients = [served(scratch, isolation="session"), attached(scratch)]
    for client in clients:
        client.call("loud__say", text="here\n")
    path = folder(scratch) / "loud.log"
    until(lambda: len(texts(path)) == 2, "both lines are there")
    assert {pid for pid, _ in texts(path)} == {str(pid) for pid in scratch.upstream("loud")["pids"]}
    assert os.listdir(folder(scratch)) == ["loud.log"]


def test_what_the_server_was_given_as_a_secret_is_not_on_disk(scratch: Scratch) -> None:
    served(scratch, env={"TOKEN": "hush-hush-4711"}).call("loud__say", text="my token is hush-hush-4711\n")
    path = folder(scratch) / "loud.log"
    until(lambda: texts(path), "the line is there")
    assert texts(path)[0][1] == "my token is ***"


def test_the_last_words_are_in_the_error_and_on_disk_before_the_daemon_is_gone(scratch: Scratch) -> None:
    client = served(scratch)
    client.call("loud__die", text="Traceback: it was the disk")
    until(lambda: "it was the disk" in str(scratch.upstream("loud")["error"]), "its last words are told")
    client.call("loud__echo", text="again")
    client.begin_call("loud__die", text="and again")
    until(lambda: len(texts(folder(scratch) / "loud.log")) == 2, "they are kept")
    assert [text for _, text in texts(folder(scratch) / "loud.log")] == ["Traceback: it was the disk", "and again"]


def test_a_flood_neither_stalls_the_daemon_nor_fills_the_disk(scratch: Scratch) -> None:
    path = folder(scratch) / "loud.log"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text("2026-01-01 00:00:00,000 [1] from another day\n" * (FILE_BYTES // 50))
    client = served(scratch)
    client.call("loud__flood")
    until(lambda: any("lines were left out" in text for _, text in texts(path)), "the flood is noticed")
    for number in range(200):
        assert client.call("loud__echo", text=str(number))["result"]["content"][0]["text"] == str(number)
    sizes = {name: (folder(scratch) / name).stat().st_size for name in os.listdir(folder(scratch))}
    assert set(sizes) == {"loud.log", "loud.log.1"}
    assert max(sizes.values()) <= FILE_BYTES


@pytest.mark.parametrize("obstacle", ["a file", "a link"])
def test_a_folder_that_cannot_be_used_costs_the_lines_and_nothing_else(scratch: Scratch, obstacle: str) -> None:
    folder(scratch).parent.mkdir(parents=True)
    if obstacle == "a file":
        folder(scratch).write_text("")
    else:
        folder(scratch).symlink_to(scratch.home)
    client = served(scratch)
    for number in range(3):
        client.call("loud__say", text=f"{number}\n")
        assert client.call("loud__echo", text="fine")["result"]["content"][0]["text"] == "fine"
    until(lambda: "lines are not kept" in scratch.logged(), "it is told")
    assert scratch.logged().count("lines are not kept") == 1
    assert not (scratch.home / "loud.log").exists()
