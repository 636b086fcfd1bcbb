"""Revisions of MCP and their differences.

Legacy revisions open with `initialize` and keep a session; the modern one carries its version in every request's
`_meta` and has neither.
"""

from hearth.errors import MessageError
from hearth.wire import json, values

LEGACY = "legacy"
MODERN = "modern"

LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_LEGACY = LEGACY_VERSIONS[-1]
MODERN_VERSIONS = ("2026-07-28",)
NEWEST_MODERN = MODERN_VERSIONS[-1]
VERSIONS = frozenset({*LEGACY_VERSIONS, *MODERN_VERSIONS})
# First revision with elicitation; revisions are dates, so they compare as text.
ELICITATION_SINCE = "2025-06-18"

PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_KEY = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_KEY = "io.modelcontextprotocol/subscriptionId"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
# Notifications that clients of any revision send: the schema's ClientNotification.
CLIENT_NOTIFICATIONS = frozenset(
    f"notifications/{name}" for name in ("cancelled", "initialized", "progress", "roots/list_changed", "tasks/status")
)
# Members of `_meta` that a modern client addresses to the server itself; a legacy server refuses a request with them.
REQUEST_ENVELOPE_KEYS = (PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY)

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
URL_ELICITATION_REQUIRED = -32042
MODERN_ONLY_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})


class UnsupportedVersion(MessageError):
    """Error for a modern request that names a revision which is not served; `data` is what the schema requires."""

    def __init__(self, requested: str) -> None:
        super().__init__(f"protocol version {requested} is not supported", UNSUPPORTED_VERSION)
        self.requested = requested
        self.data = {"requested": requested, "supported": list(MODERN_VERSIONS)}


def negotiate(requested: object) -> str:
    """Return the version that answers an `initialize`: a known one is echoed, an unknown one gets the newest legacy."""
    return requested if isinstance(requested, str) and requested in LEGACY_VERSIONS else NEWEST_LEGACY


def named_version(meta: json.Fields) -> str:
    """Return the revision that a modern request's `_meta` names. Raises MessageError if `_meta` is incomplete."""
    version = values.text(meta.get(PROTOCOL_VERSION_KEY))
    if version is None:
        raise MessageError(f"_meta[{PROTOCOL_VERSION_KEY!r}] must be a string", INVALID_PARAMS)
    if bytes(meta.get(CLIENT_CAPABILITIES_KEY, b""))[:1] != b"{":
        raise MessageError(f"_meta[{CLIENT_CAPABILITIES_KEY!r}] must be an object", INVALID_PARAMS)
    return version


def check_version(version: str) -> None:
    """Raise UnsupportedVersion unless it is a modern revision that is served."""
    if version not in MODERN_VERSIONS:
        raise UnsupportedVersion(version)


def check_envelope(meta: json.Fields) -> None:
    """Check a modern request's `_meta`. Raises MessageError as the specification requires."""
    check_version(named_version(meta))
    if LOG_LEVEL_KEY in meta and values.text(meta[LOG_LEVEL_KEY]) not in LOG_LEVELS:
        raise MessageError(f"_meta[{LOG_LEVEL_KEY!r}] must be one of {', '.join(LOG_LEVELS)}", INVALID_PARAMS)
