"""What is in the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hearth
from support.deb import package

# PEP 552: bit 0 says that the source is known by its hash, bit 1 that it is compared.
HASH_BASED, CHECKED = 0b01, 0b10


def site_packages(root: Path) -> Path:
    return next(root.glob(f"{package.PREFIX[1:]}/lib/python3.*/site-packages"))


def test_it_has_the_version_of_hearth_and_depends_on_the_python_that_it_was_made_for(
    built: Path, unpacked: Path
) -> None:
    assert package.field(built, "Version") == hearth.__version__
    minor = site_packages(unpacked).parent.name
    assert re.match(rf"{re.escape(minor)}(,|$)", package.field(built, "Depends"))
    assert (unpacked / package.PYTHON[1:]).readlink().name == minor


def test_of_the_distribution_s_python_packages_it_sees_systemd_only(built: Path, unpacked: Path) -> None:
    assert "python3-systemd" in package.field(built, "Depends")
    link = site_packages(unpacked) / "systemd"
    # Where the link leads once it is installed.
    place = os.path.join("/", os.path.relpath(link.parent, unpacked), link.readlink())
    assert os.path.normpath(place) == "/usr/lib/python3/dist-packages/systemd"
    assert "include-system-site-packages = false" in (unpacked / package.PREFIX[1:] / "pyvenv.cfg").read_text()


def test_every_module_has_byte_code_that_does_not_look_at_the_time_of_its_source(unpacked: Path) -> None:
    sources = list(site_packages(unpacked).rglob("*.py"))
    assert len(sources) > 300
    for source in sources:
        (compiled,) = source.parent.glob(f"__pycache__/{source.stem}.cpython-*.pyc")
        with open(compiled, "rb") as file:
            flags = int.from_bytes(file.read(8)[4:], "little")
        assert flags & HASH_BASED and not flags & CHECKED, compiled


def test_the_units_start_the_interpreter_of_the_package_and_systemd_takes_them(unpacked: Path) -> None:
    folder = unpacked / "usr/lib/systemd"
    units = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*.s*"))
    names = ("mcp.socket", "mcp.service", "mcp-http.socket", "mcp@.socket", "mcp@.service")
    system_wide = ("mcp-user@.socket", "mcp-user@.service")
    assert set(units) == {f"user/{name}" for name in names} | {f"system/{name}" for name in system_wide}
    for name in units:
        text = (folder / name).read_text()
        assert "Written by `hearth install`" not in text.partition("[Unit]")[0].replace("\n# ", " "), name
        assert "@PYTHON@" not in text, name
        if name.endswith(".service"):
            assert f"ExecStart=:{package.PYTHON} -I -m hearth.daemon" in text, name


def test_nothing_in_it_tells_where_it_was_built(unpacked: Path) -> None:
    marks = [b"/debian/mcp-hearth/usr", b"/debian/work", str(package.REPOSITORY).encode()]
    for path in unpacked.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert [mark for mark in marks if mark in content] == [], path


def test_only_the_interpreter_is_in_the_private_folder_for_commands(unpacked: Path) -> None:
    assert [path.name for path in (unpacked / package.PREFIX[1:] / "bin").iterdir()] == ["python"]
    assert (unpacked / "usr/bin/hearth").read_text().splitlines()[0] == f"#!{package.PYTHON} -I"


def test_the_copyright_file_has_a_paragraph_and_a_licence_for_every_bundled_package(unpacked: Path) -> None:
    text = (unpacked / "usr/share/doc/mcp-hearth/copyright").read_text()
    bundled = [path.name for path in site_packages(unpacked).glob("*.dist-info")]
    assert len(bundled) > 5
    for record in bundled:
        name, _, version = record.removesuffix(".dist-info").rpartition("-")
        if name == "mcp_hearth":
            continue
        spelt = re.sub("[-_.]+", "[-_.]", name)
        assert re.search(rf"^Comment: {spelt} {re.escape(version)}$", text, re.MULTILINE | re.IGNORECASE), record
    declared = re.findall(r"^License: (\S+)\n(?:Comment|\n)", text, re.MULTILINE)
    given = re.findall(r"^License: (\S+)\n [^\n]", text, re.MULTILINE)
    assert sorted(declared) == sorted(given)


@pytest.mark.parametrize(
    "path",
    [
        "usr/share/man/man1/hearth.1.gz",
        "usr/share/bash-completion/completions/hearth",
        "usr/share/zsh/vendor-completions/_hearth",
        "usr/share/fish/vendor_completions.d/hearth.fish",
        "usr/lib/systemd/user-preset/80-mcp-hearth.preset",
        "usr/share/doc/mcp-hearth/changelog.gz",
        "usr/share/doc/mcp-hearth/README.md.gz",
    ],
)
def test_what_belongs_to_a_command_is_there(unpacked: Path, path: str) -> None:
    assert (unpacked / path).stat().st_size > 100


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_the_maintainer_scripts_are_whole_and_plain_shell(unpacked: Path, script: str) -> None:
    path = unpacked / "DEBIAN" / script
    assert "each_user() {" in path.read_text()
    assert not re.search(r"^#[A-Z]+#$", path.read_text(), re.MULTILINE)
    assert subprocess.run(["sh", "-n", path], check=False).returncode == 0


def test_the_changelog_in_the_source_has_the_version_of_hearth() -> None:
    first = (package.REPOSITORY / "debian" / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"{package.NAME} ({hearth.__version__}) ")


def test_a_bundled_package_without_a_licence_ends_the_build(tmp_path: Path) -> None:
    # The interpreter of the tests stands in for the tree's: one of its packages has lost its licence.
    record = tmp_path / "lib" / "python3" / "site-packages" / "bare-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: bare\nVersion: 1.0\n")
    script = package.REPOSITORY / "packaging" / "deb" / "copyright.py"
    own = package.REPOSITORY / "debian" / "copyright"
    code = (
        "import runpy, sys, sysconfig\n"
        "script, folder = sys.argv[1:3]\n"
        "del sys.argv[1:3]\n"
        "sysconfig.get_path = lambda name: folder\n"
        "runpy.run_path(script, run_name='__main__')\n"
    )
    arguments = [script, record.parent, own, package.PREFIX]
    done = subprocess.run([sys.executable, "-I", "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bare 1.0 brings no licence text" in done.stderr
