"""MCP clients on this machine: where they keep their servers, what an entry of theirs means, and how it is replaced.

    kinds     the table of clients: names, files on each platform, signs of being installed
    dialects  an entry as a client writes it, and the same in Hearth's words
    finding   which of the files are there, and what is in them
    records   under which name of Hearth's an entry of a client was imported
    importing what all entries together come to in Hearth's config, with what it stands on: drafting, placeholders,
              hiding, texts, meaning, known, names
    commands  the command that starts a bridge
    linking   entries replaced by bridges, and brought back
    traces    what was done to which file
    undoing   the way back in a file that its client has saved since

Knows nothing of the daemon, and of Hearth's own config only how its servers are written.
"""
