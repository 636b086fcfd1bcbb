"""Where things are on Windows."""

import os
import sys

import pytest

from hearth import paths, places


def test_this_is_windows() -> None:
    assert sys.platform == "win32"
    assert os.name == "nt"


def test_the_config_roams_and_the_rest_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPDATA", r"C:\users\ada\AppData\Roaming")
    monkeypatch.setenv("LOCALAPPDATA", r"C:\users\ada\AppData\Local")
    places = paths.Places()
    assert places.config_file() == r"C:\users\ada\AppData\Roaming\hearth\config.toml"
    assert paths.Places("work").config_file() == r"C:\users\ada\AppData\Roaming\hearth\profiles\work\config.toml"
    assert places.log == r"C:\users\ada\AppData\Local\hearth\logs\mcp.log"
    local = [places.folder, places.registry, places.daemon_lock, places.start_lock, places.catalogue, places.pins]
    assert [path for path in local if not path.startswith("C:\\users\\ada\\AppData\\Local\\")] == []


@pytest.mark.parametrize("dropped", [(), ("APPDATA", "LOCALAPPDATA")])
def test_bridge_and_command_line_work_out_the_same_folders(
    monkeypatch: pytest.MonkeyPatch, dropped: tuple[str, ...]
) -> None:
    for name in dropped:
        monkeypatch.delenv(name, raising=False)
    assert places.config_dir().lower() == paths.config_dir().lower()
    assert places.state_dir().lower() == paths.state_dir().lower()
