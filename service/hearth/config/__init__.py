"""The configuration: read from a file, HEARTH_* variables and flags, checked, and then immutable.

    model        the values of a configuration, with their defaults
    value_kinds  the kinds of values, and their checks
    schema       the keys that there are, the kind of each, and the nearest known name
    loader       reads the file, if there is one
    layers       defaults < file < environment < flags, and the entries of servers and packs
    document     a file's bytes to a tree; positions finds the keys in its text
    show         a configuration for display, its secrets masked
    editor       adds and removes servers in a file's bytes; text_edits finds the places

The daemon imports this package at every cold start: parsers are loaded only when there is a file to parse.
"""

from hearth.config.loader import examine, load
from hearth.config.model import Config, OAuthSpec, OwnerPolicy, ServerSpec

__all__ = ["Config", "OAuthSpec", "OwnerPolicy", "ServerSpec", "examine", "load"]
