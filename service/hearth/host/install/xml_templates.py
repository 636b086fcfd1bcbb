"""Templates of the XML files for service managers, with placeholders to fill in. Pure; knows no service manager."""

import re
from collections.abc import Mapping
from html import escape

from hearth.errors import HearthError


def fill(template: str, values: Mapping[str, str], reader: str) -> str:
    """Replace each @NAME@ in the template by its value. Raises HearthError for a value that XML cannot hold."""
    for value in values.values():
        if not value.isprintable():
            raise HearthError(f"{reader} cannot be told of {value!r}: use a folder with a plainer name")
    return re.sub("@([A-Z]+)@", lambda found: escape(values[found[1]], quote=False), template)
