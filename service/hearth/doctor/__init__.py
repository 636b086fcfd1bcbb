"""Checks of `hearth doctor`, and the fixes that `--fix` may apply.

    checks        every check by its id, with what it means: the documentation's table
    context       facts that several groups of checks need, each looked at once
    runner        the groups in their order, each within a time
    fixes         the safe fixes
    render        findings and results as text
    one module for each subject: `look` gathers facts, `judge` makes findings of them and is pure

Nothing here wakes a daemon: only one whose process lives is connected to.
"""
