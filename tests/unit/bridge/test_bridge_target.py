"""The target of `--to`, as the bridge tells the daemon of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from hearth.bridge import target
from hearth.bridge.options import UsageError
from hearth.bridge.target import BridgeTarget
from hearth.errors import Unreachable


def told(url: str, headers: list[tuple[str, str]] | None = None, **environ: str) -> dict[str, Any]:
    return json.loads(BridgeTarget(url, headers or [], environ).settings)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://127.0.0.1:3847/mcp", None),
        ("HTTPS://mcp.example.com", None),
        ("https://x:443/a?b=c#d", None),
        ("http://[::1]:8000/mcp", None),
        ("unix:/run/x.sock", "unix:/run/x.sock:/mcp"),
        ("unix:/run/x.sock:/mcp/github?role=lead", None),
        ("unix:///run/x.sock", "unix:/run/x.sock:/mcp"),
        ("unix:~/x.sock", "unix:/home/me/x.sock:/mcp"),
    ],
)
def test_an_address_is_told_as_the_daemon_takes_it(url: str, sent: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert told(url)["url"] == (sent or url)


@pytest.mark.parametrize(
    ("url", "phrase"),
    [
        ("ftp://x", "must begin with"),
        ("x", "must begin with"),
        ("http://", "has no host"),
        ("http://:80/", "has no host"),
        ("http://a b/", "has no host"),
        ("http://::1/", "has no host"),
        ("http://[::1", "has no host"),
        ("http://x:0/", "the port '0'"),
        ("http://x:99999/", "the port '99999'"),
        ("http://x:y/", "the port 'y'"),
        ("https://me:word@x/", "a user or a password"),
        ("https://x/${env:Y}", "takes no references"),
        ("unix:relative", "the whole path"),
        ("http://x/\r\nA: b", "a line end"),
        (f"http://x/{'y' * 5000}", "over the limit of 4096"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(url: str, phrase: str) -> None:
    with pytest.raises(UsageError, match=phrase):
        told(url)


def test_the_variables_of_the_network_are_told_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {
        "HTTP_PROXY": "http://a",
        "http_proxy": "http://b",
        "NO_PROXY": "x",
        "SSL_CERT_FILE": "ca.pem",
        "TOKEN": "t",
    }
    assert told("http://x", **given)["environ"] == {
        "http_proxy": "http://b", "no_proxy": "x", "SSL_CERT_FILE": str(tmp_path / "ca.pem"),
    }  # fmt: skip


def test_references_are_told_unresolved() -> None:
    assert told("http://x", [("A", "b")])["references"] is False
    assert told("http://x", [("A", "${env:B}")])["headers"] == [["A", "${env:B}"]]
    assert told("http://x", [("A", "$${b}")])["references"] is True


def test_headers_are_bounded_and_not_shown() -> None:
    with pytest.raises(UsageError, match="over the limit of 16384 bytes in all") as caught:
        told("http://x", [("A", "s3cret" * 3000)])
    assert "s3cret" not in str(caught.value)


def test_references_are_resolved_in_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(texts: bytes) -> list[object]:
        asked.append(texts)
        return ["one", "two"]

    monkeypatch.setattr(target, "_run", run)
    aim = BridgeTarget("http://x", [("A", "${a}"), ("B", "plain"), ("C", "${c}")], {})
    assert json.loads(aim.resolved()) == {"headers": [["A", "one"], ["B", "plain"], ["C", "two"]]}
    assert asked == [b"${a}\0${c}"]


def test_why_a_reference_leads_nowhere_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(texts: bytes) -> list[object]:
        raise Unreachable("no such file")

    monkeypatch.setattr(target, "_run", run)
    assert json.loads(BridgeTarget("http://x", [("A", "${a}")], {}).resolved()) == {"error": "no such file"}


def test_the_resolving_process_answers_for_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN", "value")
    aim = BridgeTarget("http://x", [("A", "Bearer ${env:GIVEN}"), ("B", "${OTHER:-ä}")], {})
    assert json.loads(aim.resolved()) == {"headers": [["A", "Bearer value"], ["B", "ä"]]}
    assert "NOT_SET is not set in the bridge's environment" in str(
        json.loads(BridgeTarget("http://x", [("A", "${env:NOT_SET}")], {}).resolved())["error"]
    )
