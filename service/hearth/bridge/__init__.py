"""Bridge between an MCP client on standard input and output and the daemon's socket.

The bridge outlives the daemon. Two threads, one per direction (`pump`), move bytes; a table without I/O (`ledger`)
knows which lines are owed an answer. Modules for a daemon that is away (`finder`, `activation`, `replies`)
are loaded behind the first answer. Standard library only: on the way to the first answer not even `json`, `socket`
or `threading`, because the interpreter's start is most of what a client waits for.

With `--to` the daemon reaches another server for this session alone: see `target`.
"""


def main(argv: list[str]) -> int:
    """Run the bridge until its client leaves. Returns only when there is nothing to run.

    With `hook` as the first word it answers one hook instead: entries of clients name the same program for both.
    """
    import os

    if argv[:1] == ["hook"]:
        from hearth.bridge.hook import main as hook

        return hook(argv[1:])
    from hearth.bridge.options import UsageError, parse

    try:
        options = parse(argv, os.environ)
    except UsageError as end:
        os.write(1 if end.exit_code == 0 else 2, f"{end}\n".encode())
        return end.exit_code
    from hearth.bridge.pump import Bridge

    Bridge(options).run()
    return 0
