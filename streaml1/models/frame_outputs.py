"""Predictions in the type of their input: frames and series of its library."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from streaml1.core.types import Bools, Floats, RowsLike
from streaml1.features.batch import is_frame

__all__ = ["frame_like", "series_like"]


def series_like(X: RowsLike, predictions: Floats | Bools, name: Hashable | None) -> Any:
    """Return predictions as a series of the library of X, or unchanged if X is not a frame.

    `name` is that of the labels, which may be of any type in pandas, but only text elsewhere.
    """
    if not is_frame(X):
        return predictions
    from river.utils import dataframe

    native: Any = X
    given: Any = name
    if name is not None and type(X).__module__.partition(".")[0] != "pandas":
        given = str(name)
    return dataframe.to_native_series(predictions, name=given, like=dataframe.into_frame(native))


def frame_like(X: RowsLike, columns: Mapping[Hashable, Floats]) -> Any:
    """Return columns as a frame of the same library as the frame X."""
    from river.utils import dataframe

    native: Any = X
    return dataframe.to_native_frame(columns, like=dataframe.into_frame(native))
