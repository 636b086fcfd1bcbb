"""Command line: verbs in modules by subject, and the few modules that the verbs share.

Verbs contain no logic: they read options, call other packages, and print. Verbs may import everything else in Hearth;
no other package imports them.
"""
