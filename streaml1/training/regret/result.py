"""A regret, told: points, a table, a picture."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streaml1.sources import SourceError
from streaml1.training.report import require_plotting
from streaml1.training.report.text_table import format_four

__all__ = ["Point", "Regret", "RegretError"]


class RegretError(SourceError):
    """A regret that cannot be told; its text is one sentence."""


class Point(NamedTuple):
    """How things stood after some examples; sums over them, not means.

    Parameters
    ----------
    examples
        How many, T.
    cumulative
        What the model has cost: the loss of each example before it was learnt, and the penalty of
        the weights that predicted it, where there is one.
    best
        What the best fixed weights that were found would have cost.
    regret
        `cumulative - best`.
    error
        The true regret is at most so much larger, and not smaller: the gap of the solver.
    n_nonzero
        How many of the best weights are not zero.
    loss
        The model's mean loss so far, as the report has it: without a penalty.
    learner_nonzero
        How many of the model's weights were not zero then, as the report has it.
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
    """The regret of a run, at points that are even in the logarithm of the number of examples.

    Attributes
    ----------
    title : str
        What was learnt from what.
    of : str
        What the best weights were free to be, in words.
    points : list of Point
        How things stood.
    weights : ndarray
        The best fixed weights at the last point; a row for each of `classes` where there are many.
        Their columns are `names`.
    names : list
        What the columns are called, as in the `weights` of the model.
    intercept : float or ndarray
        Beside them.
    loss_name : str
        What the loss is called: log-loss only for the logistic loss.
    classes : list
        Of many labels those that were met, in the order of their first examples; else empty.
    """

    def __init__(
        self,
        title: str,
        of: str,
        points: list[Point],
        weights: Any,
        names: Any,
        intercept: Any,
        loss_name: str,
        classes: Sequence[Hashable] = (),
    ) -> None:
        self.title, self.of, self.points, self.loss_name = title, of, points, loss_name
        self.weights, self.names, self.intercept = weights, names, intercept
        self.classes = list(classes)

    def __repr__(self) -> str:
        last = self.points[-1]
        return f"<Regret of {last.regret:,.4g} after {last.examples:,} examples; {self.title}>"

    @property
    def slope(self) -> float:
        """How fast it grows: about as T to this power; below 1 the mean regret falls.

        By least squares of its logarithm, over the points from a tenth of the examples on, or all
        if that is one; NaN where it is not above 0, or infinite.
        """
        end = self.points[-1].examples
        kept = [point for point in self.points if 10 * point.examples >= end]
        kept = kept if len(kept) > 1 else self.points
        if len(kept) < 2 or not all(0.0 < point.regret < math.inf for point in kept):
            return float("nan")
        t, r = np.log([(point.examples, point.regret) for point in kept]).T
        return float(np.polyfit(t, r, 1)[0])

    def table(self) -> str:
        """The points as a table, the columns of the report among them; and the slope."""
        wide = max(9, len(self.loss_name))
        lines = [
            f"{'':>10} {self.loss_name:>{wide}} {'non-':>9} {'learner':>12} {'best fixed':>12}"
            f" {'its non-':>9} {'':>10} {'at most':>10} {'a step':>9}",
            f"{'examples':>10} {'(all)':>{wide}} {'zeros':>9} {'in all':>12} {'in all':>12}"
            f" {'zeros':>9} {'regret':>10} {'more':>10} {'':>9}",
        ]
        lines += [
            f"{p.examples:>10,} {format_four(p.loss):>{wide}} {p.learner_nonzero:>9,} "
            f"{_sum(p.cumulative, 12)} {_sum(p.best, 12)} {p.n_nonzero:>9,} {_sum(p.regret, 10)} "
            f"{_sum(p.error, 10)} {format_four(p.regret / p.examples):>9}"
            for p in self.points
        ]
        slope = self.slope
        told = f"regret grows as T^{slope:.2f}, over {self.of}"
        if math.isnan(slope):
            told = f"regret over {self.of}; how it grows takes two points, all above 0 and finite"
        return "\n".join([*lines, told])

    def rows(self) -> list[dict[str, float]]:
        """The points as dicts."""
        return [point._asdict() for point in self.points]

    def plot(self, path: str | Path) -> None:
        """Draw regret, with its error, and the line that falls below it where it grows as T."""
        require_plotting(path)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        t = np.array([point.examples for point in self.points], float)
        r = np.array([point.regret for point in self.points])
        error = np.array([point.error for point in self.points])
        axes.errorbar(t, r, yerr=[np.zeros(len(r)), error], marker="o", capsize=2, label="regret")
        axes.plot(t, r[0] * t / t[0], ":", color="0.5", label="grows as T")
        axes.plot(t, r[0] * np.sqrt(t / t[0]), "--", color="0.5", label="grows as the root of T")
        if (r > 0.0).all():
            axes.set(xscale="log", yscale="log")
        axes.set(xlabel="examples", ylabel="regret", title=self.title)
        axes.legend()
        figure.savefig(str(path), dpi=150)


def _sum(value: float, wide: int) -> str:
    """To two places; of a model that has diverged, which would not fit, four digits."""
    text = f"{value:,.2f}"
    return f"{text if len(text) <= wide else f'{value:.4g}':>{wide}}"
