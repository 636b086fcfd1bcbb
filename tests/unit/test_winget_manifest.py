"""The winget manifest: rendered with made-up facts, and held against winget's schema."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hearth import __version__

ROOT = Path(__file__).resolve().parents[2]
RENDER = ROOT / "packaging" / "winget" / "render.py"
URL = "https://downloads.example.org/hearth-win-x64.zip"
HOMEPAGE = "https://hearth.example.org"
NAME = "MCPHearth.Hearth"

TEXT = re.compile(r"\S.*")
IDENTIFIER = re.compile(r"[^.\s\\/:*?\"<>|]{1,32}(\.[^.\s\\/:*?\"<>|]{1,32}){1,7}")
VERSION = re.compile(r"[^\\/:*?\"<>|]{1,128}")
ADDRESS = re.compile(r"https?://\S{1,2000}")
FOUR_NUMBERS = re.compile(r"\d{1,5}(\.\d{1,5}){0,3}")

# Winget's schema 1.6.0, as far as it is used here: the keys of each kind of manifest with what their values look like.
# A list holds values, or maps, of the one kind that is given. A key that the schema does not know is refused.
EACH = {"PackageIdentifier": IDENTIFIER, "PackageVersion": VERSION, "ManifestVersion": re.compile(r"1\.6\.0")}
SCHEMA: dict[str, dict[str, Any]] = {
    "version": {**EACH, "DefaultLocale": re.compile("en-US"), "ManifestType": re.compile("version")},
    "defaultLocale": {
        **EACH,
        "PackageLocale": re.compile("en-US"),
        "Publisher": re.compile(r".{2,256}"),
        "PublisherUrl": ADDRESS,
        "PackageName": re.compile(r".{2,256}"),
        "PackageUrl": ADDRESS,
        "License": re.compile(r".{3,512}"),
        "ShortDescription": re.compile(r".{3,256}"),
        "Description": re.compile(r".{3,10000}"),
        "Moniker": re.compile(r".{1,40}"),
        "Tags": [re.compile(r"\S{1,40}")],
        "ManifestType": re.compile("defaultLocale"),
    },
    "installer": {
        **EACH,
        "Platform": [re.compile(r"Windows\.(Desktop|Universal)")],
        "MinimumOSVersion": FOUR_NUMBERS,
        "Scope": re.compile("user|machine"),
        "InstallerType": re.compile("zip"),
        "NestedInstallerType": re.compile("portable"),
        "NestedInstallerFiles": [{"RelativeFilePath": TEXT, "PortableCommandAlias": re.compile(r".{1,40}")}],
        "Commands": [re.compile(r".{1,40}")],
        "UpgradeBehavior": re.compile("install|uninstallPrevious|deny"),
        "Installers": [
            {
                "Architecture": re.compile("x86|x64|arm|arm64|neutral"),
                "InstallerUrl": ADDRESS,
                "InstallerSha256": re.compile("[A-F0-9]{64}"),
            }
        ],
        "ManifestType": re.compile("installer"),
    },
}


def read(text: str) -> dict[str, Any]:
    """As much of YAML as the manifests are written in: plain values, lists of them, and lists of maps."""
    found: dict[str, Any] = {}
    inside: list[Any] = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        key, separator, value = line.lstrip("- ").partition(":")
        value = value.strip()
        if line.startswith("- "):
            inside.append({key: value} if separator and value else line[2:])
        elif line.startswith("  "):
            inside[-1][key] = value
        elif value:
            found[key] = value
        else:
            inside = found[key] = []
    return found


def faults(document: Any, schema: Any, where: str = "") -> list[str]:
    if isinstance(schema, dict):
        assert isinstance(document, dict), where
        wrong = [f"{where}{key}" for key in schema.keys() ^ document.keys()]
        return wrong + [
            fault for key in schema.keys() & document.keys() for fault in faults(document[key], schema[key], f"{key}/")
        ]
    if isinstance(schema, list):
        assert isinstance(document, list), where
        assert document, where
        return [fault for item in document for fault in faults(item, schema[0], where)]
    return [] if schema.fullmatch(document) else [f"{where}{document}"]


def render(tmp_path: Path, *, url: str = URL, program: str = "hearth/hearth.exe") -> "subprocess.CompletedProcess[str]":
    archive = tmp_path / "hearth.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(program, b"MZ")
    command = [sys.executable, RENDER, "--archive", archive, "--url", url, "--homepage", HOMEPAGE, tmp_path / "out"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_three_files_are_what_winget_reads(tmp_path: Path) -> None:
    done = render(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"{NAME}.installer.yaml", f"{NAME}.locale.en-US.yaml", f"{NAME}.yaml"]
    for file in files:
        document = read(file.read_text("utf-8"))
        assert faults(document, SCHEMA[document["ManifestType"]]) == []
        assert (document["PackageIdentifier"], document["PackageVersion"]) == (NAME, __version__)


def test_the_installer_is_the_one_that_was_given_and_knows_its_program(tmp_path: Path) -> None:
    render(tmp_path)
    document = read((tmp_path / "out" / f"{NAME}.installer.yaml").read_text("utf-8"))
    assert document["Installers"][0]["InstallerUrl"] == URL
    assert document["NestedInstallerFiles"] == [
        {"RelativeFilePath": "hearth\\hearth.exe", "PortableCommandAlias": "hearth"}
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [({"url": "file:///tmp/hearth.zip"}, "https://"), ({"program": "other.exe"}, "has no hearth/hearth.exe")],
)
def test_what_nobody_could_install_makes_no_manifest(given: dict[str, str], sentence: str, tmp_path: Path) -> None:
    done = render(tmp_path, **given)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert not (tmp_path / "out").exists()


def test_no_address_stands_in_the_templates() -> None:
    for file in RENDER.parent.glob("*.in"):
        assert "://" not in file.read_text("utf-8")
