"""``streaml1 completion``: shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from streaml1.cli.messages import PROGRAM
from streaml1.cli.program import cli

__all__ = ["completion"]

SHELLS = {
    "bash": f"echo 'eval \"$({PROGRAM} completion bash)\"' >> ~/.bashrc",
    "zsh": f"echo 'eval \"$({PROGRAM} completion zsh)\"' >> ~/.zshrc",
    "fish": f"{PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish",
}
"""Shells, and the command that sets up completion in each."""


@cli.command(
    epilog="\b\nSet up, then open a new shell:\n"
    + "\n".join(f"  {command}" for command in SHELLS.values())
    + '\n\nExample: eval "$(streaml1 completion bash)"'
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
