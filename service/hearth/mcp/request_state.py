"""`requestState` of a call that Hearth itself has suspended: a token under a seal that only this daemon can make.

    "hearth." base64url( MAC | expiry | mark of the principal | mark of the call | token )

The seal tells Hearth's own states from an upstream's, which are passed on byte for byte. The token is bound to the
principal of the call, to its method and parameters, and to a time; the keeper of the tokens ensures that each is used
once. The clock and the key are the caller's.
"""

import binascii
import hashlib
import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode

from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire import json

# Bytes of a key, for `secrets.token_bytes`: as many as the hash has.
KEY_BYTES = 32
_PREFIX = "hearth."
_MAC_BYTES = hashlib.sha256().digest_size
_MARK_BYTES = 16
_BODY = struct.Struct(f">d{_MARK_BYTES}s{_MARK_BYTES}s")
# Members that a retry may change: its envelope and progress token, and those that make it a retry.
_FREE_KEYS = frozenset({"_meta", "inputResponses", "requestState"})

EXPIRED = "expired"
SPENT = "spent"
PRINCIPAL = "principal"
REQUEST = "request"
_SENTENCES = {
    EXPIRED: "the requestState has expired, call again without it",
    SPENT: "the requestState was used before, call again without it",
    PRINCIPAL: "the requestState was given to somebody else",
    REQUEST: "the requestState was given for another method or other parameters",
}


class StateRefused(MessageError):
    """Error for a `requestState` of Hearth's own that is not valid now; `data.reason` is one of the four above."""

    def __init__(self, reason: str) -> None:
        super().__init__(_SENTENCES[reason], versions.INVALID_PARAMS)
        self.data = {"reason": reason}


def digest(method: str, params: json.Fields) -> bytes:
    """Return the digest of what a retry must share with the call: its method and the params that define the work."""
    hashed = hashlib.sha256(_framed(method.encode("utf-8", "surrogatepass")))
    for key in sorted(params.keys() - _FREE_KEYS):
        hashed.update(_framed(key.encode("utf-8", "surrogatepass")))
        hashed.update(_framed(bytes(params[key])))
    return hashed.digest()


def _framed(part: bytes) -> bytes:
    # With its length, so that no two lists of parts are encoded alike.
    return struct.pack(">Q", len(part)) + part


class Seal:
    """Maker and reader of states under one key, which lives as long as the calls that are suspended under it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, token: str, principal: str, method: str, digest: bytes, expires: float) -> str:
        """Return the state that stands for the token until `expires`, in the time of the clock that `open` is given."""
        body = _BODY.pack(expires, self._principal(principal), self._call(method, digest)) + token.encode()
        return _PREFIX + urlsafe_b64encode(self._mac(b"state", body) + body).rstrip(b"=").decode()

    def open(self, state: str, principal: str, method: str, digest: bytes, now: float) -> str | None:
        """Return the token; None for a state that Hearth did not make. Raises StateRefused for an invalid one."""
        body = self._checked(state)
        if body is None:
            return None
        expires, whose, which = _BODY.unpack_from(body)
        if not hmac.compare_digest(whose, self._principal(principal)):
            raise StateRefused(PRINCIPAL)
        if not hmac.compare_digest(which, self._call(method, digest)):
            raise StateRefused(REQUEST)
        if now >= expires:
            raise StateRefused(EXPIRED)
        return body[_BODY.size :].decode()

    def _checked(self, state: str) -> bytes | None:
        sealed = _decoded(state)
        if sealed is None or len(sealed) < _MAC_BYTES + _BODY.size:
            return None
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        return body if hmac.compare_digest(mac, self._mac(b"state", body)) else None

    def _principal(self, principal: str) -> bytes:
        return self._mac(b"principal", principal.encode("utf-8", "surrogatepass"))[:_MARK_BYTES]

    def _call(self, method: str, digest: bytes) -> bytes:
        return self._mac(b"call", _framed(method.encode("utf-8", "surrogatepass")) + digest)[:_MARK_BYTES]

    def _mac(self, purpose: bytes, message: bytes) -> bytes:
        return hmac.digest(self._key, _framed(purpose) + message, "sha256")


def _decoded(state: str) -> bytes | None:
    """Return the bytes of a state; None for any other spelling than the one that `seal` gives them."""
    encoded = state.removeprefix(_PREFIX)
    if encoded == state or not encoded.isascii():
        return None
    try:
        sealed = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (binascii.Error, ValueError):
        return None
    return sealed if urlsafe_b64encode(sealed).rstrip(b"=").decode() == encoded else None
