"""The progress of a training run: running sums, lines, and their output."""

from __future__ import annotations

import html
import io
import json
import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.atomic_write import open_atomic
from streaml1.core.types import Bools, Floats
from streaml1.optim.tasks import REGRESSION
from streaml1.training.drift import Drift, DriftDetector
from streaml1.training.rejection_reasons import RejectionReasons
from streaml1.training.report.columns import default_names, fit, report_columns
from streaml1.training.report.line import LINE_TYPES, Line, thinned
from streaml1.training.report.losses import (
    NAMES,
    baseline_predictions,
    losses,
    sampled_probabilities,
)
from streaml1.training.report.plot import figure, ignoring_missing_glyphs, require_plotting
from streaml1.training.report.reliability import N_BINS, ReliabilityBin, reliability_bins
from streaml1.training.report.running_quantile import RunningQuantile
from streaml1.training.report.summary import describe_line, render_summary, summary_rows
from streaml1.training.report.sums import LabelCounts, Sums, accumulate, as_floats, prefix_sums
from streaml1.training.report.text_table import format_four, render_lines
from streaml1.training.report.window import WINDOW, Window
from streaml1.training.saved_state import require_like, require_type

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streaml1.models.state.change_tracking import Changes, ChangeSet, ChangeTracker

__all__ = ["Report"]

MAX_CHANGES = 1000
"""Features that `changes` names of those added, and of those dropped; a line counts all."""

MAX_SKEWED_RATE = 0.1
"""Labels are skewed if the rarer of two has at most this share."""

_LABEL_FIGURES = (
    "auc", "mean_prediction", "rate", "normalised_entropy", "calibration", "recent_calibration",
)  # fmt: skip


MAX_LABELS = 10**7
"""Bound of the number of labels in a checkpoint: a run counts the weight of each."""


class HeldOutState(Protocol):
    """State of held-out rows that a report saves with its own; see `streaml1.training.held_out`."""

    first_pass: Sums

    def state_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as (JSON values, arrays)."""

    def load_state_dict(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue the state of a checkpoint."""


class Report:
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

    def __init__(
        self,
        loss: str,
        title: str = "",
        d: int | None = None,
        k: int = 0,
        loss_parameter: float = 0.5,
        negative_rate: float = 1.0,
        detects_drift: bool = True,
    ) -> None:
        if loss not in NAMES:
            raise ValueError(f"loss must be one of {', '.join(NAMES)}, got {loss!r}")
        self.loss = loss
        self.loss_parameter = loss_parameter
        self.negative_rate = negative_rate
        self.title = title
        self.d = d
        self.lines: list[Line] = []
        self.examples = 0
        self.rejected = 0
        self.skips = False
        self.reasons = RejectionReasons()
        self.numbers: dict[str, float] = {}
        self.held_out: HeldOutState | None = None
        self.kept: tuple[int, int, float] | None = None
        self.pass_number = 1
        self.warnings: dict[str, str] = {}
        self._new_warnings: list[str] = []
        self.drifts: list[Drift] = []
        self._detector = DriftDetector(loss) if detects_drift else None
        self._tracker: ChangeTracker | None = None
        self._followed: Any = None
        self._change_set: ChangeSet | None = None
        self._changes: Changes | None = None
        self._all, self._recent = Sums(), Sums()
        self._total = 0.0  # weighted sum of the labels
        self._window = None if loss in (*REGRESSION, "softmax") else Window()
        self._counts = LabelCounts(k)
        self._quantile = RunningQuantile(loss_parameter)
        self._started = self._lined = time.perf_counter()

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"<Report of {self.summary()}>"

    @property
    def loss_name(self) -> str:
        """Name of the loss."""
        return NAMES[self.loss]

    @property
    def changes(self) -> Changes | None:
        """Features added to the model and dropped from it between the last two lines.

        At most 1,000 of each, the largest weights first; None before the first line.
        """
        if self._changes is None and self._change_set is not None:
            self._changes = self._change_set.named(MAX_CHANGES)
        return self._changes

    @property
    def sums(self) -> tuple[float, float, float]:
        """Sums over all examples: weights, weighted losses, weighted losses of the baseline."""
        a = self._all
        return float(a.weight), float(a.loss), float(a.constant)

    @property
    def cumulative_loss(self) -> float:
        """Cumulative progressive loss: the sum of the losses, each times its sample weight.

        From the second pass on it covers the held-out rows of this pass; see `pass_number`.

        Examples
        --------
        >>> report = Report("logistic")
        >>> report.add([0.5, 0.8], [True, True])
        >>> round(report.cumulative_loss, 4)
        0.9163
        """
        return float(self._all.loss)

    @property
    def calibration_sums(self) -> tuple[float, float]:
        """Weighted sums over all examples: predictions, and labels.

        Their ratio is the `calibration` of a line. Both are 0 for losses without probabilities.
        """
        a = self._all
        return (float(a.output), float(a.label)) if self.is_probabilistic else (0.0, 0.0)

    @property
    def is_probabilistic(self) -> bool:
        """Whether predictions are probabilities."""
        return self.loss in ("logistic", "softmax")

    @property
    def n_ranked(self) -> int:
        """Number of examples that `recent_predictions` has covered so far; 0 without any."""
        return 0 if self._window is None else self._window.n

    def recent_predictions(self) -> tuple[Floats, Bools] | None:
        """Return copies of the last 2**20 predictions and their labels; safe in any thread.

        None for regression and for several labels.
        """
        return None if self._window is None else self._window.copy()

    def reliability(self, n_bins: int = N_BINS) -> list[ReliabilityBin]:
        """Compare predicted probabilities with observed rates, bin by bin.

        Parameters
        ----------
        n_bins
            Number of bins with about the same number of examples. Equal predictions share a bin,
            so there may be fewer.

        Returns
        -------
        list of ReliabilityBin
            Over the last 2**20 examples, without sample weights; empty unless the loss is
            logistic.

        Examples
        --------
        >>> report = Report("logistic")
        >>> report.add([0.25] * 4 + [0.75] * 4, [1, 0, 0, 0, 1, 1, 1, 0])
        >>> [(b.examples, b.mean_prediction, b.rate) for b in report.reliability()]
        [(4, 0.25, 0.25), (4, 0.75, 0.75)]
        """
        if self._window is None or self.loss != "logistic":
            return []
        return reliability_bins(*self._window.copy(), n_bins)

    def follow(self, model: object) -> None:
        """Count in each line the features added to `model` and dropped from it."""
        self._tracker = model.watch() if hasattr(model, "watch") else None
        self._followed = model

    def start(self) -> None:
        """Start the clock."""
        self._started = self._lined = time.perf_counter()

    @property
    def n_since_line(self) -> int:
        """Number of examples since the previous line."""
        return self.examples - (self.lines[-1].examples if self.lines else 0)

    @property
    def held_out_loss(self) -> float | None:
        """Mean loss of the held-out rows of this pass; None without any."""
        sums = self._all
        if self.pass_number == 1:
            if self.held_out is None:
                return None
            sums = self.held_out.first_pass
        return sums.mean(sums.loss)

    def skip(self, examples: int) -> None:
        """Count examples that the figures do not cover."""
        self.examples += examples

    def restart(self, pass_number: int) -> None:
        """Start the figures of a further pass: those of its held-out rows."""
        self.pass_number = pass_number
        self._all, self._recent, self._total = Sums(), Sums(), 0.0
        self._counts = LabelCounts(self._counts.known)
        self._quantile = RunningQuantile(self.loss_parameter)
        if self._window is not None:
            self._window = Window()

    def add(
        self, p: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, held_out: Bools | None = None
    ) -> None:
        """Add consecutive examples.

        Parameters
        ----------
        p
            Predictions just before each example was learnt: probabilities of True for the logistic
            loss, margins for the hinges, values for regressors, shape (n,); for `"softmax"` the
            probabilities of the labels, shape (n, k).
        y
            Labels: bool, or numbers for regressors; for `"softmax"` their columns in `p`. A column
            larger than all before is that of a new label.
        w
            Sample weights; None if all are 1.
        held_out
            Which of them are held out from learning; None if none is.

        Raises
        ------
        ValueError
            If the lengths differ.
        """
        if self.loss == "softmax":
            probabilities, classes = np.asarray(p, np.float64), np.asarray(y, np.intp)
            return self._add_multiclass(probabilities, classes, w, held_out)
        is_regression = self.loss in REGRESSION
        outputs = sampled_probabilities(as_floats(p), self.negative_rate)
        labels = np.asarray(y, np.float64 if is_regression else bool)
        weights = _checked_weights(outputs, labels, w)
        before = prefix_sums(self._all.weight, self._total, weights, as_floats(labels))
        # Row 0: the model. Row 1: the baseline.
        predictions = np.empty((2, len(outputs)))
        predictions[0] = outputs
        if self.loss == "quantile":
            predictions[1] = self._quantile.add(as_floats(labels), weights)
        else:
            predictions[1] = baseline_predictions(self.loss, before.weights, before.totals)
        costs = losses(self.loss, predictions, labels, self.loss_parameter)
        error = (
            losses("absolute", outputs, labels)
            if is_regression
            else self._is_true(outputs) != labels
        )
        self._accumulate(weights, costs, error, outputs, as_floats(labels), held_out)
        self._total = before.total
        if self._window is not None:
            self._window.add(outputs, labels)
        self.examples += len(outputs)

    def _accumulate(
        self,
        w: Floats,
        costs: NDArray[np.float64],
        error: ArrayLike,
        output: Floats,
        label: Floats,
        held_out: Bools | None,
    ) -> None:
        accumulate((self._all, self._recent), w, costs, error, output, label)
        if self._detector is not None and self.pass_number == 1:
            self.drifts += self._detector.add(self.examples, costs[0], output, label, w)
        if held_out is None or self.held_out is None or self.pass_number > 1:
            return
        k = np.flatnonzero(held_out)
        error = np.asarray(error)[k]
        targets = (self.held_out.first_pass,)
        accumulate(targets, w[k], as_floats(costs[:, k]), error, output[k], label[k])

    def _is_true(self, p: Floats) -> NDArray[np.bool_]:
        """Return which predictions of a classifier mean True."""
        return p > (0.5 if self.loss == "logistic" else 0.0)

    def _add_multiclass(
        self,
        p: NDArray[np.float64],
        y: NDArray[np.intp],
        w: ArrayLike | None,
        held_out: Bools | None,
    ) -> None:
        weights = _checked_weights(p, y, w)
        if not len(p):
            return
        baseline, known = self._counts.add(y, weights)
        # The model cannot predict a label that it had not seen before the example.
        predicted = np.where(np.arange(p.shape[1]) < known[:, None], p, -1.0).argmax(axis=1)
        error = (predicted != y) | (known == 0)
        costs = np.stack([losses(self.loss, p, y), baseline])
        confidence = np.take_along_axis(p, predicted[:, None], axis=1)[:, 0]
        right = as_floats(~error)
        self._accumulate(weights, costs, error, confidence, right, held_out)
        self.examples += len(p)

    def warn(self, kind: str, sentence: str) -> bool:
        """Keep a warning for the next line; return False if there was one of this kind before."""
        if kind in self.warnings:
            return False
        self.warnings[kind] = sentence
        self._new_warnings.append(sentence)
        return True

    def correct(self, number: int, p: float, before: float, w: float) -> None:
        """Count an example as True that was added as False.

        Its loss as False is subtracted and its loss as True added; likewise for the baseline, with
        its current prediction. Closed lines do not change.

        Parameters
        ----------
        number
            Number of the example, counted from 0.
        p
            Its prediction.
        before, w
            Its weight as False, and as True.
        """
        n, total = np.array([self._all.weight]), np.array([self._total])
        baseline = np.repeat(baseline_predictions(self.loss, n, total), 2)
        # Two examples: a False one of negative weight, and a True one.
        y, weights = np.array([False, True]), np.array([-before, w])
        predictions = np.array([p, p])
        error = self._is_true(predictions) != y
        costs = losses(self.loss, np.stack([predictions, baseline]), y)
        in_closed_line = number < (self.lines[-1].examples if self.lines else 0)
        targets = (self._all,) if in_closed_line else (self._all, self._recent)
        accumulate(targets, weights, costs, error, predictions, as_floats(y))
        self._total += w
        if self._window is not None:
            self._window.correct_label(number)

    def line(self, model: object = None) -> Line:
        """Close a line and start the next one.

        Parameters
        ----------
        model
            The model whose non-zero weights and features to count, if it provides them.
        """
        now = time.perf_counter()
        a, recent = self._all, self._recent
        since = self.n_since_line
        born = died = None
        if self._tracker is not None:
            self._change_set, self._changes = self._tracker.look(), None
            born, died = self._change_set.counts
        n_nonzero, n_nonzero_rows = self._nonzeros(model)
        seen = getattr(model, "n_features_seen", None)
        per_feature = max(1, len(getattr(model, "classes_met", ())))
        line = Line(
            examples=self.examples,
            loss_name=self.loss_name,
            recent_loss=recent.mean(recent.loss),
            loss=a.mean(a.loss),
            constant_loss=a.mean(a.constant),
            error=a.mean(a.error),
            n_nonzero=n_nonzero,
            n_features_seen=seen,
            sparsity=_zeros(n_nonzero, seen and seen * per_feature),
            share_of_d=n_nonzero / self.d / per_feature
            if n_nonzero is not None and self.d
            else None,
            born=born,
            died=died,
            cut=getattr(model, "n_cut", None),
            **self._label_figures(),
            refused=self.rejected,
            seconds=now - self._started,
            per_second=since / max(now - self._lined, 1e-9),
            n_nonzero_rows=n_nonzero_rows,
            warnings=self._new_warnings,
            drifts=self._drifts_since_line(),
            pass_number=self.pass_number,
            held_out=self.pass_number > 1,
            cumulative_loss=float(a.loss),
            cumulative_constant_loss=float(a.constant),
        )
        self._recent, self._lined = Sums(), now
        self._new_warnings = []
        self.lines.append(line)
        return line

    def _drifts_since_line(self) -> list[dict[str, Any]]:
        n = sum(len(line.drifts) for line in self.lines)
        return [drift._asdict() for drift in self.drifts[n:]]

    def _nonzeros(self, model: Any) -> tuple[int | None, int | None]:
        """Count non-zero weights, and with several labels the features that have any."""
        is_multiclass = hasattr(type(model), "classes_met")
        if self._tracker is None or model is not self._followed:
            n_rows = model.n_nonzero_rows if is_multiclass else None
            return getattr(model, "n_nonzero", None), n_rows
        # `line` has just had the watch read all weights: do not read them again.
        n = self._tracker.held
        return (model.n_nonzero, n) if is_multiclass else (n, None)

    def finish(self, model: object = None) -> bool:
        """Bring the last line up to date; return whether this took a new line."""
        examples = self.lines[-1].examples if self.lines else 0
        if self.examples > examples:
            self.line(model)
        if self.lines:
            figures: dict[str, Any] = self._label_figures(force_auc=True)
            # The sums of the last line are closed: those of the next line are empty.
            figures["recent_calibration"] = self.lines[-1].recent_calibration
            figures["warnings"] = [*self.lines[-1].warnings, *self._new_warnings]
            self._new_warnings = []
            self.lines[-1] = replace(self.lines[-1], refused=self.rejected, **figures)
        return self.examples > examples

    def _label_figures(self, force_auc: bool = False) -> dict[str, float | None]:
        """Compute calibration, and the fields for skewed labels if labels are skewed."""
        figures: dict[str, float | None] = dict.fromkeys(_LABEL_FIGURES)
        a = self._all
        if self.is_probabilistic:
            figures["calibration"] = a.calibration
            figures["recent_calibration"] = self._recent.calibration
        if self._window is None or a.weight <= 0.0:
            return figures
        rate = self._total / a.weight
        if self.loss == "logistic":
            figures["mean_prediction"], figures["rate"] = a.mean(a.output), rate
        if MAX_SKEWED_RATE <= rate <= 1.0 - MAX_SKEWED_RATE:
            return figures
        figures["auc"] = self._window.auc(force_auc)
        if self.loss == "logistic" and 0.0 < rate < 1.0:
            entropy = -rate * math.log(rate) - (1.0 - rate) * math.log1p(-rate)
            figures["normalised_entropy"] = float(a.loss / a.weight) / entropy
        return figures

    # State

    def state_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as (JSON values, arrays), for `load_state_dict`."""
        facts: dict[str, Any] = {
            "loss": self.loss,
            "lines": [line.as_dict() for line in thinned(self.lines)],
            "examples": self.examples,
            "refused": self.rejected,
            "all": vars(self._all),
            "recent": vars(self._recent),
            "total": self._total,
            "labels": [self._counts.known, self._counts.weights.tolist()],
            "seconds": time.perf_counter() - self._started,
            "warnings": [self.warnings, self._new_warnings],
            "pass_number": self.pass_number,
            "quantile": self._quantile.state.tolist(),
            "drifts": [drift._asdict() for drift in self.drifts],
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self._detector is not None:
            facts["detector"], arrays = self._detector.state_dict()
        if self.held_out is not None:
            facts["held_out"], best = self.held_out.state_dict()
            arrays |= best
        if self._window is None:
            return facts, arrays
        n = min(self._window.n, WINDOW)
        facts |= {"window": [self._window.n, self._window.ranked_at]}
        return facts, arrays | {"p": self._window.p[:n], "y": self._window.y[:n]}

    def load_state_dict(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue another report; the time between the two does not count.

        Raises
        ------
        ValueError
            If the state was not written by a report of the same loss.
        """
        self._check_state(facts, arrays)
        self.lines = [Line(**line) for line in facts["lines"]]
        self.examples, self.rejected = facts["examples"], facts["refused"]
        vars(self._all).update(facts["all"])
        vars(self._recent).update(facts["recent"])
        self._total = facts["total"]
        if "label" not in facts["all"] and self.loss != "softmax":  # an older checkpoint
            self._all.label = self._total
        self.warnings, self._new_warnings = facts.get("warnings", ({}, []))
        self.drifts = [Drift(**drift) for drift in facts.get("drifts", [])]
        if self._detector is not None and "detector" in facts:
            self._detector.load_state_dict(facts["detector"], arrays)
        self.pass_number = facts.get("pass_number", 1)
        if "quantile" in facts:
            self._quantile.state[:] = facts["quantile"]
        if self.held_out is not None:
            # What was learnt cannot be held out: the choice of the first pass holds.
            nothing = {"every": 0, "first_pass": {}, "n_closed": 0}
            nothing |= {"best_pass": 0, "best_loss": None}
            self.held_out.load_state_dict(facts.get("held_out", nothing), arrays)
        self._counts.known, weights = facts["labels"]
        self._counts.weights = np.array(weights, np.float64)
        now = time.perf_counter()
        self._started, self._lined = now - facts["seconds"], now
        if self._window is not None:
            self._window.n, self._window.ranked_at = facts["window"]
            n = len(arrays["p"])
            self._window.p[:n], self._window.y[:n] = arrays["p"], arrays["y"]

    def _check_state(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        require_type(facts["lines"], list[dict[str, Any]], "lines")
        for line in facts["lines"]:
            for name, value in line.items():
                require_type(value, LINE_TYPES[name], name)
        for name in ("examples", "refused", "pass_number"):
            require_like({name: facts.get(name, 1)}, {name: 0}, "the report")
        for name in ("total", "seconds"):
            require_type(facts[name], float, name)
        require_like(facts["all"], vars(Sums()), "sums")
        require_like(facts["recent"], vars(Sums()), "sums")
        warnings, new_warnings = facts.get("warnings", ({}, []))
        require_type(warnings, dict[str, str], "warnings")
        require_type(new_warnings, list[str], "warnings")
        for drift in facts.get("drifts", []):
            require_like(drift, Drift(0, 0, 0.0, 0.0)._asdict(), "a drift")
        known, weights = facts["labels"]
        require_type(weights, list[float], "labels")
        if type(known) is not int or not len(weights) <= known < MAX_LABELS:
            raise ValueError("the number of labels is out of range")
        quantile = facts.get("quantile", self._quantile.state.tolist())
        require_type(quantile, list[float], "quantile")
        if len(quantile) != len(self._quantile.state):
            raise ValueError("the state of the quantile has another length")
        if self._window is not None:
            n, ranked_at = facts["window"]
            require_like({"n": n, "ranked_at": ranked_at}, {"n": 0, "ranked_at": 0}, "the window")
            p, y = arrays["p"], arrays["y"]
            has_shape = p.shape == y.shape == (min(n, WINDOW),)
            if not has_shape or p.dtype != np.float64 or y.dtype != bool or np.isnan(p).any():
                raise ValueError("the recent predictions have another shape or dtype")

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
            Leave out the least important columns until lines have at most so many characters.
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
        with open_atomic(path) as file:
            file.write(text.encode())

    def write_reliability(self, path: str | Path) -> None:
        """Write the bins of `reliability` as JSON lines, atomically.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        text = "".join(json.dumps(b._asdict(), allow_nan=False) + "\n" for b in self.reliability())
        with open_atomic(path) as file:
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
        with open_atomic(path) as file:
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


def _checked_weights(p: NDArray[Any], y: NDArray[Any], w: ArrayLike | None) -> Floats:
    """Return the sample weights, all 1 by default; reject arrays of different lengths."""
    weights = np.ones(len(p)) if w is None else as_floats(w)
    if not len(p) == len(y) == len(weights):
        raise ValueError(
            "predictions, labels and weights must have the same length, got "
            f"{len(p)} predictions, {len(y)} labels and {len(weights)} weights"
        )
    return weights


def _zeros(n_nonzero: int | None, weights: int | None) -> float | None:
    """Return the share of zeros.

    `weights` may be an estimate, and then slightly below `n_nonzero`.
    """
    return max(0.0, 1.0 - n_nonzero / weights) if n_nonzero is not None and weights else None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
