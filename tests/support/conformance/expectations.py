"""What must be found in each cell: a table of rules by the client's and the server's revision."""

from support.conformance.revisions import (
    AUDIO_SINCE,
    ELICITATION_SINCE,
    LINKS_SINCE,
    MODERN,
    STRUCTURED_SINCE,
    URL_ELICITATION_SINCE,
)

# For each feature that some revision lacks: the first one that has it, and what an older client finds.
LACKING = {
    "structured": (STRUCTURED_SINCE, "omitted"),
    "array": (MODERN, "omitted"),
    "link": (LINKS_SINCE, "lowered"),
    "audio": (AUDIO_SINCE, "lowered"),
    "elicitation": (ELICITATION_SINCE, "refused"),
    "url": (URL_ELICITATION_SINCE, "refused"),
}


def expected(feature: str, client: str, upstream: str) -> str:
    """The one right outcome."""
    if feature == "undeclared":
        return "refused"
    since, older = LACKING.get(feature, ("", ""))
    if upstream < since:
        return "absent"
    return older if client < since else "works"
