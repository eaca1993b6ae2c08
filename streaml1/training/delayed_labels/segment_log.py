"""An append-only log in segments, beside checkpoints that tell how much of it they know.

A segment is a file `EEEEEEEE-NNNNNNNN.log`: the epoch of the owner that began it, and its number.
Nothing in a file is ever written anew, and a new owner begins a new one: what stands behind the
length that a checkpoint tells, torn or not, belongs to nobody.

Layout of a file: 8 bytes `streamwl`, the format's version (uint32, little-endian); then entries,
each its length and CRC-32 (2 uint32) and as many bytes. The CRC begins with the length.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from streaml1.core.atomic_write import sync_folder
from streaml1.training.checkpoint import CheckpointError, Unreadable
from streaml1.training.checkpoint.ownership import unwritable

__all__ = ["Log", "Segments"]

MAGIC = b"streamwl"
FORMAT = 1
_HEAD = struct.Struct("<8sI")
_ENTRY = struct.Struct("<II")
_NAME = re.compile(r"(\d{8})-(\d{8})\.log")

SEGMENT = 2**24
"""A segment that has so many bytes is the last one no longer."""

BUFFER = 2**18
"""So many bytes are held in memory before they go to the file."""

Segments = list[list[int]]
"""Epoch, number and length of some segments, in order: what a checkpoint tells."""


class Log:
    """Entries that are appended, in files of a folder.

    Parameters
    ----------
    folder
        Made if it is not there.
    epoch
        Of the owner of the folder, larger than that of all before.

    Raises
    ------
    CheckpointError
        Where the folder cannot be written.
    """

    def __init__(self, folder: Path, epoch: int) -> None:
        self.folder = folder
        self.epoch = epoch
        # By a number of its own, in order: epoch, number and length.
        self._segments: dict[int, list[int]] = {}
        self.current = -1
        self.total = 0
        self._file = -1
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._unsynced: list[int] = []
        self._new = False
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
        self._number = max((number for own, number in self._names() if own == epoch), default=0)

    def resume(self, segments: Segments) -> Iterator[tuple[int, bytes]]:
        """Each entry that a checkpoint knows, and the segment it is in."""
        for epoch, number, length in segments:
            self.current += 1
            self._segments[self.current] = [epoch, number, length]
            self.total += length
            for data in self._entries(self._path(epoch, number), length):
                yield self.current, data

    def _entries(self, path: Path, length: int) -> Iterator[bytes]:
        try:
            with path.open("rb") as file:
                data = file.read(length)
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            kind = Unreadable if isinstance(error, FileNotFoundError) else CheckpointError
            raise kind(f"{path}: {reason}; the last checkpoint needs it") from None
        lost = "what waits for its label is lost, so take another folder"
        whole = _HEAD.size <= length <= len(data)
        magic, version = _HEAD.unpack_from(data) if whole else (b"", 0)
        if magic != MAGIC or version < 1:
            raise Unreadable(f"{path} is torn, or no log: {lost}")
        if version > FORMAT:
            raise CheckpointError(
                f"{path} has format {version}, newer than {FORMAT}: upgrade streaml1"
            )
        at = _HEAD.size
        while at < length:
            size, crc = _ENTRY.unpack_from(data, at) if at + _ENTRY.size <= length else (0, 0)
            entry = data[at + _ENTRY.size : at + _ENTRY.size + size]
            end = at + _ENTRY.size + size
            if not size or end > length or zlib.crc32(entry, size) != crc:
                raise Unreadable(f"{path} is damaged at byte {at}: {lost}")
            yield entry
            at = end

    def append(self, entry: bytes) -> int:
        """Put an entry at the end; returns its segment."""
        if self._file < 0 or self._segments[self.current][2] >= SEGMENT:
            self.roll()
        size = len(entry)
        self._buffer += (_ENTRY.pack(size, zlib.crc32(entry, size)), entry)
        self._segments[self.current][2] += _ENTRY.size + size
        self.total += _ENTRY.size + size
        self._buffered += _ENTRY.size + size
        if self._buffered >= BUFFER:
            self._write()
        return self.current

    def roll(self) -> int:
        """Begin a new segment; returns it."""
        self._write()
        if self._file >= 0:
            self._unsynced.append(self._file)
            self._file = -1
        self._number += 1
        path = self._path(self.epoch, self._number)
        with self._writing():
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._new = True
        self.current += 1
        self._segments[self.current] = [self.epoch, self._number, _HEAD.size]
        self.total += _HEAD.size
        self._buffer.append(_HEAD.pack(MAGIC, FORMAT))
        self._buffered += _HEAD.size
        return self.current

    def flush(self) -> None:
        """See that everything is on the disk."""
        self._write()
        with self._writing():
            for file in self._unsynced:
                os.fsync(file)
                os.close(file)
            self._unsynced.clear()
            if self._file >= 0:
                os.fsync(self._file)
            if self._new:
                sync_folder(self.folder)
                sync_folder(self.folder.parent)
                self._new = False

    def _write(self) -> None:
        if not self._buffer:
            return
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._buffered = 0
        with self._writing():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            # The disk may begin at once, so that little is left for `flush`.
            at = self._segments[self.current][2] - len(data)
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._file, at, len(data), os.POSIX_FADV_DONTNEED)

    def since(self, first: int) -> Segments:
        """What a checkpoint tells: the segments from `first` on."""
        return [list(there) for one, there in self._segments.items() if one >= first]

    def forget(self, first: int) -> None:
        """Leave the segments before `first` out of `total`: nothing in them is to be known."""
        for one in [one for one in self._segments if one < first]:
            self.total -= self._segments.pop(one)[2]

    def drop(self, needed: Collection[tuple[int, int]]) -> None:
        """Delete the files that no checkpoint needs, those of later owners aside."""
        known = {*needed, *((epoch, number) for epoch, number, _ in self._segments.values())}
        for epoch, number in self._names():
            if (epoch, number) not in known and epoch <= self.epoch:
                with self._writing():
                    self._path(epoch, number).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files; what was not flushed may be lost."""
        for file in (*self._unsynced, self._file):
            if file >= 0:
                os.close(file)
        self._unsynced.clear()
        self._file = -1

    def __del__(self) -> None:
        if hasattr(self, "_unsynced"):  # a run that failed has not closed it
            self.close()

    def _names(self) -> list[tuple[int, int]]:
        found = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted((int(one[1]), int(one[2])) for one in found if one)

    def _path(self, epoch: int, number: int) -> Path:
        return self.folder / f"{epoch:08}-{number:08}.log"

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self.folder, error) from None
