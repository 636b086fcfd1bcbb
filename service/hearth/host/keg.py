"""Homebrew's folders: one for each version, which an upgrade removes, and a link for each program, which it moves."""

import os


def lasting(path: str) -> str:
    """The same file by a name that the next upgrade leaves valid; what is not Homebrew's stays as it is.

    PREFIX/Cellar/NAME/VERSION/REST is PREFIX/opt/NAME/REST, as long as that link leads to this version.
    """
    prefix, found, inside = path.partition("/Cellar/")
    name, _, versioned = inside.partition("/")
    version, _, rest = versioned.partition("/")
    if not found or not rest:
        return path
    link = os.path.join(prefix, "opt", name)
    keg = os.path.join(prefix, "Cellar", name, version)
    return os.path.join(link, rest) if os.path.realpath(link) == os.path.realpath(keg) else path
