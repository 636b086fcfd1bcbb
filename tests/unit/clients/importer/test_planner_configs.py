"""The same config files of clients as for connecting, imported first: what comes of each is right for Hearth's config,
and leads back to the very bytes that were there."""

import re
from pathlib import Path

import pytest

from hearth.clients import bridge_entries, discovery
from hearth.clients.importer.placeholders import Secret
from hearth.clients.table import Table
from hearth.errors import ConfigError
from hearth.paths import Places
from unit.clients.client_configs import EDITED, REFUSED, Config, put
from unit.clients.imports import Shell, read

pytestmark = pytest.mark.usefixtures("hasty")


def answered(_: Table, name: str) -> Secret:
    return Secret("hunter2000", name)


@pytest.mark.parametrize("config", EDITED, ids=lambda config: config.title)
def test_each_is_imported_connected_and_brought_back(shell: Shell, config: Config, state: Path) -> None:
    table = put(state, config)
    shell.answer = answered
    entries = discovery.read(table)
    made = shell.plan(*entries)
    left = {each.found.name: each.reason for each in made.left}
    replace = {found.name: name for found, name in made.links()}
    assert replace.keys() | left.keys() == set(config.entries)
    assert not replace.keys() & left.keys()
    assert set(read(made)) == set(replace.values())
    assert Path(table.path).read_bytes() == config.data
    shell.adopt(made)
    again = shell.plan(*entries)
    assert (again.servers, dict(again.secrets)) == ([], {})
    assert {found.name: name for found, name in again.links()} == replace
    bridge_entries.connect(table, replace, not replace, Places())
    assert {each.name: each.bridge_to for each in discovery.read(table) if each.bridge_to} == replace
    assert bridge_entries.disconnect(table).is_exact
    assert Path(table.path).read_bytes() == config.data


@pytest.mark.parametrize("config", REFUSED, ids=lambda config: config.title)
def test_one_that_is_refused_is_untouched(config: Config, state: Path) -> None:
    table = put(state, config)
    with pytest.raises(ConfigError, match=re.escape(table.path)):
        links = Shell().plan(*discovery.read(table)).links()
        bridge_entries.connect(table, {found.name: name for found, name in links}, not links, Places())
    assert Path(table.path).read_bytes() == config.data
