"""An append-only log in segments, next to checkpoints that record how much of it they cover.

A segment is a file ``EEEEEEEE-NNNNNNNN.log``: the epoch of the run that created it, and its number.
Files are only appended to, and each run creates new ones. Bytes after the length that a checkpoint
records, torn or not, are ignored.

Layout of a file: 8 bytes ``streamwl`` and the format version (uint32, little-endian); then entries,
each with its length and CRC-32 (two uint32) before its bytes. The length is the initial value of
the CRC, so that the CRC covers it, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from streaml1.core.atomic_write import fsync_directory
from streaml1.training.checkpoint import CheckpointError, Unreadable
from streaml1.training.checkpoint.ownership import unwritable

__all__ = ["SEGMENT_BYTES", "SegmentLog", "Segments"]

MAGIC = b"streamwl"
FORMAT = 1
_FILE_HEAD = struct.Struct("<8sI")
_ENTRY_HEAD = struct.Struct("<II")
_NAME = re.compile(r"(\d{8})-(\d{8})\.log")

SEGMENT_BYTES = 2**24
"""Size from which a new segment is started."""

BUFFER_BYTES = 2**18
"""Entries are buffered up to this size before they are written."""

Segments = list[list[int]]
"""Epoch, number and length of some segments, in order, as a checkpoint records them."""


class SegmentLog:
    """Log of entries in files of a directory.

    Parameters
    ----------
    directory
        The directory; created if it does not exist.
    epoch
        Number of the run, larger than that of all earlier runs in the directory.

    Attributes
    ----------
    current : int
        Index of the last segment, which entries are appended to; indices count from 0 in order.
    total : int
        Bytes of all segments that are not forgotten.

    Raises
    ------
    CheckpointError
        If the directory cannot be written.
    """

    def __init__(self, directory: Path, epoch: int) -> None:
        self.directory = directory
        self.epoch = epoch
        self._segments: dict[int, list[int]] = {}  # epoch, number and length by index
        self.current = -1
        self.total = 0
        self._file = -1
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._unsynced: list[int] = []
        self._has_new_file = False
        with self._translate_errors():
            directory.mkdir(parents=True, exist_ok=True)
        self._number = max((number for e, number in self._list_files() if e == epoch), default=0)

    def resume(self, segments: Segments) -> Iterator[tuple[int, bytes]]:
        """Yield the entries that a checkpoint covers, each with the index of its segment.

        Raises
        ------
        Unreadable
            If a segment is missing or damaged.
        CheckpointError
            If a segment cannot be read, or has a newer format.
        """
        for epoch, number, length in segments:
            self.current += 1
            self._segments[self.current] = [epoch, number, length]
            self.total += length
            for data in self._read_entries(self._path(epoch, number), length):
                yield self.current, data

    def _read_entries(self, path: Path, length: int) -> Iterator[bytes]:
        try:
            with path.open("rb") as file:
                data = file.read(length)
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            kind = Unreadable if isinstance(error, FileNotFoundError) else CheckpointError
            raise kind(f"{path}: {reason}; the latest checkpoint needs it") from None
        lost = "the pending examples are lost; use another directory"
        complete = _FILE_HEAD.size <= length <= len(data)
        magic, version = _FILE_HEAD.unpack_from(data) if complete else (b"", 0)
        if magic != MAGIC or version < 1:
            raise Unreadable(f"{path} is truncated or not a log: {lost}")
        if version > FORMAT:
            raise CheckpointError(
                f"{path} has format {version}, newer than {FORMAT}; upgrade streaml1"
            )
        pos = _FILE_HEAD.size
        while pos < length:
            start = pos + _ENTRY_HEAD.size
            size, crc = _ENTRY_HEAD.unpack_from(data, pos) if start <= length else (0, 0)
            end = start + size
            entry = data[start:end]
            if not size or end > length or zlib.crc32(entry, size) != crc:
                raise Unreadable(f"{path} is damaged at byte {pos}: {lost}")
            yield entry
            pos = end

    def append(self, entry: bytes) -> int:
        """Append an entry, and return the index of its segment."""
        if self._file < 0 or self._segments[self.current][2] >= SEGMENT_BYTES:
            self.roll()
        size = len(entry)
        self._buffer += (_ENTRY_HEAD.pack(size, zlib.crc32(entry, size)), entry)
        self._segments[self.current][2] += _ENTRY_HEAD.size + size
        self.total += _ENTRY_HEAD.size + size
        self._buffered += _ENTRY_HEAD.size + size
        if self._buffered >= BUFFER_BYTES:
            self._write()
        return self.current

    def roll(self) -> int:
        """Start a new segment, and return its index."""
        self._write()
        if self._file >= 0:
            self._unsynced.append(self._file)
            self._file = -1
        self._number += 1
        path = self._path(self.epoch, self._number)
        with self._translate_errors():
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._has_new_file = True
        self.current += 1
        self._segments[self.current] = [self.epoch, self._number, _FILE_HEAD.size]
        self.total += _FILE_HEAD.size
        self._buffer.append(_FILE_HEAD.pack(MAGIC, FORMAT))
        self._buffered += _FILE_HEAD.size
        return self.current

    def flush(self) -> None:
        """Make all entries durable."""
        self._write()
        with self._translate_errors():
            for file in self._unsynced:
                os.fsync(file)
                os.close(file)
            self._unsynced.clear()
            if self._file >= 0:
                os.fsync(self._file)
            if self._has_new_file:
                fsync_directory(self.directory)
                fsync_directory(self.directory.parent)
                self._has_new_file = False

    def _write(self) -> None:
        if not self._buffer:
            return
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._buffered = 0
        with self._translate_errors():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            # DONTNEED starts the write-back now, so that `flush` has little left to wait for.
            pos = self._segments[self.current][2] - len(data)
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._file, pos, len(data), os.POSIX_FADV_DONTNEED)

    def segments_from(self, first: int) -> Segments:
        """Return the segments from index `first` on, for a checkpoint."""
        return [list(segment) for index, segment in self._segments.items() if index >= first]

    def forget(self, first: int) -> None:
        """Remove the segments before index `first` from `total`: they hold nothing pending."""
        for index in [index for index in self._segments if index < first]:
            self.total -= self._segments.pop(index)[2]

    def delete_except(self, needed: Collection[tuple[int, int]]) -> None:
        """Delete the files of this and earlier epochs that no checkpoint needs.

        Parameters
        ----------
        needed
            Epoch and number of the segments of all retained checkpoints.
        """
        known = {*needed, *((epoch, number) for epoch, number, _ in self._segments.values())}
        for epoch, number in self._list_files():
            if (epoch, number) not in known and epoch <= self.epoch:
                with self._translate_errors():
                    self._path(epoch, number).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files; entries that were not flushed may be lost."""
        for file in (*self._unsynced, self._file):
            if file >= 0:
                os.close(file)
        self._unsynced.clear()
        self._file = -1

    def __del__(self) -> None:
        if hasattr(self, "_unsynced"):  # a run that failed has not closed the log
            self.close()

    def _list_files(self) -> list[tuple[int, int]]:
        """Return epoch and number of all segments in the directory."""
        matches = [_NAME.fullmatch(path.name) for path in self.directory.iterdir()]
        return sorted((int(match[1]), int(match[2])) for match in matches if match)

    def _path(self, epoch: int, number: int) -> Path:
        return self.directory / f"{epoch:08}-{number:08}.log"

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self.directory, error) from None
