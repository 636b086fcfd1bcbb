"""Doctor's checks of clients' hooks: whether a client's own tools are really held to the policy.

A hook that does not run is not noticed by anybody: its client runs every tool. Reads only.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hearth.clients import codex_trust, discovery, hooks
from hearth.clients.guarding import HookedClient, unguarded
from hearth.clients.table import KINDS, Table
from hearth.config import editor
from hearth.doctor.context import CheckContext
from hearth.errors import ConfigError
from hearth.findings import Finding, State
from hearth.ops import connect_clients


class ClientHooks(NamedTuple):
    """Hooks of one client on this machine."""

    client: str
    path: str
    # Whether the client has an entry that leads to Hearth.
    is_connected: bool
    # Events that call Hearth, and those that should.
    events: Sequence[str] = ()
    wanted: Sequence[str] = ()
    # File that a hook needs and that is gone.
    gone: str = ""
    # The client's time limit for a decision, in seconds; 0 if no hook decides.
    limit: float = 0
    # Events whose hooks Codex does not trust.
    untrusted: Sequence[str] = ()
    # Setting by which the client's hooks are switched off.
    switch: str = ""
    problem: str = ""


class HookFacts(NamedTuple):
    """Facts about hooks: whether there is a policy, its time for a decision, the clients, and those that are silent."""

    has_policy: bool
    hook_wait: float
    clients: Sequence[ClientHooks]
    # Clients with sessions whose hooks the running daemon has not heard.
    unheard: Sequence[HookedClient] = ()


def look(context: CheckContext) -> HookFacts:
    """Return the hooks of every client on this machine that has some."""
    tables = discovery.tables(None, list(hooks.HOOKED))
    here = {table.client for table in tables}
    entries = (each for table in tables for each in discovery.readable(table))
    connected = {each.table.client for each in entries if each.bridge_to is not None}
    found = [_look_at(table, table.client in connected) for table in hooks.tables(sorted(here))]
    places = context.places
    unheard = unguarded(context.word().status)
    return HookFacts(connect_clients.has_policy(places), connect_clients.hook_wait(places), found, unheard)


def _look_at(table: Table, is_connected: bool) -> ClientHooks:
    facts = ClientHooks(table.client, table.path, is_connected)
    try:
        ours = hooks.installed(table)
        tree = _tree(table.path)
        untrusted = _untrusted(table) if table.client == "codex" and ours else []
    except ConfigError as exc:
        return facts._replace(problem=str(exc))
    kinds = hooks.EVENTS[hooks.HOOKED[table.client]]
    deciding = [group for each in kinds if each.decides for group in ours.get(each.name, ())]
    limits = [hooks.seconds_of(hooks.HOOKED[table.client], group) for group in deciding]
    missing = (path for groups in ours.values() for group in groups for path in hooks.missing_files(group))
    return facts._replace(
        events=list(ours),
        wanted=[each.name for each in kinds],
        gone=next(missing, ""),
        limit=min(limits, default=0),
        untrusted=untrusted,
        switch=_switch(table.client, tree),
    )


def _tree(path: str) -> Mapping[str, Any]:
    document = discovery.opened(path)
    return {} if document is None else document.tree


def _untrusted(table: Table) -> list[str]:
    lists = editor.value_at(_tree(table.path), table.keys)
    config = next(each.path for each in discovery.tables(None, ["codex"]) if each.scope == table.scope)
    trusted = codex_trust.trusted(_tree(config))
    found = codex_trust.hashes(table.path, lists)
    return [
        name
        for (name, number), (key, value) in found.items()
        if hooks.event_of(lists[name][number]) and trusted.get(key) != value
    ]


def _switch(client: str, tree: Mapping[str, Any]) -> str:
    """Return the setting that switches the client's hooks off; "" if none does."""
    if client == "claude-code" and tree.get("disableAllHooks") is True:
        return "disableAllHooks"
    settings = tree.get("hooksConfig")
    if client == "gemini" and isinstance(settings, dict):
        if settings.get("enabled") is False:
            return "hooksConfig.enabled"
        disabled = settings.get("disabled")
        if isinstance(disabled, list) and "hearth" in disabled:
            return "hooksConfig.disabled"
    return ""


def judge(facts: HookFacts) -> list[Finding]:
    """Return the findings on hooks. Without a policy they have nothing to ask, so that nothing can be wrong."""
    held = [KINDS[each.client].title for each in facts.clients if each.events]
    names = ", ".join(held) if held else "no client"
    if not facts.has_policy:
        return [Finding("hooks.state", "ok", f"there is no policy; hooks that would ask it: {names}")]
    found = [finding for each in facts.clients for finding in _of_client(each, facts.hook_wait)]
    explained = {finding.subject for finding in found}
    found += [_unheard(each) for each in facts.unheard if each.name not in explained]
    return found or [Finding("hooks.state", "ok", f"own tools that are held to the policy: {names}")]


def _unheard(client: HookedClient) -> Finding:
    message = (
        f"{KINDS[client.name].title}: the daemon has heard no hook of process {client.pid} yet;"
        " until it does, the client's own tools may run undecided"
    )
    fix = f"Use a tool there and look again; else `hearth connect {client.name} --hooks`, and restart it."
    return Finding("hooks.unheard", "note", message, fix, client.name)


def _of_client(each: ClientHooks, wait: float) -> Iterator[Finding]:
    title, renew = KINDS[each.client].title, f"hearth connect {each.client} --hooks"

    def finding(id: str, state: State, message: str, fix: str = renew) -> Finding:
        return Finding(id, state, f"{title}: {message}", fix, each.client)

    if each.problem:
        yield finding("hooks.broken", "broken", each.problem, "Mend the file: its client cannot read it either.")
    elif not each.events:
        if each.is_connected:
            yield finding(
                "hooks.missing", "note", "its own tools (Bash, Edit …) are not held to the policy: it has no hooks"
            )
        return
    absent = [name for name in each.wanted if name not in each.events]
    if absent:
        yield finding("hooks.incomplete", "broken", f"{each.path} has no hook of Hearth for {', '.join(absent)}")
    if each.gone:
        yield finding(
            "hooks.program", "broken", f"its hooks need {each.gone}, which is not there, so that every tool runs"
        )
    if each.switch:
        fix = f"Take {each.switch} out of {each.path}, or switch it to the opposite."
        yield finding(
            "hooks.off", "broken", f"{each.switch} in {each.path} switches its hooks off, so that every tool runs", fix
        )
    if each.untrusted:
        yield finding(
            "hooks.trust",
            "broken",
            f"it does not trust its hooks for {', '.join(each.untrusted)}, and does not run them",
            "Start `codex`, type /hooks and trust those of Hearth.",
        )
    if 0 < each.limit <= wait:
        yield finding(
            "hooks.time", "broken", f"it waits {each.limit:g} s for a hook, and the policy takes {wait:g} s (hook_wait)"
        )
