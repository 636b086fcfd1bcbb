"""Names that an upgrade leaves valid."""

from pathlib import Path

import pytest

from hearth.host.homebrew_paths import lasting


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for version in ("0.1.0", "0.2.0"):
        (tmp_path / "Cellar" / "mcp-hearth" / version / "libexec" / "bin").mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "mcp-hearth").symlink_to("../Cellar/mcp-hearth/0.2.0")
    return tmp_path


def test_a_file_of_the_version_in_use_is_named_by_the_link_that_upgrades_move(prefix: Path) -> None:
    path = f"{prefix}/Cellar/mcp-hearth/0.2.0/libexec/bin/python"
    assert lasting(path) == f"{prefix}/opt/mcp-hearth/libexec/bin/python"


@pytest.mark.parametrize(
    "rest", ["Cellar/mcp-hearth/0.1.0/bin/x", "Cellar/other/1.0/bin/x", "Cellar/mcp-hearth", "opt/a/b"]
)
def test_anything_else_stays_as_it_is(prefix: Path, rest: str) -> None:
    assert lasting(f"{prefix}/{rest}") == f"{prefix}/{rest}"


def test_a_path_that_is_not_homebrew_s_stays_as_it_is() -> None:
    assert lasting("/usr/bin/python3") == "/usr/bin/python3"


@pytest.mark.parametrize(
    ("leads_to", "name"), [("python3.11", "python3"), ("python3.13", "python3.11"), (None, "python3.11")]
)
def test_where_a_link_leads_to_this_python_the_minor_version_is_left_out(
    tmp_path: Path, leads_to: str | None, name: str
) -> None:
    (tmp_path / "lib" / "python3.11").mkdir(parents=True)
    if leads_to:
        (tmp_path / "lib" / "python3").symlink_to(leads_to)
    rest = "site-packages/hearth/bridge/main.py"
    assert lasting(f"{tmp_path}/lib/python3.11/{rest}") == f"{tmp_path}/lib/{name}/{rest}"
