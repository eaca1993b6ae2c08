"""Data frames with columns of text to rows, by a kernel that reads their Arrow memory.

`streaml1.features.batch` reads frames of any library, value by value; it defines what they mean.
Where pyarrow is installed, frames that hold strings or categories are read here instead, as the
text of a file is: no Python object is made for a value.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.jit import COMPILED
from streaml1.core.rows import BadExample, is_missing, shown_type
from streaml1.core.types import Bytes, Hashes
from streaml1.features.arrow_nested import (
    LARGE_DICTIONARY,
    PLAIN_ROLES,
    feature_columns,
    features_type,
    name_from_two,
    reject_name_from_two,
)
from streaml1.features.arrow_structs import open_structs
from streaml1.features.arrow_types import dictionary_encoded, is_dictionary, is_nested, is_text
from streaml1.features.batch import (
    batch_of,
    category_text,
    is_frame,
    is_matrix,
    require_distinct,
)
from streaml1.features.flat_members import MemberRoles
from streaml1.text.arrow import (
    CODES,
    FEATURES,
    N_FIELDS,
    NUMBERS,
    SLACK,
    TEXTS_32,
    TEXTS_64,
    VIEWS,
    read_columns,
    read_nested_columns,
)
from streaml1.text.parsed_rows import NamedRows, Spans

__all__ = [
    "arrow_batches", "as_frame", "as_rows", "frame_rows", "frame_table", "has_nested",
    "holds_nested", "is_index", "is_stream", "nested_rows", "opened_frame", "table_dicts",
    "table_rows",
]  # fmt: skip

_INDEX = re.compile(r"__index_level_[0-9]+__")

MAX_NAME_BYTES = 2**31
"""Spans have offsets of 32 bits; `batch` reads larger frames."""

BATCH_ROWS = 8192
"""Rows that are read at once from a data set of Hugging Face."""


def is_stream(X: Any) -> bool:
    """Return whether X holds rows for which it has to be read: a batch, a relation, a lazy frame.

    Anything with the Arrow interface is one, except for frames and single columns.
    """
    kind = type(X)
    if is_matrix(X) or is_frame(X):
        return False
    is_column = kind.__name__ in ("Series", "ChunkedArray")
    if _is_hugging_face(X):
        return True
    return hasattr(kind, "collect") or (hasattr(kind, "__arrow_c_stream__") and not is_column)


def _is_hugging_face(X: Any) -> bool:
    """Return whether X is a data set of Hugging Face's package datasets, not of `streaml1`."""
    kind = type(X)
    return kind.__module__.startswith("datasets.") and hasattr(kind, "with_format")


def as_frame(X: Any) -> Any:
    """Return a stream as a frame that holds its rows, and anything else as it is.

    Columns in which pyarrow keeps the index of a pandas frame are left out.

    Raises
    ------
    TypeError
        If X is a lazy frame of another library than polars, or pyarrow is not installed.
    """
    if not is_stream(X):
        return _without_index(X)
    if _library(X) == "polars":
        return _without_index(X.collect())
    if hasattr(type(X), "collect"):
        raise TypeError(f"X is {shown_type(X)}, which holds no rows yet; collect() it first")
    pyarrow = _pyarrow()
    if pyarrow is None:
        raise TypeError(
            f"X is {shown_type(X)}: install pyarrow to read it (pip install 'streaml1[arrow]')"
        )
    if _is_hugging_face(X):
        return pyarrow.Table.from_batches(arrow_batches(X))
    return _without_index(pyarrow.table(X))


def opened_frame(X: Any) -> Any:
    """Return X as `as_frame` does, but with the members of structs as columns.

    Raises
    ------
    TypeError
        If `as_frame` does, or two columns share a name.
    ValueError
        If values are nested too deeply.
    """
    X = as_frame(X)
    table = frame_table(X) if has_nested(X) else None
    return X if table is None else open_structs(table)


def as_rows(X: Any) -> Any:
    """Return a frame with nested columns as rows, as `frame_rows` does, and others as frames."""
    X = as_frame(X)
    return frame_rows(X) if has_nested(X) else X


def _without_index(X: Any) -> Any:
    """Return a frame without the columns in which pyarrow keeps the index of a pandas frame."""
    if _library(X) not in ("polars", "pyarrow") or not is_frame(X):
        return X
    names = X.column_names if hasattr(X, "column_names") else X.columns
    if not any(map(is_index, names)):
        return X
    return X.select([name for name in names if not is_index(name)])


def is_index(column: str) -> bool:
    """Return whether a column is the index of a pandas frame, by its name."""
    return _INDEX.fullmatch(column) is not None


def frame_rows(X: Any) -> Any:
    """Return a frame with columns of text or nested ones as rows, and anything else unchanged.

    The rows equal those of `batch_of`, which also names what is wrong with other frames.

    Raises
    ------
    BadExample
        If a nested value is invalid. `row` is the first invalid row.
    TypeError, ValueError
        If `opened_frame` raises it.
    """
    X = as_frame(X)
    if not is_frame(X) or not _has_texts(X) or not (COMPILED or has_nested(X)):
        return X
    table = frame_table(X)
    if table is None:
        return X
    if any(map(is_nested, table.schema.types)):
        return nested_rows(open_structs(table))
    rows = table_rows(table) if COMPILED else None
    return X if rows is None else rows


def nested_rows(table: Any, roles: MemberRoles = PLAIN_ROLES) -> Any:
    """Return the rows of a table with columns of lists and maps.

    Parameters
    ----------
    table
        A pyarrow.Table, with structs opened.
    roles
        The roles of nested columns and of members inside of them.

    Raises
    ------
    BadExample
        If a nested value is invalid. `row` is the first invalid row.
    TypeError
        If features of two columns may have the same name.
    """
    reject_name_from_two(
        name_from_two(dict(zip(table.column_names, table.schema.types, strict=True)))
    )
    faults: dict[int, str] = {}
    table = feature_columns(table, roles, faults)
    if faults:
        first = min(faults)
        batch_of(table_dicts(table.slice(0, first)))  # an earlier bad value comes first
        raise BadExample(faults[first], first)
    rows = table_rows(table) if COMPILED else None
    return table_dicts(table) if rows is None else rows


def frame_table(X: Any) -> Any:
    """Return a frame as a pyarrow.Table; None without pyarrow, or if it cannot be converted."""
    pyarrow = _pyarrow()
    if pyarrow is None:
        return None
    try:
        return _table(X)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return None  # columns of several types, lone surrogates


def has_nested(X: Any) -> bool:
    """Return whether a frame of pandas, polars or pyarrow has columns of lists or objects."""
    if not is_frame(X):
        return False
    library = _library(X)
    if library == "pandas":
        names = list(X.columns)
        nested = any(holds_nested(X.iloc[:, k]) for k in range(len(names)))
    elif library == "polars":
        names, nested = X.columns, any(kind.is_nested() for kind in X.dtypes)
    elif library == "pyarrow":
        names, nested = X.column_names, any(map(is_nested, X.schema.types))
    else:
        return False
    return nested and {*map(type, names)} == {str}


def holds_nested(column: Any) -> bool:
    """Return whether the first value of a pandas.Series is a list, a dict or an array."""
    kind: Any = column.dtype
    if hasattr(kind, "pyarrow_dtype"):
        return is_nested(kind.pyarrow_dtype)
    if not isinstance(kind, np.dtype) or kind.kind != "O":
        return False
    first = next((value for value in column.to_numpy() if not is_missing(value)), None)
    return isinstance(first, list | tuple | Mapping | np.ndarray)


def arrow_batches(X: Any) -> Iterator[Any]:
    """Yield the rows of a frame or a stream as record batches of pyarrow; needs pyarrow.

    Raises
    ------
    pyarrow.ArrowException
        If a column holds values of several types.
    """
    import pyarrow

    if _is_hugging_face(X):
        for table in X.with_format("arrow").iter(batch_size=BATCH_ROWS):
            yield from table.to_batches()
    elif is_stream(X) and hasattr(type(X), "collect_batches"):
        for frame in X.collect_batches(maintain_order=True):
            yield from _table(frame).to_batches()
    elif is_frame(X) or hasattr(type(X), "collect"):
        yield from _table(as_frame(X)).to_batches()
    else:
        yield from pyarrow.RecordBatchReader.from_stream(X)


def _table(X: Any) -> Any:
    """Convert a frame to a pyarrow.Table; the index of a pandas frame is left out.

    Raises
    ------
    TypeError
        If two columns share a name.
    pyarrow.ArrowException
        If a column holds values of several types.
    """
    import pyarrow

    if _library(X) == "pandas":
        X = _for_arrow(X)
        return pyarrow.Table.from_pandas(X, preserve_index=False, nthreads=1)
    if _library(X) == "polars":
        X = _without_wide_ints(X)
    return X if isinstance(X, pyarrow.Table) else pyarrow.table(X)


def _without_wide_ints(X: Any) -> Any:
    """Return a polars frame with decimals in place of 128-bit ints, which Arrow lacks."""
    import polars

    for name, kind in X.schema.items():
        if str(kind) in ("Int128", "UInt128"):
            column = X[name]
            decimals = column.cast(polars.Decimal(38, 0), strict=False)
            fits = decimals.null_count() == column.null_count()
            X = X.with_columns(decimals if fits else column.cast(polars.Float64))
    return X


def _for_arrow(X: Any) -> Any:
    """Return a pandas frame with columns that pyarrow converts to what they mean."""
    require_distinct(list(X.columns))
    dense = {name: kind.subtype for name, kind in X.dtypes.items() if hasattr(kind, "fill_value")}
    if dense:
        X = X.astype(dense)
    X = X.copy(deep=False)
    for name, kind in X.dtypes.items():
        # Arrow has no intervals and periods, and its durations have another text than those of
        # pandas: a category is named by the text of pandas, as in CSV.
        entries: Any = getattr(kind, "categories", None)
        if type(entries).__name__ in ("IntervalIndex", "PeriodIndex", "TimedeltaIndex"):
            X[name] = X[name].cat.rename_categories([*map(str, entries)])
    return X


def _library(X: Any) -> str:
    """Return the package that defines the class of X; pandas says "pandas" or "pandas.core..."."""
    return type(X).__module__.partition(".")[0]


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _has_texts(X: Any) -> bool:
    """Return whether a frame has columns of text or nested ones, and distinct str names.

    False for frames of libraries other than pandas, polars and pyarrow, and with sparse columns.
    """
    library = _library(X)
    if library == "pandas":
        names, types = list(X.columns), list(X.dtypes)
        if any(hasattr(kind, "fill_value") for kind in types):  # a sparse column
            return False
        texts = [not isinstance(kind, np.dtype) or kind.kind == "O" for kind in types]
    elif library == "polars":
        names, texts = X.columns, [not kind.is_numeric() for kind in X.dtypes]
    elif library == "pyarrow":
        names = X.column_names
        texts = [is_text(kind) or is_nested(kind) for kind in X.schema.types]
    else:
        return False
    return any(texts) and len(set(names)) == len(names) and {*map(type, names)} == {str}


# Columns


class _Column(NamedTuple):
    """A column as `read_columns` takes it, and the arrays that its addresses refer to."""

    kind: Any
    name: str
    """With an equals sign at its end, for texts."""
    data: int
    offsets: int
    end: int
    validity: int
    bit: int
    max_bytes: int
    """An upper bound on the bytes of its names."""
    owners: tuple[Any, ...]
    entries: Any = None
    """For codes: the entries of the dictionary, as an array of strings. For features: the names."""
    n_features: int | None = None
    """Of a column of features, their number."""


def table_rows(table: Any, categorical: Sequence[str] = ()) -> NamedRows | None:
    """Return the rows of a pyarrow.Table; None if a column has another type.

    Parameters
    ----------
    table
        The table, with columns of text, of numbers and of features (see `arrow_nested`).
    categorical
        Columns whose values are categories even if they are numbers.
    """
    n = len(table)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        found = _column(name, array, n, name in categorical)
        if found is None:
            return None
        columns.append(found)
    return _rows(columns, n, table, categorical)


def _column(name: str, array: Any, n: int, is_category: bool) -> _Column | None:
    import pyarrow
    from pyarrow import types

    kind = getattr(array, "type", None)
    if hasattr(array, "chunks") or kind is None:  # too long for one array
        return None
    if kind == features_type():
        return _features(array)
    if types.is_dictionary(kind):
        if len(array.dictionary) > max(n, LARGE_DICTIONARY) and is_text(kind.value_type):
            return _column(name, array.dictionary_decode(), n, True)
        return _codes(name, array)
    if types.is_string_view(kind):
        return _views(name, array)
    if types.is_string(kind) or types.is_large_string(kind):
        return _texts(name, array)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if is_category and not types.is_nested(kind):
        return _codes(name, dictionary_encoded(array))
    if types.is_null(kind):
        is_number, array = True, array.cast(pyarrow.float64())
    return _numbers(name, array) if is_number else None


def _numbers(name: str, array: Any) -> _Column:
    import pyarrow

    if pyarrow.types.is_boolean(array.type):
        array = array.cast(pyarrow.uint8())
    floats = array.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    floats = np.ascontiguousarray(floats, np.float64)
    return _Column(NUMBERS, name, floats.ctypes.data, 0, 0, 0, 0, 0, (floats,))


def _texts(name: str, array: Any) -> _Column:
    import pyarrow

    is_large = pyarrow.types.is_large_string(array.type)
    validity, offsets, data = array.buffers()
    n, first = len(array), array.offset
    size = 8 if is_large else 4
    begin, end, max_bytes = 0, 0, 0
    if n and offsets is not None:
        bounds = np.frombuffer(offsets, np.int64 if is_large else np.int32)
        max_bytes = int(bounds[first + n]) - int(bounds[first])
        begin = 0 if data is None else data.address
        end = 0 if data is None else begin + data.size
    has_nulls = array.null_count > 0 and validity is not None
    prefix = f"{name}="
    return _Column(
        TEXTS_64 if is_large else TEXTS_32, prefix, begin,
        0 if offsets is None else offsets.address + size * first, end,
        validity.address if has_nulls else 0, first, max_bytes + n * len(prefix.encode()), (array,),
    )  # fmt: skip


def _views(name: str, array: Any) -> _Column:
    n, first = len(array), array.offset
    validity, views, *data = array.buffers()
    bounds = [(0, 0) if b is None else (b.address, b.address + b.size) for b in data]
    buffers = np.array(bounds, np.uint64).reshape(-1, 2)
    begin = end = max_bytes = 0
    if n:
        begin, end = views.address + 16 * first, views.address + views.size
        sizes = np.frombuffer(views, np.int32)[4 * first : 4 * (first + n) : 4]
        max_bytes = int(np.maximum(sizes, 0).sum(dtype=np.int64))
    has_nulls = array.null_count > 0 and validity is not None
    prefix = f"{name}="
    return _Column(
        VIEWS, prefix, begin, buffers.ctypes.data, end, validity.address if has_nulls else 0,
        first, max_bytes + n * len(prefix.encode()), (array, buffers),
    )  # fmt: skip


def _codes(name: str, array: Any) -> _Column:
    """Return a column of categories, whose entries become names once each."""
    import pyarrow

    entries = array.dictionary
    if not is_text(entries.type):
        texts = [
            None if value is None or value != value else category_text(value)
            for value in entries.to_pylist()
        ]
        entries = pyarrow.array(texts, pyarrow.large_string())
    elif not pyarrow.types.is_large_string(entries.type):
        entries = entries.cast(pyarrow.large_string())
    indices = array.indices.cast(pyarrow.int64()).fill_null(-1)
    codes = np.ascontiguousarray(indices.to_numpy(zero_copy_only=False), np.int64)
    bound = _texts(name, entries).max_bytes
    return _Column(CODES, f"{name}=", codes.ctypes.data, 0, 0, 0, 0, bound, (codes,), entries)


def _features(array: Any) -> _Column:
    """Return a column of features, whose names are in a dictionary."""
    offsets = np.ascontiguousarray(array.offsets.to_numpy(), np.int64)
    keys, values = array.values.field(0), array.values.field(1).to_numpy()
    codes = np.ascontiguousarray(keys.indices.fill_null(-1).to_numpy(), np.int64)
    entries = keys.dictionary
    bound = _texts("", entries).max_bytes
    return _Column(
        FEATURES, "", codes.ctypes.data, 0, 0, values.ctypes.data, offsets.ctypes.data, bound,
        (offsets, codes, values), entries, int(offsets[-1] - offsets[0]) if len(offsets) else 0,
    )  # fmt: skip


# Rows


class _Names:
    """Memory for names."""

    def __init__(self, prefixes: bytes, size: int) -> None:
        self.bytes: Bytes = np.empty(len(prefixes) + size + SLACK, np.uint8)
        self.bytes[: len(prefixes)] = np.frombuffer(prefixes, np.uint8)
        self.start = self.bytes.ctypes.data
        self.next = self.start + len(prefixes)


class _Arrays(NamedTuple):
    """The features that the kernel has written."""

    hashes: Hashes
    values: Any
    spans: Spans
    indptr: Any
    has_large: bool


def _rows(
    columns: list[_Column], n: int, table: Any, categorical: Sequence[str]
) -> NamedRows | None:
    """Return the rows of a table from its described columns; None if their names are too long."""
    raw = [column.name.encode() for column in columns]
    sizes = [*map(len, raw)]
    begins = [sum(sizes[:k]) for k in range(len(raw))]
    size = sum(column.max_bytes for column in columns)
    if size + sum(sizes) >= MAX_NAME_BYTES:
        return None
    names = _Names(b"".join(raw), size + SLACK)
    described = np.zeros((N_FIELDS, len(columns)), np.uint64)
    hashes: Any = name_hashes([column.name for column in columns]) if columns else []
    owners = []
    for k, column in enumerate(columns):
        offsets, end = column.offsets, column.end
        if column.entries is not None:
            entry_hashes, entry_spans = _entries(column, names, names.start + begins[k], sizes[k])
            offsets, end = entry_spans.ctypes.data, entry_hashes.ctypes.data
            owners.append((entry_hashes, entry_spans))
        described[:, k] = [
            column.kind, names.start + begins[k], sizes[k], hashes[k], column.data, offsets, end,
            column.validity, column.bit,
        ]  # fmt: skip
    counts = [column.n_features for column in columns if column.n_features is not None]
    n_features = sum(counts) if counts else None
    found = _read(described, n, names, n_features)
    del owners  # the kernel has read their memory by address
    lines = np.arange(n).view(np.uint8)
    positions = np.arange(0, 8 * n, 8)

    def parse_line(number: bytes) -> tuple[dict[Hashable, Any]]:
        row = int(np.frombuffer(number.ljust(8, b"\n"), np.int64)[0])
        return (table_dicts(table.slice(row, 1), categorical)[0],)

    # The texts in a list are features such as `tags=a`, not texts of the column `tags`.
    header = [f"{field.name}=" if is_nested(field.type) else field.name for field in table.schema]
    return NamedRows(
        found.hashes, found.values, found.indptr, names.bytes, found.spans, lines, positions,
        positions + 8, parse_line, header, values_checked=not found.has_large,
        distinct_names=not (counts or any("=" in name for name in table.column_names)),
    )  # fmt: skip


def _entries(column: _Column, names: _Names, prefix: int, size: int) -> tuple[Hashes, Spans]:
    """Return hash and span of each entry of a dictionary; the span of a missing one is 0."""
    texts = _texts(column.name[:-1], column.entries)
    described = np.array(
        [[texts.kind, prefix, size, 0, texts.data, texts.offsets, texts.end, texts.validity,
          texts.bit]], np.uint64,
    ).T.copy()  # fmt: skip
    n = len(column.entries)
    found = _read(described, n, names)
    hashes, spans = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    is_given = np.diff(found.indptr) > 0
    hashes[is_given], spans[is_given] = found.hashes, found.spans
    return hashes, spans


def _read(described: Any, n: int, names: _Names, n_features: int | None = None) -> _Arrays:
    """Call the kernel; columns of features hold `n_features` at most, None if there are none."""
    size = n * described.shape[1] + (n_features or 0) + 8
    hashes, values, spans = np.empty(size, np.uint64), np.empty(size), np.empty(size, np.uint64)
    indptr = np.empty(n + 1, np.int64)
    kernel = read_columns if n_features is None else read_nested_columns
    k, after, has_large = kernel(
        described, np.uint64(n), np.uint64(names.start), np.uint64(names.next), hashes, values,
        spans, indptr,
    )  # fmt: skip
    names.next, k = int(after), int(k)
    return _Arrays(hashes[:k], values[:k], spans[:k], indptr, bool(has_large))


def table_dicts(table: Any, categorical: Sequence[str] = ()) -> list[dict[Hashable, Any]]:
    """Return the rows of a pyarrow.Table as dicts, with categories as text.

    Errors need them, and interpreters without compiled kernels.
    """
    columns: list[list[Any]] = []
    is_features = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_pylist()
        is_features.append(column.type == features_type())
        if not is_features[-1] and (name in categorical or is_dictionary(column.type)):
            values = [None if is_missing(value) else category_text(value) for value in values]
        columns.append(values)
    names = table.column_names
    if any(is_features):
        return [_joined(names, is_features, row) for row in zip(*columns, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] or [
        {} for _ in range(len(table))
    ]


def _joined(
    names: Sequence[str], is_features: Sequence[bool], row: Sequence[Any]
) -> dict[Hashable, Any]:
    """Return a row as a dict, with the features of its columns of features."""
    x: dict[Hashable, Any] = {}
    for name, holds_features, value in zip(names, is_features, row, strict=True):
        if not holds_features:
            _add(x, name, value)
            continue
        for pair in value:
            if pair["feature"] is not None:
                _add(x, pair["feature"], pair["value"])
    return x


def _add(x: dict[Hashable, Any], name: str, value: Any) -> None:
    """Add a value to a row that may have a feature of this name, as the kernel does."""
    known = x.get(name)
    if is_missing(known):
        x[name] = value
    elif is_missing(value):
        pass
    elif isinstance(value, str):
        x[f"{name}={value}"] = 1.0
    elif isinstance(known, str):
        x[f"{name}={known}"] = 1.0
        x[name] = value
    else:
        x[name] = known + value
