"""Decompression of files: gzip, zstd, bzip2 and xz, recognized by their first bytes.

gzip is decompressed by isal if it is installed, in a third of the time or less; zstd needs the
package zstandard.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from streaml1.sources.readers.signatures import HEAD_SIZE, codec_of, may_be_compressed

__all__ = ["FAST", "Head", "decompress", "head_of", "identify"]

_FastFile: Any = gzip.GzipFile
_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
try:
    from isal import igzip, isal_zlib
except ImportError:
    FAST = False
else:
    FAST = True
    _FastFile = igzip.IGzipFile
    isal_error: Any = isal_zlib.error
    _ERRORS += (isal_error,)

READ_SIZE = 2**16
"""Compressed bytes that are read at a time."""

MAX_OUTPUT = 2**18
"""Target number of bytes that are decompressed at a time."""

MIN_STEP, MAX_STEP = 2**8, 2**13
"""Compressed bytes that zstd decompresses at a time. It cannot limit its output, which is up to
32,768 times as long."""

MAX_MAGIC = 10
"""Bytes that suffice to recognize a compressed file."""


def decompress(file: BinaryIO, codec: str = "gzip") -> BinaryIO:
    """Return a file object with the decompressed bytes of `file`, which must not be read yet.

    Its errors are those of the codec, as OSError, EOFError or zlib.error.

    Raises
    ------
    ImportError
        If `codec` is zstd, and the package zstandard is not installed.
    """
    if codec != "gzip":
        return cast(BinaryIO, _ConcatenatedStreams(file, _decoders(codec)))
    if FAST and file.seekable():
        return cast(BinaryIO, _RestartingFile(file))
    return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))


def identify(
    file: BinaryIO, read: Callable[[memoryview], int] | None = None
) -> tuple[BinaryIO, str | None, bytes]:
    """Return a file to read instead of `file`, the program that compressed it, and its first bytes.

    Parameters
    ----------
    file
        The file at its beginning.
    read
        Reads bytes into memory, and returns how many. By default that of the file.
    """
    if file.seekable():
        begin = file.tell()
        head = file.read(MAX_MAGIC)
        file.seek(begin)
        return file, codec_of(head), head
    raw: Any = file
    into = raw.readinto1 if read is None else read
    head, space = b"", bytearray(READ_SIZE)
    # A pipe may be slow: take what is there, and wait for more only if it may decide.
    while codec_of(head) is None and may_be_compressed(head) is not None:
        n = into(memoryview(space))
        if not n:
            break
        head += space[:n]
    return cast(BinaryIO, _Prefixed(head, raw)), codec_of(head), head


class Head(NamedTuple):
    """The first bytes of a file, decompressed, and the program that compressed them."""

    text: bytes
    codec: str | None


def head_of(path: str) -> Head:
    """Return the first bytes of a file; none of a pipe, or if it cannot be read."""
    if not os.path.isfile(path):  # reading from a pipe would take its bytes away
        return Head(b"", None)
    with suppress(*_ERRORS, ImportError), open(path, "rb") as file:
        _, codec, _ = identify(file)
        source: Any = file if codec is None else decompress(file, codec)
        space = bytearray(HEAD_SIZE)
        n = 0
        with suppress(*_ERRORS):  # the bytes before the damage are enough
            while n < HEAD_SIZE and (new := source.readinto1(memoryview(space)[n:])):
                n += new
        return Head(bytes(space[:n]), codec)
    return Head(b"", None)


class _Prefixed:
    """A file of which some bytes were read already."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head = head
        self._file = file

    def seekable(self) -> bool:
        """Return False."""
        return False

    def readinto1(self, destination: memoryview | bytearray) -> int:
        """Read bytes into memory and return how many; 0 at the end of the file."""
        if not self._head:
            n: int = self._file.readinto1(destination)
            return n
        head = self.read(len(destination))
        destination[: len(head)] = head
        return len(head)

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; b"" at the end of the file."""
        if not self._head:
            content: bytes = self._file.read(size)
            return content
        size = len(self._head) if size < 0 else size
        head, self._head = self._head[:size], self._head[size:]
        return head


class _RestartingFile:
    """Decompress by isal until an error, then restart with the standard library.

    So the bytes before damage, and the error messages, are always those of the standard library.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begin = file.tell()
        self._decompressed: Any = _FastFile(fileobj=file, mode="rb")
        self._n_read = 0
        self._restarted = False

    def readinto1(self, destination: memoryview | bytearray) -> int:
        """Read bytes into memory and return how many; 0 at the end of the file."""
        try:
            n: int = self._decompressed.readinto1(destination)
        except _ERRORS:
            if self._restarted:
                raise
            self._restart()
            return self.readinto1(destination)
        self._n_read += n
        return n

    def _restart(self) -> None:
        self._restarted = True
        self._file.seek(self._begin)
        self._decompressed = gzip.GzipFile(fileobj=self._file, mode="rb")
        remaining = self._n_read
        while remaining and (part := self._decompressed.read(min(remaining, 2**20))):
            remaining -= len(part)


# zstd, bzip2 and xz


class _Decoder(Protocol):
    """A decoder of one stream, as in `bz2` and `lzma`."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether `decompress` must be given more bytes to return more."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Decompress some bytes."""


class _ConcatenatedStreams:
    """Decompress a file of one or several streams one after the other, padded with zeros or not.

    As gzip does, and unlike the files of `bz2` and `lzma`: anything else after a stream is an
    error, so that nothing of a damaged file is left out silently.
    """

    def __init__(self, file: Any, new_decoder: Callable[[], _Decoder]) -> None:
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._new_decoder = new_decoder
        self._decoder: _Decoder | None = None  # None between two streams
        self._packed = b""
        self._output = memoryview(b"")

    def readinto1(self, destination: memoryview | bytearray) -> int:
        """Read bytes into memory and return how many; 0 at the end of the file."""
        while not self._output:
            if not self._decode():
                return 0
        n = min(len(destination), len(self._output))
        destination[:n] = self._output[:n]
        self._output = self._output[n:]
        return n

    def _decode(self) -> bool:
        """Decompress some bytes; return False at the end of the file."""
        if not self._packed and (self._decoder is None or self._decoder.needs_input):
            self._packed = self._read(READ_SIZE)
            if not self._packed and self._decoder is None:
                return False
            if not self._packed:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        if self._decoder is None:
            self._packed = self._packed.lstrip(b"\0")
            if not self._packed:
                return True
            self._decoder = self._new_decoder()
        packed, self._packed = self._packed, b""
        try:
            self._output = memoryview(self._decoder.decompress(packed, MAX_OUTPUT))
        except lzma.LZMAError as error:
            raise OSError(str(error)) from None
        if self._decoder.eof:
            self._packed, self._decoder = self._decoder.unused_data, None
        return True


def _decoders(codec: str) -> Callable[[], _Decoder]:
    """Return a function that makes a decoder of one stream."""
    if codec == "bzip2":
        return bz2.BZ2Decompressor
    if codec == "xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)
    import zstandard

    return _ZstdFrames(zstandard).decoder


class _ZstdFrames:
    """Makes decoders of the frames of a zstd file, and holds what they share."""

    def __init__(self, zstandard: Any) -> None:
        self.error: type[Exception] = zstandard.ZstdError
        self.new_frame = zstandard.ZstdDecompressor().decompressobj
        self.step = MIN_STEP

    def decoder(self) -> _ZstdFrame:
        return _ZstdFrame(self)


class _ZstdFrame:
    """Decoder of a frame, which is fed few bytes at a time to limit the memory of its output."""

    def __init__(self, shared: _ZstdFrames) -> None:
        self._shared = shared
        self._frame = shared.new_frame()
        self._pending = memoryview(b"")

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        return not self._pending

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + bytes(self._pending)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        packed = memoryview(data) if data else self._pending
        step = self._shared.step
        self._pending = packed[step:]
        try:
            output: bytes = self._frame.decompress(packed[:step])
        except self._shared.error as error:
            raise OSError(str(error).rpartition(": ")[2]) from None
        if len(output) > max_length:
            self._shared.step = max(step // 2, MIN_STEP)
        elif len(output) < max_length // 4:
            self._shared.step = min(2 * step, MAX_STEP)
        return output
