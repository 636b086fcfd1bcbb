"""Loader of the configuration in force: reads the file, and has the examination interpret it.

The only module of this package that does I/O. Every start of the daemon uses it: without a file, a variable and a
flag, nothing is loaded but the defaults.
"""

import os
import stat
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hearth.config.model import MIB, Config
from hearth.errors import ConfigError
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.config.layers import Examination

# ~/.claude.json grows to several MiB with its histories; a file far beyond that is not a config file.
FILE_LIMIT_BYTES = 64 * MIB

_NO_FLAGS: Mapping[str, object] = MappingProxyType({})


def load(places: Places, environ: Mapping[str, str] = os.environ, flags: Mapping[str, object] = _NO_FLAGS) -> Config:
    """Return the configuration in force. Raises ConfigError with every problem at once."""
    data = _read(places)
    if data is None and not flags and not any(name.startswith("HEARTH_") for name in environ):
        return Config(path=places.config_file())
    return interpret(places, data, environ, flags)


def interpret(
    places: Places,
    data: bytes | None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] = _NO_FLAGS,
) -> Config:
    """Return the configuration with these bytes as the content of its file. Raises ConfigError."""
    found = _examine(places, data, environ, flags)
    if found.problems:
        raise ConfigError(found.problems)
    return found.config


def examine(places: Places, environ: Mapping[str, str] = os.environ) -> "Examination":
    """Return the configuration for display: its problems, and the origin of each value. Raises nothing."""
    try:
        found = _examine(places, _read(places), environ)
        found.warn_of_repeated_keys()
    except ConfigError as exc:
        found = _examine(places, None, environ)
        found.problems[:0] = exc.problems
    return found


def _examine(
    places: Places, data: bytes | None, environ: Mapping[str, str], flags: Mapping[str, object] = _NO_FLAGS
) -> "Examination":
    from hearth.config.layers import Examination

    found = Examination(places.config_file())
    try:
        if data is not None:
            found.read_file(data)
    except ConfigError as exc:
        found.problems.extend(exc.problems)
    found.read_environment(environ)
    found.read_flags(flags)
    found.finish()
    return found


def _read(places: Places) -> bytes | None:
    path = places.config_file()
    data = read_file(path, FILE_LIMIT_BYTES)
    if data is None and places.config is not None:
        raise ConfigError([f"{path}: does not exist"])
    return data


def read_file(path: str, limit: int) -> bytes | None:
    """Return the bytes of a file that a person named; None if it does not exist.

    Raises ConfigError if it cannot be read.
    """
    try:
        # Opening a named pipe without a writer would block the daemon for ever.
        with open(path, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError([f"{path}: is not a file"])
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be read: {(exc.strerror or str(exc)).lower()}"]) from exc
    if len(data) > limit:
        raise ConfigError([f"{path}: has over {limit} bytes, too many for what it should be"])
    return data
