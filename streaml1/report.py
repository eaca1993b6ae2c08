"""What a run over a stream was like: lines of a table that grows, a picture, JSON lines."""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

__all__ = ["WINDOW", "Line", "Report", "losses", "require_plotting", "written_aside"]

NAMES = {
    "logistic": "log-loss",
    "hinge": "hinge loss",
    "smoothed_hinge": "smoothed hinge loss",
    "squared": "squared loss",
    "absolute": "absolute loss",
    "softmax": "log-loss",
}
MARGINS = ("hinge", "smoothed_hinge")
REGRESSION = ("squared", "absolute")

# As in river: an example on which a model was sure and wrong costs at most 34.5.
LEAST_PROBABILITY = 1e-15

NAMED = 1000
"""How many features that entered, and that left, a line names; it counts all of them."""

WINDOW = 2**20
"""How many examples, the last ones, ROC AUC looks at."""

# Ranking a full window takes 0.1 seconds: it is done anew once this share of it is new.
RANK_SHARE = 1 / 32

SKEWED = 0.1


def losses(loss: str, p: Any, y: Any) -> Any:
    """Losses of progressive outputs, one an example.

    Parameters
    ----------
    loss
        One of the five losses of the models, or `"softmax"`.
    p
        Probabilities of True for `"logistic"`, margins for the hinges, else values; for
        `"softmax"` a row of probabilities for each example.
    y
        Labels: bool, or numbers for `"squared"` and `"absolute"`; for `"softmax"` the places of
        the labels in a row.

    Examples
    --------
    >>> import numpy as np
    >>> losses("hinge", np.array([2.0, 0.5, -1.0]), np.array([True, True, True]))
    array([0. , 0.5, 2. ])
    """
    if loss == "softmax":
        return -np.log(np.maximum(p[np.arange(len(y)), y], LEAST_PROBABILITY))
    if loss == "logistic":
        p = np.clip(p, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        return -np.log(np.where(y, p, 1.0 - p))
    if loss in MARGINS:
        short = np.maximum(0.0, 1.0 - np.where(y, p, -p))
        if loss == "hinge":
            return short
        return np.where(short >= 1.0, short - 0.5, 0.5 * np.minimum(short, 1.0) ** 2)
    with np.errstate(over="ignore"):  # a model that has diverged has an infinite loss
        return np.abs(p - y) if loss == "absolute" else 0.5 * (p - y) ** 2


def _constants(loss: str, n: Any, total: Any) -> Any:
    """What the progressive constant predictor says, after examples of weight `n`.

    `total` is the weight of the examples labelled True, or the weighted sum of the values.
    """
    if loss in REGRESSION:
        return np.divide(total, n, out=np.zeros(len(n)), where=n > 0.0)
    rate = (total + 0.5) / (n + 1.0)
    if loss == "logistic":
        return rate
    if loss == "hinge":  # of all constant margins, the one with the least mean loss at this rate
        return np.sign(2.0 * rate - 1.0)
    return np.where(rate >= 0.5, 2.0 - 1.0 / rate, 1.0 / (1.0 - rate) - 2.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a report: how things stood after some number of examples.

    All means are weighted by the sample weights. What cannot be told is None: a mean over
    examples without weight, what a model does not count, what only matters for skewed labels.

    Parameters
    ----------
    examples
        How many examples have been learnt.
    loss_name
        What the loss is called: log-loss only for the logistic loss.
    recent_loss
        Mean loss over the examples since the line before.
    loss
        Mean loss over all examples; each was predicted just before it was learnt.
    constant_loss
        Mean loss of the progressive constant predictor: before each example it says
        (n1 + 1/2) / (n + 1), with n1 of n examples labelled True so far; of k labels known by
        then it gives each (n_c + 1/2) / (n + k/2). For the hinges it says
        the constant margin that has the least mean loss at this rate, for regressors the mean of
        the values so far (0 before the first).
    error
        Share of wrong labels; for regressors the mean absolute error.
    n_nonzero
        How many weights were not zero, pending shrinkage included.
    n_features_seen
        How many features the examples have had.
    sparsity
        1 - n_nonzero / n_features_seen; where there are k labels, of k times as many weights.
    share_of_d
        n_nonzero / d, where the source knows its number of features d.
    born, died
        How many features have entered the model since the line before, from a weight of zero, and
        how many have left it.
    cut
        How many weights were given up so far because of `max_features`.
    auc
        Skewed labels only: area under the ROC curve over the last 2**20 examples, exact, sample
        weights aside.
    mean_prediction, rate
        Skewed labels only: calibration is how near these two are, the mean predicted probability
        of True and the share of True. Logistic loss only.
    normalised_entropy
        Skewed labels only: `loss` over the entropy of `rate` (He et al., 2014). Logistic only.
    refused
        How many examples were refused, and not learnt.
    seconds
        Since the first example was asked for.
    per_second
        Examples a second since the line before.
    n_nonzero_rows
        How many features have a weight that is not zero, where there are many labels.
    """

    examples: int
    loss_name: str
    recent_loss: float | None
    loss: float | None
    constant_loss: float | None
    error: float | None
    n_nonzero: int | None
    n_features_seen: int | None
    sparsity: float | None
    share_of_d: float | None
    born: int | None
    died: int | None
    cut: int | None
    auc: float | None
    mean_prediction: float | None
    rate: float | None
    normalised_entropy: float | None
    refused: int
    seconds: float
    per_second: float
    n_nonzero_rows: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)

    @property
    def skewed(self) -> bool:
        """Whether what is told of skewed labels only is there."""
        return self.auc is not None or self.normalised_entropy is not None


class _Sums:
    """Weighted sums over examples: the same whatever the blocks they come in."""

    def __init__(self) -> None:
        self.weight = self.loss = self.constant = self.error = self.output = 0.0

    def add(self, w: Any, loss: Any, constant: Any, error: Any, output: Any) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.weight = _running(self.weight, w)[-1]
            self.loss = _running(self.loss, w * loss)[-1]
            self.constant = _running(self.constant, w * constant)[-1]
            self.error = _running(self.error, w * error)[-1]
            self.output = _running(self.output, w * output)[-1]

    def mean(self, total: float) -> float | None:
        return float(total / self.weight) if self.weight > 0.0 else None


def _running(start: float, terms: Any) -> Any:
    """`start`, and the sums up to and with each term."""
    return np.cumsum(np.concatenate(((start,), terms)))


class _Counts:
    """The weights of the labels so far: what the constant predictor of many labels knows."""

    def __init__(self, known: int) -> None:
        self.known = known  # labels
        self.of = np.zeros(known)

    def add(self, y: Any, w: Any) -> tuple[Any, Any]:
        """Losses of the constant predictor, and how many labels were known before each example."""
        most = max(self.known, int(y.max(initial=-1)) + 1)
        weights = np.zeros((len(y) + 1, most))
        weights[0, : len(self.of)] = self.of
        weights[np.arange(1, len(y) + 1), y] = w
        weights = np.cumsum(weights, axis=0)
        known = np.maximum.accumulate(np.concatenate(([self.known], y + 1)))
        mine = weights[np.arange(len(y)), y]
        p = (mine + 0.5) / (weights[:-1].sum(axis=1) + known[1:] / 2.0)
        self.of, self.known = weights[-1], most
        return -np.log(p), known[:-1]


class _Window:
    """The last `WINDOW` outputs and labels, for the area under the ROC curve."""

    def __init__(self) -> None:
        self.p = np.empty(WINDOW)
        self.y = np.empty(WINDOW, bool)
        self.n = 0
        self.ranked_at = 0

    def add(self, p: Any, y: Any) -> None:
        start = self.n + max(0, len(p) - WINDOW)
        self.n += len(p)
        places = np.arange(start, self.n) % WINDOW
        self.p[places], self.y[places] = p[-WINDOW:], y[-WINDOW:]

    def auc(self, anyway: bool = False) -> float | None:
        m = min(self.n, WINDOW)
        if not anyway and self.n - self.ranked_at < RANK_SHARE * m:
            return None
        self.ranked_at = self.n
        y = self.y[:m]
        positive = int(np.count_nonzero(y))
        if positive in (0, m):
            return None
        from scipy.stats import rankdata

        ranks = float(rankdata(self.p[:m])[y].sum())
        return (ranks - positive * (positive + 1) / 2) / (positive * (m - positive))


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
    changes : streaml1.watch.Changes or None
        Which features have entered and left the model between the last two lines: the 1,000 of each
        that are farthest from zero.

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
        self.changes: Any = None
        self._watch: Any = None
        self._followed: Any = None
        self._all, self._recent = _Sums(), _Sums()
        self._total = 0.0  # of the labels
        self._window = None if loss in (*REGRESSION, "softmax") else _Window()
        self._counts = _Counts(k)
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
        """
        if self.loss == "softmax":
            return self._add_rows(np.asarray(p, np.float64), np.asarray(y, np.intp), w)
        regression = self.loss in REGRESSION
        p = np.asarray(p, np.float64)
        y = np.asarray(y, np.float64 if regression else bool)
        w = np.ones(len(p)) if w is None else np.asarray(w, np.float64)
        if not len(p) == len(y) == len(w):
            raise ValueError(f"{len(p)} predictions, {len(y)} labels and {len(w)} weights differ")
        n, total = _running(self._all.weight, w), _running(self._total, w * y)
        constant = losses(self.loss, _constants(self.loss, n[:-1], total[:-1]), y)
        if regression:
            error = losses("absolute", p, y)
        else:
            error = (p > (0.5 if self.loss == "logistic" else 0.0)) != y
        loss = losses(self.loss, p, y)
        for sums in (self._all, self._recent):
            sums.add(w, loss, constant, error, p)
        self._total = float(total[-1])
        if self._window is not None:
            self._window.add(p, y)
        self.examples += len(p)

    def _add_rows(self, p: Any, y: Any, w: Any) -> None:
        w = np.ones(len(p)) if w is None else np.asarray(w, np.float64)
        if not len(p) == len(y) == len(w):
            raise ValueError(f"{len(p)} predictions, {len(y)} labels and {len(w)} weights differ")
        if not len(p):
            return
        constant, known = self._counts.add(y, w)
        # What the model did not know yet it could not say.
        told = np.where(np.arange(p.shape[1]) < known[:, None], p, -1.0)
        error = (told.argmax(axis=1) != y) | (known == 0)
        loss = losses(self.loss, p, y)
        for sums in (self._all, self._recent):
            sums.add(w, loss, constant, error, np.zeros(len(y)))
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
        said = np.repeat(_constants(self.loss, n, total), 2)
        y, ws = np.array([False, True]), np.array([-before, w])
        ps = np.array([p, p])
        error = (ps > (0.5 if self.loss == "logistic" else 0.0)) != y
        loss, constant = losses(self.loss, ps, y), losses(self.loss, said, y)
        lined = self.lines[-1].examples if self.lines else 0
        for sums in (self._all, self._recent) if number >= lined else (self._all,):
            sums.add(ws, loss, constant, error, ps)
        self._total += w
        if self._window is not None and number >= self._window.n - WINDOW:
            self._window.y[number % WINDOW] = True

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
            self.changes, born, died = self._watch.counted(NAMED)
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
        self._recent, self._lined = _Sums(), now
        self.lines.append(line)
        return line

    def _held(self, model: Any) -> tuple[int | None, int | None]:
        """How many weights are not zero, and how many features have one where labels are many."""
        rows = hasattr(type(model), "n_nonzero_rows")
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
        return _rendered(self._columns(refused, skewed), [], heads=True)

    def row(self, line: Line, refused: bool = False, skewed: bool = False) -> str:
        """One line as text, in columns as wide as those of `header`."""
        return _rendered(self._columns(refused, skewed), [line], heads=False)

    def table(self) -> str:
        """All lines as a text table."""
        refused = any(line.refused for line in self.lines)
        skewed = any(line.skewed for line in self.lines)
        return _rendered(self._columns(refused, skewed), self.lines, heads=True)

    def _columns(self, refused: bool, skewed: bool) -> list[_Column]:
        loss = self.loss_name.replace("smoothed hinge", "smoothed\nhinge")
        number = _number if self.loss in REGRESSION else _four
        error = "mean abs.\nerror" if self.loss in REGRESSION else "error"
        columns = [
            _Column("examples", 9, lambda line: f"{line.examples:,}"),
            _Column(f"{loss}\n(recent)", 8, lambda line: number(line.recent_loss)),
            _Column(f"{loss}\n(all)", 8, lambda line: number(line.loss)),
            _Column("constant\npredictor", 9, lambda line: number(line.constant_loss)),
            _Column(
                error,
                6,
                lambda line: number(line.error) if error != "error" else _percent(line.error),
            ),
            _Column("non-\nzeros", 8, lambda line: _count(line.n_nonzero)),
        ]
        if self.loss == "softmax":
            columns.append(_Column("features\nused", 8, lambda line: _count(line.n_nonzero_rows)))
        columns += [
            _Column("features\nseen", 8, lambda line: _count(line.n_features_seen)),
            _Column("sparsity", 8, lambda line: _percent(line.sparsity)),
        ]
        if self._watch is not None:
            columns += [
                _Column("born", 7, lambda line: _count(line.born)),
                _Column("died", 7, lambda line: _count(line.died)),
            ]
        columns += [
            _Column("per\nsecond", 7, lambda line: f"{line.per_second:,.0f}"),
        ]
        if refused:
            columns.append(_Column("refused", 7, lambda line: f"{line.refused:,}"))
        if skewed:
            columns.append(_Column(f"ROC AUC\n{_WINDOW_NAME}", 9, lambda line: _four(line.auc)))
        if skewed and self.loss == "logistic":
            columns += [
                _Column("mean\nprediction", 10, lambda line: _share(line.mean_prediction)),
                _Column("rate of\nTrue", 8, lambda line: _share(line.rate)),
                _Column("normalised\nentropy", 10, lambda line: _four(line.normalised_entropy)),
            ]
        return columns

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
        line = self.lines[-1]
        regression = self.loss in REGRESSION
        number = _number if regression else _four
        parts = [
            f"{line.examples:,} example{'s' * (line.examples != 1)}: "
            f"{self.loss_name} {number(line.loss)} "
            f"(constant predictor {number(line.constant_loss)})",
            f"mean absolute error {number(line.error)}"
            if regression
            else f"error {_percent(line.error)}",
        ]
        if line.n_nonzero is not None:
            zeros = f"{line.n_nonzero:,} non-zero weights"
            if line.n_nonzero_rows is not None:
                zeros += f" in the rows of {line.n_nonzero_rows:,}"
            if line.n_features_seen:
                zeros += f" of {line.n_features_seen:,} features seen, {_percent(line.sparsity)}"
                zeros += " sparse"
            if line.share_of_d is not None:
                zeros += f" ({line.share_of_d:.2%} of all {self.d:,} features)"
            parts.append(zeros)
        if line.cut:
            parts.append(f"{line.cut:,} weights given up for max_features")
        if line.auc is not None:
            parts.append(f"ROC AUC {_four(line.auc)} ({_WINDOW_NAME} examples)")
        if line.mean_prediction is not None:
            parts.append(
                f"mean prediction {_share(line.mean_prediction)} "
                f"at a rate of True of {_share(line.rate)}"
            )
        if line.normalised_entropy is not None:
            parts.append(f"normalised entropy {_four(line.normalised_entropy)}")
        if line.refused:
            parts.append(f"{line.refused:,} refused")
        if told:
            parts.append(", ".join(told))
        return "; ".join(parts)

    # As files

    def write(self, path: str | Path) -> None:
        """Write the lines as JSON, one a line; in the place of `path` only once all is written.

        A number that is not finite is written as null.
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
        """
        kind = require_plotting(path)
        picture = io.BytesIO()
        self._figure().savefig(picture, format=kind, dpi=100)
        with written_aside(path) as file:
            file.write(picture.getvalue())

    def _figure(self) -> Any:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, StrMethodFormatter

        figure = Figure(figsize=(8, 6), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        x = [line.examples for line in self.lines]
        marker = "o" if len(x) == 1 else ""

        def draw(axes: Any, name: str, field: str, style: str, color: str) -> None:
            y = [_plottable(getattr(line, field)) for line in self.lines]
            axes.plot(x, y, style, marker=marker, color=color, label=name, linewidth=2)

        draw(top, "constant predictor", "constant_loss", "--", "0.55")
        draw(top, "model", "loss", "-", "C0")
        top.set_ylabel(f"mean {self.loss_name} so far")
        top.legend(frameon=False)
        top.set_title(self.title, loc="left", fontsize="medium", wrap=True)
        draw(bottom, "non-zero weights", "n_nonzero", "-", "C1")
        bottom.set_ylabel("non-zero weights")
        bottom.set_ylim(bottom=0)
        bottom.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        bottom.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        bottom.yaxis.set_major_locator(MaxNLocator(integer=True))
        bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
        bottom.set_xlabel("examples")
        for axes in (top, bottom):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="0.92")
            axes.set_axisbelow(True)
        return figure


_SKEWED_FIELDS = ("auc", "mean_prediction", "rate", "normalised_entropy")
_WINDOW_NAME = f"last 2^{WINDOW.bit_length() - 1}"


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    width: int
    text: Callable[[Line], str]


def _rendered(columns: list[_Column], lines: list[Line], heads: bool) -> str:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=heads, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        width = max(column.width, *map(len, column.head.split("\n")))
        table.add_column(column.head, justify="right", min_width=width, no_wrap=True)
    for line in lines:
        table.add_row(*(column.text(line) for column in columns))
    console = Console(file=io.StringIO(), width=400, color_system=None, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(text.rstrip() for text in captured.get().splitlines())


def _four(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if abs(value) < 1000.0 else f"{value:.4g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _zeros(n_nonzero: int | None, weights: int | None) -> float | None:
    """The share of zeros; weights can be an estimate, and then a little below the non-zeros."""
    return max(0.0, 1.0 - n_nonzero / weights) if n_nonzero is not None and weights else None


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plottable(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value


def require_plotting(path: str | Path) -> str:
    """The format of the picture `path`, once it is sure that it can be drawn.

    Raises
    ------
    RuntimeError
        In one sentence, where matplotlib is not installed.
    ValueError
        In one sentence, where `path` ends in no format that it can draw.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise RuntimeError(
            f"{path} cannot be drawn without matplotlib: pip install 'streaml1[plot]'"
        ) from None
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FigureCanvasBase.get_supported_filetypes():
        raise ValueError(
            f"{path} does not end in a format of pictures: end it in .png, .svg or .pdf"
        )
    return kind


@contextmanager
def written_aside(path: str | Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step once it is whole, and else leaves it."""
    path = Path(path).resolve()  # a link stays, what it points to is replaced
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            aside.unlink()
        raise
