"""The configuration: read from a file, HEARTH_* variables and flags, checked, and then immutable.

    model           the values of a configuration, with their defaults
    value_kinds     the kinds of values, and their checks
    schema          the keys that there are, and the kind of each
    loader          reads the file, if there is one
    layers          defaults < file < environment < flags
    document        a file's bytes to a tree; toml_positions and json_positions find the line of a key in it
    server_entries  the entries under mcpServers
    spelling        the nearest known name
    show            a configuration for display, its secrets masked
    editor          adds and removes servers in a file's bytes; toml_editor and json_editor find the places

The daemon imports this package at every cold start: parsers are loaded only when there is a file to parse.
"""

from hearth.config.loader import examine, load
from hearth.config.model import Config, OAuthSpec, OwnerPolicy, ServerSpec

__all__ = ["Config", "OAuthSpec", "OwnerPolicy", "ServerSpec", "examine", "load"]
