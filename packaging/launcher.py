"""Print the launcher that a package ships beside its interpreter's folder, for `hearth connect` to name in entries.

python packaging/launcher.py --python /usr/lib/hearth/bin/python --packages /usr/lib/hearth/lib/python3/site-packages
"""

import argparse

from hearth.clients import launcher


def packaged(python: str, packages: str) -> str:
    """Return the script, with the sentence about its author changed."""
    written, brought = launcher.AUTHOR, "Brought by the package."
    text = launcher.text(python, packages)
    assert written in text
    return text.replace(written, brought, 1)


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(description="Print the launcher of a package.")
    parser.add_argument("--python", required=True, help="the interpreter of the package, by its whole path")
    parser.add_argument("--packages", required=True, help="the folder with the package `hearth` in it")
    arguments = parser.parse_args()
    print(packaged(arguments.python, arguments.packages), end="")


if __name__ == "__main__":
    main()
