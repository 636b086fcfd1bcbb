"""The Homebrew formula: rendered with given facts, read by Ruby, its agent compared with that of `hearth install`."""

import hashlib
import importlib.util
import json
import os
import plistlib
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hearth import paths
from hearth.host.install import launchd
from hearth.host.macos import launchd as agent
from support.requirements import needs_program

HOMEBREW = Path(__file__).resolve().parents[2] / "packaging" / "homebrew"
TEMPLATE = HOMEBREW / "mcp-hearth.rb.in"
RUBY_HOMEBREW = Path(__file__).with_name("homebrew.rb")
BOUND_SECONDS = 60

_spec = importlib.util.spec_from_file_location("homebrew_render", HOMEBREW / "render.py")
assert _spec and _spec.loader
homebrew = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(homebrew)

SHA256 = "0123456789abcdef" * 4


def needed(name: str, file: str, **origin: Any) -> dict[str, Any]:
    """One package of a report, as pip writes it."""
    archive = {"archive_info": {"hashes": {"sha256": SHA256}}}
    return {"metadata": {"name": name}, "download_info": {"url": f"https://files.example/{file}", **archive, **origin}}


def report(*install: dict[str, Any], platform: str = "darwin") -> dict[str, Any]:
    return {"environment": {"sys_platform": platform, "python_version": "3.13"}, "install": list(install)}


REPORT = report(
    needed("uvloop", "uvloop-1.tar.gz"),
    needed("mcp_hearth", "mcp_hearth-0.1.0.tar.gz"),
    needed("jaraco.functools", "jaraco_functools-4.tar.gz"),
)


def render(document: dict[str, Any] = REPORT) -> str:
    text: str = homebrew.render(
        TEMPLATE.read_text(encoding="utf-8"),
        url="https://files.example/mcp_hearth-0.1.0.tar.gz",
        sha256=SHA256,
        homepage="https://hearth.example",
        report=document,
    )
    return text


@pytest.fixture
def formula(tmp_path: Path) -> Path:
    path = tmp_path / "mcp-hearth.rb"
    path.write_text(render(), encoding="utf-8")
    return path


def ruby(*words: object) -> str:
    command = [needs_program("ruby"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_template_names_no_address_and_no_version() -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    assert "://" not in text
    assert "0.1" not in text


def test_ruby_reads_the_rendered_formula_without_a_warning(formula: Path) -> None:
    done = subprocess.run([needs_program("ruby"), "-wc", formula], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "Syntax OK", "")


def test_the_formula_says_what_it_was_given(formula: Path) -> None:
    said = json.loads(ruby(RUBY_HOMEBREW, formula))
    assert said["facts"]["url"] == "https://files.example/mcp_hearth-0.1.0.tar.gz"
    assert said["facts"]["sha256"] == SHA256
    assert said["facts"]["depends_on"] == "python@3.13"
    # By name, and without Hearth itself.
    assert list(said["resources"]) == ["jaraco-functools", "uvloop"]
    assert said["resources"]["uvloop"] == {"url": "https://files.example/uvloop-1.tar.gz", "sha256": SHA256}


def test_the_service_is_the_agent_of_hearth_install_by_the_same_name(formula: Path) -> None:
    assert json.loads(ruby(RUBY_HOMEBREW, formula))["service"] == {"name": {"macos": agent.LABEL}}


def test_the_agent_in_the_keg_means_what_hearth_install_would_write(
    formula: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)
    python = tmp_path / "libexec" / "bin" / "python"
    python.parent.mkdir(parents=True)
    # A link would be taken for an interpreter without this environment's packages.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ruby(RUBY_HOMEBREW, formula, tmp_path)
    written = plistlib.loads((tmp_path / agent.FILE_NAME).read_bytes())
    searched = "/opt/homebrew/bin:/opt/homebrew/sbin:/usr/bin:/bin:/usr/sbin:/sbin"
    assert written == plistlib.loads(launchd.rendered(str(python), paths.Places(), searched).encode())
    assert written["ProgramArguments"][0] == str(python)
    assert written["Sockets"]["mcp"]["SockPathName"] == paths.Places().socket


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (report(platform="linux"), "make it on a Mac"),
        (report(needed("click", "click-8-py3-none-any.whl")), "--no-binary"),
        (report(needed("click", "click-8.tar.gz", url="file:///somewhere/click-8.tar.gz")), "nobody else can fetch"),
        (report(needed("click", "click-8.tar.gz", archive_info={})), "no SHA-256 for click"),
    ],
)
def test_facts_that_would_make_a_wrong_formula_are_refused(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(homebrew.Unusable, match=reason):
        render(document)


def test_the_script_prints_the_formula_for_the_built_sdist(tmp_path: Path) -> None:
    (tmp_path / "mcp_hearth-0.1.0.tar.gz").write_bytes(b"the sdist")
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    words = ["--sdist", "mcp_hearth-0.1.0.tar.gz", "--report", "report.json", "--homepage", "https://hearth.example"]
    command = [sys.executable, str(HOMEBREW / "render.py"), *words, "--url", "https://files.example/h-0.1.0.tar.gz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_SECONDS, check=True)
    assert hashlib.sha256(b"the sdist").hexdigest() in done.stdout
    assert 'url "https://files.example/h-0.1.0.tar.gz"' in done.stdout
