"""Buffers into which kernels write the probabilities of all labels."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from streaml1.models.state.dict_predictions import dict_margins
from streaml1.models.state.locking import LockedState

if TYPE_CHECKING:
    from streaml1.features.batch import Batch
    from streaml1.models.state.predictor import Predictor

__all__ = ["predict_output_rows", "predict_outputs", "predict_outputs_of"]

_IDLE: list[array[float]] = []
"""Buffers that no call uses; `list.pop` and `append` are atomic."""


def predict_outputs(
    predictor: Predictor, x: Mapping[Hashable, Any], margins: bool = False
) -> tuple[int, array[float]]:
    """Return the position of the largest probability of an example, and all probabilities.

    The position is -1 if there are no labels. With `margins`, margins are returned instead of
    probabilities.
    """
    try:
        buffer = _IDLE.pop()
    except IndexError:
        buffer = array("d", bytes(8 * 65))
    # The kernel reads the capacity from the first element and replaces it by the number of labels.
    # If they do not fit, it writes nothing else. A negative capacity selects margins.
    while True:
        address, length = buffer.buffer_info()
        buffer[0] = 1 - length if margins else length - 1
        best = int(predictor.margin(x, address))
        k = int(buffer[0])
        if k < length:
            break
        buffer = array("d", bytes(8 * (2 * k + 1)))
    p = buffer[1 : k + 1]
    _IDLE.append(buffer)
    return best, p


def predict_output_rows(
    predictor: Predictor, batch: Batch, margins: bool = False
) -> tuple[Any, Any]:
    """Return the positions of the largest probabilities of rows, and all probabilities.

    Their shapes are (n,) and (n, k). With `margins`, margins are returned instead of probabilities.
    """
    buffer = _buffer(predictor, batch.n, margins)
    best = predictor.margins(batch, buffer.ctypes.data, buffer.strides[0])
    return best, buffer[:, 1:]


def predict_outputs_of(predictor: Predictor, X: Any) -> tuple[Any, Any]:
    """Return `predict_output_rows` of a matrix, frame or list of dicts."""
    batch = None if isinstance(X, list | tuple) else predictor.batch(X)
    with predictor.exclusive() if isinstance(predictor, LockedState) else nullcontext():
        if batch is None:  # no label may join before the rows are predicted
            buffer = _buffer(predictor, len(X))
            best = dict_margins(predictor, X, buffer.ctypes.data, buffer.strides[0])
            if best is not None:
                return best, buffer[:, 1:]
            batch = predictor.batch(X)
        return predict_output_rows(predictor, batch)


def _buffer(predictor: Predictor, n: int, margins: bool = False) -> Any:
    """Return a buffer for the outputs of `n` rows, each after its capacity."""
    k = int(predictor.rule.clock[0].k)
    buffer = np.zeros((n, k + 1))
    buffer[:, 0] = -k if margins else k
    return buffer
