"""Behind `hearth doctor`: what is looked at, what is made of it, and what may be mended.

    chart         every check by its id, with what it means: the documentation's table
    context       what several groups of checks look at, each looked at once
    rounds        the groups in their order, each within a time
    mending       the safe deeds
    report        all of it as text
    one module for each group: `look` gathers facts, `judge` makes findings of them and is pure

Nothing here wakes a daemon: only one whose process lives is connected to.
"""
