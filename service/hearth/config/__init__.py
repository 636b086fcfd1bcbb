"""The configuration: read from a file, HEARTH_* variables and flags, checked, and then immutable.

    model       what a configuration is, with its defaults
    values      what each kind of value must look like
    loading     defaults < file < environment < flags
    document    the file's bytes to a tree; toml_lines and json_lines find the line of a key in it
    servers     the entries under mcpServers
    findings    what is wrong, in sentences that name file, line, key and the nearest right name

Importing this is part of the daemon's cold start: parsers are loaded only once there is a file to parse.
"""

from hearth.config.loading import Examination, examine, load
from hearth.config.model import Config, OwnerPolicy, ServerSpec

__all__ = ["Config", "Examination", "OwnerPolicy", "ServerSpec", "examine", "load"]
