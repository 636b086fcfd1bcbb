"""Entry point of `hearth`. The bridge branches off before any heavy import: its client waits for it."""

import sys


def main() -> int:
    """Run the command line; return the exit code."""
    if sys.argv[1:2] == ["bridge"]:
        from hearth.bridge import main as bridge

        return bridge(sys.argv[2:])
    from hearth.cli.main import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
