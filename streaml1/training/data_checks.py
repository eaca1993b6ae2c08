"""Warn about data that a linear model can hardly learn from, once for each kind.

| kind | warning |
|---|---|
| `large_value` | a value is a thousand times as large as is usual |
| `large_weight` | a sample weight is |
| `unequal_sizes` | the typical sizes of two columns differ by a factor of more than 10,000 |
| `constant_label` | all labels are equal |
| `two_negatives` | some labels of a model of two classes are 0, others -1 |
| `no_better` | the model is no better than the baseline |

New classes of a multiclass model are announced one by one, see `NewClasses`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Any

import numpy as np

from streaml1.core.logging import event
from streaml1.core.named_options import by_caller
from streaml1.core.rows import shown
from streaml1.features.label_texts import LabelTexts
from streaml1.models.parameter_checks import AUTO
from streaml1.optim.tasks import CLASSIFICATION
from streaml1.training.class_reader import NewClasses
from streaml1.training.feature_sizes import FeatureSizes, LargeValue, largest_size
from streaml1.training.observers import Batch, Observer, RunStart
from streaml1.training.report import Report

__all__ = ["DataChecks"]

logger = logging.getLogger("streaml1")

LARGE = 1000.0
"""Multiple of the usual size from which a value or a sample weight is large."""

MIN_VALUES = 100
"""Rows, or sample weights, before a large one is noticed."""

MIN_ROWS = 64
"""Rows from which arrays are checked at once; fewer wait for the next, or the end of the block."""

MIN_ENTRIES = 3
"""Occurrences of a feature in the sample that make its own sizes known."""

UNEQUAL = 1e4
"""Ratio of typical sizes from which columns are unequal."""

SIZES_AFTER, SIZES_UNTIL = 1000, 10_000
"""Examples after which the typical sizes are compared, and compared again for wide rows."""

MIN_OCCURRENCES = 10
"""Occurrences of a column in the sample that make it one to compare."""

JUDGED_AFTER = 10_000
"""Examples after which labels and losses are judged."""

_SPELLINGS = {0: {"0", "0.0"}, -1: {"-1", "-1.0"}}
"""Texts of labels that are read as these numbers; rarer ones are not looked for."""

MIN_AT_END = 100
"""Examples of a shorter run whose labels are judged at the end."""


class DataChecks(Observer):
    """Checks values, sample weights, labels and losses while a run learns.

    Each warning is logged under ``streaml1`` and kept in the report, at most once per run. Arrays
    are read once, without a loop in Python; features are compared on a sample.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier, progressive
    >>> examples = [({"age": 30.0 + k % 9}, k % 3 == 0) for k in range(200)]
    >>> examples[150] = ({"age": 1e7}, True)
    >>> report = progressive(ElasticNetClassifier(), examples)
    >>> report.warnings["large_value"]
    "examples:151: the value 1e+07 of 'age' is far larger than usual (about 34): ..."
    """

    def __init__(self) -> None:
        self.sizes = FeatureSizes()
        self._new_classes = NewClasses()
        self._report: Report | None = None
        self._block: Any = None
        self._ranges: list[tuple[int, int]] = []  # rows of the block that were learnt
        self._n_rows = 0
        self._usual_weight = 0.0
        self._n_weights = 0
        self._label: Any = None
        self._n_labels = 0
        self._labels_vary = False
        self._negatives_seen: set[int] | None = set()  # of 0 and -1; None if they do not matter
        self._halfway: tuple[float, float, float] | None = None
        self._is_judged = False
        self._compare_at: int | None = SIZES_AFTER
        self._name, self._else_scale = "", ""

    def on_start(self, start: RunStart) -> None:
        """Note the report, where warnings are kept."""
        self._report, self._name = start.report, str(start.source.name)
        scales_itself = AUTO in (getattr(start.learner, name, None) for name in ("lr", "alpha"))
        self._else_scale = "" if scales_itself else "; else scale it to about 1"
        self._new_classes.on_start(start)
        # What earlier processes of this run have checked.
        self._is_judged = start.report.examples >= JUDGED_AFTER // 2 or start.passes_done > 0
        if start.report.examples >= SIZES_AFTER:
            self._compare_at = None
        self._labels_vary = start.report.examples >= JUDGED_AFTER
        if start.report.loss not in CLASSIFICATION:
            self._negatives_seen = None

    def on_batch(self, batch: Batch) -> None:
        """Check labels, and values once there are enough rows to check as arrays."""
        if batch.y is not None:
            self._check_labels(batch.y)
            self._check_negatives(batch)
            self._new_classes.on_batch(batch)
        self._block = batch.block
        lo = batch.lo
        if self._ranges and self._ranges[-1][1] == lo:  # river models learn single rows
            lo, _ = self._ranges.pop()
        self._ranges.append((lo, batch.hi))
        if batch.hi - lo >= MIN_ROWS:
            self.on_block_end()
        self._judge()

    def on_labels(self, batch: Batch) -> None:
        """Check delayed labels."""
        self._check_labels(batch.y)
        self._new_classes.on_batch(batch)
        self._judge()

    def on_block_end(self) -> None:
        """Check the values and sample weights of the rows that are left."""
        block, ranges = self._block, self._ranges
        self._block, self._ranges = None, []
        for lo, hi in ranges:
            self._check_rows(block, lo, hi)

    def _check_rows(self, block: Any, lo: int, hi: int) -> None:
        self._n_rows += hi - lo
        self.sizes.add(block.x, lo, hi)
        self._check_values(block, lo, hi)
        if block.w is not None:
            self._check_weights(block, lo, hi)
        if self._compare_at is not None and self._n_rows >= self._compare_at:
            self._compare_at = SIZES_UNTIL if self._n_rows < SIZES_UNTIL else None
            self._compare(block, lo, hi)

    def on_pass_start(self) -> None:
        """End the comparison with the baseline: further passes have seen the examples."""
        self._is_judged = True

    def on_end(self) -> None:
        """Judge the labels of a short run."""
        if not self._labels_vary and self._n_labels >= MIN_AT_END:
            self._warn_constant()

    # Values and weights

    def _check_values(self, block: Any, lo: int, hi: int) -> None:
        usual = self.sizes.usual
        if self._has_warned("large_value") or usual is None or self._n_rows < MIN_VALUES:
            return
        # Features that are large as a rule are compared with themselves.
        found = [
            (large, own)
            for large in largest_size(block.x, lo, hi, LARGE * usual)
            if large.size > LARGE * (own := self._usual_size(large, usual))
        ]
        if found:
            large, own = min(found, key=lambda pair: pair[0].row)
            self._warn(
                "large_value",
                f"{block.place(large.row)}: the value {large.size:.4g} of {shown(large.name)} is "
                f"far larger than usual (about {own:.3g}): check the data, or scale and clip it",
                place=block.place(large.row), feature=large.name,
            )  # fmt: skip

    def _usual_size(self, large: LargeValue, usual: float) -> float:
        own = self.sizes.median_size(large.key, MIN_ENTRIES)
        return usual if own is None else own

    def _check_weights(self, block: Any, lo: int, hi: int) -> None:
        weights = np.asarray(block.w[lo:hi], np.float64)
        limit = LARGE * self._usual_weight
        if self._n_weights >= MIN_VALUES and limit > 0.0 and weights.max() > limit:
            row = int(np.argmax(weights > limit))
            self._warn(
                "large_weight",
                f"{block.place(lo + row)}: the sample weight {weights[row]:.4g} is far larger than "
                f"usual (about {self._usual_weight:.3g}): this example outweighs a thousand "
                "others; check the weights",
                place=block.place(lo + row),
            )  # fmt: skip
        # A running mean, in which no block counts for more than ten times what was usual.
        typical = float(np.median(weights)) if self._n_weights == 0 else self._usual_weight
        mean = float(np.minimum(weights, 10.0 * typical).mean()) if typical > 0.0 else typical
        n = self._n_weights + len(weights)
        self._usual_weight += (mean - self._usual_weight) * len(weights) / n
        self._n_weights = n

    def _compare(self, block: Any, lo: int, hi: int) -> None:
        """Compare the typical sizes of columns."""
        keys, counts, means = self.sizes.grouped()
        known = (counts >= MIN_OCCURRENCES) & (means > 0.0)
        if not known.any():
            return
        keys, means = keys[known], means[known]
        high, low = int(np.argmax(means)), int(np.argmin(means))
        if means[high] <= UNEQUAL * means[low]:
            return
        names = [_name_in(block.x, lo, hi, int(keys[k]), self.sizes) for k in (high, low)]
        self._warn(
            "unequal_sizes",
            f"{self._name}: values of {shown(names[0])} are about {means[high]:.3g}, those of "
            f"{shown(names[1])} about {means[low]:.3g}: if {shown(names[0])} is an id or a time, "
            f"leave it out or treat it as a category{self._else_scale}",
            feature=names[0],
        )  # fmt: skip

    # Labels and losses

    def _check_labels(self, y: Any) -> None:
        if self._labels_vary or not len(y):
            return
        if not self._n_labels:
            self._label = y[0]
        same = y == self._label if isinstance(y, np.ndarray) else [v == self._label for v in y]
        self._n_labels += len(y)
        if not np.all(same):
            self._labels_vary = True
        elif self._n_labels >= JUDGED_AFTER:
            self._warn_constant()

    def _check_negatives(self, batch: Batch) -> None:
        """Look for labels -1, 0 and 1, which may be three classes: -1 and 0 are both False."""
        if self._negatives_seen is None:
            return
        y = batch.block.y[batch.lo : batch.hi]
        if isinstance(y, np.ndarray) and y.dtype.kind in "bif":
            is_bool = y.dtype.kind == "b"
            found = {value for value in (0, -1) if not is_bool and (y == value).any()}
        else:
            is_encoded = isinstance(y, LabelTexts)
            given = [y.texts[k] for k in np.unique(y.codes)] if is_encoded else {*y}
            texts = {*map(str, given)}
            found = {value for value in (0, -1) if not texts.isdisjoint(_SPELLINGS[value])}
        self._negatives_seen |= found
        if len(self._negatives_seen) == 2:
            self._negatives_seen = None
            self._warn(
                "two_negatives",
                f"{self._name}: some labels are 0, others -1, and both mean False: if they differ, "
                "use "
                + by_caller(
                    "--model softmax or --task regression", "SoftmaxClassifier or a regressor"
                ),
            )

    def _warn_constant(self) -> None:
        self._labels_vary = True
        self._warn(
            "constant_label",
            f"{self._name}: all {self._n_labels:,} labels are {shown(self._label)}: shuffle the "
            "examples, or check the label column",
        )

    def _judge(self) -> None:
        """Compare the second half of the first 10,000 examples with the baseline, once."""
        if self._is_judged or self._report is None:
            return
        n = self._report.examples
        if self._halfway is None and n >= JUDGED_AFTER // 2:
            self._halfway = self._report.sums
            self._halfway_at = n
        if n < JUDGED_AFTER or self._halfway is None or n == self._halfway_at:
            return
        self._is_judged = True
        weight, loss, baseline = np.subtract(self._report.sums, self._halfway)
        if weight > 0.0 and baseline != 0.0 and not loss < baseline:
            name, mean = self._report.loss_name, loss / weight
            self._warn(
                "no_better",
                f"{self._name}: after {n:,} examples the {name} {mean:.4g} is no better than that "
                f"of the baseline, {baseline / weight:.4g}, which ignores the features: check "
                "features and labels, the learning rate and the penalties",
            )

    # Warnings

    def _has_warned(self, kind: str) -> bool:
        return self._report is not None and kind in self._report.warnings

    def _warn(self, kind: str, sentence: str, **fields: Hashable) -> None:
        if self._report is not None and self._report.warn(kind, sentence):
            logger.warning("%s", sentence, extra=event(kind, **fields))


def _name_in(x: Any, lo: int, hi: int, key: int, sizes: FeatureSizes) -> Hashable:
    """Return the name of a key; if names are hashed, only rows of the source know it."""
    name = sizes.name_of(key)
    if name is None and hasattr(x, "feature_names"):
        part = x[lo:hi]
        positions = np.flatnonzero(part.csr()[0] == np.uint64(key))[:1]
        name = part.feature_names(positions)[0] if len(positions) else "a feature"
    return name
