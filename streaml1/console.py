"""What the command line shows and hears: tables, progress, complaints, signals."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click

from streaml1 import exits
from streaml1.logs import JsonLines, json_line

if TYPE_CHECKING:
    from streaml1.report import Line, Report
    from streaml1.streams import Block, Refuse, Source
    from streaml1.streams.source import Resumable, SourceError

__all__ = [
    "PROGRAM",
    "REGRESSION_LOSSES",
    "Interruptible",
    "Screen",
    "Signals",
    "abandon_output",
    "advise",
    "complain",
    "end_early",
    "entries_table",
    "logged",
    "say_as",
    "shown",
    "telling",
    "text_table",
    "weight_text",
]

PROGRAM = "streaml1"
REGRESSION_LOSSES = ("squared", "absolute")


class _Form:
    """How what is wrong, or worth knowing, is said."""

    json = False


def say_as(form: str) -> None:
    """Have standard error hold sentences ("text"), or JSON ("json")."""
    _Form.json = form == "json"


def complain(sentence: str, name: str = "advice", **fields: Any) -> None:
    """Say on standard error what is wrong, or worth knowing."""
    if _Form.json:
        level = "error" if name == "error" else "warning"
        _to_standard_error(json_line(level, name, sentence, fields))
    else:
        _to_standard_error(f"{PROGRAM}: {sentence}")


def _to_standard_error(line: str) -> None:
    """Write a line; where nobody can read it, nothing ends by that."""
    with suppress(OSError, ValueError):
        click.echo(line, err=True)


def abandon_output() -> None:
    """Write nothing more: who read it has gone."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream that is no file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


# Ending early


class _Interrupted(Exception):
    """Raised in the middle of reading; what has been read is still learnt."""


class Signals:
    """What happens at Ctrl-C, SIGTERM and SIGHUP: reading ends at once, learning after the block.

    `number` is that of the signal that came, or 0. A standard output that nobody reads is SIGPIPE;
    one that has no room is `unwritten`, too.
    """

    def __init__(self) -> None:
        self.number = 0
        self.unwritten: OSError | None = None
        self._reading = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Listen, in the main thread; a signal that the caller ignores stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        heard = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]
        before = [signal.signal(n, self._hear) for n in heard]
        try:
            yield
        finally:
            for n, handler in zip(heard, before, strict=True):
                signal.signal(n, handler)

    def _hear(self, number: int, frame: object) -> None:
        self.number = number
        if self._reading:
            raise _Interrupted

    def next_of(self, blocks: Iterator[Block], gently: bool = False) -> Block | None:
        """The next block; None at the end, or once a signal has come.

        `gently`: the reading ends by itself once `number` is set, and is not interrupted.
        """
        try:
            self._reading = not gently
            # A signal is heard here or raises from here on: it is never slept over.
            return None if self.number else next(blocks, None)
        except _Interrupted:
            return None
        finally:
            self._reading = False

    def wait(self, read: Callable[[int], bytes], size: int) -> bytes | None:
        """What `read` reads; None once a signal has come."""
        try:
            self._reading = True
            return None if self.number else read(size)
        except _Interrupted:
            return None
        finally:
            self._reading = False


class Interruptible:
    """A source that ends when a signal comes."""

    def __init__(self, source: Source, signals: Signals, advance: Callable[[int], None]) -> None:
        self.name = source.name
        self._source = source
        self._signals = signals
        self._advance = advance
        # It ends by itself, and is not interrupted wherever it stands.
        self._heeds = hasattr(source, "heed")
        if hasattr(source, "heed"):
            source.heed(lambda: signals.number != 0, signals.wait)
        if hasattr(source, "begin"):
            resumable = cast("Resumable", source)
            self.identity, self.begin = resumable.identity, resumable.begin
            self.position = resumable.position
        for name in ("block", "kept", "lag", "is_reachable", "require_same"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start."""
        return self._watched(self._source.blocks(size, refuse))

    def _watched(self, blocks: Iterator[Block]) -> Iterator[Block]:
        while (block := self._signals.next_of(blocks, self._heeds)) is not None:
            yield block
            self._advance(len(block))


def end_early(
    signals: Signals, done: Report, written: list[str], missed: SourceError | None = None
) -> NoReturn:
    """Say what has been done and written when a signal ended the run, and exit with its code.

    What was `missed`, as brokers were away, has a code of its own.
    """
    number, closed = signals.number, signals.number == signal.SIGPIPE
    if not closed:
        with suppress(OSError, ValueError):
            click.echo(done.summary())
    files = ", ".join(written) or "nothing"
    files += " were written" if len(written) > 1 else " was written"
    fault = signals.unwritten if closed else None
    if fault is not None:
        why = f"standard output cannot be written ({exits.reason(fault)})"
    else:
        why = "output closed" if closed else "interrupted"
    if not closed or fault is not None or missed is not None or files != "nothing was written":
        lacks = "" if missed is None else f"; {missed}"
        said = f"{why} after {done.examples:,} examples{lacks}; {files}"
        complain(said, "interrupted", examples=done.examples, signal=number)
    if missed is not None:
        raise click.exceptions.Exit(missed.exit_code)
    raise click.exceptions.Exit(128 + number if fault is None else exits.AGAIN)


# What is shown


class Screen:
    """The table as it grows: above a progress display on a terminal, else plain lines."""

    def __init__(self, signals: Signals, total: int | None, watch: int = 0) -> None:
        self._signals = signals
        self._total = total
        self._watch = watch
        self._report: Report | None = None
        self._columns: dict[str, bool] = {}
        self._progress: Any = None

    def __enter__(self) -> Screen:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.completed:,.0f} examples"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(file=sys.stdout),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("", total=self._total)
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            with self._unless_lost():
                self._progress.stop()

    def start(self, report: Report) -> None:
        """Know the report that lines will be of."""
        self._report = report
        report.header()  # imports what tables take before the clock starts

    def advance(self, examples: int) -> None:
        """Count examples that have been learnt."""
        if self._progress is not None:
            with self._unless_lost():
                self._progress.advance(self._task, examples)

    def line(self, line: Line) -> None:
        """Show a line; the first comes with the heads of the columns."""
        assert self._report is not None
        if not self._columns:
            self._columns = {"refused": self._report.skips, "skewed": line.skewed}
            self._print(self._report.header(**self._columns))
        self._print(self._report.row(line, **self._columns))
        if self._watch and self._report.changes is not None:
            born, died = self._report.changes
            for sign, entries in (("+", born), ("-", died)):
                if entries:
                    self._print(_features(sign, entries, self._watch))

    def _print(self, text: str) -> None:
        with self._unless_lost():
            if self._progress is not None:
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                click.echo(text)
                sys.stdout.flush()

    @contextmanager
    def _unless_lost(self) -> Iterator[None]:
        """Where nobody reads, or nothing can be written, the run ends, and the model is saved."""
        try:
            yield
        except OSError as error:
            abandon_output()
            if not self._signals.number:
                self._signals.number = signal.SIGPIPE
                self._signals.unwritten = error if exits.may_pass(error) else None


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if _Form.json:
            _to_standard_error(JsonLines().format(record))
        else:
            complain(record.getMessage())


@contextmanager
def logged() -> Iterator[None]:
    """Show on standard error what is logged, such as the examples that are skipped."""
    logger, handler = logging.getLogger(PROGRAM), _ToStandardError()
    level, before, logger.propagate = logger.level, logger.propagate, False
    if _Form.json:
        logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
        logger.setLevel(level)


def advise(line: Line, model: Any) -> None:
    """Say what helps where a model has diverged."""
    if line.examples >= 100 and (line.loss or 0.0) > 2.0 * (line.constant_loss or 0.0):
        own = model._get_params()
        rates = [f"lower --{name}" for name in ("lr", "alpha") if own.get(name, "auto") != "auto"]
        rates += ["raise --l2"] if type(model).__name__.startswith("Pegasos") else []
        if own.get("lr") == "auto":  # blind to the scale of features
            rest = ["give --lr a number", "look for rows or labels far larger than the others"]
        else:
            rest = ["scale the features to about 1"]
        remedy = ", or ".join([*rates, *rest])
        complain(f"the loss is far above that of the constant predictor: {remedy}")


def telling(model: Any, k: int) -> str:
    """The weights farthest above and below zero, in two columns; with many labels in one."""
    if hasattr(model, "classes_met"):
        entries = model.top_weights(k)
        return entries_table(model, entries) if entries else "All weights are zero."
    ranked = model.top_weights(model.n_nonzero)
    up = [one for one in ranked if one[1] > 0.0][:k]
    down = [one for one in ranked if one[1] < 0.0][:k]
    regression = model.loss in REGRESSION_LOSSES
    heads = ("raise the value", "lower the value") if regression else ("for True", "for False")
    if not ranked:
        return "All weights are zero."
    rows = [
        (*(up[i] if i < len(up) else ("", None)), *(down[i] if i < len(down) else ("", None)))
        for i in range(max(len(up), len(down)))
    ]
    return text_table(
        ("weight", heads[0], "weight", heads[1]),
        [(weight_text(v), shown(name), weight_text(u), shown(other)) for name, v, other, u in rows],
    )


def entries_table(model: Any, entries: Sequence[tuple[Any, float]]) -> str:
    """What `top_weights` of a model tells, as a table."""
    if hasattr(model, "classes_met"):
        many = [(weight_text(w), shown(name), shown(label)) for (name, label), w in entries]
        return text_table(("weight", "feature", "label"), many)
    return text_table(("weight", "feature"), [(weight_text(w), shown(name)) for name, w in entries])


def _features(sign: str, entries: Sequence[tuple[Hashable, float]], k: int) -> str:
    """The first `k` features of some that entered (+) or left (-) a model, in one line."""
    listed = [f"{shown(name)} {weight_text(w)}" for name, w in entries[:k]]
    more = [f"and {len(entries) - k:,} more"] if len(entries) > k else []
    return f"  {sign} " + ", ".join(listed + more)


def weight_text(value: float | None) -> str:
    """A weight in a column of a table."""
    return "" if value is None else f"{value:+.4f}" if abs(value) < 1e3 else f"{value:+.3g}"


def shown(name: Hashable) -> str:
    """A name as it is; with its escapes where it would not print, or would print as nothing."""
    prints = isinstance(name, str) and name.strip() and name.isprintable()
    return str(name) if prints else repr(name)


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain lines."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in heads:
        justify, width = ("right", 10) if head == "weight" else ("left", 30)
        table.add_column(head, justify=justify, no_wrap=True, max_width=width)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    console = Console(width=200, color_system=None, markup=False, emoji=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
