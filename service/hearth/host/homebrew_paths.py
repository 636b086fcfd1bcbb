"""Stable paths for files in versioned folders, which an upgrade removes, by the links that it updates.

Homebrew has a folder for each version of a program; the Debian package has one named after its Python version.
"""

import os


def lasting(path: str) -> str:
    """Return a path to the same file that stays valid after the next upgrade; a path without one is returned unchanged.

    PREFIX/Cellar/NAME/VERSION/REST becomes PREFIX/opt/NAME/REST, as long as that link leads to this version; and
    PREFIX/lib/python3.N/REST becomes PREFIX/lib/python3/REST.
    """
    return _by_any_python(_by_any_version(path))


def _by_any_python(path: str) -> str:
    prefix, found, numbered = path.partition("/lib/python3.")
    minor, _, rest = numbered.partition("/")
    link = f"{prefix}/lib/python3"
    if not found or not rest or not os.path.islink(link):
        return path
    return f"{link}/{rest}" if os.readlink(link) == f"python3.{minor}" else path


def _by_any_version(path: str) -> str:
    prefix, found, inside = path.partition("/Cellar/")
    name, _, versioned = inside.partition("/")
    version, _, rest = versioned.partition("/")
    if not found or not rest:
        return path
    link = os.path.join(prefix, "opt", name)
    keg = os.path.join(prefix, "Cellar", name, version)
    return os.path.join(link, rest) if os.path.realpath(link) == os.path.realpath(keg) else path
