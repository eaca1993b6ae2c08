"""Tables and queries of DuckDB as sources of examples.

======================================= ============================================================
source                                  rows
======================================= ============================================================
``duckdb:clicks.duckdb?table=clicks``   of a table or view of a database
``duckdb:clicks.duckdb``                of its only table
``duckdb:clicks.duckdb?query=SELECT``   of a query of a database
``duckdb:SELECT ... FROM 'x.parquet'``  of a query that needs no database
======================================= ============================================================

Databases are opened read-only, and queries must be one statement that only reads. Rows arrive as an
Arrow stream: memory holds a few batches of them, unless the query itself needs more.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from streaml1.sources.arrow.files import after_rows, tables_of
from streaml1.sources.arrow.tables import TableReader, TableSource, require_pyarrow
from streaml1.sources.extras import first_line, importing
from streaml1.sources.readers.opening import require_readable
from streaml1.sources.source import Block, Lost, Reject, SourceError, Unavailable

__all__ = ["DuckdbRows", "first_query_rows"]

PREFIX = "duckdb:"

HEADER = 3 * 2**12
"""Bytes at the beginning of a database that change whenever it is written."""

MAGIC, MAGIC_AT = b"DUCK", 8
"""What every database holds, and where."""

MAX_LISTED = 20
"""Tables that an error lists."""

READING = re.compile(r"\(*\s*(with|select|from|values|table|pivot|unpivot)\b", re.IGNORECASE)
"""How a query begins that needs no database; a file may have such a name."""


class DuckdbName(NamedTuple):
    """The parts of a source's name."""

    database: str | None
    """The file; None for a query that needs none."""
    table: str | None
    query: str | None


class DuckdbRows(TableSource):
    """The rows of a table or query of DuckDB.

    Parameters
    ----------
    name
        The source, such as ``duckdb:clicks.duckdb?table=clicks``.
    target, categorical, weight, require_label, ignore, text, positive, id
        As for `TableReader`.

    Raises
    ------
    SourceError
        If the rows cannot be read, or a role does not fit.
    """

    def __init__(self, name: str, *, text: tuple[str, ...] = (), **roles: Any) -> None:
        super().__init__(name, text)
        self._parsed_name = parse_name(name)
        with open_rows(name, self._parsed_name) as batches:
            self._reader = TableReader(name, batches.schema, text=text, **roles)
        self._digest = _digest(self._parsed_name.database)

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""
        return {"source": self.name, "sha256": self._digest, **self._reader.roles}

    def _read(self, size: int, skipped: int, reject: Reject) -> Iterator[Block]:
        if _digest(self._parsed_name.database) != self._digest:
            raise Lost(f"{self._parsed_name.database} was changed while it was read; start again")
        line = skipped
        for table in tables_of(after_rows(self._batches(), skipped), size):
            yield from self._reader.blocks(table, line, reject)
            line += len(table)
            if self._stopped():
                return

    def _batches(self) -> Iterator[Any]:
        with open_rows(self.name, self._parsed_name) as stream:
            for batch in stream:
                yield batch.select(self._reader.columns)


def parse_name(name: str) -> DuckdbName:
    """Parse the name of a source.

    Raises
    ------
    SourceError
        If it is incomplete.

    Examples
    --------
    >>> from streaml1.sources.arrow.databases import parse_name
    >>> parse_name("duckdb:day.duckdb?table=clicks")
    DuckdbName(database='day.duckdb', table='clicks', query=None)
    >>> parse_name("duckdb:SELECT * FROM 'day-*.parquet'").query
    "SELECT * FROM 'day-*.parquet'"
    """
    rest = name.removeprefix(PREFIX).strip()
    database, mark, option = rest.partition("?")
    kind, equals, value = option.partition("=")
    kind = kind.strip().lower()
    if mark and equals and kind in ("table", "query") and database and value.strip():
        return DuckdbName(database, *((value, None) if kind == "table" else (None, value)))
    if not os.path.exists(rest) and (READING.match(rest) or re.search(r"\s", rest)):
        return DuckdbName(None, None, rest)
    if not rest or mark:
        raise SourceError(
            f"{name} names no rows: use duckdb:FILE?table=NAME, duckdb:FILE?query=QUERY or "
            "duckdb:QUERY"
        )
    return DuckdbName(rest, None, None)


def first_query_rows(name: str, n: int) -> Any:
    """Return the first rows of a source as a pyarrow.Table."""
    with open_rows(name, parse_name(name)) as stream:
        table = next(tables_of(stream, n), None)
        return stream.schema.empty_table() if table is None else table


@contextmanager
def open_rows(name: str, parsed: DuckdbName) -> Iterator[Any]:
    """Open the rows of a source as a pyarrow.RecordBatchReader.

    Raises
    ------
    SourceError
        If they cannot be read, also while they are read.
    """
    with importing("DuckDB", "duckdb", name):
        import duckdb
    pyarrow = require_pyarrow(name)
    if parsed.database is not None:
        _require_database(parsed.database)
    try:
        with _connected(duckdb, parsed.database) as connection:
            relation = connection.sql(_reading_query(duckdb, connection, name, parsed))
            with pyarrow.RecordBatchReader.from_stream(_Exported(relation)) as stream:
                yield stream
    except (duckdb.Error, pyarrow.ArrowException, OSError) as error:
        text = first_line(error)
        if "lock on file" in text:
            raise Unavailable(
                f"{parsed.database} is open in a process that writes to it: close it there, or "
                "read a copy"
            ) from None
        raise SourceError(f"{name}: {text}") from None


class _Exported:
    """A relation as an Arrow C stream; in DuckDB 1.1 its method takes no schema."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule of the stream."""
        return self._relation.__arrow_c_stream__()


@contextmanager
def _connected(duckdb: Any, database: str | None) -> Iterator[Any]:
    # Otherwise DuckDB would read Python variables as tables.
    settings = {"python_enable_replacements": "false"}
    is_file = database is not None
    connection = duckdb.connect(database or ":memory:", read_only=is_file, config=settings)
    try:
        yield connection
    finally:
        connection.close()


def _reading_query(duckdb: Any, connection: Any, name: str, parsed: DuckdbName) -> str:
    """Return a query of the rows that only reads."""
    if parsed.query is not None:
        statements = connection.extract_statements(parsed.query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise SourceError(
                f"{name}: a source must be one statement that only reads, such as SELECT"
            )
        return parsed.query
    tables = _tables(connection)
    table = parsed.table
    if table is None:
        if len(tables) != 1:
            raise SourceError(
                f"{parsed.database} has {_listed(tables)}: name one, as in "
                f"{PREFIX}{parsed.database}?table=NAME"
            )
        [table] = tables
    matches = [known for known in tables if known.lower() == table.lower()]
    if not matches:
        raise SourceError(f"{parsed.database} has no table {table!r}, but {_listed(tables)}")
    return f"SELECT * FROM {tables[matches[0]]}"


def _tables(connection: Any) -> dict[str, str]:
    """Return the tables and views of a database by their names, each quoted for SQL.

    Those of another schema than the default one are named with it.
    """
    rows = connection.execute(
        "SELECT table_schema, table_name, current_schema() FROM information_schema.tables "
        "WHERE table_catalog = current_database() ORDER BY table_schema, table_name"
    ).fetchall()
    return {
        table if schema == default else f"{schema}.{table}": f"{_quoted(schema)}.{_quoted(table)}"
        for schema, table, default in rows
    }


def _quoted(identifier: str) -> str:
    doubled = identifier.replace('"', '""')
    return f'"{doubled}"'


def _listed(tables: dict[str, str]) -> str:
    if not tables:
        return "no tables"
    more = len(tables) - MAX_LISTED
    names = ", ".join([*tables][:MAX_LISTED]) + f" and {more:,} more" * (more > 0)
    return f"the table{'s' * (len(tables) > 1)} {names}"


def _require_database(path: str) -> None:
    """Raise `SourceError` unless a file is a database: DuckDB opens files of other formats, too."""
    require_readable(path)
    with open(path, "rb") as file:
        if file.read(HEADER)[MAGIC_AT:].startswith(MAGIC):
            return
    raise Lost(f"{path} is not a DuckDB database")


def _digest(database: str | None) -> str:
    """Return a digest that changes when a database is written; the same for all queries alone."""
    state = hashlib.sha256()
    for path in () if database is None else (database, f"{database}.wal"):
        if os.path.exists(path):
            with open(path, "rb") as file:
                state.update(file.read(HEADER) + os.path.getsize(path).to_bytes(8, "little"))
    return state.hexdigest()
