"""gzip files: isal and the standard library return the same bytes and the same errors."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import decompression
from streaml1.sources.readers.decompression import decompress

TEXT = b"".join(b"%d %d:0.5 %d:%d\n" % (k % 2, k % 50, 60 + k % 7, k) for k in range(3000))
PACKED = gzip.compress(TEXT, 6)


def read_all(file: Any, n: int) -> tuple[bytes, str]:
    """Return all readable bytes and the error that ended reading."""
    content, buffer = b"", bytearray(n)
    try:
        while k := file.readinto1(buffer):
            content += buffer[:k]
    except (OSError, EOFError, zlib.error) as error:
        return content, f"{type(error).__name__}: {error}"
    return content, ""


def corrupted(offset: int, bits: int) -> bytes:
    raw = bytearray(PACKED)
    raw[offset % len(raw)] ^= bits
    return bytes(raw)


CASES = {
    "whole": PACKED,
    "two members": PACKED + gzip.compress(b"1 1:1\n"),
    "trailing zeros": PACKED + bytes(600),
    "trailing junk": PACKED + b"junk",
    "trailing byte": PACKED + b"\x1f",
    "truncated block": PACKED[:-900],
    "truncated checksum": PACKED[:-6],
    "truncated header": PACKED[:5],
    "truncated second header": PACKED + PACKED[:7],
    "wrong checksum": corrupted(-8, 1),
    "wrong length": corrupted(-1, 1),
    "corrupted in the middle": corrupted(len(PACKED) // 2, 255),
    "plain text": TEXT,
    "empty": b"",
    "unknown method": PACKED[:2] + b"\x09" + PACKED[3:],
}


@pytest.mark.parametrize("raw", CASES.values(), ids=CASES)
@pytest.mark.parametrize("n", [700, 2**20])
def test_isal_and_gzip_agree(raw: bytes, n: int) -> None:
    pytest.importorskip("isal")
    assert isinstance(decompress(io.BytesIO(raw)), decompression._RestartingFile)
    content, message = read_all(decompress(io.BytesIO(raw)), n)
    expected_content, expected_message = read_all(gzip.GzipFile(fileobj=io.BytesIO(raw)), n)
    assert message == expected_message
    assert content == expected_content


@given(
    offset=st.integers(0, len(PACKED) - 1), bits=st.integers(1, 255), n_removed=st.integers(0, 40)
)
def test_any_corruption_gives_the_same_error(offset: int, bits: int, n_removed: int) -> None:
    raw = corrupted(offset, bits)[: len(PACKED) - n_removed]
    expected = read_all(gzip.GzipFile(fileobj=io.BytesIO(raw)), 4096)
    assert read_all(decompress(io.BytesIO(raw)), 4096) == expected


@pytest.mark.parametrize("has_isal", [True, False])
def test_sources_with_and_without_isal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_isal: bool
) -> None:
    """Read all rows, or the rows before the corruption and then raise one error."""
    monkeypatch.setattr(decompression, "FAST", has_isal and decompression.FAST)
    path = tmp_path / "a.svm.gz"
    path.write_bytes(PACKED + gzip.compress(b"1 1:1\n"))
    assert sum(len(rows) for rows in open_source(path).blocks(1000, print)) == 3001
    path.write_bytes(PACKED + b"junk")
    n_rows = 0
    with pytest.raises(
        SourceError, match="a.svm.gz:3001: the file cannot be read from here on: Not"
    ):
        for block in open_source(path).blocks(1000, print):
            n_rows += len(block)
    assert n_rows == 3000


def test_unseekable_input_uses_the_standard_library() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    file = decompress(Pipe(PACKED))
    assert isinstance(file, gzip.GzipFile) and file.read() == TEXT
