"""The revisions of MCP and what each of them is the first to have. Revisions are dates, so they compare as text."""

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_LEGACY = LEGACY[-1]
MODERN = "2026-07-28"
REVISIONS = (*LEGACY, MODERN)

AUDIO_SINCE = "2025-03-26"
# The capability `completions`; the method is older.
COMPLETIONS_SINCE = "2025-03-26"
ELICITATION_SINCE = "2025-06-18"
LINKS_SINCE = "2025-06-18"
STRUCTURED_SINCE = "2025-06-18"
URL_ELICITATION_SINCE = "2025-11-25"

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{PREFIX}protocolVersion"
CAPABILITIES_KEY = f"{PREFIX}clientCapabilities"
CLIENT_INFO_KEY = f"{PREFIX}clientInfo"
LOG_LEVEL_KEY = f"{PREFIX}logLevel"
SERVER_INFO_KEY = f"{PREFIX}serverInfo"
SUBSCRIPTION_KEY = f"{PREFIX}subscriptionId"

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def is_modern(revision: str) -> bool:
    """Whether that revision has no handshake and no requests of servers."""
    return revision >= MODERN
