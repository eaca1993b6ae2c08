"""Packed files: the same bytes and the same words by isal as by the standard library."""

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
from streaml1.sources.readers import decompression as gzips
from streaml1.sources.readers.decompression import decompress

TEXT = b"".join(b"%d %d:0.5 %d:%d\n" % (k % 2, k % 50, 60 + k % 7, k) for k in range(3000))
PACKED = gzip.compress(TEXT, 6)


def read(file: Any, n: int) -> tuple[bytes, str]:
    """All that can be read, and the error that ended it."""
    found, room = b"", bytearray(n)
    try:
        while k := file.readinto1(room):
            found += room[:k]
    except (OSError, EOFError, zlib.error) as error:
        return found, f"{type(error).__name__}: {error}"
    return found, ""


def torn(where: int, bits: int) -> bytes:
    raw = bytearray(PACKED)
    raw[where % len(raw)] ^= bits
    return bytes(raw)


CASES = {
    "whole": PACKED,
    "two members": PACKED + gzip.compress(b"1 1:1\n"),
    "zeros behind": PACKED + bytes(600),
    "junk behind": PACKED + b"junk",
    "a byte behind": PACKED + b"\x1f",
    "cut in a block": PACKED[:-900],
    "cut in the sum": PACKED[:-6],
    "cut in the head": PACKED[:5],
    "a second head, cut": PACKED + PACKED[:7],
    "another sum": torn(-8, 1),
    "another length": torn(-1, 1),
    "torn in the middle": torn(len(PACKED) // 2, 255),
    "plain text": TEXT,
    "nothing": b"",
    "another method": PACKED[:2] + b"\x09" + PACKED[3:],
}


@pytest.mark.parametrize("raw", CASES.values(), ids=CASES)
@pytest.mark.parametrize("n", [700, 2**20])
def test_the_same_bytes_and_words(raw: bytes, n: int) -> None:
    pytest.importorskip("isal")
    assert isinstance(decompress(io.BytesIO(raw)), gzips._RestartingFile)
    found, words = read(decompress(io.BytesIO(raw)), n)
    expected, why = read(gzip.GzipFile(fileobj=io.BytesIO(raw)), n)
    assert words == why
    assert found == expected


@given(where=st.integers(0, len(PACKED) - 1), bits=st.integers(1, 255), cut=st.integers(0, 40))
def test_anything_torn(where: int, bits: int, cut: int) -> None:
    raw = torn(where, bits)[: len(PACKED) - cut]
    expected = read(gzip.GzipFile(fileobj=io.BytesIO(raw)), 4096)
    assert read(decompress(io.BytesIO(raw)), 4096) == expected


@pytest.mark.parametrize("fast", [True, False])
def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: bool) -> None:
    """With isal and without: all rows, or those before the fault and one sentence."""
    monkeypatch.setattr(gzips, "FAST", fast and gzips.FAST)
    path = tmp_path / "a.svm.gz"
    path.write_bytes(PACKED + gzip.compress(b"1 1:1\n"))
    assert sum(len(one) for one in open_source(path).blocks(1000, print)) == 3001
    path.write_bytes(PACKED + b"junk")
    found = 0
    with pytest.raises(
        SourceError, match="a.svm.gz:3001: the file cannot be read from here on: Not"
    ):
        for block in open_source(path).blocks(1000, print):
            found += len(block)
    assert found == 3000


def test_a_pipe_is_read_by_the_standard_library() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    file = decompress(Pipe(PACKED))
    assert isinstance(file, gzip.GzipFile) and file.read() == TEXT


@pytest.mark.parametrize("format", ["svmlight", "vw", "jsonl", "csv"])
def test_what_is_packed_and_is_not_called_so(format: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{format}"
    path.write_bytes(gzip.compress(b"1 1:1\n"))
    roles = {"target": "y"} if format == "csv" else {}
    with pytest.raises(
        SourceError, match=r"is compressed by gzip; name it so that it ends in \.gz"
    ):
        list(open_source(path, **roles).blocks(10, print))
