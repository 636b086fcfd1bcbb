"""The command line: one file per verb, and the few modules that the verbs share.

Verbs hold no logic: they read options, call, print. They may use everything else in Hearth; nothing else
uses them.
"""
