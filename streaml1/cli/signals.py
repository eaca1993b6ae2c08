"""Signals that end a run early, and sources that stop reading at a signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn, cast

import click

from streaml1.cli.messages import report_problem
from streaml1.cli.termination import TERMINATING, end_now, watchdog
from streaml1.core import exit_codes as exits

if TYPE_CHECKING:
    from streaml1.sources import Block, Reject, Source
    from streaml1.sources.source import Resumable, SourceError
    from streaml1.training.report import Report

__all__ = ["Interruptible", "Signals", "end_early"]


class _Interrupted(Exception):
    """Raised by a signal handler while reading; the examples read so far are still learnt."""


class Signals:
    """Handling of Ctrl-C, SIGTERM and SIGHUP: stop reading at once, finish the current block.

    Attributes
    ----------
    number
        The signal that arrived, or 0. It is SIGPIPE if standard output cannot be written.
    unwritten
        Why standard output cannot be written, unless its reader has closed it.
    """

    def __init__(self) -> None:
        self.number = 0
        self.unwritten: OSError | None = None
        self._reading = False
        self._compiling = False

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """End the process at a signal inside the context: there is nothing to save yet."""
        self._compiling = True
        try:
            if self.number:
                end_now(self.number)
            yield
        finally:
            self._compiling = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Install the handlers, in the main thread only; ignored signals stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = [n for n in TERMINATING if signal.getsignal(n) is not signal.SIG_IGN]
        before = [signal.signal(n, self._on_signal) for n in handled]
        try:
            yield
        finally:
            for n, handler in zip(handled, before, strict=True):
                signal.signal(n, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self.number = number
        if self._compiling:
            end_now(number)
        if self._reading:
            raise _Interrupted

    def next_block(self, blocks: Iterator[Block], polls: bool = False) -> Block | None:
        """Return the next block; None at the end or after a signal.

        `polls` says that the source itself stops once `number` is set, so that the handler need not
        interrupt it.
        """
        try:
            self._reading = not polls
            # A signal before this line is seen here; one after it raises. None is missed.
            return None if self.number else next(blocks, None)
        except _Interrupted:
            return None
        finally:
            self._reading = False

    def wait(self, read: Callable[[int], bytes], size: int) -> bytes | None:
        """Return `read(size)`; None after a signal."""
        try:
            self._reading = True
            return None if self.number else read(size)
        except _Interrupted:
            return None
        finally:
            self._reading = False


class Interruptible:
    """A source that ends at a signal.

    Parameters
    ----------
    source
        The source to read.
    signals
        Its `number` ends the source.
    advance
        Called with the number of examples of each block once it is learnt.
    begin_pass
        Called before each pass.
    """

    def __init__(
        self,
        source: Source,
        signals: Signals,
        advance: Callable[[int], None],
        begin_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = source.name
        self._source = source
        self._signals = signals
        self._advance = advance
        self._begin_pass = begin_pass
        # Such a source polls `signals.number`, so that it is not interrupted at any point.
        self._polls = hasattr(source, "set_stop")
        if hasattr(source, "set_stop"):
            source.set_stop(lambda: signals.number != 0, signals.wait)
        if hasattr(source, "begin"):
            resumable = cast("Resumable", source)
            self.identity, self.begin = resumable.identity, resumable.begin
            self.position = resumable.position
        for name in ("block", "fill_blocks", "on_saved", "lag", "is_reachable", "require_same"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Read the blocks of the source."""
        return self._watched(self._source.blocks(size, reject))

    def _watched(self, blocks: Iterator[Block]) -> Iterator[Block]:
        self._begin_pass()  # not in `blocks`: a run calls it for two passes at once
        while (block := self._signals.next_block(blocks, self._polls)) is not None:
            watchdog.stand_down()
            yield block
            self._advance(len(block))
            del block  # frees its memory for the next block


def end_early(
    signals: Signals, done: Report, written: list[str], missed: SourceError | None = None
) -> NoReturn:
    """Report what was learnt and written before a signal, and exit.

    Parameters
    ----------
    signals
        The signal; determines the exit code.
    done
        The report of the run.
    written
        The files and topics that were written.
    missed
        What could not be finished because a broker was unavailable; determines the exit code, then.
    """
    number, closed = signals.number, signals.number == signal.SIGPIPE
    if not closed:
        with suppress(OSError, ValueError):
            click.echo("\n".join(done.summary_lines()))
    files = ", ".join(written) or "nothing"
    files += " were written" if len(written) > 1 else " was written"
    fault = signals.unwritten if closed else None
    if fault is not None:
        why = f"standard output cannot be written ({exits.os_reason(fault)})"
    else:
        why = "output closed" if closed else "interrupted"
    if not closed or fault is not None or missed is not None or files != "nothing was written":
        unfinished = "" if missed is None else f"; {missed}"
        sentence = f"{why} after {done.examples:,} examples{unfinished}; {files}"
        report_problem(sentence, "interrupted", examples=done.examples, signal=number)
    if missed is not None:
        raise click.exceptions.Exit(missed.exit_code)
    raise click.exceptions.Exit(128 + number if fault is None else exits.TEMPORARY_FAILURE)
