"""Doctor's look at the file with the token for a port, where one is served: a real file in a scratch home."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hearth.doctor import endpoints
from hearth.doctor.context import CheckContext, DaemonReply
from hearth.findings import Finding
from hearth.paths import Places
from hearth.secrets import http_token

SERVED = {"http": ["http://127.0.0.1:3847"]}


@pytest.fixture(autouse=True)
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    http_token.rotate()
    return Path(http_token.path())


def findings(status: dict[str, object]) -> list[Finding]:
    manager = SimpleNamespace(http={}, systemctl="systemctl --user")
    context = SimpleNamespace(places=Places(), manager=lambda: manager, word=lambda: DaemonReply(status))
    return endpoints.judge_port(endpoints.look_at_port(cast(CheckContext, context)))


def linked(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def test_a_token_as_it_is_made_is_well() -> None:
    assert [finding.id for finding in findings(SERVED)] == ["port.state"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: file.chmod(0o640), "mode is 0640"),
        (lambda file: file.chmod(0o602), "mode is 0602"),
        (linked, "it is a link"),
        (lambda file: file.write_text("password\n"), "43 letters"),
        (lambda file: file.write_bytes(b"\xff\xfe"), "is no token"),
    ],
)
def test_a_token_that_others_may_know_or_guess_is_broken_with_the_reason(
    token: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(token)
    [finding] = findings(SERVED)
    assert (finding.id, finding.state, finding.fix) == ("port.token", "broken", "hearth token rotate")
    assert why in finding.message and str(token) in finding.message


def test_without_a_port_nobody_needs_it(token: Path) -> None:
    token.write_text("password\n")
    assert [finding.id for finding in findings({})] == ["port.state"]
