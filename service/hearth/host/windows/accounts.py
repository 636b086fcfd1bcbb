"""Windows accounts that belong to no person: a daemon for one person must not run as any of them. Pure."""

# Well-known security identifiers, the same on every Windows.
_OF_THE_SYSTEM = {
    "S-1-5-18": "LocalSystem",
    "S-1-5-19": "LocalService",
    "S-1-5-20": "NetworkService",
}


def refusal(sid: str) -> str | None:
    """Return why the daemon refuses to run as this user; None for a person's account."""
    name = _OF_THE_SYSTEM.get(sid)
    if name is None:
        return None
    return (
        f"Hearth does not run as {name}: it would start the MCP servers of a person with the rights of the system."
        " `hearth install --service` sets up a service for each user, which runs as that user"
    )
