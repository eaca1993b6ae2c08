"""Explanations of predictions: what each feature adds to a margin."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from streaml1.core.text_table import TableColumn, printable, render_table

__all__ = ["INTERCEPT", "Contribution", "Explanation", "explanation_of"]

INTERCEPT = "(intercept)"
"""The name of the last contribution of an explanation."""

REST = "(rest)"
"""The row of a table for a remainder that is more than rounding."""

ROUNDING = 1e-12
"""Largest remainder that is rounding, relative to the sum of the absolute contributions."""


class Contribution(NamedTuple):
    """What one feature adds to the margin of an example.

    Attributes
    ----------
    name : hashable
        The name of the feature; `"(intercept)"` for the intercept.
    value : float
        Its value in the example; 1 for the intercept.
    weight : float
        Its weight, as in `model.weights`; 0 if the model does not know the feature.
    contribution : float
        The margin of an example that has only this feature, without the intercept. It is the
        product of value and weight, unless the model scales values.
    known : bool
        False if the model does not know the feature.
    """

    name: Hashable
    value: float
    weight: float
    contribution: float
    known: bool = True


@dataclass(frozen=True, slots=True)
class Explanation(Sequence[Contribution]):
    """The contributions of the features of an example to its margin.

    A sequence of `Contribution`: the features by the absolute value of their contributions, largest
    first, ties in the order of the example; then the intercept.

    The contributions add up to the margin bit for bit, in any order:
    ``math.fsum([*explanation.contributions, *explanation.remainder]) == explanation.margin``.
    `math.fsum` rounds the exact sum once. The model rounds after each addition, and `remainder` is
    the difference.

    Attributes
    ----------
    records : tuple of Contribution
        The items of the sequence.
    margin : float
        The margin that the model predicts, bit for bit. Predictions follow from it.
    remainder : tuple of float
        What the margin has beyond the exact sum of the contributions: the rounding errors of the
        model, empty or a single float with very few exceptions. With `lr="auto"` it includes what
        the model cuts off a margin outside of its bounds.

    Examples
    --------
    >>> import streaml1
    >>> model = streaml1.FTRLClassifier(alpha=0.1, l1=0.0)
    >>> model.learn_one({"cheap": 2, "pills": 1}, True)
    >>> print(model.explain_one({"cheap": 1, "pills": 1, "offer": 1}))
    contribution      weight  value  feature
           +0.05       +0.05      1  cheap
    +0.033333333  +0.033333333      1  pills
               0           0      1  offer (unknown)
          +0.005      +0.005      1  (intercept)
    +0.088333333                     margin
    """

    records: tuple[Contribution, ...]
    margin: float
    remainder: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, k: int) -> Contribution: ...

    @overload
    def __getitem__(self, k: slice) -> tuple[Contribution, ...]: ...

    def __getitem__(self, k: int | slice) -> Contribution | tuple[Contribution, ...]:
        return self.records[k]

    def __iter__(self) -> Iterator[Contribution]:
        return iter(self.records)

    @property
    def features(self) -> tuple[Contribution, ...]:
        """The contributions without that of the intercept."""
        return self.records[:-1]

    @property
    def intercept(self) -> float:
        """The contribution of the intercept."""
        return self.records[-1].contribution

    @property
    def contributions(self) -> list[float]:
        """The contributions as floats, in the order of `records`."""
        return [record.contribution for record in self.records]

    @property
    def unknown(self) -> list[Hashable]:
        """The names of the features that the model does not know."""
        return [record.name for record in self.records if not record.known]

    @property
    def exceeds_rounding(self) -> bool:
        """Whether the remainder is more than rounding: a bound of `lr="auto"` is active."""
        total = math.fsum(map(abs, self.contributions))
        return abs(math.fsum(self.remainder)) > ROUNDING * total

    def table(self, digits: int = 8) -> str:
        """Lay out the contributions as a table; the last row is the margin.

        Parameters
        ----------
        digits
            Number of significant digits.
        """
        rows = [
            (
                _signed(record.contribution, digits),
                _signed(record.weight, digits),
                f"{record.value:.{digits}g}",
                printable(record.name) + ("" if record.known else " (unknown)"),
            )
            for record in self.records
        ]
        if self.exceeds_rounding:
            rows.append((_signed(math.fsum(self.remainder), digits), "", "", REST))
        rows.append((_signed(self.margin, digits), "", "", "margin"))
        heads = ("contribution", "weight", "value")
        columns = [*map(TableColumn, heads), TableColumn("feature", "left")]
        return render_table(columns, rows, gap=2)

    def __str__(self) -> str:
        return self.table()


def _signed(number: float, digits: int) -> str:
    """Format a number with its sign; both zeros as 0."""
    return f"{number:+.{digits}g}" if number else "0"


def explanation_of(
    features: Iterable[Contribution], intercept: float, margin: float
) -> Explanation:
    """Return the explanation of a margin.

    Parameters
    ----------
    features
        The contributions of the features, in any order.
    intercept
        The intercept of the model.
    margin
        The margin that the model predicts.
    """
    ranked = sorted(features, key=lambda record: -abs(record.contribution))
    records = (*ranked, Contribution(INTERCEPT, 1.0, intercept, intercept))
    terms = [record.contribution for record in records]
    return Explanation(records, margin, _remainder(terms, margin))


def _remainder(terms: list[float], margin: float) -> tuple[float, ...]:
    """Return the floats that make `math.fsum` of all terms equal the margin.

    The first is the difference of the margin and the exact sum. It is rounded, which matters only
    if the terms cancel almost completely: then more follow, each 2**53 times smaller.
    """
    remainder: list[float] = []
    while math.fsum([*terms, *remainder]) != margin:
        remainder.append(math.fsum([margin, *(-term for term in (*terms, *remainder))]))
    return tuple(remainder)
