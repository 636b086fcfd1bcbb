"""The plan that `hearth setup` shows is the one that it executes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hearth.cli import main
from hearth.errors import Refused
from hearth.host import install as installation
from hearth.host.install.service_files import Outcome, Plan
from hearth.ops import import_servers, setup_plan, tool_caller
from hearth.ops.import_servers import Answers
from hearth.ops.setup_plan import ServiceStep, SetupPlan
from hearth.paths import Places


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".state", "XDG_RUNTIME_DIR": "run"}.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HEARTH_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir(mode=0o700)
    write(tmp_path, {"time": {"command": "/bin/cat"}})
    return tmp_path


def client_file(home: Path) -> Path:
    return home / ".cursor" / "mcp.json"


def write(home: Path, servers: dict[str, object], **more: object) -> None:
    client_file(home).parent.mkdir(exist_ok=True)
    client_file(home).write_text(json.dumps({"mcpServers": servers, **more}))


def planned(places: Places) -> SetupPlan:
    gathered = import_servers.gather(("cursor",), ("user",), places.config_file())
    return setup_plan.make(places, gathered, Answers(None), disabled=False, service=False, one=False)


def test_servers_that_changed_since_the_plan_was_shown_are_reported_and_left(home: Path) -> None:
    places = Places()
    plan = planned(places)
    assert [each.table.path for each in plan.links.changed] == [str(client_file(home))]
    setup_plan.import_servers(places, plan)
    write(home, {"time": {"command": "/bin/cat"}, "new": {"command": "/bin/ls"}})
    before = client_file(home).read_bytes()
    done = setup_plan.connect(places, plan, [])
    assert done.links.problems == [
        f"{client_file(home)}: its servers were changed after the plan was shown, so it is left"
    ]
    assert done.links.exit_code == Refused.exit_code
    assert not done.links.changed
    assert client_file(home).read_bytes() == before


def test_what_else_a_client_writes_into_its_file_is_no_change_of_the_plan(home: Path) -> None:
    places = Places()
    plan = planned(places)
    setup_plan.import_servers(places, plan)
    write(home, {"time": {"command": "/bin/cat"}}, windows=3)
    assert setup_plan.connect(places, plan, []).links.problems == []
    assert json.loads(client_file(home).read_text())["windows"] == 3
    assert "--server" in json.loads(client_file(home).read_text())["mcpServers"]["time"]["args"]


def test_a_server_that_the_config_got_meanwhile_is_not_overwritten(home: Path) -> None:
    places = Places()
    plan = planned(places)
    config = Path(places.config_file())
    config.parent.mkdir(parents=True)
    config.write_text('[mcpServers.time]\ncommand = "/bin/ls"\n')
    with pytest.raises(Refused, match="was changed meanwhile"):
        setup_plan.import_servers(places, plan)
    assert "/bin/cat" not in config.read_text()


def test_unit_files_that_changed_since_are_not_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Outcome("/units", Plan(write=("mcp.socket",)), "systemd")
    now = Outcome("/units", Plan(foreign=("mcp.socket",)), "systemd")

    def install(*, dry_run: bool = False, profile: str = "") -> Outcome:
        assert dry_run, "nothing is written"
        return now

    monkeypatch.setattr(installation, "install", install)
    plan = planned(Places())._replace(service=ServiceStep(shown))
    with pytest.raises(Refused, match="files in /units were changed after the plan was shown"):
        setup_plan.install_service(Places(), plan)


def test_the_executed_plan_is_the_shown_object(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SetupPlan] = []
    executed: list[SetupPlan] = []
    make, carry_out = setup_plan.make, setup_plan.import_servers
    monkeypatch.setattr(setup_plan, "make", lambda *args, **options: made.append(make(*args, **options)) or made[-1])
    monkeypatch.setattr(
        setup_plan, "import_servers", lambda places, plan: executed.append(plan) or carry_out(places, plan)
    )
    monkeypatch.setattr(tool_caller, "try_all", lambda places, commands, tell: [])
    result = CliRunner().invoke(main.cli, ["setup", "--client", "cursor", "--no-service", "--yes"])
    assert "Cursor is connected: time" in result.output
    assert len(made) == len(executed) == 1
    assert executed[0] is made[0]
