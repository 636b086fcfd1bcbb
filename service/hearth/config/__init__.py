"""The configuration: read from a file, HEARTH_* variables and flags, checked, and then immutable.

    model       what a configuration is, with its defaults
    values      what each kind of value must look like
    keys        which keys there are, and of which kind
    loading     reads the file, if there is one
    examination defaults < file < environment < flags
    document    a file's bytes to a tree; toml_lines and json_lines find the line of a key in it
    servers     the entries under mcpServers
    spelling    the nearest right name
    exposition  a configuration to look at, its secrets masked
    edits       a file's bytes with a server more or less; toml_edits and json_edits know where

Importing this is part of the daemon's cold start: parsers are loaded only once there is a file to parse.
"""

from hearth.config.loader import examine, load
from hearth.config.model import Config, OAuthSpec, OwnerPolicy, ServerSpec

__all__ = ["Config", "OAuthSpec", "OwnerPolicy", "ServerSpec", "examine", "load"]
