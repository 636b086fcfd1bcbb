"""Under which name of Hearth's an entry of a client was imported: kept, because the two may differ.

Two clients may mean different things by one name; then one of them goes by another here. A file that makes no sense is
taken for none: `hearth connect` compares definitions as well, and nothing is lost but a name.
"""

import json
import os
from collections.abc import Iterable, Mapping

from hearth import paths
from hearth.clients.table import Table
from hearth.errors import Refused
from hearth.host import private_files
from hearth.host.folders import make_private, refusal
from hearth.host.locks import Lock

# Names by what was imported; None: it was not.
Former = Mapping[str, str | None]

# A few hundred bytes for each entry of each client.
_SIZE_LIMIT_BYTES = 16 * 1024 * 1024


def folder() -> str:
    """Where what is remembered of clients lies."""
    return os.path.join(paths.state_dir(), "clients")


def imported(table: Table, name: str) -> str | None:
    """The name that the entry has among Hearth's servers, if it was imported."""
    return _read().get(_key(table, name))


def remember(table: Table, name: str, server: str) -> None:
    """Keep under which name an entry was imported. Raises StartError, Refused."""
    remember_all([(table, name, server)])


def remember_all(imported: Iterable[tuple[Table, str, str]]) -> Former:
    """Keep them all or none; returns what `take_back` wants. Raises StartError, Refused."""
    return _changed({_key(table, name): server for table, name, server in imported})


def take_back(former: Former) -> None:
    """Have it as it was before. Raises StartError, Refused."""
    _changed(former)


def _changed(new: Former) -> Former:
    if not new:
        return {}
    make_private(folder())
    lock = Lock(os.path.join(folder(), "imported.lock"))
    lock.acquire()
    try:
        known = _read()
        former = {key: known.get(key) for key in new}
        known = {key: server for key, server in {**known, **new}.items() if server is not None}
        data = json.dumps(known, indent=2, sort_keys=True).encode() + b"\n"
        if len(data) > _SIZE_LIMIT_BYTES:
            raise Refused(f"{_path()} would have over {_SIZE_LIMIT_BYTES} bytes; remove it and import anew")
        private_files.write(_path(), data)
        return former
    except OSError as exc:
        raise refusal("write", _path(), exc) from exc
    finally:
        lock.release()


def _path() -> str:
    return os.path.join(folder(), "imported.json")


def _key(table: Table, name: str) -> str:
    # The file itself and not its name: a link to it means the same entry.
    return json.dumps([table.client, os.path.realpath(table.path), *table.keys, name])


def _read() -> dict[str, str]:
    try:
        found = json.loads(private_files.read(_path(), _SIZE_LIMIT_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: server for key, server in found.items() if isinstance(server, str)}
