"""Over two hundred config files of clients: each is read, connected and disconnected, and is then as it was, byte for
byte; or it is refused with a sentence, and untouched."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hearth.clients import bridge_entries, discovery
from hearth.clients.table import Table
from hearth.config.document import parse
from hearth.config.editor import value_at
from hearth.config.positions import blank_comments
from hearth.errors import ConfigError, HearthError
from hearth.paths import Places
from unit.clients.client_configs import CONFIGS, EDITED, REFUSED, Config, put

pytestmark = pytest.mark.usefixtures("hasty")
BOM = b"\xef\xbb\xbf"
IN_TWO_PLACES = "an entry in two places"


def ids(config: Config) -> str:
    return config.title


def content(table: Table) -> bytes:
    return Path(table.path).read_bytes()


def connect(table: Table, config: Config, whole: bool = False) -> bridge_entries.TableOutcome:
    return bridge_entries.connect(table, {name: name or "unnamed" for name in config.entries}, whole, Places())


def nothing_is_kept(folder: Path) -> bool:
    kept = folder / "state" / "hearth" / "clients"
    return not kept.exists() or os.listdir(kept) == []


def test_there_are_over_two_hundred_of_every_client() -> None:
    assert len({config.title for config in CONFIGS}) == len(CONFIGS) >= 200
    assert len({config.client for config in CONFIGS}) == 11


@pytest.mark.parametrize("config", EDITED, ids=ids)
def test_each_is_read_connected_and_brought_back(config: Config, state: Path) -> None:
    table = put(state, config)
    found = discovery.read(table)
    assert tuple(entry.name for entry in found) == config.entries
    for entry in found:
        assert ("command" in entry.entry) != ("url" in entry.entry)
        assert (entry.disabled, entry.bridge_to) == (False, None)
    for whole in ways(config):
        is_as_it_should_be(table, config, connect(table, config, whole), whole)
        assert connect(table, config, whole).changes == []
        assert bridge_entries.disconnect(table).is_exact
        assert content(table) == config.data
        assert nothing_is_kept(state)


def ways(config: Config) -> list[bool]:
    """Whether one entry for all servers is added: both, where there are others to replace."""
    return [False, True] if config.entries else [True]


def is_as_it_should_be(table: Table, config: Config, outcome: bridge_entries.TableOutcome, whole: bool) -> None:
    wanted = [*config.entries, *(["hearth"] if whole else [])]
    former, tree = (parse(table.path, data).tree for data in (config.data, content(table)))
    assert [change.name for change in outcome.changes] == list(value_at(tree, table.keys)) == wanted
    servers = [*(name or "unnamed" for name in config.entries), *([""] if whole else [])]
    assert [entry.bridge_to for entry in discovery.read(table)] == servers
    assert without(tree, table.keys) == without(former, table.keys)
    if not whole:
        only_the_entries_are_written_otherwise(table, config, outcome)


def only_the_entries_are_written_otherwise(table: Table, config: Config, outcome: bridge_entries.TableOutcome) -> None:
    text = decoded(content(table))
    for change in outcome.changes:
        assert change.now is not None
        assert change.was is not None
        assert text.count(change.now) == 1
        text = text.replace(change.now, change.was)
    if IN_TWO_PLACES in config.title:
        # Put together in one, which is not how it comes back.
        assert parse(table.path, text.encode()).tree == parse(table.path, config.data).tree
    else:
        assert text == decoded(config.data)


@pytest.mark.parametrize("config", [config for config in EDITED if config.data.strip(BOM).strip()], ids=ids)
def test_what_the_client_writes_meanwhile_stays(config: Config, state: Path) -> None:
    expected = rewritten(config.client, config.data)
    for whole in ways(config):
        table = put(state, config)
        connect(table, config, whole)
        Path(table.path).write_bytes(rewritten(config.client, content(table)))
        outcome = bridge_entries.disconnect(table)
        assert (outcome.notes, len(outcome.changes)) == ([], len(config.entries) + whole)
        # What was in two places comes back in one; and a client that writes into an empty file writes no comma.
        if parse(table.path, config.data).tree and IN_TWO_PLACES not in config.title:
            assert content(table) == expected
        assert pruned(table, content(table)) == pruned(table, expected)
        assert nothing_is_kept(state)


@pytest.mark.parametrize("config", [config for config in EDITED if config.client != "codex"], ids=ids)
def test_a_client_that_writes_its_whole_file_anew_gets_its_entries_back(config: Config, state: Path) -> None:
    for whole in ways(config):
        table = put(state, config)
        connect(table, config, whole)
        # As a program does that has read the file and knows nothing of its comments.
        Path(table.path).write_bytes(saved(table.path, content(table)))
        bridge_entries.disconnect(table)
        assert pruned(table, content(table)) == pruned(table, saved(table.path, config.data))


def saved(path: str, data: bytes) -> bytes:
    return json.dumps({**parse(path, data).tree, "saved": True}, indent=3).encode()


@pytest.mark.parametrize("config", REFUSED, ids=ids)
def test_each_of_the_others_is_refused_with_a_sentence_and_untouched(config: Config, state: Path) -> None:
    table = put(state, config)
    with pytest.raises(ConfigError) as refusal:
        connect(table, config, whole=True)
    assert config.refusal in str(refusal.value)
    assert str(refusal.value).startswith(table.path)
    assert content(table) == config.data
    assert nothing_is_kept(state)


# --- files that are no plain files


def link(file: Path) -> None:
    real = file.with_name("real.json")
    file.rename(real)
    file.symlink_to(real)


def chain(file: Path) -> None:
    link(file)
    other = file.with_name("other.json")
    file.rename(other)
    file.symlink_to(other.name)


SHAPES: dict[str, Callable[[Path], None]] = {
    "a link": link,
    "a chain of links": chain,
    "for the group": lambda file: file.chmod(0o664),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_links_and_modes_stay(shape: str, state: Path) -> None:
    config = EDITED[0]
    table = put(state, config)
    SHAPES[shape](Path(table.path))
    was_link, mode = os.path.islink(table.path), os.stat(table.path).st_mode
    connect(table, config)
    assert (os.path.islink(table.path), os.stat(table.path).st_mode) == (was_link, mode)
    bridge_entries.disconnect(table)
    assert (os.path.islink(table.path), os.stat(table.path).st_mode) == (was_link, mode)
    assert content(table) == config.data


def test_a_link_to_a_file_that_is_not_there_yet_leads_there(state: Path) -> None:
    path = state / "settings.json"
    path.symlink_to(state / "dotfiles" / "settings.json")
    table = Table("cursor", str(path), ("mcpServers",), "user", None)
    bridge_entries.connect(table, {}, True, Places())
    assert (state / "dotfiles" / "settings.json").exists()
    bridge_entries.disconnect(table)
    assert path.is_symlink()
    assert not path.exists()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_what_is_no_file_is_refused(make: Callable[[str], None], state: Path) -> None:
    path = str(state / "settings.json")
    make(path)
    table = Table("cursor", path, ("mcpServers",), "user", None)
    with pytest.raises(HearthError, match=r"is not a file|is a directory"):
        bridge_entries.connect(table, {}, True, Places())
    assert nothing_is_kept(state)


# --- how they are compared


def decoded(data: bytes) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding)


def without(tree: Any, keys: tuple[str, ...]) -> Any:
    """The tree without the table, and without what was made to hold it; as text, because of what equals nothing."""
    if not keys or not isinstance(tree, dict):
        return "a table"
    rest = {key: value for key, value in tree.items() if key != keys[0]}
    inner = without(tree.get(keys[0]), keys[1:])
    return repr(rest) if inner in ("a table", "{}") else repr({**rest, keys[0]: inner})


def pruned(table: Table, data: bytes) -> str:
    tree = parse(table.path, data).tree
    return repr((without(tree, table.keys), sorted((value_at(tree, table.keys) or {}).items())))


def rewritten(client: str, data: bytes) -> bytes:
    """The file after its client has saved something of its own, near its beginning."""
    if client == "codex":
        mark = BOM if data.startswith(BOM) else b""
        return mark + b"zz_client = [1, 2]\n" + data[len(mark) :]
    is_wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = decoded(data)
    at = blank_comments(text).index("{") + 1
    comma = "," if parse("x.json", data).tree else ""
    text = f'{text[:at]}"zz_client": [1, 2]{comma}{text[at:]}'
    return text.encode("utf-16") if is_wide else (BOM if data.startswith(BOM) else b"") + text.encode()
