"""The pages for people are whole, and lead where they say."""

import re
from pathlib import Path

import click
import pytest

from hearth.cli.daemon.serve import BridgeCommand
from hearth.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them: small letters, no punctuation, dashes for blanks."""
    headings = re.findall(r"^#+ +(.+?) *$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_both_sides_of_a_merge_in_it(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.match(r"(<{7}|>{7}|\|{7})( |$)", line)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!\w+:)([^)\s]*)\)", (ROOT / page).read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES)
def test_a_test_that_a_page_names_is_there(page: str) -> None:
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text(encoding="utf-8")):
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
        assert (ROOT / path).is_file()


# --- what is typed


def typed(page: str) -> list[str]:
    """The commands of a page that begin with `hearth`: in code spans, and where lines of a shell's block begin."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(?:sh)?\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    commands = [part.strip() for line in [*lines, *spans] for part in re.split(r" && | \| |#|  +", line)]
    return [command for command in commands if re.match(r"(\S*/)?hearth [a-z-]", command)]


def problem(command: str) -> str | None:
    """What of a command the command line does not have; None if it would be understood."""
    found: click.Command = cli
    for word in command.split()[1:]:
        if word == "--":
            break
        if word.startswith("--"):
            parameters = found.get_params(click.Context(found))
            options = {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}
            # Bridge and hook read their own.
            options.update(re.findall(r"--[\w-]+", found.usage) if isinstance(found, BridgeCommand) else ())
            if not set(word.partition("=")[0].rstrip(".,…").split("|")) <= options:
                return f"`{command}`: {found.name} has no {word}"
        elif isinstance(found, click.Group):
            verbs = [found.get_command(click.Context(found), verb) for verb in word.rstrip(".,…").split("|")]
            if None not in verbs:
                found = verbs[0] or found
            elif found is cli:
                return f"`{command}`: there is no verb {word}"
    return None


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_what_a_page_says_to_type_is_a_verb_with_these_options(page: str) -> None:
    assert [said for command in typed(page) if (said := problem(command))] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_the_token_written_into_an_argument(page: str) -> None:
    # Into a variable it may go, and to printf, which is the shell's own.
    assert "Bearer $(" not in (ROOT / page).read_text(encoding="utf-8")


def test_no_help_has_the_token_written_into_an_argument() -> None:
    token = cli.get_command(click.Context(cli), "token")
    assert isinstance(token, click.Group)
    for command in (token, *token.commands.values()):
        assert command.help and "Bearer $" not in command.help


def test_the_readme_names_the_tests_of_the_shared_login_and_they_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {name for path, name in named if path == "tests/process/test_oauth_four_clients.py"} == {
        "test_alone_four_clients_lose_their_login",
        "test_through_hearth_none_of_four_clients_loses_its_login",
    }
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
