"""Write the units of systemd for a package, with the interpreter that the package brings.

    python packaging/units.py --python /usr/lib/hearth/bin/python FOLDER

FOLDER/user is for /usr/lib/systemd/user, FOLDER/system for /usr/lib/systemd/system. A person who then types `hearth
install` with that interpreter gets these enabled, and no copies of their own.
"""

import argparse
import os

from hearth.host.install import service_files
from hearth.host.linux import units


def packaged(name: str, python: str) -> str:
    """One unit; the first sentence in it about who wrote it is about `hearth install`, which must not remove it."""
    text = units.render(service_files.template("units", name), python)
    return text.replace(service_files.MARK, "Brought by the package, enabled by `hearth install`", 1)


def write(folder: str, python: str) -> list[str]:
    """Write all of them; return their paths."""
    below = {"user": (*units.UNIT_NAMES, units.HTTP_UNIT, *units.PROFILE_UNIT_NAMES), "system": units.SYSTEM_UNIT_NAMES}
    written = []
    for kind, names in below.items():
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for name in names:
            path = os.path.join(folder, kind, os.path.basename(name))
            with open(path, "w", encoding="utf-8") as file:
                file.write(packaged(name, python))
            written.append(path)
    return written


def main() -> None:
    """The entry point."""
    parser = argparse.ArgumentParser(description="Write the units of systemd.")
    parser.add_argument("--python", required=True, help="the interpreter of the package, by its whole path")
    parser.add_argument("folder", help="where to; user and system get a folder each")
    arguments = parser.parse_args()
    print("\n".join(write(arguments.folder, arguments.python)))


if __name__ == "__main__":
    main()
