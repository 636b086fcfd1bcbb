"""The command line as typed: help, names, codes, and that documents and verbs are in step."""

import json
import os
import shutil
import subprocess
import sys

import click
import pytest

from e2e.cli_home import Home, attached_bridge
from hearth.cli.main import VERBS, WITHOUT_TARGET, cli

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ESCAPE = "\x1b"


def read(*parts: str) -> str:
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_exits_with_0_and_gives_an_example_of_it(home: Home, verb: str) -> None:
    examples = [line.strip() for line in home.ok(verb, "--help").splitlines() if f"hearth {verb}" in line]
    assert len(examples) >= 2, "the usage line, and at least one example"


def test_hearth_alone_prints_the_help_with_every_verb(home: Home) -> None:
    listed = {line.split()[0] for line in home.ok().splitlines() if line.startswith("  ") and line.split()}
    assert set(VERBS) <= listed


def test_a_verb_that_was_mistyped_gets_the_nearest_one(home: Home) -> None:
    assert "Did you mean 'status'?" in home.fails(2, "staus")


def test_a_profile_and_a_config_at_once_are_a_usage_error(home: Home) -> None:
    assert "two daemons" in home.refuses(2, "status", "--profile", "a", "--config", "b")


def test_the_daemon_may_be_named_before_the_verb_or_after_it_or_in_the_environment(home: Home) -> None:
    path = home.write_config("", "work")
    assert home.json("--profile", "work", "status", "--json")["configPath"] == path
    assert home.json("status", "--profile", "work", "--json")["configPath"] == path
    assert json.loads(home.run("status", "--json", HEARTH_CONFIG=path).stdout)["configPath"] == path


@pytest.mark.parametrize("words", [("version",), ("status",), ("sessions",), ("upstreams",), ("tools",), ("doctor",)])
def test_json_is_json_and_has_no_colour(home: Home, words: tuple[str, ...]) -> None:
    done = home.run(*words, "--json")
    json.loads(done.stdout)
    assert ESCAPE not in done.stdout


def test_colour_is_for_terminals(home: Home) -> None:
    assert ESCAPE not in home.run("doctor").stdout
    assert f"{ESCAPE}[3" in home.at_terminal(0, "doctor")


@pytest.mark.parametrize("unwanted", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("verb", ["doctor", "logs"])
def test_colour_is_not_shown_where_it_is_unwanted(home: Home, verb: str, unwanted: dict[str, str]) -> None:
    # `logs` fails here: there is no log yet.
    seen = home.at_terminal(int(verb == "logs"), verb, **unwanted)
    assert "hearth" in seen
    assert f"{ESCAPE}[3" not in seen


def test_output_into_a_closed_pipe_is_no_traceback(home: Home) -> None:
    assert "Traceback" not in home.shell("hearth --help | true").stderr


@pytest.mark.parametrize("words", ["status", "--help", "config show", "sessions --json"])
def test_a_full_disk_is_one_sentence(home: Home, words: str) -> None:
    done = home.shell(f"hearth {words} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "hearth: standard output cannot be written to: No space left on device.\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("verb", ["status", "doctor", "stop"])
def test_closed_streams_keep_nothing_from_being_done(home: Home, verb: str, closed: str) -> None:
    done = home.shell(f"hearth {verb} {closed}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", ["status", "bridge"])
def test_a_relative_config_in_a_folder_that_is_gone_is_one_sentence(home: Home, verb: str) -> None:
    gone = os.path.join(home.folder, "gone")
    os.mkdir(gone)
    done = home.shell(f"rmdir '{gone}'; hearth {verb} --config mcp.json </dev/null", cwd=gone)
    assert done.returncode == 2
    assert "the current folder is gone" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_an_option_too(home: Home) -> None:
    assert home.run("--version").stdout == home.run("version").stdout


@pytest.mark.parametrize("option", ["--profile", "--config"])
@pytest.mark.parametrize("verb", sorted(WITHOUT_TARGET))
def test_a_verb_that_is_not_about_one_daemon_refuses_to_be_told_which(home: Home, verb: str, option: str) -> None:
    assert f"leave out {option}" in home.refuses(2, option, "work", verb)


def test_every_other_verb_takes_the_name_of_a_daemon() -> None:
    context = click.Context(cli)
    # These have their own parser, or their own verbs.
    for verb in set(VERBS) - {"agent", "auth", "bridge", "config", "hook", "pack", "policy", "role", "secret", "tools"}:
        command = cli.get_command(context, verb)
        assert command
        assert ("profile" in {parameter.name for parameter in command.params}) == (verb not in WITHOUT_TARGET), verb


def test_a_dry_run_does_not_tell_the_person_to_type_anything_yet(home: Home) -> None:
    said = home.ok("install", "--dry-run")
    assert "would write" in said
    assert "To begin listening, type" not in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_every_shell_is_one(home: Home, shell: str) -> None:
    script = home.run("completion", shell).stdout
    assert f"_HEARTH_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_verbs_options_and_profiles_are_completed(home: Home) -> None:
    home.write_config("", "work")
    assert home.complete("hearth st") == ["status", "stop"]
    assert "--json" in home.complete("hearth status --j")
    assert home.complete("hearth status --profile w") == ["work"]
    assert home.complete("hearth bridge --m") == ["--mode"]
    assert home.complete("hearth bridge --mode ") == ["full", "search", "auto"]
    assert home.complete("hearth hook stop --client c") == ["claude", "codex"]


def test_version_loads_no_other_verb_and_nothing_heavy(home: Home) -> None:
    code = (
        "import sys; from hearth.cli.main import main; main(['version']);"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in {'asyncio', 'msgspec', 'uvloop'}"
        " or name.startswith('hearth.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=home.environment, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1]
    for unwanted in ("asyncio", "msgspec", "hearth.cli.daemon.status", "hearth.daemon", "hearth.config", "hearth.demo"):
        assert f"'{unwanted}'" not in loaded


@pytest.mark.parametrize("verb", ["bridge", "hook"])
def test_bridge_and_hook_are_reached_without_click(home: Home, verb: str) -> None:
    done = home.run(verb, "--help", PYTHONPROFILEIMPORTTIME="1")
    imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")]
    assert "hearth.bridge" in imported
    assert not [name for name in imported if name.split(".")[0] == "click" or name.startswith("hearth.cli")]


@pytest.mark.parametrize("page", [("README.md",), ("docs", "cli.md")])
def test_documents_name_every_verb(page: tuple[str, ...]) -> None:
    text = read(*page)
    assert [verb for verb in VERBS if f"hearth {verb}" not in text] == []


def test_the_table_of_exit_codes_is_the_one_that_the_code_has() -> None:
    from hearth import errors

    page = read("docs", "cli.md")
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    assert [code for code in codes if f"| {code} |" not in page] == []


def test_the_man_page_has_every_verb_and_option_and_roff_takes_it() -> None:
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "packaging", "man.py")], capture_output=True, text=True, check=True
    )
    headings = [line.replace("\\-", "-") for line in done.stdout.splitlines() if line.startswith(".SS hearth ")]
    assert [verb for verb in VERBS if not any(heading.startswith(f".SS hearth {verb}") for heading in headings)] == []
    assert ".B \\-\\-agent\\-id ID\n" in done.stdout
    of_the_bridge = done.stdout.partition(".SS hearth bridge")[2]
    assert ".B \\-\\-header \\(aqNAME: VALUE\\(aq\nsent with every request" in of_the_bridge
    codes = done.stdout.partition(".SH EXIT STATUS\n")[2].partition(".SH")[0]
    assert [line for line in codes.splitlines() if line.startswith(".B ")] == [f".B {n}" for n in (*range(6), 130)]
    if shutil.which("groff"):
        formatted = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=done.stdout, capture_output=True, text=True, check=True
        )
        assert formatted.stderr == ""


def test_the_packaged_completion_scripts_are_those_that_the_verb_prints(home: Home) -> None:
    subprocess.run(
        [sys.executable, os.path.join(ROOT, "packaging", "completions.py"), home.home], capture_output=True, check=True
    )
    for shell, name in (("bash", "hearth"), ("zsh", "_hearth"), ("fish", "hearth.fish")):
        assert read(home.home, shell, name).strip() == home.run("completion", shell).stdout.strip()


def test_help_explains_a_verb_as_its_option_does(home: Home) -> None:
    assert home.run("help").stdout == home.run("--help").stdout
    for words in (["connect"], ["config", "check"], ["tools", "approve"], ["help"]):
        assert home.run("help", *words).stdout == home.run(*words, "--help").stdout
    assert "Did you mean 'connect'?" in home.refuses(2, "help", "conect")
    assert home.run("help", "config", "nothing").returncode == 2
    assert {each["name"] for each in home.json("help", "--json")["verbs"]} == set(VERBS)
    assert ["--json"] in [each["names"] for each in home.json("help", "status", "--json")["options"]]


def test_words_of_help_are_completed(home: Home) -> None:
    assert home.complete("hearth help sta") == ["status"]
    assert home.complete("hearth help config che") == ["check"]


def test_the_short_form_of_version_is_there(home: Home) -> None:
    assert home.run("-V").stdout == home.run("--version").stdout


def test_ls_is_upstreams_and_completes_their_names(home: Home) -> None:
    home.configure_demo()
    assert home.run("ls").stdout == home.run("upstreams").stdout
    assert home.json("ls", "demo", "--json") == home.json("upstreams", "demo", "--json")
    assert home.run("ls", "other").returncode == 2
    assert home.complete("hearth ls d") == ["demo"]


def test_ps_lists_the_daemon_and_each_process_of_a_server(home: Home) -> None:
    assert home.json("ps", "--json") == []
    assert home.run("ps").stdout.startswith("hearth is not running")
    for bridge in attached_bridge(home):
        called = bridge.ask("tools/call", name="demo__whoami", arguments={})
        daemon, server = home.json("ps", "--json")
        assert (daemon["kind"], daemon["pid"]) == ("daemon", home.json("status", "--json")["pid"])
        assert daemon["memoryBytes"] > 0
        assert (server["kind"], server["name"], server["state"]) == ("server", "demo", "ready")
        assert str(server["pid"]) in json.dumps(called)
        rows = [line.split() for line in home.run("ps").stdout.splitlines()]
        assert [row[0] for row in rows] == ["PID", str(daemon["pid"]), str(server["pid"])]
