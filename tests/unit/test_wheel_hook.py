"""What the build puts into the wheel: a long description that stands alone, and the man page."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook's module; hatchling is only where something is built, and two names of it are enough to load it."""
    for name, kind in (("builders.hooks", "BuildHookInterface"), ("metadata", "MetadataHookInterface")):
        module = ModuleType(f"hatchling.{name}.plugin.interface")
        setattr(module, kind, type(kind, (), {"root": str(ROOT)}))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("wheel_hook", ROOT / "packaging" / "wheel_hook.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md)", "[a](https://x.example/docs/a.md)"),
        ("![a](docs/a.svg) [b](docs/b.md#c)", "![a](https://x.example/docs/a.svg) [b](https://x.example/docs/b.md#c)"),
        ("[a](https://y.example/) [b](#c) `f(x)`", "[a](https://y.example/) [b](#c) `f(x)`"),
    ],
)
def test_relative_links_become_absolute_and_others_stay(hook: Any, text: str, expected: str) -> None:
    assert hook.with_absolute_links(text, "https://x.example/") == expected


def test_the_long_description_is_the_readme_without_relative_links(hook: Any) -> None:
    metadata: dict[str, Any] = {"urls": PROJECT["project"]["urls"]}
    hook.LongDescription().update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert re.findall(r"(?:src|href)=|^\[[^\]]+\]: ", text, re.MULTILINE) == [], (
        "other forms of links are not rewritten"
    )


def test_the_project_has_addresses_and_names_its_systems() -> None:
    project = PROJECT["project"]
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} <= set(project["urls"])
    # One placeholder for the project's address, wherever it has to stand.
    (host,) = {address.split("/")[2] for address in project["urls"].values()}
    assert f"@{host}>" in (ROOT / "debian" / "control").read_text()
    systems = [each for each in project["classifiers"] if each.startswith("Operating System")]
    assert [each.split(" :: ", 1)[1] for each in systems] == ["MacOS", "Microsoft :: Windows", "POSIX :: Linux"]


def test_the_man_page_is_made_with_what_the_build_requires() -> None:
    wanted = {re.split(r"\W", each)[0] for each in PROJECT["build-system"]["requires"]}
    runtime = {re.split(r"[^\w-]", each)[0].replace("-", "_") for each in PROJECT["project"]["dependencies"]}
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(runtime - wanted)!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, "packaging")
import man
print(man.page(""))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(".TH HEARTH 1 ")


@pytest.mark.parametrize("unit", sorted(path for path in (ROOT / "units").rglob("*.s*")), ids=lambda path: path.name)
def test_each_unit_leads_to_the_man_page(unit: Path) -> None:
    assert "\nDocumentation=man:hearth(1)\n" in unit.read_text()
