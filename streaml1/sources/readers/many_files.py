"""Several files, such as those of `file_lists`, read one after the other as one source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from streaml1.core.named_options import named_option
from streaml1.core.types import SourcePosition
from streaml1.sources.key_columns import KeyColumns
from streaml1.sources.readers.chunks import Wait
from streaml1.sources.readers.csv_header_checks import HeaderlessError
from streaml1.sources.readers.directory_keys import path_from_keys
from streaml1.sources.readers.file_lists import warn_of_partitions
from streaml1.sources.readers.remote import is_remote, remote_size
from streaml1.sources.readers.signatures import suffix_of
from streaml1.sources.source import (
    GROWING,
    Block,
    Lost,
    Reject,
    SourceError,
    check_block_size,
    require_count,
)

__all__ = ["ManyFiles"]

MAX_LISTED = 5
"""Columns that an error about a header lists."""


class _Before(NamedTuple):
    """What precedes a part."""

    part: int = 0
    """The number of parts."""
    lines: int = 0
    """The lines in them."""
    size: int = 0
    """The bytes in them, on the disk."""


@dataclass(frozen=True, slots=True)
class PartBlock(Block):
    """Consecutive examples of a part; `lines` are counted on from one part to the next.

    Parameters
    ----------
    before
        What precedes the part.
    file
        What positions call the part.
    """

    before: _Before = _Before()
    file: str = ""

    def after(self, rows: int) -> Any:
        """Return the position after the first `rows` examples."""
        if rows < len(self) or self.end is None:
            line = self.lines[rows] - 1 if rows < len(self) else self.lines[-1]
            return _position(self.before, self.file, {"line": line - self.before.lines})
        return self.end

    def place(self, row: int) -> str:
        """Return where an example was read, such as ``part-00002.csv:17``."""
        return f"{self.name}:{self.lines[row] - self.before.lines}"


class Part(Protocol):
    """A file that is read as a part of a source.

    Parameters
    ----------
    name
        The path.
    texts
        The fields that are read as text; None if every string is.
    has_header
        Whether the file begins with the names of its columns.
    line
        Number of lines that were read.
    """

    name: str

    @property
    def texts(self) -> tuple[str, ...] | None: ...

    @property
    def has_header(self) -> bool: ...

    @property
    def line(self) -> int: ...

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples, from the position that `begin` has set."""

    def is_empty(self) -> bool:
        """Return whether the file has no example and no header."""

    def set_header_check(self, check: Callable[..., None]) -> None:
        """Call a function with the names of the columns, before the first example."""

    def set_stop(self, stopped: Callable[[], bool], wait: Wait | None = None) -> None:
        """Stop reading between two examples once `stopped()` is true."""

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None)."""

    def position(self) -> Any:
        """Return the next position to read; None if it follows from `line`."""


class ManyFiles:
    """Files that are read one after the other, as if they were one.

    Line numbers are counted on from part to part, so that held-out rows do not depend on the sizes
    of the parts; places name the part and the line in it. Nothing of a part is retained once it is
    read.

    Parameters
    ----------
    name
        What all of them are called in reports and errors.
    files
        The files, in order.
    open_part
        Opens a file as a source.
    keys
        The columns whose values are in names of directories; None if there are none.
    has_columns
        Whether the files have columns. Otherwise a warning says that names of directories with
        values are not read.
    """

    block = 4096

    def __init__(
        self,
        name: str,
        files: Sequence[str],
        open_part: Callable[[str], Part],
        keys: KeyColumns | None = None,
        has_columns: bool = True,
    ) -> None:
        self.name = name
        self.files = list(files)
        self._open_part = open_part
        self._keys = keys
        self._has_columns = has_columns
        self._start: SourcePosition | None = None
        self._tracks = False  # whether positions are needed
        self._was_read = False
        self._total: int | None = None  # bytes of all files, once it is needed
        self._stop: tuple[Callable[[], bool], Wait | None] | None = None
        self._fills_blocks = False
        self._columns: list[str] | None = None  # of the CSV header of the first part, sorted
        self._kinds: dict[str, tuple[str, str]] = {}  # of columns, and the parts they are from
        # The part that is read, and the position in it if nothing of it was read yet.
        self._before, self._part = _Before(), self._open(0)
        self._requested: SourcePosition | None = None

    @property
    def texts(self) -> tuple[str, ...] | None:
        """The fields that are read as text; None if every string is."""
        texts = self._part.texts
        return texts if texts is None or self._keys is None else (*texts, *self._keys.texts)

    def _open(self, index: int) -> Part:
        name = self.files[index]
        part = self._open_part(name)
        part.set_header_check(partial(self._check_header, name))
        return part

    def fraction_read(self) -> float | None:
        """Return the share of the bytes of all files that was read; None if it is not known."""
        if self._total is None:
            self._total = sum(map(_file_size, self.files))
        read: float | None = getattr(self._part, "fraction_read", lambda: None)()
        if read is None or not self._total:
            return None
        here = _file_size(self._part.name)
        return min(1.0, (self._before.size + read * here) / self._total)

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples, from the position that `begin` has set.

        Raises
        ------
        SourceError
            If a part cannot be read, or cannot be read twice.
        """
        check_block_size(size)
        if self._was_read:
            for name in self.files:
                if Path(name).is_fifo():
                    raise SourceError(
                        f"{name} cannot be read twice: write it to a file and read that"
                    )
        elif not self._has_columns:
            warn_of_partitions(self.name, self.files)
        self._was_read = True
        start, self._start = self._start, None
        return self._blocks(start, size, reject)

    def _blocks(self, start: SourcePosition | None, size: int, reject: Reject) -> Iterator[Block]:
        before, at = _Before(), None
        if start is not None:
            before, at = _before(start), start
        if before.part:
            self._read_first_header()
        for index in range(before.part, len(self.files)):
            self._before, self._part = before, self._open(index)
            self._requested = self._position(before, self.files[index], at or {"line": 0})
            yield from self._blocks_of_part(at, size, reject)
            if self._stop is not None and self._stop[0]():
                return
            size_here = _file_size(self.files[index])
            before = _Before(index + 1, before.lines + self._part.line, before.size + size_here)
            at = None

    def _blocks_of_part(
        self, at: SourcePosition | None, size: int, reject: Reject
    ) -> Iterator[Block]:
        part, before = self._part, self._before
        if part.is_empty():  # Spark writes such parts; they have no header
            return
        if self._tracks:
            part.begin(at)
        if self._stop is not None:
            part.set_stop(*self._stop)
        if self._fills_blocks and hasattr(part, "fill_blocks"):
            part.fill_blocks()
        self._requested = None

        def reject_in_part(
            place: str, reason: str, number: int | None = None, origin: Any = None
        ) -> None:
            line = int(place.rpartition(":")[2]) if number is None else number
            reject(place, reason, before.lines + line, origin)

        try:
            for block in part.blocks(size, reject_in_part):
                if self._keys is not None:
                    block = self._keys.added(block)
                yield self._renumbered(block, before)
                del block  # lets the reader reuse its memory for the next block
        except HeaderlessError as error:
            if self._columns is None:
                raise
            reason = str(error).rpartition(": use ")[0]
            raise Lost(f"{reason}, but {self.files[0]} has a header: {_join(self.files)}") from None

    def _renumbered(self, block: Block, before: _Before) -> PartBlock:
        given = {field.name: getattr(block, field.name) for field in fields(Block)}
        if before.lines:
            lines: Any = block.lines
            given["lines"] = (
                range(lines.start + before.lines, lines.stop + before.lines)
                if isinstance(lines, range)
                else [line + before.lines for line in lines]
            )
        if block.end is not None:
            given["end"] = self._position(before, block.name, block.end)
        return PartBlock(**given, before=before, file=self._file(block.name))

    def fill_blocks(self) -> None:
        """Make every block of a part full but the last; see `TextSource.fill_blocks`."""
        self._fills_blocks = True

    # Headers

    def _check_header(
        self, name: str, header: Sequence[str], kinds: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Reject a part whose columns are not those of the first one, in any order.

        Parameters
        ----------
        name, header
            The part and the names of its columns.
        kinds
            What columns hold if their types say so: text or numbers.
        """
        for column, kind in kinds.items():
            first = self._kinds.setdefault(column, (kind, name))
            if first[0] != kind:
                raise Lost(
                    f"column {column!r} of {name} holds {kind}, that of {first[1]} holds "
                    f"{first[0]}: use {named_option('categorical', [column])} for categories, or "
                    "convert one of them"
                )
        columns = sorted(header)
        if self._columns is None:
            self._columns = columns
        if columns == self._columns:
            return
        lacks = [column for column in self._columns if column not in columns]
        adds = [column for column in columns if column not in self._columns]
        differences = [
            f"{what} {_listed(names)}"
            for what, names in (("lacks", lacks), ("adds", adds))
            if names
        ] or ["repeats some of them"]
        rule = "all parts must have the same columns, in any order"
        if lacks == self._columns:
            rule = _join(self.files)
        raise Lost(
            f"{name} has other columns than {self.files[0]}: it {' and '.join(differences)}; {rule}"
        )

    def _read_first_header(self) -> None:
        """Note the columns of the first part if reading begins in a later one."""
        first = self._open(0)
        if self._columns is None and first.has_header and not first.is_empty():
            for _ in first.blocks(1, lambda *_: None):
                break

    # Stopping and positions

    def set_stop(self, stopped: Callable[[], bool], wait: Wait | None = None) -> None:
        """Stop reading between two lines once `stopped()` is true; see `TextSource.set_stop`."""
        self._stop = stopped, wait

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid: options and names of the parts."""
        # The digest of a Parquet file is that of one part.
        shared = {k: v for k, v in self._part.identity().items() if k != "sha256"}
        keys = {} if self._keys is None else self._keys.identity
        return {**shared, **keys, GROWING: [*map(self._file, self.files)]}

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None); return the position.

        Raises
        ------
        SourceError
            If the files before the position have changed.
        """
        self._tracks = True
        if at is None:
            at = self._position(_Before(), self.files[0], {"line": 0})
        before = _before(at)
        for number in (at.get("line", 0), *before):
            require_count(number, "number")
        if before.part >= len(self.files):
            raise ValueError(f"the part of a position must be below {len(self.files)}")
        if before.size != sum(map(_file_size, self.files[: before.part])):
            raise SourceError(
                f"{self.name} does not match the checkpoint: the {before.part:,} files before "
                f"{at['name']} have changed in size; use another checkpoint directory"
            )
        self._start = self._requested = at
        return at

    def position(self) -> Any:
        """Return the position after everything that was delivered."""
        if self._requested is not None:
            return self._requested
        at = self._part.position() or {"line": self._part.line}
        return self._position(self._before, self.files[self._before.part], at)

    def _position(self, before: _Before, name: str, at: SourcePosition) -> SourcePosition:
        return _position(before, self._file(name), at)

    def _file(self, name: str) -> str:
        """Return what positions call a part, wherever the directory of all parts is."""
        return Path(name).name if self._keys is None else path_from_keys(name)


def _position(before: _Before, file: str, at: SourcePosition) -> SourcePosition:
    """Return a position in a part as one in all of them."""
    within = {key: at[key] for key in ("line", "sha256") if key in at}
    return {**within, "name": file, **before._asdict()}


def _before(position: SourcePosition) -> _Before:
    return _Before(*(position[field] for field in _Before._fields))


def _file_size(name: str) -> int:
    """Return the size of a file in bytes; 0 for a pipe."""
    if is_remote(name):
        return remote_size(name)
    try:
        return os.stat(name).st_size
    except OSError:
        return 0


def _join(files: Sequence[str]) -> str:
    """Return what to do with files of which only the first one has a header."""
    pattern = os.path.join(os.path.dirname(files[0]), f"*{suffix_of(files[0])}")
    return f"if the others continue its lines, join them, as with cat {pattern} > all.csv"


def _listed(columns: Sequence[str]) -> str:
    names = ", ".join(map(repr, columns[:MAX_LISTED]))
    n_more = len(columns) - MAX_LISTED
    return names + (f" and {n_more} more" if n_more > 0 else "")
