"""`hearth` as typed. The bridge goes its own way before anything heavy is imported: its client waits for it."""

import sys


def main() -> int:
    """Run what the command line asks for; the exit code."""
    if sys.argv[1:2] == ["bridge"]:
        from hearth.bridge import main as bridge

        return bridge(sys.argv[2:])
    from hearth.cli.main import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
