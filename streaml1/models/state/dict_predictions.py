"""Predictions of lists of dicts by the dict kernels, without converting them to rows first."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from streaml1.core.types import Floats
from streaml1.features import dict_reader
from streaml1.models.state.locking import LockedState
from streaml1.models.state.predictor import LENGTH, MAX_DICT_FEATURES, Predictor

__all__ = ["dict_margins", "margins_of"]


def margins_of(predictor: Predictor, X: Any, out: int) -> Any:
    """Return the margin of each row of X; with `out`, its response (see `loop.predict_rows`).

    Raises
    ------
    BadExample
        If a row is invalid. `row` is the first such row.
    """
    margins = dict_margins(predictor, X, out)
    return predictor.margins(predictor.batch(X), out) if margins is None else margins


def dict_margins(predictor: Predictor, X: Any, out: int, stride: int = 0) -> Any:
    """Return the margins of a list of dicts, bit-identical to those of single dicts.

    All rows are predicted with the same state: other threads learn before or after them.

    Returns
    -------
    numpy.ndarray or None
        None if X is not a list, or if a kernel cannot read one of its rows. Then the rows have to
        be converted, which also finds what is invalid.
    """
    if not isinstance(X, list | tuple) or not X or not _are_readable(predictor):
        return None
    margins = np.empty(len(X))
    with predictor.exclusive() if isinstance(predictor, LockedState) else nullcontext():
        length = LENGTH
        for _ in range(2):  # the first attempt reports the capacity that crossed features need
            context = _private_context(predictor, length)
            n_read = _read_all(context, X, margins, out, stride)
            if n_read == len(X):
                return margins
            needed = max(context.needed, len(X[n_read]) if type(X[n_read]) is dict else 0)
            if not length < needed <= MAX_DICT_FEATURES:
                break
            length = 2 * needed
    return None


def _are_readable(predictor: Predictor) -> bool:
    """Return whether the dict kernels read whole examples of a model, in a context of their own.

    Not those with n-grams: such a context may replace the arrays of names to make room, and open
    contexts refer to the old ones.
    """
    return dict_reader.AVAILABLE and predictor.offset is None and predictor.ngrams is None


def _private_context(predictor: Predictor, length: int) -> dict_reader.KernelContext:
    """Return a context for this call alone; `exclusive` has closed the one of the predictor."""
    return dict_reader.make_context(
        predictor.vocabulary, predictor.rule, predictor.online, length, False,
        predictor.interactions,
    )  # fmt: skip


def _read_all(
    context: dict_reader.KernelContext, X: Any, margins: Floats, out: int, stride: int
) -> int:
    """Write the margins of the rows up to the first that the kernel cannot read; return its row."""
    predict, address = context.predict, context.address
    view: Any = memoryview(margins)  # type: ignore[arg-type]
    for row, x in enumerate(X):
        a = predict(address, x, out)
        if a != a:
            return row
        view[row] = a
        out += stride
    return len(X)
