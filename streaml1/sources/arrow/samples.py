"""The first rows of a Parquet or Arrow file or of DuckDB, to look at before they are read."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

from streaml1.core.rows import is_missing
from streaml1.features.arrow_frames import is_index
from streaml1.features.arrow_nested import holds_other_types, is_unusable, json_values
from streaml1.features.arrow_types import is_nested
from streaml1.features.spark_vectors import is_vector
from streaml1.sources.arrow.databases import first_query_rows
from streaml1.sources.arrow.files import first_rows
from streaml1.sources.arrow.tables import open_columns
from streaml1.sources.json_samples import members_of, summarize_members
from streaml1.sources.readers.csv_kinds import ColumnSummary
from streaml1.sources.samples import N_SAMPLED

__all__ = ["NESTED", "ArrowSample", "sample_arrow", "sample_duckdb"]

NESTED = "nested"
"""The kind of a column of bytes or extensions, also inside lists and maps: it has no features."""


class ArrowSample(NamedTuple):
    """The columns of the first rows, and how many rows there are."""

    columns: list[ColumnSummary]
    n_rows: int


def sample_arrow(name: str, format: str) -> ArrowSample:
    """Summarize the columns of the first rows of a file of `PARQUET` or `ARROW`."""
    return _summary(name, first_rows(name, format, N_SAMPLED))


def sample_duckdb(name: str) -> ArrowSample:
    """Summarize the columns of the first rows of a table or query of DuckDB."""
    return _summary(name, first_query_rows(name, N_SAMPLED))


def _summary(name: str, table: Any) -> ArrowSample:
    opened = open_columns(name, table.schema)
    header = [column for column in opened.header if not is_index(column)]
    table = opened.select(table, header)
    values = {column: _values(table[column]) for column in header}
    rows = [dict(zip(header, row, strict=True)) for row in zip(*values.values(), strict=True)]
    members = [dict(members_of(row)) for row in rows]
    maps = {
        column
        for row in rows
        for column, value in row.items()
        if isinstance(value, dict) and not is_vector(value)
    }
    names: dict[str, str] = {}  # and the columns that they are from
    for column in header:
        inside = [column]
        if column in maps:
            inside = [key for row in members for key in row if key.startswith(f"{column}.")]
        names |= dict.fromkeys(inside, column)
    found = [
        _by_type(column, opened.kinds[names[column.name]])
        for column in summarize_members(list(names), members)
    ]
    return ArrowSample(found, len(table))


def _values(column: Any) -> list[Any]:
    """Return the values of a column as JSON has them; NaN is missing."""
    if is_nested(column.type) and not (is_unusable(column.type) or holds_other_types(column.type)):
        return [_without_decimals(value) for value in json_values(column)]
    return [_plain(value) for value in column.to_pylist()]


def _without_decimals(value: Any) -> Any:
    """Return a value with numbers as JSON has them: whole ones, such as ids, keep their digits."""
    if isinstance(value, dict):
        return {name: _without_decimals(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_without_decimals(inside) for inside in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; NaN is missing."""
    if is_missing(value):
        return None
    value = _without_decimals(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _by_type(column: ColumnSummary, kind: Any) -> ColumnSummary:
    from pyarrow import types

    if types.is_temporal(kind):
        return replace(column, kind="time-like")
    if is_unusable(kind) or holds_other_types(kind):
        return replace(column, kind=NESTED)
    if types.is_dictionary(kind) and not types.is_string(kind.value_type):
        return replace(column, kind="category", is_category=True)
    return column
