"""Sessions whose clients run their own tools unguarded: the daemon has heard none of their hooks. Reads processes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hearth.clients import hooks, running
from hearth.host import process_table, processes


class HookedClient(NamedTuple):
    """Process of a client that has hooks, and its name."""

    name: str
    pid: int


def with_guards(document: dict[str, Any]) -> dict[str, Any]:
    """Add to each session of the daemon's status document whether its client is unguarded.

    None: there is no policy, or the session's process is not that of a client that has hooks.
    """
    heard = _heard(document)
    for session in document.get("sessions") or []:
        client = None if heard is None else _client_of(session)
        session["unguarded"] = None if client is None or heard is None else not _is_heard(client.pid, heard)
    return document


def unguarded(document: Mapping[str, Any]) -> list[HookedClient]:
    """Return the clients with sessions whose hooks the daemon has not heard; none without a policy."""
    heard = _heard(document)
    if heard is None:
        return []
    found = dict.fromkeys(filter(None, map(_client_of, document.get("sessions") or [])))
    return [client for client in found if not _is_heard(client.pid, heard)]


def _heard(document: Mapping[str, Any]) -> Mapping[int, int] | None:
    """Return the start times of the clients that were heard, by pid; None if the daemon does not tell."""
    found = (document.get("policy") or {}).get("hooked")
    return None if found is None else {each["pid"]: each["startTime"] for each in found}


def _is_heard(pid: int, heard: Mapping[int, int]) -> bool:
    return pid in heard and heard[pid] == processes.start_time(pid)


def _client_of(session: Mapping[str, Any]) -> HookedClient | None:
    pid = session.get("pid")
    if not isinstance(pid, int):
        return None
    client = process_table.client_of(pid, session.get("wire") == "frames")
    argv = process_table.argv_of(client) if client else ()
    name = running.client_of(argv) if argv else None
    return HookedClient(name, client) if client and name in hooks.HOOKED else None
