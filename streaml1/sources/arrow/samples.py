"""The first rows of a Parquet or Arrow file or of DuckDB, to look at before they are read."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

from streaml1.core.rows import is_missing
from streaml1.features.arrow_frames import is_index
from streaml1.sources.arrow.databases import first_query_rows
from streaml1.sources.arrow.files import first_rows
from streaml1.sources.arrow.tables import is_feature, is_unusable, reject_duplicates
from streaml1.sources.json_samples import summarize_members
from streaml1.sources.readers.csv_kinds import ColumnSummary
from streaml1.sources.samples import N_SAMPLED

__all__ = ["NESTED", "ArrowSample", "sample_arrow", "sample_duckdb"]

NESTED = "nested"
"""The kind of a column of lists, structs, maps, bytes or extensions, which cannot be features."""


class ArrowSample(NamedTuple):
    """The columns of the first rows, and how many rows there are."""

    columns: list[ColumnSummary]
    n_rows: int


def sample_arrow(name: str, format: str) -> ArrowSample:
    """Summarize the columns of the first rows of a file.

    Parameters
    ----------
    name
        The path.
    format
        `PARQUET` or `ARROW`.

    Raises
    ------
    SourceError
        If the file is not valid.
    """
    return _summary(name, first_rows(name, format, N_SAMPLED))


def sample_duckdb(name: str) -> ArrowSample:
    """Summarize the columns of the first rows of a table or query of DuckDB.

    Parameters
    ----------
    name
        The source, such as ``duckdb:clicks.duckdb?table=clicks``.

    Raises
    ------
    SourceError
        If the rows cannot be read.
    """
    return _summary(name, first_query_rows(name, N_SAMPLED))


def _summary(name: str, table: Any) -> ArrowSample:
    reject_duplicates(name, table.column_names)
    names = [column for column in table.column_names if not is_index(column)]
    values = {column: [_plain(value) for value in table[column].to_pylist()] for column in names}
    rows = [dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)]
    kinds = {column: table.schema.field(column).type for column in names}
    found = [_by_type(column, kinds[column.name]) for column in summarize_members(names, rows)]
    return ArrowSample(found, len(table))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; NaN is missing."""
    if is_missing(value):
        return None
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _by_type(column: ColumnSummary, kind: Any) -> ColumnSummary:
    from pyarrow import types

    if types.is_temporal(kind):
        return replace(column, kind="time-like")
    if is_unusable(kind) or not is_feature(kind):
        return replace(column, kind=NESTED)
    if types.is_dictionary(kind) and not types.is_string(kind.value_type):
        return replace(column, kind="category", is_category=True)
    return column
