"""Authorization servers that did not register Hearth as a client, remembered for `hearth doctor`.

Refusals are stored beside the logins under the same fingerprint, which includes the configured client: once the user
follows the advice and names a client, the entry has another fingerprint and the refusal no longer applies. Nothing here
is secret. A file that cannot be read or written costs the hint and nothing else.
"""

import json
import os
from typing import NamedTuple

from hearth.config import ServerSpec
from hearth.errors import StartError
from hearth.host import private_files
from hearth.host.file_lock import FileLock
from hearth.host.folders import make_private
from hearth.places import oauth_file
from hearth.upstreams.oauth.store import SERVERS_LIMIT, SIZE_LIMIT_BYTES, fingerprint


class RegistrationRefusal(NamedTuple):
    """Issuer that registers no client. `takes_documents`: whether it reads client-id metadata documents."""

    issuer: str
    takes_documents: bool

    @property
    def advice(self) -> str:
        """Advice for the user."""
        by_hand = "register a client there by hand and put its id into `oauth.client_id` of the server's entry"
        if not self.takes_documents:
            return f"{by_hand[0].upper()}{by_hand[1:]}."
        return (
            "Publish a client-id metadata document and put its address into `oauth.client_metadata_url` of the server's"
            f" entry (docs/oauth.md has an example), or {by_hand}."
        )


def path() -> str:
    """Return the path of the file."""
    return os.path.join(os.path.dirname(oauth_file()), "refused.json")


def of(spec: ServerSpec) -> RegistrationRefusal | None:
    """Return the refusal that a server's issuer gave, if any; `spec` has its references resolved."""
    found = _read().get(fingerprint(spec))
    if not isinstance(found, dict) or not isinstance(found.get("issuer"), str):
        return None
    return RegistrationRefusal(found["issuer"], found.get("takesDocuments") is True)


def note(spec: ServerSpec, refusal: RegistrationRefusal | None) -> None:
    """Remember that a server's issuer refused, or no longer refuses (None)."""
    if refusal is None and fingerprint(spec) not in _read():
        return
    lock = FileLock(f"{path()}.lock")
    try:
        make_private(os.path.dirname(path()))
        lock.acquire()
        known = {key: value for key, value in _read().items() if key != fingerprint(spec)}
        if refusal:
            known[fingerprint(spec)] = {"issuer": refusal.issuer, "takesDocuments": refusal.takes_documents}
        kept = dict(list(known.items())[-SERVERS_LIMIT:])
        private_files.write(path(), json.dumps(kept, indent=1).encode() + b"\n")
    except (OSError, StartError):
        pass
    finally:
        lock.release()


def _read() -> dict[str, object]:
    try:
        found = json.loads(private_files.read(path(), SIZE_LIMIT_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
