"""Entry point of `hearth`. Bridge and hook branch off before any heavy import: their client waits for them."""

import sys


def main() -> int:
    """Run the command line; return the exit code."""
    if sys.argv[1:2] == ["bridge"]:
        from hearth.bridge import main as bridge

        return bridge(sys.argv[2:])
    if sys.argv[1:2] == ["hook"]:
        from hearth.bridge.hook import main as hook

        return hook(sys.argv[2:])
    from hearth.cli.main import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
