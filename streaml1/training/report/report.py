"""The report of a training run: its table, summary, files and plot."""

from __future__ import annotations

import html
import io
import json
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, overload

from streaml1.core.atomic_write import open_atomic
from streaml1.training.report.columns import default_names, fit, render_lines, report_columns
from streaml1.training.report.line import Line
from streaml1.training.report.number_formats import format_four
from streaml1.training.report.plot import figure, ignoring_missing_glyphs, require_plotting
from streaml1.training.report.resumable_figures import ResumableFigures
from streaml1.training.report.summary import describe_line, render_summary, summary_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report"]


class Report(ResumableFigures):
    """The progress of a run over a stream.

    `streaml1.progressive` returns one. To make one by hand, call `add` for each block of examples
    and `line` to close a line.

    Parameters
    ----------
    loss
        `"logistic"`, `"hinge"`, `"smoothed_hinge"`, `"squared_hinge"`, `"squared"`,
        `"absolute"`, `"huber"`, `"quantile"`, `"poisson"`, or `"softmax"` for several labels.
    title
        Title of the plot: the data and the model.
    d
        Number of features, if known.
    k
        Number of labels known beforehand, for `"softmax"`.
    loss_parameter
        The quantile of the quantile loss, delta of the Huber loss.
    negative_rate
        Share of the negative examples that the stream has kept. Predictions are for the full
        stream, and are converted to this one before they are compared with its labels.
    detects_drift
        Whether to look for drifts: rises of the loss.

    Raises
    ------
    ValueError
        If `loss` is unknown.

    Attributes
    ----------
    lines : list of Line
        The lines so far.
    examples : int
        Examples added so far.
    rejected : int
        Examples rejected so far; the caller counts them.
    skips : bool
        Whether the run skips rejected examples; if so, the table has a column for their number.
    reasons : RejectionReasons
        Why this process has rejected examples.
    numbers : dict of str to float
        Further figures for the summary, such as the number of examples that wait for a label.
    warnings : dict of str to str
        Warnings about the data so far, by kind; see `streaml1.training.data_checks`.
    drifts : list of Drift
        Rises of the loss so far, in the first pass.
    held_out : HeldOutState or None
        State of the held-out rows of a run with several passes.
    kept : tuple or None
        The pass whose model was kept, the number of passes, and the held-out loss of that pass.
    pass_number : int
        Number of the pass, from 1. From 2 on the figures are those of held-out rows of this pass.

    Examples
    --------
    >>> import numpy as np
    >>> report = Report("logistic")
    >>> report.add(np.array([0.5, 0.8]), np.array([True, True]))
    >>> line = report.line()
    >>> line.examples, line.loss, line.constant_loss
    (2, 0.46, 0.49)
    """

    def __repr__(self) -> str:
        return f"<Report of {self.summary()}>"

    # Text

    def column_names(
        self,
        rejected: bool = False,
        skewed: bool = False,
        cumulative: bool = False,
        width: int | None = None,
        without: Collection[str] = (),
    ) -> list[str]:
        """Return the names of the columns of the table.

        Parameters
        ----------
        rejected
            Whether to include the number of rejected examples.
        skewed
            Whether to include the figures for skewed labels.
        cumulative
            Whether to include the cumulative loss.
        width
            Leave out the least important columns until lines have at most this many characters.
        without
            Names of columns to leave out.
        """
        names = default_names(
            self.loss,
            show_rejected=rejected,
            show_skewed=skewed,
            show_changes=self._tracker is not None,
            show_cumulative=cumulative,
        )
        names = [name for name in names if name not in without]
        return names if width is None else fit(names, report_columns(self.loss), width)

    def header(
        self,
        rejected: bool = False,
        skewed: bool = False,
        held_out: bool = False,
        cumulative: bool = False,
        columns: Sequence[str] | None = None,
    ) -> str:
        """Return the heads of the columns.

        Parameters
        ----------
        rejected
            Whether to include the number of rejected examples.
        skewed
            Whether to include the figures for skewed labels.
        held_out
            Whether the lines are those of held-out rows.
        cumulative
            Whether to include the cumulative loss.
        columns
            The names of the columns, instead.
        """
        names = columns or self.column_names(rejected, skewed, cumulative)
        return self._render([], names, held_out, show_header=True)

    def row(
        self,
        line: Line,
        rejected: bool = False,
        skewed: bool = False,
        cumulative: bool = False,
        columns: Sequence[str] | None = None,
    ) -> str:
        """Return one line as text, in columns as wide as those of `header`."""
        names = columns or self.column_names(rejected, skewed, cumulative)
        return self._render([line], names, line.held_out, show_header=False)

    def table(self, cumulative: bool = False) -> str:
        """Return all lines as a text table; lines of held-out rows have heads of their own.

        Parameters
        ----------
        cumulative
            Whether to include the cumulative loss.
        """
        rejected = any(line.refused for line in self.lines)
        skewed = any(line.skewed for line in self.lines)
        names = self.column_names(rejected, skewed, cumulative)
        first = [line for line in self.lines if not line.held_out]
        parts = [self._render(first, names, False, show_header=True)]
        if len(first) < len(self.lines):
            later = [line for line in self.lines if line.held_out]
            parts.append(self._render(later, names, True, show_header=True))
        return "\n".join(parts)

    def _render(
        self, lines: list[Line], names: Sequence[str], held_out: bool, show_header: bool
    ) -> str:
        columns = report_columns(self.loss, held_out)
        return render_lines([columns[name] for name in names], lines, show_header=show_header)

    def summary_lines(self) -> list[str]:
        """Return the figures of the last line, one a line, and the reasons of rejections.

        The names of the figures and their values are aligned.
        """
        if self.lines:
            rows = summary_rows(self.lines[-1], self.loss, self.d)
        else:
            rows = [("examples", "0")]
            rows += [("rejected", f"{self.rejected:,}")] if self.rejected else []
        if self.lines and self.kept is not None:
            number, n_passes, loss = self.kept
            text = f"pass {number} of {n_passes} (held-out {self.loss_name} {format_four(loss)})"
            rows.append(("kept the model of", text))
        rows += [(name.replace("_", " "), f"{n:,.0f}") for name, n in self.numbers.items() if n]
        return [*render_summary(rows).split("\n"), *self.reasons.lines()]

    def summary(self) -> str:
        """Return the last line as a sentence."""
        figures = [
            f"{value:,.0f} {name.replace('_', ' ')}"
            for name, value in self.numbers.items()
            if value
        ]
        if not self.lines:
            rejected = [f"{self.rejected:,} rejected"] if self.rejected else []
            return ", ".join(["no examples", *rejected, *figures])
        parts = describe_line(self.lines[-1], self.loss, self.d)
        if self.kept is not None:
            number, n_passes, loss = self.kept
            parts.append(
                f"kept the model of pass {number} of {n_passes} "
                f"(held-out {self.loss_name} {format_four(loss)})"
            )
        return "; ".join([*parts, ", ".join(figures)] if figures else parts)

    # Files

    def write(self, path: str | Path) -> None:
        """Write the lines as JSON lines, atomically.

        A number that is not finite is written as null.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        text = "".join(
            json.dumps({k: _finite(v) for k, v in line.as_dict().items()}, allow_nan=False) + "\n"
            for line in self.lines
        )
        with _replacing(path) as file:
            file.write(text.encode())

    def write_reliability(self, path: str | Path) -> None:
        """Write the bins of `reliability` as JSON lines, atomically.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        text = "".join(json.dumps(b._asdict(), allow_nan=False) + "\n" for b in self.reliability())
        with _replacing(path) as file:
            file.write(text.encode())

    @overload
    def plot(self, path: None = None) -> Figure: ...

    @overload
    def plot(self, path: str | Path) -> None: ...

    def plot(self, path: str | Path | None = None) -> Figure | None:
        """Plot the mean and cumulative losses of model and baseline, and the non-zero weights.

        With predicted probabilities also the calibration so far and since the previous line; for
        the logistic loss a reliability diagram, too: observed rates against predictions.

        Parameters
        ----------
        path
            Output file; its extension sets the format: .png, .svg or .pdf. None: return the figure
            instead, which a notebook displays.

        Returns
        -------
        matplotlib.figure.Figure or None
            The figure, without a path.

        Raises
        ------
        RuntimeError
            If matplotlib is not installed.
        ValueError
            If the extension is not that of an image format.
        OSError
            If the file cannot be written.
        """
        if path is None:
            require_plotting("figure.png")
            return self._figure()
        kind = require_plotting(path)
        image = io.BytesIO()
        with ignoring_missing_glyphs():
            self._figure().savefig(image, format=kind, dpi=100)
        with _replacing(path) as file:
            file.write(image.getvalue())
        return None

    def _figure(self) -> Figure:
        bins = self.reliability() if self.is_probabilistic else None
        return figure(self.lines, self.loss_name, self.title, bins)

    def _repr_html_(self) -> str:
        """Return the table and, if matplotlib is installed, the plot, for a notebook."""
        from streaml1.training.report.notebook import figure_as_html, lines_as_html

        parts = [f"<p>{html.escape(self.title)}</p>"] if self.title else []
        rejected = any(line.refused for line in self.lines)
        names = self.column_names(rejected, any(line.skewed for line in self.lines))
        for held_out in (False, True):
            lines = [line for line in self.lines if line.held_out == held_out]
            if lines:
                columns = report_columns(self.loss, held_out)
                parts.append(lines_as_html([columns[name] for name in names], lines))
        parts.append(f"<p>{html.escape(self.summary())}</p>")
        with suppress(RuntimeError):  # matplotlib is not installed
            if self.lines:
                parts.append(figure_as_html(self.plot()))
        return "\n".join(parts)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open an output file as `open_atomic` does, but name it if its directory is missing."""
    if not Path(path).resolve().parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no such directory; create it first"
        )
    with open_atomic(path) as file:
        yield file
