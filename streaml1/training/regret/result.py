"""The result of a regret measurement: points, a table, a plot."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.text_table import TableColumn, render_table
from streaml1.sources import SourceError
from streaml1.training.report import require_plotting
from streaml1.training.report.number_formats import format_four

__all__ = ["Point", "Regret", "RegretError"]


class RegretError(SourceError):
    """The regret is undefined for this model or stream."""


class Point(NamedTuple):
    """The regret after some examples. Costs are sums over the examples, not means.

    Parameters
    ----------
    examples
        Number of examples, T.
    cumulative
        Cost of the model: the loss of each example before it was learnt, plus the penalty, if any,
        of the weights that predicted it.
    best
        Cost of the best fixed weights that were found.
    regret
        `cumulative - best`.
    error
        Duality gap of the solver: the true regret is between `regret` and `regret + error`.
    n_nonzero
        Non-zero weights of the best fixed weights.
    loss
        Mean loss of the model so far without a penalty, as in the report.
    learner_nonzero
        Non-zero weights of the model at that time, as in the report.
    """

    examples: int
    cumulative: float
    best: float
    regret: float
    error: float
    n_nonzero: int
    loss: float
    learner_nonzero: int


class Regret:
    """The regret of a run, at points evenly spaced in the logarithm of the number of examples.

    Attributes
    ----------
    title : str
        The data and the model.
    comparator : str
        Description of the class of weights that the model is compared with.
    points : list of Point
        The regret at each point.
    weights : ndarray
        The best fixed weights at the last point, shape (d,), or (k, d) with a row for each of
        `classes`. Their columns are `names`.
    names : list
        Names of the columns, as in the `weights` of the model.
    intercept : float or ndarray
        The intercept of these weights, or one for each class.
    loss_name : str
        Name of the loss; "log-loss" only for the logistic loss.
    classes : list
        With several labels, those that occurred, in the order of their first examples; else empty.
    """

    def __init__(
        self,
        title: str,
        comparator: str,
        points: list[Point],
        weights: NDArray[np.float64],
        names: list[Hashable],
        intercept: float | NDArray[np.float64],
        loss_name: str,
        classes: Sequence[Hashable] = (),
    ) -> None:
        self.title, self.comparator, self.points = title, comparator, points
        self.weights, self.names, self.intercept = weights, names, intercept
        self.loss_name, self.classes = loss_name, list(classes)

    def __repr__(self) -> str:
        last = self.points[-1]
        return f"<Regret of {last.regret:,.4g} after {last.examples:,} examples; {self.title}>"

    @property
    def slope(self) -> float:
        """Growth exponent: the regret grows about as T to this power.

        Below 1 the regret per example falls. It is the least-squares slope of log regret against
        log T, over the points in the last tenth to the end, or over all if there is only one. NaN
        unless all these regrets are positive and finite.
        """
        end = self.points[-1].examples
        recent = [point for point in self.points if 10 * point.examples >= end]
        recent = recent if len(recent) > 1 else self.points
        if len(recent) < 2 or not all(0.0 < point.regret < math.inf for point in recent):
            return float("nan")
        t, r = np.log([(point.examples, point.regret) for point in recent]).T
        return float(np.polyfit(t, r, 1)[0])

    def table(self) -> str:
        """Return the points as a text table, followed by the growth exponent."""
        columns = [
            TableColumn("examples", min_width=10),
            TableColumn(f"{self.loss_name}\n(all)", min_width=9),
            TableColumn("non-\nzeros", min_width=9),
            TableColumn("learner\ntotal", min_width=12),
            TableColumn("best fixed\ntotal", min_width=12),
            TableColumn("its non-\nzeros", min_width=9),
            TableColumn("regret", min_width=10),
            TableColumn("error\nbound", min_width=10),
            TableColumn("regret per\nexample", min_width=10),
        ]
        cells = [
            (
                f"{p.examples:,}",
                format_four(p.loss),
                f"{p.learner_nonzero:,}",
                _format_sum(p.cumulative, 12),
                _format_sum(p.best, 12),
                f"{p.n_nonzero:,}",
                _format_sum(p.regret, 10),
                _format_sum(p.error, 10),
                format_four(p.regret / p.examples),
            )
            for p in self.points
        ]
        slope = self.slope
        summary = f"regret grows as T^{slope:.2f}, compared with {self.comparator}"
        if math.isnan(slope):
            summary = (
                f"regret compared with {self.comparator}; its growth takes two points, all "
                "positive and finite"
            )
        return f"{render_table(columns, cells)}\n{summary}"

    def rows(self) -> list[dict[str, float]]:
        """Return the points as dicts."""
        return [point._asdict() for point in self.points]

    def plot(self, path: str | Path) -> None:
        """Plot the regret with its error bound, and the growth rates T and sqrt(T).

        Parameters
        ----------
        path
            Output file; its extension sets the format: .png, .svg or .pdf.

        Raises
        ------
        RuntimeError
            If matplotlib is not installed.
        ValueError
            If the extension is not that of an image format.
        """
        require_plotting(path)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        t = np.array([point.examples for point in self.points], float)
        r = np.array([point.regret for point in self.points])
        error = np.array([point.error for point in self.points])
        axes.errorbar(t, r, yerr=[np.zeros(len(r)), error], marker="o", capsize=2, label="regret")
        axes.plot(t, r[0] * t / t[0], ":", color="0.5", label="T")
        axes.plot(t, r[0] * np.sqrt(t / t[0]), "--", color="0.5", label="sqrt(T)")
        if (r > 0.0).all():
            axes.set(xscale="log", yscale="log")
        axes.set(xlabel="examples", ylabel="regret", title=self.title)
        axes.legend()
        figure.savefig(str(path), dpi=150)


def _format_sum(value: float, width: int) -> str:
    """Format a sum with two decimals, or with four digits if it does not fit into `width`."""
    text = f"{value:,.2f}"
    return text if len(text) <= width else f"{value:.4g}"
