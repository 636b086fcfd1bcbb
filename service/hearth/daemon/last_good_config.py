"""Copy of the last usable config, for a start with a broken config file.

One file for each profile, readable by its owner only, because a config may hold secrets.
"""

import logging
import os
import time

from hearth import config
from hearth.config import Config
from hearth.config.loader import FILE_LIMIT_BYTES, interpret, read_file
from hearth.errors import ConfigError, FileAccessError
from hearth.host import folders, private_files
from hearth.paths import Places

log = logging.getLogger(__name__)


def load(places: Places) -> tuple[Config, str | None]:
    """Load the config; if it is broken, return the kept copy and a sentence that says so.

    Raises ConfigError if there is no usable copy either.
    """
    try:
        return config.load(places), None
    except ConfigError as exc:
        kept = _kept(places)
        if kept is None:
            raise
        settings, since = kept
        return settings, f"{exc}; in force is the last good config, of {since}"


def _kept(places: Places) -> tuple[Config, str] | None:
    """Return the kept config and the time at which it was kept."""
    try:
        data = private_files.read(places.last_config, FILE_LIMIT_BYTES)
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(places.last_config).st_mtime))
        return (interpret(places, data), since) if data else None
    except (OSError, ValueError, ConfigError):
        # Missing, another user's, damaged, or of a version with other keys: the user has to fix the config itself.
        return None


def keep(places: Places, settings: Config) -> None:
    """Keep a copy of the config file that `settings` were read from. A failure is a warning in the log."""
    try:
        _keep(places, settings)
    except (OSError, ValueError, ConfigError, FileAccessError) as exc:
        log.warning("the config cannot be kept for a start with a broken one: %s", exc)


def _keep(places: Places, settings: Config) -> None:
    if not settings.hash:
        # There is no config file. Servers that were removed with it must not be started from the copy.
        private_files.remove(places.last_config)
        return
    # Not hashlib: see config.layers.
    from _blake2 import blake2s

    data = read_file(settings.path, FILE_LIMIT_BYTES)
    if data is None or blake2s(data).hexdigest() != settings.hash:
        # The file was written in the meantime: the reload that follows keeps it, if it is usable.
        return
    if private_files.read(places.last_config, FILE_LIMIT_BYTES) != data:
        folders.make_private(os.path.dirname(places.last_config))
        private_files.write(places.last_config, data)
