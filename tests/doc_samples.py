"""The commands in the samples of a page of the documentation: run them and compare their output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from streaml1.cli import cli


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return the commands in the samples of a page, and the output that follows each."""
    blocks = re.findall(r"^```\n(\$ .*?)^```$", text, re.S | re.M)
    pieces = [piece for block in blocks for piece in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(command, output) for command, _, output in (p.partition("\n") for p in pieces)]


def run_samples(text: str) -> int:
    """Run the samples of a page in the working directory; return how many outputs were compared.

    `cat` writes the file that it shows; commands without output are run for their files.
    """
    compared = 0
    for command, output in commands_of(text):
        program, *args = shlex.split(command)
        if program == "cat":
            Path(args[0]).write_text(output)
            continue
        assert program == "streaml1", command
        result = CliRunner().invoke(cli, args)
        assert result.exit_code == 0, (command, result.output)
        if output:
            lines = [line.rstrip() for line in result.stdout.splitlines()]
            assert lines == output.splitlines(), command
            compared += 1
    return compared
