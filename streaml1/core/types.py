"""Type aliases for arrays: one dtype, one name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bools",
    "Bytes",
    "Example",
    "Floats",
    "HasShape",
    "Hashes",
    "Ids",
    "Indptr",
    "Ints",
    "Label",
    "Model",
    "Records",
    "RowsLike",
    "SampleWeights",
    "Slots",
    "SourcePosition",
    "UInts",
    "Values",
]

Ids = NDArray[np.uint32]
"""Slots of the features of CSR rows, shape (nnz,)."""

Slots = NDArray[np.integer[Any]]
"""Slots of any integer type: `Ids`, or positions that numpy returns."""

Values = NDArray[np.float64]
"""Values of the features of CSR rows, shape (nnz,)."""

Indptr = NDArray[np.int64]
"""Where each CSR row begins and ends, shape (rows + 1,)."""

Floats = NDArray[np.float64]
"""Any other one-dimensional array of floats: weights, labels, margins, rates."""

Ints = NDArray[np.int64]
"""Counts, positions and codes."""

Hashes = NDArray[np.uint64]
"""64-bit hashes of feature names."""

UInts = NDArray[np.uint64]
"""Offsets, positions and bit masks that kernels compute with as uint64."""

Bytes = NDArray[np.uint8]
"""Raw text."""

Records = np.recarray[Any, Any]
"""Records that compiled code reads by field: `a[k].field`."""

Bools = NDArray[np.bool_]
"""A flag for each element."""

Example = Mapping[Hashable, object]
"""An example as river passes it: feature name -> value."""

Label = Hashable
"""A label as a source or a user gives it: a bool, a number, a text, or None if it is missing."""

SourcePosition = dict[Any, Any]
"""A position in a source, as JSON values: what a checkpoint stores to resume there."""

SampleWeights = Sequence[float] | NDArray[np.float64] | None
"""A weight for each row of a batch; None if all are 1."""


class Model(Protocol):
    """A model of streaml1, a river classifier or regressor, or a river pipeline.

    What else a model offers, such as `progressive_many`, is looked up when it is needed.
    """

    def learn_one(self, x: Any, y: Any) -> Any:
        """Learn one example."""


class HasShape(Protocol):
    """A data frame (pandas, polars, pyarrow) or a matrix (scipy.sparse, numpy)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""


RowsLike = Sequence[Mapping[Any, Any]] | HasShape
"""Examples as users pass them: a list of dicts, a data frame or a matrix."""
