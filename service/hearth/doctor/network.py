"""Doctor's look at proxies: those of the shell, those of the service, and what they would catch. Asks no network."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from hearth.doctor.context import CheckContext
from hearth.findings import Finding

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ProxyFacts(NamedTuple):
    """What was seen: the proxy variables of shell and service, by their names in capitals."""

    shell: Mapping[str, str]
    service: Mapping[str, str]
    whose: str
    # Whether the service's are known to be that.
    known: bool
    # Servers by url that run on this machine: name and host.
    local: Sequence[tuple[str, str]]
    servers: int


def look(context: CheckContext) -> ProxyFacts:
    """The variables, and the servers that are reached by url."""
    surroundings = context.surroundings()
    specs = context.servers()
    hosts = ((spec.name, _host(spec.url)) for spec in specs if spec.url and spec.url.startswith("http"))
    return ProxyFacts(
        variables(context.environ),
        variables(surroundings.values),
        surroundings.whose,
        surroundings.known,
        [(name, host) for name, host in hosts if host in _LOOPBACK],
        len(specs),
    )


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The proxy variables, in capitals; the small ones win, as with curl."""
    names = (*_PROXIES, "NO_PROXY")
    found = {name: environ.get(name.lower()) or environ.get(name) or "" for name in names}
    return {name: value for name, value in found.items() if value}


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def judge(facts: ProxyFacts) -> list[Finding]:
    """What to say of them."""
    findings = []
    lacking = [name for name in _PROXIES if name in facts.shell and name not in facts.service]
    if facts.known and lacking and facts.servers:
        named = " and ".join(lacking)
        message = f"{named} set in this shell and not for {facts.whose}: servers may not get out, or download anything"
        fix = (
            f"Write {lacking[0]}=… (and NO_PROXY=localhost,127.0.0.1) into ~/.config/environment.d/proxy.conf, log in"
            " anew, or: systemctl --user import-environment " + " ".join(lacking) + "; then hearth restart"
        )
        findings.append(Finding("network.proxy", "note", message, fix))
    if any(name in facts.service for name in ("HTTP_PROXY", "ALL_PROXY")):
        findings += [
            _caught(name, host) for name, host in facts.local if not is_exempt(host, facts.service.get("NO_PROXY", ""))
        ]
    return findings or [Finding("network.well", "ok", _summary(facts))]


def _caught(name: str, host: str) -> Finding:
    message = f"{name} runs on this machine ({host}), and the service's proxy would catch it: NO_PROXY leaves it out"
    fix = f"Set NO_PROXY={','.join(_LOOPBACK[:2])} where HTTP_PROXY is set for the service (environment.d(5))."
    return Finding("network.loopback", "broken", message, fix, name)


def is_exempt(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY keeps this host from the proxy."""
    rules = [rule.strip().strip("[]").lower().lstrip(".") for rule in no_proxy.split(",")]
    return any(rule == "*" or rule == host or (rule and host.endswith(f".{rule}")) for rule in rules)


def _summary(facts: ProxyFacts) -> str:
    return "no proxy" if not facts.service else f"the service's: {', '.join(facts.service)}"
