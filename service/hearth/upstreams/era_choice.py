"""Policy: the era of MCP in which the instances of one server are started. Pure: values in, an era out.

One process serves the clients of both eras wherever that is possible:

1. `era = "legacy"` or `"modern"` in the config is taken at its word. `era = "client"` gives each era its own process.
2. A server that was found to speak one era only runs in that one.
3. A server that has shown that it needs a process for each era has one for each; that is remembered.
4. A process for one session runs in that session's era.
5. A server that is known to speak the modern era runs in it for everybody: a modern server names the request that it
   asks for, and a shared legacy process cannot.
6. Any other runs in the era in which it ran before, or that its first client speaks.
"""

from hearth.config import ServerSpec
from hearth.mcp import eras, isolation
from hearth.upstreams.learned import Knowledge

CLIENT = "client"


def choose(spec: ServerSpec, mode: str, known: Knowledge, client: str, running: str | None) -> str:
    """Return the era for a client of the era `client`; `running` is the era of the instance that it would share."""
    if spec.era not in ("auto", CLIENT):
        return spec.era
    if known.only:
        return known.only
    if is_per_era(spec, known) or mode == isolation.SESSION:
        return client
    if eras.MODERN in known.eras:
        return eras.MODERN
    if spec.isolation == isolation.SHARED:
        # Set by hand: its isolation will not rise, so it is asked for the era that needs no guessing at once.
        return running or eras.MODERN
    return running or (eras.LEGACY if known.eras else client)


def is_per_era(spec: ServerSpec, known: Knowledge) -> bool:
    """Whether the clients of each era have a process of their own."""
    return spec.era == CLIENT or (known.apart and spec.era == "auto" and spec.isolation != isolation.SHARED)


def is_found_out(spec: ServerSpec) -> bool:
    """Whether the server is asked which eras it speaks."""
    return spec.era in ("auto", CLIENT)


def may_try_modern(spec: ServerSpec, mode: str, known: Knowledge) -> bool:
    """Whether a legacy process that asks something may yet turn out to speak the modern era, too."""
    is_untried = known.only is None and eras.MODERN not in known.eras and not known.apart
    return spec.era == "auto" and mode != isolation.SESSION and is_untried


def may_need_both(spec: ServerSpec, mode: str, known: Knowledge) -> bool:
    """Whether a process for each era is possible for this server."""
    by_hand = spec.isolation == isolation.SHARED
    return spec.era == "auto" and not by_hand and mode != isolation.SESSION and known.only is None
