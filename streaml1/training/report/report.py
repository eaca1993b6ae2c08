"""The progress of a run: its sums, its lines, and what they are written to."""

from __future__ import annotations

import io
import json
import math
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from streaml1.core.atomic_write import written_aside
from streaml1.optim.tasks import REGRESSION
from streaml1.training.report.line import Line
from streaml1.training.report.losses import NAMES, constants, losses
from streaml1.training.report.plot import figure, require_plotting
from streaml1.training.report.sums import Counts, Sums, add_up, before_each, plain
from streaml1.training.report.text_table import columns, in_words, rendered
from streaml1.training.report.window import WINDOW, Window

__all__ = ["Report"]

NAMED = 1000
"""How many features that entered, and that left, a line names; it counts all of them."""

SKEWED = 0.1

_SKEWED_FIELDS = ("auc", "mean_prediction", "rate", "normalised_entropy")


class Report:
    """The progress of a run over a stream.

    Made by `streaml1.progressive`; or by hand, with `add` for each block of examples and `line`
    every so many.

    Parameters
    ----------
    loss
        `"logistic"`, `"hinge"`, `"smoothed_hinge"`, `"squared"`, `"absolute"`, or `"softmax"` for
        many labels.
    title
        What was learnt from what, for the picture.
    d
        How many features there are, where that is known.
    k
        How many labels are known beforehand, for `"softmax"`.

    Raises
    ------
    ValueError
        Where the loss is none of these.

    Attributes
    ----------
    lines : list of Line
        The lines so far.
    examples : int
        How many examples have been added.
    refused : int
        How many examples were refused; counted by whoever refuses them.
    skips : bool
        Whether the run goes on after a refused example, so that the table counts them.
    numbers : dict of str to float
        What else the run tells of itself at the end, such as how many examples wait.

    Examples
    --------
    >>> import numpy as np
    >>> report = Report("logistic")
    >>> report.add(np.array([0.5, 0.8]), np.array([True, True]))
    >>> line = report.line()
    >>> line.examples, line.loss, line.constant_loss
    (2, 0.46, 0.49)
    """

    def __init__(self, loss: str, title: str = "", d: int | None = None, k: int = 0) -> None:
        if loss not in NAMES:
            raise ValueError(f"loss={loss!r} is not known; give one of {', '.join(NAMES)}")
        self.loss = loss
        self.title = title
        self.d = d
        self.lines: list[Line] = []
        self.examples = 0
        self.refused = 0
        self.skips = False
        self.numbers: dict[str, float] = {}
        self._look: Any = None
        self._changes: Any = None
        self._watch: Any = None
        self._followed: Any = None
        self._all, self._recent = Sums(), Sums()
        self._total = 0.0  # of the labels
        self._window = None if loss in (*REGRESSION, "softmax") else Window()
        self._counts = Counts(k)
        self._started = self._lined = time.perf_counter()

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"<Report of {self.summary()}>"

    @property
    def loss_name(self) -> str:
        """What the loss is called."""
        return NAMES[self.loss]

    @property
    def changes(self) -> Any:
        """Which features have entered and left the model between the last two lines.

        A `change_tracking.Changes` of the 1,000 of each that are farthest from zero; None
        before the first line.
        """
        if self._changes is None and self._look is not None:
            self._changes = self._look.told(NAMED)
        return self._changes

    @property
    def sums(self) -> tuple[float, float, float]:
        """Of all examples the weights, the weighted losses, and those of the constant predictor."""
        a = self._all
        return float(a.weight), float(a.loss), float(a.constant)

    def follow(self, model: Any) -> None:
        """Have each line count the features that have entered and left a model."""
        self._watch = model.watch() if hasattr(model, "watch") else None
        self._followed = model

    def start(self) -> None:
        """Set the clock: what went before is not part of the run."""
        self._started = self._lined = time.perf_counter()

    def add(self, p: Any, y: Any, w: Any = None) -> None:
        """Take in consecutive examples.

        Parameters
        ----------
        p
            The prediction of each just before it was learnt: the probability of True for the
            logistic loss, the margin for the hinges, the value for regressors; for `"softmax"` the
            probabilities of the labels, shape (n, k).
        y
            The labels: bool, or numbers for regressors; for `"softmax"` their places in a row of
            p. A place that is beyond all before is that of a label which joins.
        w
            The sample weights; None where all are 1.

        Raises
        ------
        ValueError
            Where there are not as many of one as of the others.
        """
        if self.loss == "softmax":
            return self._add_rows(np.asarray(p, np.float64), np.asarray(y, np.intp), w)
        regression = self.loss in REGRESSION
        p, w = plain(p), np.ones(len(p)) if w is None else plain(w)
        y = np.asarray(y, np.float64 if regression else bool)
        if not len(p) == len(y) == len(w):
            raise ValueError(f"{len(p)} predictions, {len(y)} labels and {len(w)} weights differ")
        weights, totals, total = before_each(self._all.weight, self._total, w, plain(y))
        said = np.empty((2, len(p)))
        said[0], said[1] = p, constants(self.loss, weights, totals)
        if regression:
            error = losses("absolute", p, y)
        else:
            error = (p > (0.5 if self.loss == "logistic" else 0.0)) != y
        add_up((self._all, self._recent), w, losses(self.loss, said, y), error, p)
        self._total = total
        if self._window is not None:
            self._window.add(p, y)
        self.examples += len(p)

    def _add_rows(self, p: Any, y: Any, w: Any) -> None:
        w = np.ones(len(p)) if w is None else plain(w)
        if not len(p) == len(y) == len(w):
            raise ValueError(f"{len(p)} predictions, {len(y)} labels and {len(w)} weights differ")
        if not len(p):
            return
        constant, known = self._counts.add(y, w)
        # What the model did not know yet it could not say.
        told = np.where(np.arange(p.shape[1]) < known[:, None], p, -1.0)
        error = (told.argmax(axis=1) != y) | (known == 0)
        costs = np.stack([losses(self.loss, p, y), constant])
        add_up((self._all, self._recent), w, costs, error, np.zeros(len(y)))
        self.examples += len(p)

    def correct(self, number: int, p: float, before: float, w: float) -> None:
        """Have an example that was counted as False, and turned out to be True, counted so.

        Its loss is taken back and that of True counted; the constant predictor's too, as of what it
        says now. Lines that were closed before stay as they are.

        Parameters
        ----------
        number
            Which of the examples, from 0.
        p
            Its prediction.
        before, w
            Its weight as False, and as True.
        """
        n, total = np.array([self._all.weight]), np.array([self._total])
        said = np.repeat(constants(self.loss, n, total), 2)
        y, ws = np.array([False, True]), np.array([-before, w])
        ps = np.array([p, p])
        error = (ps > (0.5 if self.loss == "logistic" else 0.0)) != y
        costs = losses(self.loss, np.stack([ps, said]), y)
        lined = self.lines[-1].examples if self.lines else 0
        of = (self._all, self._recent) if number >= lined else (self._all,)
        add_up(of, ws, costs, error, ps)
        self._total += w
        if self._window is not None:
            self._window.turn(number)

    def line(self, model: Any = None) -> Line:
        """Close a line, and start the next.

        Parameters
        ----------
        model
            Whose non-zeros and features to count, if it does count them.
        """
        now = time.perf_counter()
        a, recent = self._all, self._recent
        since = self.examples - (self.lines[-1].examples if self.lines else 0)
        born = died = None
        if self._watch is not None:
            self._look, self._changes = self._watch.look(), None
            born, died = self._look.counts
        n_nonzero, n_nonzero_rows = self._held(model)
        seen = getattr(model, "n_features_seen", None)
        every = max(1, len(getattr(model, "classes_met", ())))  # weights of a feature
        line = Line(
            examples=self.examples,
            loss_name=self.loss_name,
            recent_loss=recent.mean(recent.loss),
            loss=a.mean(a.loss),
            constant_loss=a.mean(a.constant),
            error=a.mean(a.error),
            n_nonzero=n_nonzero,
            n_features_seen=seen,
            sparsity=_zeros(n_nonzero, seen and seen * every),
            share_of_d=n_nonzero / self.d / every if n_nonzero is not None and self.d else None,
            born=born,
            died=died,
            cut=getattr(model, "n_cut", None),
            **self._if_skewed(),
            refused=self.refused,
            seconds=now - self._started,
            per_second=since / max(now - self._lined, 1e-9),
            n_nonzero_rows=n_nonzero_rows,
        )
        self._recent, self._lined = Sums(), now
        self.lines.append(line)
        return line

    def _held(self, model: Any) -> tuple[int | None, int | None]:
        """How many weights are not zero, and how many features have one where labels are many."""
        rows = hasattr(type(model), "classes_met")
        if self._watch is None or model is not self._followed:
            return getattr(model, "n_nonzero", None), model.n_nonzero_rows if rows else None
        held = self._watch.held  # it has just looked at all weights
        return (model.n_nonzero, held) if rows else (held, None)

    def finish(self, model: Any = None) -> bool:
        """See that the last line tells all of the run; returns whether it is a new one."""
        examples = self.lines[-1].examples if self.lines else 0
        if self.examples > examples:
            self.line(model)
        if self.lines:
            told: dict[str, Any] = {"refused": self.refused, **self._if_skewed(ranked=True)}
            self.lines[-1] = replace(self.lines[-1], **told)
        return self.examples > examples

    def _if_skewed(self, ranked: bool = False) -> dict[str, float | None]:
        a, told = self._all, dict.fromkeys(_SKEWED_FIELDS)
        if self._window is None or a.weight <= 0.0:
            return told
        rate = self._total / a.weight
        if SKEWED <= rate <= 1.0 - SKEWED:
            return told
        told["auc"] = self._window.auc(ranked)
        if self.loss == "logistic":
            told["mean_prediction"], told["rate"] = a.mean(a.output), rate
            if 0.0 < rate < 1.0:
                entropy = -rate * math.log(rate) - (1.0 - rate) * math.log1p(-rate)
                told["normalised_entropy"] = float(a.loss / a.weight) / entropy
        return told

    # To go on with

    def dump(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `resume` goes on from: facts as JSON has them, and arrays."""
        facts: dict[str, Any] = {
            "loss": self.loss,
            "lines": [line.as_dict() for line in self.lines],
            "examples": self.examples,
            "refused": self.refused,
            "all": vars(self._all),
            "recent": vars(self._recent),
            "total": self._total,
            "labels": [self._counts.known, self._counts.of.tolist()],
            "seconds": time.perf_counter() - self._started,
        }
        if self._window is None:
            return facts, {}
        n = min(self._window.n, WINDOW)
        facts |= {"window": [self._window.n, self._window.ranked_at]}
        return facts, {"p": self._window.p[:n], "y": self._window.y[:n]}

    def resume(self, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go on where another report was; its time away does not count."""
        self.lines = [Line(**line) for line in facts["lines"]]
        self.examples, self.refused = facts["examples"], facts["refused"]
        vars(self._all).update(facts["all"])
        vars(self._recent).update(facts["recent"])
        self._total = facts["total"]
        self._counts.known, of = facts["labels"]
        self._counts.of = np.array(of, np.float64)
        now = time.perf_counter()
        self._started, self._lined = now - facts["seconds"], now
        if self._window is not None:
            self._window.n, self._window.ranked_at = facts["window"]
            n = len(arrays["p"])
            self._window.p[:n], self._window.y[:n] = arrays["p"], arrays["y"]

    # As text

    def header(self, refused: bool = False, skewed: bool = False) -> str:
        """The heads of the columns; `refused` and `skewed`: also of these columns."""
        return self._rendered([], refused, skewed, heads=True)

    def row(self, line: Line, refused: bool = False, skewed: bool = False) -> str:
        """One line as text, in columns as wide as those of `header`."""
        return self._rendered([line], refused, skewed, heads=False)

    def table(self) -> str:
        """All lines as a text table."""
        refused = any(line.refused for line in self.lines)
        skewed = any(line.skewed for line in self.lines)
        return self._rendered(self.lines, refused, skewed, heads=True)

    def _rendered(self, lines: list[Line], refused: bool, skewed: bool, heads: bool) -> str:
        return rendered(columns(self.loss, refused, skewed, self._watch is not None), lines, heads)

    def summary(self) -> str:
        """The last line in words."""
        told = [
            f"{value:,.0f} {name.replace('_', ' ')}"
            for name, value in self.numbers.items()
            if value
        ]
        if not self.lines:
            refused = [f"{self.refused:,} refused"] if self.refused else []
            return ", ".join(["no examples", *refused, *told])
        parts = in_words(self.lines[-1], self.loss, self.d)
        return "; ".join([*parts, ", ".join(told)] if told else parts)

    # As files

    def write(self, path: str | Path) -> None:
        """Write the lines as JSON, one a line; in the place of `path` only once all is written.

        A number that is not finite is written as null.

        Raises
        ------
        OSError
            Where it cannot be written.
        """
        text = "".join(
            json.dumps({k: _finite(v) for k, v in line.as_dict().items()}, allow_nan=False) + "\n"
            for line in self.lines
        )
        with written_aside(path) as file:
            file.write(text.encode())

    def plot(self, path: str | Path) -> None:
        """Draw the loss, the constant predictor's beside it, and the non-zeros over examples.

        Parameters
        ----------
        path
            Where to; what it ends in tells the format: .png, .svg, .pdf.

        Raises
        ------
        RuntimeError
            Where matplotlib is not installed.
        ValueError
            Where the path ends in no format of pictures.
        OSError
            Where it cannot be written.
        """
        kind = require_plotting(path)
        picture = io.BytesIO()
        with warnings.catch_warnings():
            # A letter of a file's name that the font does not have is drawn as a box.
            warnings.filterwarnings("ignore", "Glyph", UserWarning)
            figure(self.lines, self.loss_name, self.title).savefig(picture, format=kind, dpi=100)
        with written_aside(path) as file:
            file.write(picture.getvalue())


def _zeros(n_nonzero: int | None, weights: int | None) -> float | None:
    """The share of zeros; weights can be an estimate, and then a little below the non-zeros."""
    return max(0.0, 1.0 - n_nonzero / weights) if n_nonzero is not None and weights else None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
