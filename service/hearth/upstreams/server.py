"""Configured MCP server and its instances: the choice of the instance that a client shares."""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.config import Config, ServerSpec
from hearth.errors import LoginRequired, UpstreamError
from hearth.mcp import capabilities, isolation, versions
from hearth.mcp.catalog import TOOLS, ServerCatalog
from hearth.upstreams import era_choice, transports
from hearth.upstreams.catalog_cache import CatalogCache, ServerCatalogs
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, InstanceListener, Owner
from hearth.upstreams.era_choice import EraProbe, ServerEras
from hearth.upstreams.instance import Instance
from hearth.upstreams.pin_store import PinStore, ToolPinning
from hearth.upstreams.supervision import FAILED, FAILING, READY, STOPPED
from hearth.upstreams.supervisor import IdleReaper, InstanceKey, InstanceTable, cause, state_of
from hearth.upstreams.traits import TraitStore
from hearth.upstreams.transports import NEEDS_LOGIN, AwaitedLogin

if TYPE_CHECKING:
    from hearth.upstreams.oauth.logins import Invitation
    from hearth.upstreams.transports import Connect

log = logging.getLogger(__name__)

# Attempts before a client gets an error because the instance it waited for was no longer the right one.
_ATTEMPTS = 5


class Server:
    """Configured server. `retiring` stops an instance that is no longer used, within so many seconds."""

    def __init__(
        self,
        spec: ServerSpec,
        config: Config,
        traits: TraitStore,
        listener: InstanceListener,
        retiring: Callable[[Instance, float], None],
        cache: CatalogCache | None = None,
        pins: PinStore | None = None,
        connect: "Connect | None" = None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.instances = InstanceTable()
        self._limits = transports.limits_of(config)
        self._traits = traits
        self._listener = listener
        self._retiring = retiring
        self.catalogs = ServerCatalogs(spec, cache)
        self._pinning = ToolPinning(spec.name, self.catalogs, pins)
        self._latest: Instance | None = None
        self._era_probe = EraProbe()
        self._retired = False
        # Set for a server that is not reached by what its entry says.
        self._own_connect = connect
        self._login = AwaitedLogin(self.ensure)
        self._idle_reaper = IdleReaper(self._end)
        # Isolation in force, as configured or as learned.
        self.mode = traits.mode(spec)
        self._eras = ServerEras(spec, traits)

    def learn(self, event: isolation.Event, era: str = versions.LEGACY) -> None:
        """Record that an instance of that era does something that requires a stricter isolation.

        For a question that names no request, the modern era is tried first: there, each question names its request.
        """
        consequence = self._eras.questioned(self.mode, era) if event == isolation.QUESTION else era_choice.RAISE
        if consequence == era_choice.RETRY:
            log.info("question without a request: restarting in the modern era", extra={"upstream": self.name})
            self._drop_all()
        elif consequence == era_choice.RAISE:
            self._raise_isolation(event)

    def _raise_isolation(self, event: isolation.Event) -> None:
        mode = isolation.raised(self.mode, event)
        if self.spec.isolation != "auto" or mode == self.mode:
            return
        log.info("server asks its clients for something: isolation raised mode=%s", mode, extra={"upstream": self.name})
        self.mode = mode
        self._traits.raise_mode(self.spec, mode)
        for key, instance in list(self.instances.items()):
            if key.mode != mode:
                self._drop(key, instance)

    def need_both(self) -> bool:
        """Give the clients of each era a process of their own, if possible, and return whether it is."""
        was_per_era = self._eras.is_per_era
        if not self._eras.need_both(self.mode):
            return False
        if not was_per_era:
            log.info("one process does not serve both eras: starting one for each", extra={"upstream": self.name})
            self._drop_all()
        return True

    def renew(self, seconds: float) -> int:
        """Stop every instance when its calls are done, or after `seconds`; return their number.

        The next call gets another instance.
        """
        ended = self._drop_all(seconds)
        self.catalogs.recovered()
        return ended

    def _drop_all(self, seconds: float | None = None) -> int:
        dropped = list(self.instances.items())
        for key, instance in dropped:
            self._drop(key, instance, seconds)
        return len(dropped)

    def _drop(self, key: InstanceKey, instance: Instance, seconds: float | None = None) -> None:
        """Stop using an instance: its calls in flight finish, and the next caller gets another."""
        self.instances.take_out(key, instance)
        self._remember_failure(instance)
        self._idle_reaper.forget(instance)
        instance.mark_stale()
        self._retiring(instance, seconds if seconds is not None else self.spec.call_ceiling or math.inf)

    def _remember_failure(self, instance: Instance) -> None:
        """Keep the cause of a failure, which outlives the instance (dropped when unused) and the daemon."""
        if state_of(instance) == FAILED and not self.needs_login:
            self.catalogs.failed(cause(self.name, instance.error) or "no reason is known")

    def _end(self, instance: Instance) -> None:
        key = self.instances.key_of(instance)
        if key:
            self._drop(key, instance)

    def profile(self, context: ClientContext) -> bytes:
        """Return the client capabilities for a legacy instance: a client that is alone on it declares its own.

        A modern client declares them with each request, and is asked only what that request allows.
        """
        is_known = self.mode == isolation.SESSION and context.era == versions.LEGACY
        return context.capabilities if is_known else capabilities.FULL

    def catalog_for(self, context: ClientContext) -> ServerCatalog | None:
        """Return the catalog for that client; None if it is not known yet.

        The client's own process comes first: its catalog may have changed there, and only there.
        """
        place, profile = self._place(context), self.profile(context)
        for era in (context.era,) if self._eras.is_apart else (context.era, era_choice.other(context.era)):
            own = self.instances.get(InstanceKey(era, self.mode, place))
            if own and own.catalog and own.capabilities == profile:
                return own.catalog
        found = self.catalogs.known.get(profile)
        return None if found and self._eras.is_apart and found.era != context.era else found

    def _recall(self, profile: bytes, era: str) -> ServerCatalog | None:
        """Return the catalog that a process may begin with before its own lists are read."""
        # A pinned server's tools are compared with their pins before the first call. A server that is not shared may
        # want to know its client's folders first, and asks while its lists are read.
        is_ready_at_once = self.mode == isolation.SHARED and not self.spec.pin
        return self.catalogs.recall(profile, era) if is_ready_at_once else None

    def update_catalog(self, instance: Instance) -> None:
        """Take the catalog of an instance."""
        if instance.catalog:
            self.catalogs.recovered()
            self.catalogs.take(instance.capabilities, instance.catalog)
            self._pinning.see(instance.capabilities, instance.catalog, self.spec.pin, self._eras.is_per_era)
            self._latest = instance
            is_first, instance.has_offered = not instance.has_offered, True
            tools = frozenset(instance.catalog.lists[TOOLS])
            if is_first and self._eras.lacks_tools(instance.era, self._place(instance.client_context), tools):
                self.need_both()

    def withheld(self, offering: ServerCatalog) -> frozenset[str]:
        """Return the tools that no client sees or may call: blocked ones, and those that need approval first."""
        blocked = frozenset(self.spec.blocked_tools).intersection(offering.lists[TOOLS])
        return blocked | self._pinning.withheld(offering) if self.spec.pin else blocked

    @property
    def is_late(self) -> bool:
        """True if lists should not wait for the server: a former start failed, or was too slow."""
        is_failing = self.state in FAILING or self.state == NEEDS_LOGIN
        return self.catalogs.is_late or (is_failing and not self.catalogs.known)

    @property
    def has_failed(self) -> bool:
        """True if a former daemon could not start the server a short while ago, and this one has not tried."""
        return self.catalogs.has_failed and not self.instances

    def _place(self, context: ClientContext) -> str:
        if self.mode == isolation.SHARED:
            return ""
        return context.workspace if self.mode == isolation.WORKSPACE else context.session

    def _make(self, context: ClientContext) -> Instance:
        place = self._place(context)
        running = next((key.era for key in self.instances if key.mode == self.mode and key.place == place), None)
        key = InstanceKey(self._eras.choose(self.mode, context.era, running), self.mode, place)
        instance = self.instances.get(key)
        if instance is None:
            instance = self.instances[key] = Instance(
                self.spec, key.mode, context, key.era, self._connect,
                self.profile(context), self._listener, self._recall,
            )  # fmt: skip
        return instance

    async def ensure(self, context: ClientContext, owner: object = None) -> Instance:
        """Return the instance for that client, ready. Raises UpstreamError.

        `owner` becomes the owner of an instance that is not shared.
        """
        for _ in range(_ATTEMPTS):
            if self._retired:
                raise UpstreamError(f"server {self.name!r} is no longer in the config")
            await self._era_probe.wait()
            instance = self._make(context)
            # Set before its first message: a server may ask something while it starts.
            instance.owner = (owner or instance.owner) if instance.mode == isolation.SESSION else None
            try:
                await self._start(instance)
            except UpstreamError:
                if not instance.obsolete or self._retired:
                    raise
            if not instance.obsolete:
                return instance
        raise UpstreamError(f"server {self.name!r} changes too often how it is shared; call again")

    async def _start(self, instance: Instance) -> None:
        if instance.state == READY:
            return
        instance.is_known = self._eras.is_spoken(instance.wanted)
        if self._eras.is_open(instance.wanted):
            self._era_probe.send(instance)
        # A user may log in during the attempt, too late for it.
        seen = transports.signature() if self.spec.url else None
        try:
            await instance.ensure()
        except LoginRequired:
            if not self._retired:
                self._login.needed(instance.client_context, seen)
            raise
        except UpstreamError:
            # An obsolete instance was stopped from outside, possibly by the very question that begins the trial.
            if not instance.obsolete and self._eras.give_up_trial():
                # The server worked in the legacy era: its callers get a legacy instance.
                self._end(instance)
                self._raise_isolation(isolation.QUESTION)
            self._remember_failure(instance)
            raise
        finally:
            self._era_probe.back(instance)
            # The client that wanted it may have left meanwhile.
            self._idle_reaper.wait(instance, self.spec.instance_idle)
        self._login.over()
        self._settle(instance)

    def _settle(self, instance: Instance) -> None:
        """File an instance under the era that the server was found to speak."""
        if instance.obsolete:
            return
        is_legacy_after_all = self._eras.settled(instance.asked_era, instance.era)
        key = self.instances.key_of(instance)
        if key is not None and key.era != instance.era:
            right = key._replace(era=instance.era)
            if right in self.instances:
                # An instance of that era exists already: this one has only shown that the server speaks no other.
                self._drop(key, instance)
            else:
                del self.instances[key]
                self.instances[right] = instance
        if is_legacy_after_all:
            self._raise_isolation(isolation.QUESTION)

    def reset_failures(self) -> None:
        """Forget failures, so that an instance that was given up may be tried again."""
        self.catalogs.recovered()
        for instance in self.instances.values():
            instance.reset_failures()

    async def _connect(self, owner: Owner, context: ClientContext) -> Connection:
        """Return a connection that is not open yet. Raises ConfigError: asking in another era would not help."""
        if self._own_connect:
            return self._own_connect(self.spec, owner, self._limits)
        # A shared instance never runs in a client's folder.
        folders = {isolation.SHARED: None, isolation.WORKSPACE: context.folder, isolation.SESSION: context.cwd}
        return await transports.connect(self.spec, owner, folders[self.mode], self._limits)

    async def invite(self) -> "Invitation":
        """Return an invitation to log in, for a user whose client can show a page. Raises UpstreamError, VaultError."""
        return await transports.invite(self.spec)

    async def start_eagerly(self) -> None:
        """Start the shared instance, if there is one. Raises UpstreamError."""
        if self.spec.start == "eager" and self.mode == isolation.SHARED:
            spoken = self._traits.get(self.spec).eras
            await self.ensure(ClientContext("", versions.LEGACY if spoken == {versions.LEGACY} else versions.MODERN))

    # --- ending

    def hold(self, instance: Instance, holder: object, id: str) -> None:
        """Note that `holder` uses an instance."""
        instance.holders.add(holder)
        if len(instance.ever) < 2:
            # Only whether there was exactly one user matters, and which.
            instance.ever.add(id)
        self._idle_reaper.forget(instance)

    def release(self, instance: Instance, holder: object) -> None:
        """Note that `holder` no longer uses an instance. An idle instance is stopped after a while."""
        instance.holders.discard(holder)
        instance.subscriptions.leave(holder)
        self._idle_reaper.wait(instance, self.spec.instance_idle)

    def reconfigure(self, spec: ServerSpec, config: Config) -> None:
        """Apply a changed entry that the running processes also fit, and changed settings."""
        self._limits = transports.limits_of(config)
        if spec == self.spec:
            return
        self.spec = spec
        for instance in self.instances.values():
            instance.reconfigure(spec)
            # An idle instance gets the entry's new timeout, counted from now.
            self._idle_reaper.forget(instance)
            self._idle_reaper.wait(instance, self.spec.instance_idle)

    def mark_stale(self, seconds: float) -> None:
        """Take no new calls: the entry was replaced or removed. Instances stop when their calls are done."""
        self._retired = True
        self._login.over()
        for instance in self.instances.values():
            self._idle_reaper.forget(instance)
            instance.mark_stale()
            self._retiring(instance, seconds)

    async def retire(self) -> None:
        """Stop all instances at the same time."""
        self._retired = True
        for instance in self.instances.values():
            self._remember_failure(instance)
        self._login.over()
        await asyncio.gather(*(instance.retire() for instance in self.instances.values()))

    # --- status

    @property
    def state(self) -> str:
        """Best state among the server's instances."""
        if self.needs_login:
            return NEEDS_LOGIN
        found = self.instances.state
        return FAILED if found == STOPPED and self.catalogs.failure else found

    @property
    def needs_login(self) -> bool:
        """True if a user has to log in first."""
        return self._login.is_awaited or self.instances.needs_login

    @property
    def error(self) -> str | None:
        """Last failure in one line; also a former daemon's, until the server is tried again."""
        return cause(self.name, self.instances.error) or (self.catalogs.failure if self.state == FAILED else None)

    def describe(self) -> dict[str, object]:
        """Describe the server in `hearth status --json`."""
        # First: this also reads a failure that a former daemon has noted.
        catalog = self.catalogs.any
        return {
            "name": self.name,
            "state": self.state,
            "era": self._latest.era if self._latest else catalog.era if catalog else None,
            "isolation": self.mode,
            "pids": self.instances.pids,
            "tools": None if catalog is None else len(next(iter(catalog.lists.values()))),
            "error": self.error,
            **self.instances.describe(self._pinning.describe(self.spec.pin)),
        }
