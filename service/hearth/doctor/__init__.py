"""Checks of `hearth doctor`, and the fixes that `--fix` may apply.

    checks        every check by its id, with its meaning: the documentation's table; the groups, and their runner
    context       facts that several groups of checks need, each gathered once; the state of systemd among them
    fixes         the safe fixes
    one module for each subject: `look` gathers facts, `judge` turns them into findings and is pure

Nothing here starts a daemon: doctor connects only to a daemon whose process is alive.
"""
