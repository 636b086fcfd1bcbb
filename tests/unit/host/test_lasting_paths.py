"""Which folders of a shell's PATH are kept."""

import os
from pathlib import Path

import pytest

from hearth.errors import HearthError
from hearth.host import lasting_paths
from hearth.host.lasting_paths import lasting
from hearth.host.linux import units
from hearth.host.macos.launchd import STANDARD_PATH

STANDARD = [folder for folder in STANDARD_PATH if os.path.isdir(folder)]


def sifted(*entries: str | Path, temporary: tuple[str, ...] = ()) -> lasting_paths.Search:
    """`tmp_path` lies below /tmp, so what is temporary is the test's to say."""
    return lasting_paths.of_shell(":".join(map(str, entries)), temporary)


def test_folders_keep_their_order_and_come_once_with_the_standard_ones_at_the_end(tmp_path: Path) -> None:
    first, second = tmp_path / "b", tmp_path / "a"
    first.mkdir()
    second.mkdir()
    search = sifted(first, second, f"{first}/", first)
    assert search.folders == (str(first), str(second), *STANDARD)
    assert search.left_out == ()


def test_what_is_in_a_temporary_folder_is_left_out(tmp_path: Path) -> None:
    assert sifted(tmp_path, temporary=(str(tmp_path.parent),)).left_out == ((str(tmp_path), "is temporary"),)
    # /tmpfoo does not lie in /tmp.
    assert sifted(tmp_path, temporary=(str(tmp_path)[:-1],)).left_out == ()


def test_a_link_of_one_shell_to_a_folder_that_lasts_is_kept_as_that_folder(tmp_path: Path) -> None:
    real, shells = tmp_path / "versions" / "v22" / "bin", tmp_path / "run" / "fnm_multishells"
    real.mkdir(parents=True)
    shells.mkdir(parents=True)
    (shells / "77_1").symlink_to(real.parent)
    assert sifted(shells / "77_1" / "bin").folders[0] == str(real)
    assert sifted(shells / "77_1" / "bin", temporary=(str(tmp_path),)).left_out[0][1] == "is temporary"


@pytest.mark.parametrize("folder", ["_npx/9f2c/node_modules/.bin", "project/node_modules/.bin"])
def test_what_npm_puts_there_for_one_run_or_one_project_is_left_out(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert [entry for entry, _ in sifted(tmp_path / folder).left_out] == [str(tmp_path / folder)]


def test_a_file_and_a_name_that_cannot_be_written_down_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a\tb").mkdir()
    assert dict(sifted(tmp_path / "file", tmp_path / "a\tb", "").left_out) == {
        str(tmp_path / "file"): "is not a folder",
        str(tmp_path / "a\tb"): "has a name that cannot be written down",
        "": "is not a whole path",
    }


def test_a_path_that_was_given_is_taken_as_it_is_or_refused(tmp_path: Path) -> None:
    assert lasting_paths.exactly(f"{tmp_path}/:/usr/bin:{tmp_path}").folders == (str(tmp_path), "/usr/bin")
    with pytest.raises(HearthError, match="is not there"):
        lasting_paths.exactly(f"/usr/bin:{tmp_path}/none")
    tmp_path.chmod(0o777)
    with pytest.raises(HearthError, match="everybody"):
        lasting_paths.exactly(str(tmp_path))


def test_a_drop_in_is_known_as_untouched_until_a_character_of_it_is_changed() -> None:
    text = units.render_path("/usr/bin:/bin")
    assert units.is_untouched(text)
    for changed in (text + "\n", text.replace("/bin", "/sbin"), "\n" + text, text.removesuffix("\n"), ""):
        assert not units.is_untouched(changed)


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
    "rest", ["Cellar/mcp-hearth/0.1.0/bin/x", "Cellar/other/1.0/bin/x", "Cellar/mcp-hearth", "opt/a/b", "bin/python3"]
)
def test_anything_else_stays_as_it_is(prefix: Path, rest: str) -> None:
    assert lasting(f"{prefix}/{rest}") == f"{prefix}/{rest}"


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
