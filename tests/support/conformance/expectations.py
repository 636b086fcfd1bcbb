"""What must be found in each cell: a table of rules by the client's and the server's revision."""

from support.conformance import revisions

# For each feature that some revision lacks: the first one that has it, and what an older client finds.
LACKING = {
    "structured": (revisions.STRUCTURED_SINCE, "omitted"),
    "array": (revisions.MODERN, "omitted"),
    "link": (revisions.LINKS_SINCE, "lowered"),
    "audio": (revisions.AUDIO_SINCE, "lowered"),
    "elicitation": (revisions.ELICITATION_SINCE, "refused"),
    "url": (revisions.URL_ELICITATION_SINCE, "refused"),
}


def expected(feature: str, client: str, upstream: str) -> str:
    """The one right outcome."""
    if feature == "undeclared":
        return "refused"
    since, older = LACKING.get(feature, ("", ""))
    if upstream < since:
        return "absent"
    return older if client < since else "works"
