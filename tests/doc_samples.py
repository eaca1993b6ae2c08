"""The commands in the samples of a page of the documentation: run them and compare their output."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from streaml1.cli import cli

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")


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


def shown_by(command: str, messages: bool) -> str:
    """Run a command, which may end in `| grep -E PATTERN` or `; echo $?`; return what it shows.

    With `messages` this includes standard error.
    """
    command, asks_code, _ = command.partition("; echo $?")
    command, _, pattern = command.partition(" | grep -E ")
    program, *args = shlex.split(command)
    assert program == "streaml1", command
    result = CliRunner().invoke(cli, args)
    shown = (result.output if messages else result.stdout) + (
        f"{result.exit_code}\n" if asks_code else ""
    )
    [wanted] = shlex.split(pattern) or [""]
    return "".join(line for line in shown.splitlines(keepends=True) if re.search(wanted, line))


def differences(shown: str, expected: str) -> list[tuple[str, str]]:
    """Return the lines of two outputs that differ.

    Numbers may differ by one unit in the fourth digit, and examples per second by anything: a
    processor rounds in its own way, at its own speed.
    """
    pairs = itertools.zip_longest(_lines(shown), _lines(expected), fillvalue="")
    return [(a, b) for a, b in pairs if not _same(a, b)]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of an output, with single spaces and without examples per second."""
    timed = False
    for line in text.splitlines():
        words = line.split()
        is_row = bool(words) and all(re.fullmatch(r"[\d.,%]+", word) for word in words)
        if words[-1:] == ["second"]:
            timed = True
        elif not is_row and not line.startswith(("streaml1: ", "held-out")):
            timed = timed and not words
        yield " ".join(words[:-1] if timed and is_row else words)


def _same(a: str, b: str) -> bool:
    numbers = zip(NUMBER.findall(a), NUMBER.findall(b), strict=False)
    return NUMBER.sub("0", a) == NUMBER.sub("0", b) and all(
        math.isclose(_value(x), _value(y), rel_tol=2e-4) for x, y in numbers
    )


def _value(number: str) -> float:
    return float(number.replace(",", ""))
