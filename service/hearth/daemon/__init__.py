"""The daemon: accept connections, detect their protocol, move bytes, start up and shut down.

`main` needs the standard library only, so that a broken installation can still be explained to a client; everything
else is imported behind its guard.
"""
