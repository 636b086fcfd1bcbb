"""Completion in the real shells: what they insert, what they list, and that `hearth completion install` is found."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from e2e.cli_home import HEARTH, Home, Lines, read, scratch_home, write
from e2e.conftest import missing
from e2e.terminal import Terminal
from hearth.cli.completion import SHELLS, separate_prefix, split_line

# Shown when the shell is ready; no other output has it.
PROMPT = "ready> "


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    for made in scratch_home():
        made.configure_demo()
        # The catalogue keeps the tools from now on.
        assert made.run("call", "demo").returncode == 0
        made.run("stop", "--yes")
        made.environment["PATH"] = f"{os.path.dirname(HEARTH)}:{os.environ['PATH']}"
        yield made


def needs(shell: str) -> None:
    if not shutil.which(shell):
        missing(f"{shell} is not installed")


class Shell:
    """A shell on a terminal that has read the script where `hearth completion install` put it."""

    def __init__(self, home: Home, shell: str) -> None:
        needs(shell)
        assert home.run("completion", "install", shell).returncode == 0
        # With Ctrl-G the line as it is comes through here.
        path = os.path.join(home.folder, f"{shell}.line")
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDWR)
        self._lines = Lines(self._pipe)
        command = self._bash(home, path) if shell == "bash" else self._zsh(home, path)
        self.terminal = Terminal(command, home.environment)
        self.terminal.read_until(PROMPT)

    def _bash(self, home: Home, pipe: str) -> list[str]:
        # As bash-completion does with the first TAB.
        text = f". ~/.local/share/bash-completion/completions/hearth\nPS1='{PROMPT}'\n"
        text += f"""bind -x '"\\C-g": "echo $READLINE_LINE >{pipe}"'\n"""
        startup = write(os.path.join(home.folder, "bashrc"), text)
        return ["bash", "--noprofile", "--rcfile", startup, "-i"]

    def _zsh(self, home: Home, pipe: str) -> list[str]:
        with open(os.path.join(home.home, ".zshrc"), "a", encoding="utf-8") as file:
            file.write(f"PS1='{PROMPT}'\nline() {{ print -r -- $BUFFER >{pipe} }}\n")
            file.write("zle -N line; bindkey '^G' line; bindkey '^U' kill-whole-line\n")
        return ["zsh", "-o", "no_global_rcs", "-i"]

    def line(self, keys: str) -> str:
        """The line after these keys; it is cleared."""
        self.terminal.type(f"{keys}\x07")
        found = self._lines.next().decode()
        self.terminal.type("\x15")
        return found

    def close(self) -> None:
        """End the shell."""
        self.terminal.process.kill()
        self.terminal.finish()
        os.close(self._pipe)


@pytest.fixture(params=["bash", "zsh"], scope="module")
def shell(home: Home, request: pytest.FixtureRequest) -> Iterator[Shell]:
    made = Shell(home, request.param)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("hearth statu\t", "hearth status"),
        ("hearth call demo slo\t", "hearth call demo slow"),
        # No space behind the name of an argument, and the name once.
        ("hearth call demo slow sec\t5", "hearth call demo slow seconds=5"),
        ("hearth call demo slow seconds=\t\t5", "hearth call demo slow seconds=5"),
        ("hearth call demo slow seconds=5 s\t2", "hearth call demo slow seconds=5 steps=2"),
        ("hearth tools dif\t", "hearth tools diff"),
        ("hearth config get owner.app\t", "hearth config get owner.approve"),
        ("hearth serve --transport=std\t", "hearth serve --transport=stdio"),
    ],
)
def test_what_a_shell_inserts_is_whole_and_once(shell: Shell, keys: str, line: str) -> None:
    assert shell.line(keys).strip() == line


def fish(home: Home, line: str) -> dict[str, str]:
    """Return the completions that fish offers for a line, with their descriptions."""
    needs("fish")
    assert home.run("completion", "install", "fish").returncode == 0
    # The function of the prompt and the like are not wanted; the folder of completions is.
    command = ["fish", "-c", f'complete -C "{line}"']
    done = subprocess.run(command, env=home.environment, capture_output=True, text=True, check=True)
    rows = (row.partition("\t") for row in done.stdout.splitlines())
    return {value: description for value, _, description in rows}


def test_fish_shows_whole_descriptions(home: Home) -> None:
    found = fish(home, "hearth call demo ")
    text = {each["name"]: each["description"] for each in home.json("call", "demo", "--json")}
    with_comma = [name for name, description in text.items() if "," in description]
    assert with_comma, "one of the demo's tools has a comma in its description"
    for name in with_comma:
        assert found[name] == text[name].splitlines()[0]
    assert set(fish(home, "hearth call demo slow seconds=5 ")) == {"steps="}


def test_fish_completes_the_value_of_an_option_behind_its_name(home: Home) -> None:
    assert set(fish(home, "hearth serve --transport=st")) == {"--transport=stdio"}


def test_fish_lists_the_verbs_of_tools(home: Home) -> None:
    assert {"diff", "approve", "block", "unblock"} <= set(fish(home, "hearth tools "))
    assert "--server" in fish(home, "hearth tools --")


def test_installing_twice_changes_nothing_and_removing_leaves_nothing(home: Home) -> None:
    startup = write(os.path.join(home.home, ".zshrc"), "alias a=b")
    for shell in SHELLS:
        shown = home.json("completion", "install", shell, "--dry-run", "--json")
        done = home.json("completion", "install", shell, "--json")
        assert shown["changed"] == done["changed"]
        assert home.json("completion", "install", shell, "--json")["changed"] == []
        assert read(done["path"]).strip() == home.run("completion", shell).stdout.strip()
        home.run("completion", "install", shell, "--remove")
        assert not os.path.exists(done["path"])
    assert read(startup) == "alias a=b\n"


def test_a_block_without_its_end_costs_no_line_of_the_startup_file(home: Home) -> None:
    path = write(os.path.join(home.home, ".zshrc"), "# first\n# >>> hearth completion >>>\nalias last=true\n")
    home.run("completion", "install", "zsh")
    text = read(path)
    assert text.startswith("# first\n") and text.endswith("\nalias last=true\n")


def test_the_shell_is_that_of_the_environment(home: Home) -> None:
    assert '"fish"' in home.run("completion", "install", "--dry-run", "--json", SHELL="/usr/bin/fish").stdout
    assert "Name your shell: bash, zsh, fish" in home.fails(2, "completion", "install", SHELL="/bin/tcsh")


def test_a_folder_that_cannot_be_written_is_one_sentence(home: Home) -> None:
    said = home.fails(1, "completion", "install", "fish", XDG_CONFIG_HOME="/proc/nothing")
    assert said.startswith("hearth: cannot write /proc/nothing/fish/completions/hearth.fish")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hearth ", ([], "")),
        ("hearth st", ([], "st")),
        ("hearth call a 'b c", (["call", "a"], "b c")),
        ("hearth call a\\ b ", (["call", "a b"], "")),
        ("/x/hearth --profile=w", ([], "--profile=w")),
    ],
)
def test_a_line_is_split_at_the_cursor(line: str, words: tuple[list[str], str]) -> None:
    assert split_line(line) == words


@pytest.mark.parametrize(
    ("word", "current", "prefix"),
    [
        ("timezone=", "=", "timezone="),
        ("timezone=Eu", "Eu", "timezone="),
        ("a:b", "b", "a:"),
        ("stat", "stat", ""),
        ("", "", ""),
        ("a=b", "'a=b", ""),
    ],
)
def test_bash_keeps_what_it_takes_for_other_words(word: str, current: str, prefix: str) -> None:
    assert separate_prefix(word, current) == prefix
