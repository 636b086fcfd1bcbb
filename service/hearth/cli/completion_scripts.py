"""The completion scripts of shells."""

from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """Return the script of one shell."""
    from hearth.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None, f"click has no completion for {shell}"
    return kind(cli, {}, "hearth", "_HEARTH_COMPLETE").source()
