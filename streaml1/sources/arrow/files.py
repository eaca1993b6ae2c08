"""Parquet and Arrow IPC (Feather) files, read a batch at a time."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from streaml1.core.named_options import named_options
from streaml1.sources.arrow.tables import TableReader, TableSource, require_pyarrow
from streaml1.sources.extras import first_line
from streaml1.sources.readers.decompression import head_of
from streaml1.sources.readers.remote import is_remote, open_remote
from streaml1.sources.readers.signatures import likely_format
from streaml1.sources.source import Block, Lost, Reject, SourceError

__all__ = [
    "ARROW",
    "PARQUET",
    "ArrowFile",
    "after_rows",
    "arrow_format",
    "first_rows",
    "tables_of",
]

PARQUET, ARROW = "parquet", "arrow"

MAGIC = {b"PAR1": PARQUET, b"ARROW1": ARROW}
"""Formats by the first bytes of their files, which are also the last."""

ARROW_SCHEMA = b"ARROW:schema"
"""Entry of the metadata of a Parquet file: the schema that was written."""

STREAM_MAGIC, FEATHER_1 = b"\xff\xff\xff\xff", b"FEA1"
"""First bytes of an Arrow stream, which has no table of its batches."""

DIGESTED = 2**16
"""Bytes at the end of a file that tell it from others: the footer lists all parts of the file."""


def arrow_format(path: str | Path) -> str | None:
    """Return the format of a file by its first and last bytes, or None."""
    try:
        if not Path(path).is_file():  # reading from a pipe would take its bytes away
            return None
        with open(path, "rb") as file:
            head = file.read(8)
            file.seek(-min(8, os.path.getsize(path)), os.SEEK_END)
            tail = file.read(8)
    except OSError:
        return None
    found = (f for magic, f in MAGIC.items() if head.startswith(magic) and tail.endswith(magic))
    return next(found, None)


class ArrowFile(TableSource):
    """The rows of a Parquet or Arrow IPC file.

    Parameters
    ----------
    name
        The path or URL.
    format
        `PARQUET` or `ARROW`.
    target, categorical, weight, require_label, ignore, text, positive, id
        As for `TableReader`.

    Raises
    ------
    SourceError
        If the file cannot be read, or a role does not fit.
    """

    def __init__(self, name: str, format: str, *, text: tuple[str, ...] = (), **roles: Any) -> None:
        super().__init__(name, text)
        self._format = format
        with _valid_file(name, format) as file:
            schema = _schema_of(file, format)
        self._reader = TableReader(name, schema, text=text, **roles)
        self.line = 0
        self._check_header: Callable[..., None] = lambda header, kinds: None
        self._digest = self._footer_digest()

    def _footer_digest(self) -> str:
        name = self.name
        with open_remote(name, seekable=True) if is_remote(name) else open(name, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - DIGESTED))
            return hashlib.sha256(file.read() + size.to_bytes(8, "little")).hexdigest()

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""
        return {"source": self._format, "sha256": self._digest, **self._reader.roles}

    # As a part of a source of several files

    has_header = False

    def is_empty(self) -> bool:
        """Return False: an empty table has columns, which are compared with those of others."""
        return False

    def set_header_check(self, check: Callable[..., None]) -> None:
        """Call a function with the names of the columns and their kinds, before all examples."""
        self._check_header = check

    # Reading

    def _read(self, size: int, skipped: int, reject: Reject) -> Iterator[Block]:
        pyarrow = require_pyarrow(self.name)
        if self._footer_digest() != self._digest:
            raise Lost(f"{self.name} was replaced while it was read; start again")
        batches = self._parquet_batches if self._format == PARQUET else self._ipc_batches
        self._check_header(self._reader.header, self._reader.kinds)
        self.line = skipped
        try:
            with _arrow_file(self.name, self._format) as file:
                for table in tables_of(batches(file, size, skipped), size):
                    yield from self._reader.blocks(table, self.line, reject)
                    self.line += len(table)
                    if self._stopped():
                        return
        except (pyarrow.ArrowException, OSError) as error:
            raise Lost(f"{self.name}, after row {self.line}: {first_line(error)}") from None

    def _parquet_batches(self, file: Any, size: int, skipped: int) -> Iterator[Any]:
        """Yield the rows after the first `skipped` ones, without reading the groups before them."""
        metadata = file.metadata
        groups = range(metadata.num_row_groups)
        before = 0
        while groups and before + metadata.row_group(groups[0]).num_rows <= skipped:
            before += metadata.row_group(groups[0]).num_rows
            groups = groups[1:]
        if not groups:
            return
        columns = self._reader.paths
        batches = file.iter_batches(size, row_groups=list(groups), columns=columns)
        yield from after_rows(batches, skipped - before)

    def _ipc_batches(self, file: Any, size: int, skipped: int) -> Iterator[Any]:
        columns = self._reader.columns
        batches = (file.get_batch(k).select(columns) for k in range(file.num_record_batches))
        yield from after_rows(batches, skipped)


@contextmanager
def _arrow_file(name: str, format: str) -> Iterator[Any]:
    """Open a file with pyarrow."""
    import pyarrow

    with ExitStack() as opened:
        source: Any = name
        if is_remote(name):
            source = opened.enter_context(open_remote(name, seekable=True))
        if format == PARQUET:
            from pyarrow import parquet

            # A buffer for whole row groups would take memory by their size.
            yield opened.enter_context(parquet.ParquetFile(source, pre_buffer=False))
        else:
            source = pyarrow.memory_map(source) if source is name else source
            yield opened.enter_context(pyarrow.ipc.open_file(source))


@contextmanager
def _valid_file(name: str, format: str) -> Iterator[Any]:
    """Open a file that may be invalid; raise SourceError if it is not a file of this format."""
    pyarrow = require_pyarrow(name)
    try:
        with _arrow_file(name, format) as file:
            yield file
    except SourceError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if format == ARROW and not is_remote(name) and _starts_with(name, STREAM_MAGIC):
            raise SourceError(
                f"{name} is an Arrow stream, in which rows cannot be found: write it as an IPC "
                "file, as with polars' write_ipc or pyarrow.ipc.new_file"
            ) from None
        if format == ARROW and not is_remote(name) and _starts_with(name, FEATHER_1):
            raise SourceError(
                f"{name} is a Feather file of version 1: write it in version 2, as with "
                "pyarrow.feather.write_feather"
            ) from None
        what = "Parquet" if format == PARQUET else "Arrow IPC"
        head = head_of(name)
        if head.codec is not None:
            raise SourceError(
                f"{name} is compressed by {head.codec}, and {what} files are compressed inside: "
                "decompress it first"
            ) from None
        if likely := likely_format(head.text) if head.text.isascii() else {}:
            raise SourceError(
                f"{name} is not a {what} file: its first line looks like {named_options(likely)}"
            ) from None
        raise Lost(f"{name} is not a valid {what} file: {first_line(error)}") from None


def _schema_of(file: Any, format: str) -> Any:
    """Return the schema of an open file, with the types that were written.

    pyarrow reads categories of Parquet that are numbers, such as those of pandas, as plain numbers.
    """
    import pyarrow

    if format == ARROW:
        return file.schema
    schema = file.schema_arrow
    written = (file.metadata.metadata or {}).get(ARROW_SCHEMA)
    if written is None:
        return schema
    original = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(written)))
    if original.names != schema.names:
        return schema
    for k, field in enumerate(schema):
        schema = schema.set(k, _with_dictionaries(field, original.field(k)))
    return schema


def _with_dictionaries(field: Any, written: Any) -> Any:
    """Return a field with the dictionary types of the field that was written."""
    import pyarrow
    from pyarrow import types

    kind, original = field.type, written.type
    if types.is_dictionary(original):
        return field.with_type(original)
    if types.is_list(kind) and types.is_list(original):
        inside = _with_dictionaries(kind.value_field, original.value_field)
        return field.with_type(pyarrow.list_(inside))
    if types.is_struct(kind) and types.is_struct(original):
        pairs = zip(kind, original, strict=True)
        return field.with_type(pyarrow.struct([_with_dictionaries(*pair) for pair in pairs]))
    return field


def _with_categories(table: Any, schema: Any) -> Any:
    """Return a table whose columns are dictionaries where the schema says so."""
    from pyarrow import types

    for k, field in enumerate(schema):
        if types.is_dictionary(field.type) and not types.is_dictionary(table.field(k).type):
            table = table.set_column(k, field.name, table.column(k).dictionary_encode())
    return table


def _starts_with(name: str, magic: bytes) -> bool:
    with open(name, "rb") as file:
        return file.read(len(magic)) == magic


def first_rows(name: str, format: str, n: int) -> Any:
    """Return the first rows of a file as a pyarrow.Table.

    Raises
    ------
    SourceError
        If it is not a file of this format.
    """
    with _valid_file(name, format) as file:
        schema = _schema_of(file, format)
        if format == PARQUET:
            batches = file.iter_batches(n)
        else:
            batches = (file.get_batch(k) for k in range(file.num_record_batches))
        table = next(tables_of(batches, n), None)
        return schema.empty_table() if table is None else _with_categories(table, schema)


def tables_of(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Gather record batches into tables of `size` rows; the last one may have fewer.

    Rows before an exception are delivered before it is raised.
    """
    import pyarrow

    pending: list[Any] = []
    n = 0
    try:
        for batch in batches:
            lo = 0
            while lo < len(batch):
                part = batch.slice(lo, size - n)
                pending.append(part)
                lo += len(part)
                n += len(part)
                if n == size:
                    done, pending, n = pending, [], 0
                    yield pyarrow.Table.from_batches(done)
    except Exception:
        if pending:
            yield pyarrow.Table.from_batches(pending)
        raise
    if pending:
        yield pyarrow.Table.from_batches(pending)


def after_rows(batches: Iterator[Any], skipped: int) -> Iterator[Any]:
    """Yield the rows of batches after the first `skipped` ones."""
    for batch in batches:
        if skipped >= len(batch):
            skipped -= len(batch)
            continue
        yield batch.slice(skipped)
        skipped = 0
