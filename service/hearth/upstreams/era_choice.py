"""Policy: the era of MCP in which the instances of one server are started. Knows nothing of processes.

One process serves the clients of both eras wherever that is possible:

1. `era = "legacy"` or `"modern"` in the config is always used. `era = "client"` gives each era its own process.
2. A server that was found to speak one era only runs in that one.
3. A server that has shown that it needs a process for each era has one for each; that is remembered.
4. A process for one session runs in that session's era.
5. A server that is known to speak the modern era runs in it for all clients: a modern server names the request that its
   question belongs to, and a shared legacy process cannot.
6. Any other server runs in the era in which it ran before, or that its first client speaks.
"""

from typing import TYPE_CHECKING

from hearth.config import ServerSpec
from hearth.errors import HearthError
from hearth.mcp import isolation, versions
from hearth.upstreams.supervision import STARTING
from hearth.upstreams.traits import ServerTraits, TraitStore

if TYPE_CHECKING:
    from hearth.upstreams.instance import Instance

CLIENT = "client"
# The consequences of a question that names no request: another era, a narrower way of sharing, or none.
RETRY, RAISE, NOTHING = "retry", "raise", "nothing"


def choose(spec: ServerSpec, mode: str, known: ServerTraits, client: str, running: str | None, per_era: bool) -> str:
    """Return the era for a client of the era `client`.

    `running` is the era of the instance that it would share; `per_era`: each era has a process of its own.
    """
    if spec.era not in ("auto", CLIENT):
        return spec.era
    if known.only:
        return known.only
    if per_era or mode == isolation.SESSION:
        return client
    if versions.MODERN in known.eras:
        return versions.MODERN
    if spec.isolation == isolation.SHARED:
        # Set by hand: its isolation will not rise, so the era that needs no guessing is asked for at once.
        return running or versions.MODERN
    return running or (versions.LEGACY if known.eras else client)


def is_per_era(spec: ServerSpec, known: ServerTraits) -> bool:
    """Tell whether the clients of each era have a process of their own."""
    return spec.era == CLIENT or (known.apart and spec.era == "auto" and spec.isolation != isolation.SHARED)


def is_found_out(spec: ServerSpec) -> bool:
    """Tell whether the server is asked which eras it speaks."""
    return spec.era in ("auto", CLIENT)


def may_try_modern(spec: ServerSpec, mode: str, known: ServerTraits) -> bool:
    """Tell whether a legacy process that sends a request may prove to speak the modern era, too."""
    is_untried = known.only is None and versions.MODERN not in known.eras and not known.apart
    return spec.era == "auto" and mode != isolation.SESSION and is_untried


def may_need_both(spec: ServerSpec, mode: str, known: ServerTraits) -> bool:
    """Tell whether a process for each era is possible for this server."""
    by_hand = spec.isolation == isolation.SHARED
    return spec.era == "auto" and not by_hand and mode != isolation.SESSION and known.only is None


def other(era: str) -> str:
    """Return the other era."""
    return versions.MODERN if era == versions.LEGACY else versions.LEGACY


class ServerEras:
    """Eras of one server: the choice for its next instance, and the eras that its instances have shown."""

    def __init__(self, spec: ServerSpec, traits: TraitStore) -> None:
        self._spec = spec
        self._traits = traits
        # Whether the clients of each era have a process of their own. Fixed for as long as the daemon runs: separate
        # processes are not merged when the remembered trait expires.
        self.is_per_era = is_per_era(spec, self._known)
        # Set while the modern era is tried because of a question.
        self._is_trial = False
        # The tools of each era, as the first list of its latest instance had them, and the place of that instance.
        self._first_tools: dict[str, tuple[str, frozenset[str]]] = {}

    @property
    def _known(self) -> ServerTraits:
        return self._traits.get(self._spec)

    @property
    def is_apart(self) -> bool:
        """True if the server itself needs a process for each era, and may have another catalog in each."""
        return self.is_per_era and self._spec.era != CLIENT

    def choose(self, mode: str, client: str, running: str | None) -> str:
        """Return the era for a client of that era; `running` is the era of the instance that it would share."""
        return versions.MODERN if self._is_trial else self._choose(mode, client, running)

    def _choose(self, mode: str, client: str, running: str | None = None) -> str:
        return choose(self._spec, mode, self._known, client, running, self.is_per_era)

    def is_spoken(self, era: str) -> bool:
        """Tell whether the server is known to speak that era."""
        return era in self._known.eras

    def is_open(self, era: str) -> bool:
        """Tell whether a start in that era would show something new about the eras that the server speaks."""
        return is_found_out(self._spec) and not self._known.only and not self.is_spoken(era)

    def questioned(self, mode: str, era: str) -> str:
        """Return the consequence of a question that names no request, by an instance of that era."""
        if era == versions.LEGACY and may_try_modern(self._spec, mode, self._known):
            is_first, self._is_trial = not self._is_trial, True
            return RETRY if is_first else NOTHING
        # A legacy process of a server that runs in the modern era is finishing its last calls.
        is_leftover = era == versions.LEGACY and self._choose(mode, versions.LEGACY) == versions.MODERN
        return NOTHING if is_leftover else RAISE

    def settled(self, asked: str, found: str) -> bool:
        """Note the era in which an instance answered. Return whether a trial has failed: it is a legacy server."""
        has_failed, self._is_trial = self._is_trial and found == versions.LEGACY, False
        if is_found_out(self._spec):
            # A server that exits at the modern opening is asked for the legacy era next: that, too, is a failed trial.
            self._traits.note_era(self._spec, versions.MODERN if has_failed else asked, found)
        return has_failed

    def give_up_trial(self) -> bool:
        """End a trial whose start failed, and remember the server as a legacy one. Return whether there was a trial."""
        is_trial, self._is_trial = self._is_trial, False
        if is_trial:
            self._traits.note_era(self._spec, versions.MODERN, versions.LEGACY)
        return is_trial

    def lacks_tools(self, era: str, place: str, tools: frozenset[str]) -> bool:
        """Return whether an instance of that era lists fewer tools at first than one of the other era did.

        Only instances of the same place are compared: tools may depend on the folder.
        """
        self._first_tools[era] = (place, tools)
        elsewhere, others = self._first_tools.get(other(era), ("", frozenset()))
        return not self.is_per_era and place == elsewhere and bool(others - tools)

    def need_both(self, mode: str) -> bool:
        """Remember that each era needs a process of its own. Return whether that is possible for this server."""
        if not may_need_both(self._spec, mode, self._known):
            return False
        if not self.is_per_era:
            self.is_per_era, self._is_trial = True, False
            self._traits.note_apart(self._spec)
        return True


class EraProbe:
    """Probe that detects a server's era, as long as it runs; the other instances need not ask again."""

    def __init__(self) -> None:
        self._sent: Instance | None = None

    def send(self, instance: "Instance") -> None:
        """Let this instance detect the era, unless another does."""
        self._sent = self._sent or instance

    def back(self, instance: "Instance") -> None:
        """Note that this instance has its answer, or has failed."""
        if self._sent is instance:
            self._sent = None

    async def wait(self) -> None:
        """Return when no instance is about to detect the era."""
        while self._sent and self._sent.state == STARTING:
            try:
                await self._sent.ensure()
            except HearthError:
                pass
