"""Observer that shows a progress bar, on a terminal or in a notebook."""

from __future__ import annotations

from typing import Any, Self

from streaml1.training.observers import Batch, Observer, RunStart

__all__ = ["ProgressBar"]


class ProgressBar(Observer):
    """Shows the number of examples and the loss so far. Use it as a context manager.

    Parameters
    ----------
    limit
        Maximum number of examples in each pass; None if there is none.
    passes
        Number of passes.
    """

    def __init__(self, limit: int | None = None, passes: int = 1) -> None:
        self._limit, self._passes = limit, passes
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_start(self, start: RunStart) -> None:
        """Show the bar; a resumed run starts where it was."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._report = start.report
        self._bar = Progress(
            TextColumn("{task.completed:,.0f} examples"), BarColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[loss]}"),
        )  # fmt: skip
        size = len(start.source) if hasattr(start.source, "__len__") else None
        known = [n for n in (size, self._limit) if n]
        total = min(known) * self._passes if known else None
        self._task = self._bar.add_task("", total=total, loss="")
        self._bar.start()
        self._update()

    def on_batch(self, batch: Batch) -> None:
        """Move the bar."""
        self._update()

    def on_labels(self, batch: Batch) -> None:
        """Move the bar: examples count when their label arrives."""
        self._update()

    def on_end(self) -> None:
        """Leave the bar as it is."""
        self._update()
        self._bar.stop()

    def _update(self) -> None:
        report = self._report
        weight, loss, _ = report.sums
        text = f"{report.loss_name} {loss / weight:.4f}" if weight > 0.0 else ""
        self._bar.update(self._task, completed=report.examples, loss=text)
