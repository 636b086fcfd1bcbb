"""Commands as Windows wants them. What a script really gets is tested by a Windows Python."""

import os
import subprocess
from pathlib import Path

import pytest

from hearth.host.windows import children

SHELL = r"C:\Windows\System32\cmd.exe"


def test_a_program_is_found_by_the_path_of_its_environment_and_with_an_ending(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    for file in (first / "npx", second / "npx.cmd", second / "npx.exe"):
        file.touch()
    environment = {"PATH": os.pathsep.join(["", str(first), str(second)]), "PATHEXT": ".exe;.cmd"}
    assert children.find("npx", environment, "/") == str(second / "npx.exe")
    assert children.find("npx.cmd", environment, "/") == str(second / "npx.cmd")
    assert children.find("npx", {**environment, "PATHEXT": ".cmd"}, "/") == str(second / "npx.cmd")
    assert children.find("npy", environment, "/") is None


def test_a_path_is_completed_too_and_is_relative_to_the_folder_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "it.cmd").touch()
    found = children.find(os.path.join("bin", "it"), {"PATHEXT": ".cmd"}, str(tmp_path))
    assert found == str(tmp_path / "bin" / "it.cmd")
    assert children.find(str(tmp_path / "bin" / "it.cmd"), {"PATHEXT": ".cmd"}, "/") == found


def test_of_two_names_that_are_one_on_windows_the_latter_counts() -> None:
    assert children.folded({"PATH": "daemon's", "Path": "config's"}) == {"PATH": "config's"}


def test_a_program_is_run_by_the_system_itself() -> None:
    arguments = ["a b", 'say "x"', "%PATH%", "^", "", "c:\\d e\\"]
    program = r"C:\Program Files\python.exe"
    assert children.line_to_run(program, arguments, SHELL) == subprocess.list2cmdline([program, *arguments])


@pytest.mark.parametrize("ending", [".cmd", ".bat", ".CMD"])
def test_a_script_is_run_by_the_shell_without_its_own_start_up_and_without_delayed_expansion(ending: str) -> None:
    line = children.line_to_run(rf"C:\Program Files\nodejs\npx{ending}", ["-y", "server@1.0"], SHELL)
    assert line == rf'"{SHELL}" /e:ON /v:OFF /d /c ""C:\Program Files\nodejs\npx{ending}" -y server@1.0"'


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("plain-1.0", "plain-1.0"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a&calc", '"a&calc"'),
        ("a|b>c<d^e(f)", '"a|b>c<d^e(f)"'),
        ("^1.0", '"^1.0"'),
        ("%PATH%", '"%%cd:~,%PATH%%cd:~,%"'),
        ('say "x"', '"say ""x"""'),
        ("ends\\", '"ends\\\\"'),
        ('quote\\"', '"quote\\\\"""'),
        ("ümlaut", '"ümlaut"'),
    ],
)
def test_an_argument_of_a_script_cannot_be_taken_for_anything_else(argument: str, written: str) -> None:
    assert children.quoted_for_script(argument) == written


@pytest.mark.parametrize("character", ["\n", "\r", "\0"])
def test_what_no_line_can_carry_is_refused(character: str) -> None:
    with pytest.raises(ValueError, match="has a line end"):
        children.line_to_run("x.cmd", [f"a{character}b"], SHELL)
