"""Examples from data frames, one frame or many after another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from streaml1.core.named_options import named_option
from streaml1.core.rows import is_missing, shown_type
from streaml1.features.arrow_frames import arrow_batches, holds_nested, is_stream
from streaml1.features.batch import category_text, is_frame, plain_name
from streaml1.models.class_labels import as_label
from streaml1.sources import Reject, SourceError, SourceOptions
from streaml1.sources.arrow.files import tables_of
from streaml1.sources.arrow.tables import TableReader, require_pyarrow
from streaml1.sources.readers.csv_header import list_columns

__all__ = ["FrameSource", "TableRows", "each_table", "holds_tables", "is_table"]

BLOCK = 8192


def is_table(given: Any) -> bool:
    """Return whether an object is a frame, or a stream of rows such as a lazy frame."""
    return is_frame(given) or is_stream(given)


class TableRows:
    """The rows of frames, numbered from 1 across all of them."""

    def __init__(self, name: str, options: SourceOptions) -> None:
        self._name, self._options = name, options
        self._reader: TableReader | None = None
        self._schema: Any = None
        self.n_read = 0

    def blocks(self, frame: Any, size: int, reject: Reject) -> Iterator[Any]:
        """Yield the rows of the next frame."""
        pyarrow = require_pyarrow(f"{self._name}: a frame with a column of labels")
        names = _other_names(frame, self._options.text or ())
        try:
            for table in tables_of(self._batches(frame), size):
                if self._reader is None or table.schema != self._schema:
                    self._reader, self._schema = self._open(table.schema), table.schema
                rows = table.select(self._reader.columns)
                for block in self._reader.blocks(rows, self.n_read, reject):
                    yield _renamed(block, names) if names else block
                self.n_read += len(table)
        except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise self._unreadable(error) from None

    def _batches(self, frame: Any) -> Iterator[Any]:
        """Yield the rows of a frame as record batches."""
        import pyarrow

        try:
            yield from arrow_batches(self._convertible(frame))
        except (pyarrow.ArrowException, ValueError) as error:  # values of several types
            raise self._unreadable(error) from None
        except TypeError as error:  # a name twice
            raise SourceError(f"{self._name}: {error}") from None
        except OverflowError:
            raise self._too_large(frame) from None

    def _convertible(self, frame: Any) -> Any:
        """Return a frame whose ignored, categorical and id columns can be converted to Arrow.

        A column of objects may hold values of several types, or ints beyond 64 bits, which Arrow
        columns cannot. Periods, intervals and durations are named by their text in pandas.
        """
        o = self._options
        ignored, categories = ({*map(_name, names)} for names in (o.ignore, o.categorical))
        if _is_from("polars", frame):
            return _with_texts_of_objects(frame, categories | {_name(o.id)})
        if not _is_from("pandas", frame) or not frame.columns.is_unique:
            return frame
        changed: dict[Any, Any] = {}
        for column, dtype in frame.dtypes.items():
            is_mixed = dtype == "object" and _is_mixed(frame[column])
            is_converted = is_mixed or _has_other_text(dtype)
            if is_mixed and _name(column) in ignored:
                changed[column] = None
            elif is_converted and _name(column) in categories and not holds_nested(frame[column]):
                texts = frame[column].map(category_text, na_action="ignore")
                changed[column] = texts.astype(object)
        if not changed:
            return frame
        frame = frame.copy(deep=False)
        for column, values in changed.items():
            frame[column] = values
        return frame

    def _unreadable(self, error: BaseException) -> SourceError:
        reasons = [str(reason).strip().partition("\n")[0].rstrip(".") for reason in error.args]
        return SourceError(
            f"{self._name}: the frame cannot be converted to Arrow: {'; '.join(reasons)}; if its "
            f"values have several types, use {named_option('categorical')} or "
            f"{named_option('ignore')}"
        )

    def _too_large(self, frame: Any) -> SourceError:
        """Return the error about a column of pandas whose ints exceed those of Arrow."""
        large = [
            _name(name)
            for name, dtype in frame.dtypes.items()
            if dtype == "object" and any(_exceeds_int64(value) for value in frame[name])
        ]
        return SourceError(
            f"{self._name}: column {large[0]!r} holds ints beyond those of 64 bits: convert it, as "
            f"with astype(float), or use {named_option('categorical', large[:1])} or "
            f"{named_option('ignore', large[:1])}"
        )

    def _open(self, schema: Any) -> TableReader:
        o = self._options
        if o.target is None and o.require_label:
            option = named_option("target", "COLUMN")
            raise SourceError(
                f"{self._name}: use {option} to name the label column, or give the frame with its "
                f"labels, (frame, y); {list_columns(schema.names, 5)}"
            )
        return TableReader(
            self._name, schema, _name(o.target), map(_name, o.categorical), _name(o.weight),
            o.require_label, map(_name, o.ignore), map(_name, o.text or ()), o.positive,
            _name(o.id), map(_name, o.numeric),
        )  # fmt: skip


def _name(column: Any) -> Any:
    """Return the name of a column in Arrow; names of pandas may be numbers and tuples."""
    if isinstance(column, tuple):
        return str(tuple(map(str, column)))
    return column if column is None or isinstance(column, str) else str(column)


def _other_names(frame: Any, texts: Iterable[str]) -> dict[str, Hashable]:
    """Return the names of a pandas frame that are not texts, by their names in Arrow.

    Features keep such names, as in `learn_many` and `predict_many`: ``1`` is not ``"1"``.
    """
    if not _is_from("pandas", frame):
        return {}
    names = {_name(name): plain_name(name) for name in frame.columns if not isinstance(name, str)}
    return {name: other for name, other in names.items() if name not in texts}


def _renamed(block: Any, names: Mapping[str, Hashable]) -> Any:
    """Return a block with other names for some columns of numbers.

    Categories keep theirs: the feature of ``{1: "news"}`` is named ``1=news``, too.
    """
    if isinstance(block.x, list):  # dicts, where the kernel cannot read a column
        x = [{names.get(name, name): value for name, value in row.items()} for row in block.x]
        return replace(block, x=x)
    _, values, indptr = block.x.csr()
    columns = [names.get(name, name) for name in block.x.feature_names(slice(None))]
    features = list(zip(columns, values.tolist(), strict=True))
    x = [dict(features[lo:hi]) for lo, hi in pairwise(indptr.tolist())]
    return replace(block, x=x)


def _exceeds_int64(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _is_from(library: str, frame: Any) -> bool:
    """Return whether an object is a DataFrame of a library."""
    module = sys.modules.get(library)
    return module is not None and isinstance(frame, module.DataFrame)


def _with_texts_of_objects(frame: Any, names: Container[Any]) -> Any:
    """Return a polars frame with text in some columns of objects; Arrow gets their addresses."""
    import polars

    for name, kind in frame.schema.items():
        if kind == polars.Object and name in names:
            values = frame[name].to_list()
            texts = [None if is_missing(value) else category_text(value) for value in values]
            frame = frame.with_columns(polars.Series(name, texts, polars.String))
    return frame


def _is_mixed(column: Any) -> bool:
    """Return whether a pandas column of objects may hold values that no Arrow column can.

    An Arrow column of decimals gives all of them the same number of digits.
    """
    import pandas

    kind = pandas.api.types.infer_dtype(column, skipna=True)
    return kind in ("mixed", "mixed-integer", "integer", "decimal")


def _has_other_text(dtype: Any) -> bool:
    """Return whether Arrow has another text for the values of a pandas type, or none."""
    import pandas

    return dtype.kind == "m" or isinstance(dtype, pandas.PeriodDtype | pandas.IntervalDtype)


class FrameSource:
    """A frame with a column of labels."""

    name = "rows"
    block = BLOCK
    label: Callable[[Any], Hashable] = staticmethod(as_label)

    def __init__(self, frame: Any, options: SourceOptions) -> None:
        self._frame, self._options = frame, options

    def blocks(self, size: int, reject: Reject) -> Iterator[Any]:
        """Read from the start, at most `size` rows at a time."""
        return TableRows(self.name, self._options).blocks(self._frame, size, reject)


def holds_tables(item: Any) -> bool:
    """Return whether an item of an iterable is a frame, or a frame with its labels."""
    return is_table(item) or (isinstance(item, tuple) and len(item) > 1 and is_table(item[0]))


def each_table(items: Iterable[Any]) -> Iterator[Any]:
    """Yield frames, and raise SourceError for anything else."""
    for item in items:
        if not holds_tables(item):
            raise SourceError(f"got {shown_type(item)} after data frames; give frames only")
        yield item
