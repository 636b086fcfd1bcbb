"""What is pasted into a client's config."""

import os
import sys

from hearth.clients.launcher import bridge_command, bridge_file, client_config
from hearth.paths import Places


def test_the_command_is_the_unresolved_interpreter_with_its_flags_and_the_bridge_s_file() -> None:
    assert bridge_command(Places()) == [sys.executable, "-I", "-S", bridge_file()]
    assert os.path.isfile(bridge_file())


def test_what_is_not_the_default_stands_in_the_arguments() -> None:
    assert bridge_command(Places("work"))[4:] == ["--profile", "work"]
    assert bridge_command(Places(config="/tmp/x.json"))[4:] == ["--config", os.path.realpath("/tmp/x.json")]


def test_one_entry_offers_everything() -> None:
    entries = client_config(Places(), [], "hearth", [])["mcpServers"]
    assert list(entries) == ["hearth"]  # type: ignore[call-overload]


def test_each_named_server_gets_an_entry_of_its_own_name() -> None:
    entries = client_config(Places(), ["git", "time"], "hearth", ["--role", "lead"])["mcpServers"]
    assert isinstance(entries, dict)
    assert list(entries) == ["git", "time"]
    assert entries["git"]["args"][3:] == ["--server", "git", "--role", "lead"]
