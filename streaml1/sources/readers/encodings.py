"""Text in UTF-16, as Excel, SQL Server and PowerShell write it, decoded to UTF-8 as it is read."""

from __future__ import annotations

import codecs
from typing import Any, BinaryIO, cast

from streaml1.sources.readers.signatures import MARK_SIZE, may_be_utf16, utf16_of

__all__ = ["utf8_file"]

READ_SIZE = 2**16
"""Bytes that are decoded at a time."""


def utf8_file(file: BinaryIO) -> BinaryIO:
    r"""Return a file with the text of `file` in UTF-8 if it begins with a mark of UTF-16.

    Any other file is passed through. Nothing is read before the first call of `readinto1`, which
    may wait for a pipe.

    Examples
    --------
    >>> from io import BufferedReader, BytesIO
    >>> from streaml1.sources.readers.encodings import utf8_file
    >>> file = utf8_file(BufferedReader(BytesIO("a\tä\n".encode("utf-16"))))
    >>> space = bytearray(9)
    >>> bytes(space[: file.readinto1(space)])
    b'a\t\xc3\xa4\n'
    """
    return cast(BinaryIO, _Utf8File(file))


class _Utf8File:
    """A file whose first bytes decide whether it is decoded.

    Invariant: a call that returns fewer bytes than it may leaves none pending, so that a caller
    which polls the file itself does not wait for bytes that are here.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._pending = memoryview(b"")
        self._is_decided = False
        self._decoder: codecs.IncrementalDecoder | None = None

    def seekable(self) -> bool:
        """Return False."""
        return False

    def readinto1(self, destination: memoryview | bytearray) -> int:
        """Read bytes into memory and return how many; 0 at the end of the file.

        Raises
        ------
        EOFError
            If the file ends within a character.
        """
        if not self._is_decided:
            self._begin()
        while not self._pending:
            if self._decoder is None:
                n: int = self._file.readinto1(destination)
                return n
            raw = self._read()
            self._pending = memoryview(self._decoded(raw))
            if not raw:
                break
        n = min(len(destination), len(self._pending))
        destination[:n] = self._pending[:n]
        self._pending = self._pending[n:]
        return n

    def _begin(self) -> None:
        head = b""
        # A pipe may be slow: wait for more bytes only if they may decide.
        while len(head) < MARK_SIZE and may_be_utf16(head):
            part = self._read()
            if not part:
                break
            head += part
        encoding = utf16_of(head)
        if encoding is not None:
            # A lone surrogate becomes invalid UTF-8, which the parser rejects with its line.
            self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
            head = self._decoded(head[2:]) if len(head) > 2 else b""
        self._pending = memoryview(head)
        self._is_decided = True

    def _read(self) -> bytes:
        space = bytearray(READ_SIZE)
        return bytes(space[: self._file.readinto1(space)])

    def _decoded(self, raw: bytes) -> bytes:
        assert self._decoder is not None
        try:
            text: str = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError:
            raise EOFError("it ends within a character of UTF-16") from None
        return text.encode(errors="surrogatepass")
