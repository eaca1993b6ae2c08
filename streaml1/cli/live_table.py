"""The report of a run while it progresses."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.messages import abandon_output, above_progress, is_json
from streaml1.cli.progress_line import ProgressLine
from streaml1.cli.signals import Signals
from streaml1.cli.weight_tables import weight_text
from streaml1.core import exit_codes as exits
from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.sources import Source
    from streaml1.training.report import Line, Report

__all__ = ["Screen", "table_width", "total_examples"]


def table_width() -> int:
    """Return how many characters a line of a table may have.

    The variable COLUMNS takes precedence over the terminal; a pipe or a file has 80.
    """
    return shutil.get_terminal_size((80, 24)).columns


def total_examples(examples: Any, limit: int | None, passes: int = 1) -> int | None:
    """Return how many examples a run reads, if that is known."""
    known = [n for n in (len(examples) if hasattr(examples, "__len__") else None, limit) if n]
    return min(known) * passes if known else None


def _shows_progress() -> bool:
    """Return whether standard error is a terminal that can erase a line, and is not JSON."""
    return not is_json() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """Print the report line by line, and the progress on standard error if it is a terminal.

    Parameters
    ----------
    signals
        Set to SIGPIPE if standard output cannot be written.
    total
        The number of examples, if known.
    watch
        Maximum number of added and of dropped features to print after each line.
    cumulative
        Whether to print the cumulative loss.
    columns
        The names of the columns of the table. None: as many as fit the terminal.
    without
        Names of columns that are left out then.
    source
        The source, which may know how much of it was read.
    passes
        The number of passes over the source.
    """

    def __init__(
        self,
        signals: Signals,
        total: int | None,
        watch: int = 0,
        cumulative: bool = False,
        columns: Sequence[str] | None = None,
        without: Collection[str] = (),
        source: Source | None = None,
        passes: int = 1,
    ) -> None:
        self._signals = signals
        self._watch = watch
        self._cumulative = cumulative
        self._report: Report | None = None
        if columns and cumulative and "cumulative-loss" not in columns:
            columns = [*columns, "cumulative-loss"]
        self._chosen = columns
        self._without = without
        self._columns: Sequence[str] = ()
        self._held_out = False
        self._progress: ProgressLine | None = None
        if _shows_progress():
            fraction_read = getattr(source, "fraction_read", lambda: None)
            self._progress = ProgressLine(total, passes, fraction_read)
        self._cleanup = ExitStack()

    def __enter__(self) -> Screen:
        if self._progress is not None:
            self._cleanup.enter_context(above_progress(self._progress.clear))
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def start(self, report: Report) -> None:
        """Set the report whose lines follow."""
        self._report = report
        report.header()  # imports the table library before the clock starts

    def advance(self, examples: int) -> None:
        """Advance the progress by a number of examples."""
        if self._progress is not None:
            self._progress.advance(examples)

    def begin_pass(self) -> None:
        """Count a pass of the progress that begins."""
        if self._progress is not None:
            self._progress.begin_pass()

    def line(self, line: Line) -> None:
        """Print a line, the first one below the column headers."""
        assert self._report is not None
        if not self._columns or line.held_out != self._held_out:
            self._held_out = line.held_out
            self._columns = self._chosen or self._report.column_names(
                self._report.skips, line.skewed, self._cumulative, table_width(), self._without
            )
            self._print(self._report.header(columns=self._columns, held_out=line.held_out))
        self._print(self._report.row(line, columns=self._columns))
        if self._watch and self._report.changes is not None:
            added, dropped = self._report.changes
            for sign, features in (("+", added), ("-", dropped)):
                if features:
                    self._print(_features(sign, features, self._watch))

    def _print(self, text: str) -> None:
        with self._signalling_lost_output():
            if self._progress is not None:
                self._progress.clear()
            click.echo(text)
            sys.stdout.flush()

    @contextmanager
    def _signalling_lost_output(self) -> Iterator[None]:
        """Turn a failed write to standard output into a signal, so that the run saves and ends."""
        try:
            yield
        except OSError as error:
            abandon_output()
            if not self._signals.number:
                self._signals.number = signal.SIGPIPE
                self._signals.unwritten = error if exits.is_temporary(error) else None


def _features(sign: str, features: Sequence[tuple[Hashable, float]], k: int) -> str:
    """Return the first `k` added (+) or dropped (-) features in one line."""
    listed = [f"{printable(name)} {weight_text(w)}" for name, w in features[:k]]
    more = [f"and {len(features) - k:,} more"] if len(features) > k else []
    return f"  {sign} " + ", ".join(listed + more)
