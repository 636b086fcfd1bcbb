"""Unknown protocol versions and notifications: one warning of each kind for a client."""

import logging
from pathlib import Path

import pytest

from hearth.hub import router as unknown_messages
from hearth.hub.router import UnknownMessages
from hearth.mcp import versions
from unit.hub.whole_hub import ENVELOPE, PLENTY, Stage


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_an_unknown_version_in_initialize_is_a_warning_once_per_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path)
    for name in ("one", "two"):
        member, _ = stage.client(initialized=False)
        for id in (1, 2):
            stage.ask(member, "initialize", id, protocolVersion="2031-01-01", clientInfo={"name": name})
    assert warnings(caplog) == [
        f"unknown protocol version '2031-01-01' from client '{name}'" for name in ("one", "two")
    ]


@pytest.mark.parametrize("version", sorted(versions.VERSIONS))
async def test_a_known_version_is_no_warning(version: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path)
    member, _ = stage.client(initialized=False)
    stage.ask(member, "initialize", protocolVersion=version)
    assert warnings(caplog) == []


async def test_an_unknown_version_in_a_modern_request_is_a_warning_once_per_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path)
    member, _ = stage.client(initialized=False)
    for id in (1, 2):
        stage.ask(member, "tools/list", id, _meta={**ENVELOPE, versions.PROTOCOL_VERSION_KEY: "2031-01-01"})
    assert warnings(caplog) == ["unknown protocol version '2031-01-01' from a client"]


async def test_an_unknown_notification_is_a_warning_once_per_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, s=PLENTY)
    for _ in range(2):
        member, _ = stage.client()
        for method in (*sorted(versions.CLIENT_NOTIFICATIONS), "notifications/new", "notifications/newer"):
            stage.tell(member, method)
    assert warnings(caplog) == ["unknown notification 'notifications/new' from a client: ignored"] * 2


async def test_an_unknown_notification_that_is_passed_on_is_a_warning_with_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, s=PLENTY)
    member, _ = stage.client()
    stage.ask(member, "tools/call", name="s__t", arguments={})
    await stage.on("s", "tools/call")
    stage.tell(member, "notifications/new")
    assert warnings(caplog) == ["unknown notification 'notifications/new' from a client: passed on to server 's'"]


def test_what_a_client_sent_is_shown_cut_and_without_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    UnknownMessages().version("client", "\x1b[2J\u202e" + "x" * 500)
    [said] = warnings(caplog)
    assert said.isprintable() and said.isascii() and len(said) < 200


def test_the_record_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(unknown_messages, "CLIENTS_LIMIT", 2)
    record = UnknownMessages()
    for client in ("a", "b", "c", "c", "a"):
        record.version(client, "new")
    assert len(record._warned) == 2
    assert len(warnings(caplog)) == 4
