"""Helper process for tasks that a bridge to an HTTP server (`hearth bridge --to`) cannot do by itself; one task each.

    python -m hearth.upstreams.http.errand login URL [STATUS CHALLENGE DIGEST] DESCRIPTOR
    python -m hearth.upstreams.http.errand fill DESCRIPTOR <TEXTS

`login` returns the Authorization header from the stored login of that address, refreshed if due; after a refusal, which
the three further words describe, another header than the refused one. `fill` resolves the references of the texts on
its standard input, separated by zero bytes: every local user can see arguments. The answer is one line of JSON after
`errand `, written to the descriptor and nowhere else: it is a secret.
"""

import asyncio
import hashlib
import json
import os
import sys
from typing import Any

from hearth import config as configuration
from hearth.config import ServerSpec
from hearth.errors import ConfigError, HearthError, LoginRequired
from hearth.host.posix.process_setup import take_descriptor
from hearth.paths import Places
from hearth.secrets import references

MARK = "errand "
_LOGIN, _FILL = "login", "fill"
_NO_NAME = "the server after --to"


def main(words: list[str]) -> int:
    """Run one task; the last word is the descriptor for the answer."""
    *errand, descriptor = words
    output = take_descriptor(int(descriptor))
    try:
        answer = _run(errand)
    except HearthError as exc:
        answer = {"error": str(exc)}
    data = f"{MARK}{json.dumps(answer)}\n".encode()
    while data:
        data = data[os.write(output, data) :]
    return 0


def _run(words: list[str]) -> dict[str, Any]:
    if words[0] == _FILL:
        texts = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").split("\0")
        return {"values": [references.fill(text, os.environ, "the bridge's") for text in texts]}
    assert words[0] == _LOGIN
    return asyncio.run(_log_in(words[1], words[2:]))


async def _log_in(url: str, refusal: list[str]) -> dict[str, Any]:
    from hearth.upstreams.oauth.account import account_of

    spec = _entry(url)
    account = account_of(spec)
    try:
        bearer = await account.authorization()
        if refusal and (bearer is None or _digest(bearer) == refusal[2]):
            status, challenge, _ = refusal
            again = await account.refused(int(status), challenge or None, bearer)
            bearer = await account.authorization() if again else None
    except LoginRequired as exc:
        if spec.name != _NO_NAME:
            raise
        raise LoginRequired(
            f"{_NO_NAME} wants a login: put it into Hearth's config (`hearth add NAME --url URL`), then type"
            " `hearth auth login NAME`; the bridge uses that login from then on",
            exc.server,
        ) from exc
    return {"authorization": bearer, "until": account.due_at if bearer else None}


def _entry(url: str) -> ServerSpec:
    """Return the config's entry for that address, whose login may have a client of its own; else an unnamed entry."""
    for spec in configuration.examine(Places()).config.servers.values():
        try:
            if spec.url and references.glance(spec, os.environ).url == url:
                return references.resolve(spec, os.environ).spec
        except ConfigError:
            continue
    return ServerSpec(name=_NO_NAME, url=url)


def _digest(bearer: str) -> str:
    return hashlib.sha256(bearer.encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
