"""Write the completion scripts for bash, zsh and fish into a folder, under the names that shells look for.

    python packaging/completions.py FOLDER

The scripts are what `hearth completion SHELL` prints.
"""

import argparse
import os

from hearth.cli.completion import script
from hearth.cli.main import cli

FILE_NAMES = {"bash": "hearth", "zsh": "_hearth", "fish": "hearth.fish"}


def write(folder: str) -> list[str]:
    """Write all of them; return their paths."""
    written = []
    for shell, name in FILE_NAMES.items():
        path = os.path.join(folder, shell, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(script(shell, cli))
        written.append(path)
    return written


def main() -> None:
    """The entry point."""
    parser = argparse.ArgumentParser(description="Write the completion scripts.")
    parser.add_argument("folder", help="where to; each shell gets a folder in it")
    print("\n".join(write(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
