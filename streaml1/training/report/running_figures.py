"""The running figures of a report: what each example adds, and the lines that are closed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.types import Bools, Floats
from streaml1.optim.tasks import REGRESSION
from streaml1.training.drift import Drift, DriftDetector
from streaml1.training.rejection_reasons import RejectionReasons
from streaml1.training.report.line import Line
from streaml1.training.report.losses import (
    NAMES,
    baseline_predictions,
    losses,
    sampled_probabilities,
)
from streaml1.training.report.reliability import N_BINS, ReliabilityBin, reliability_bins
from streaml1.training.report.running_quantile import RunningQuantile
from streaml1.training.report.sums import LabelCounts, Sums, accumulate, as_floats, prefix_sums
from streaml1.training.report.window import Window

if TYPE_CHECKING:
    from streaml1.models.state.change_tracking import Changes, ChangeSet, ChangeTracker

__all__ = ["RunningFigures"]

MAX_CHANGES = 1000
"""Features that `changes` names of those added, and of those dropped; a line counts all."""

MAX_SKEWED_RATE = 0.1
"""Labels are skewed if the rarer of two has at most this share."""

_LABEL_FIGURES = (
    "auc", "mean_prediction", "rate", "normalised_entropy", "calibration", "recent_calibration",
)  # fmt: skip


class HeldOutState(Protocol):
    """State of held-out rows that a report saves with its own; see `streaml1.training.held_out`."""

    first_pass: Sums

    def state_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as (JSON values, arrays)."""

    def load_state_dict(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue the state of a checkpoint."""


class RunningFigures:
    """Sums over the examples of a run, and a line for each interval.

    `Report` adds the output; its docstring describes parameters and attributes.
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
        >>> from streaml1.training.report import Report
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
        >>> from streaml1.training.report import Report
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

    @property
    def until_drift_test(self) -> int:
        """Number of examples that may be added before a drift can be found, at least 1."""
        if self._detector is None or self.pass_number > 1:
            return 2**62
        return self._detector.window.until_test

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
