"""MCP clients on this machine: where they keep their servers, what an entry of theirs means, and how it is replaced.

    table           the table of clients: names, files on each platform, signs of being installed
    formats         conversion between a client's entry and Hearth's keys
    discovery       the files that exist, and the entries in them
    importer        the plan that turns the entries of all clients into servers of Hearth's config
    launcher        the commands and the script that start a bridge
    bridge_entries  replacement of entries by bridges, and the way back
    backups         records of the changes to each file, undoing them, and records of imported entries
    running         the MCP servers among the running processes, and what they would take through Hearth

The package does not know the daemon. Of Hearth's own config it knows only how servers are written.
"""
