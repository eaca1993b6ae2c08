"""How a run ends early: signals, and what reads until one comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn, cast

import click

from streaml1.cli.messages import complain
from streaml1.core import exit_codes as exits

if TYPE_CHECKING:
    from streaml1.sources import Block, Refuse, Source
    from streaml1.sources.source import Resumable, SourceError
    from streaml1.training.report import Report

__all__ = ["Interruptible", "Signals", "end_early"]


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
            del block  # so that its memory may be taken for the next


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
