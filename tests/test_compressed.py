"""Compressed text, told by its first bytes; damaged files; files that are not text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core import exit_codes as exits
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import text_file
from streaml1.sources.readers.decompression import decompress, identify
from streaml1.sources.source import Lost

zstandard = pytest.importorskip("zstandard")

LINES = 3000
TEXT = b"".join(b"%d %d:0.5 %d:%d\n" % (k % 2, k % 50, 60 + k % 7, k * k) for k in range(LINES))


def zstd(raw: bytes) -> bytes:
    packed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(raw)
    return packed


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "zstd": zstd, "bzip2": bz2.compress, "xz": lzma.compress,
}  # fmt: skip
SUFFIX = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "xz": ".xz"}
codecs = pytest.mark.parametrize("codec", PACK)


def numbers(name: str | Path, **options: Any) -> list[int]:
    """Return the line numbers of all examples."""
    source = open_source(name, **options)
    return [line for block in source.blocks(1000, _never) for line in block.lines]


def _never(place: str, reason: str) -> None:
    raise AssertionError(f"{place}: {reason}")


@codecs
@pytest.mark.parametrize(
    "suffix", [".svm", ".svm.gz", ".svm.zst", ".svm.bz2", ".svm.xz", ".SVM.XZ"]
)
def test_bytes_decide_whatever_the_name_says(codec: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"day{suffix}"
    path.write_bytes(PACK[codec](TEXT))
    assert numbers(path) == list(range(1, LINES + 1))


@codecs
@pytest.mark.parametrize(
    ("format", "text", "options"),
    [
        ("vw", b"1 | a:2\n", {}),
        ("jsonl", b'{"x": {"a": 2}, "y": 1}\n', {}),
        ("csv", b"a,y\n2,1\n", {"target": "y"}),
        ("tsv", b"a\ty\n2\t1\n", {"target": "y"}),
    ],
)
def test_each_format(
    codec: str, format: str, text: bytes, options: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "day"
    path.write_bytes(PACK[codec](text))
    for asked in (format, format + SUFFIX[codec]):
        [block] = open_source(path, format=asked, **options).blocks(10, _never)
        assert list(block.x) == [{"a": 2}]


@codecs
@pytest.mark.parametrize("is_file", [True, False])
def test_standard_input(
    codec: str, is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pipe(io.BytesIO):
        """Returns a single byte first."""

        def seekable(self) -> bool:
            return is_file

        def readinto1(self, destination: Any) -> int:
            return super().readinto1(memoryview(destination)[: 1 if self.tell() == 0 else None])

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(PACK[codec](TEXT))))
    assert numbers("-", format="svm") == list(range(1, LINES + 1))


@codecs
@pytest.mark.parametrize("damage", ["cut", "cut short", "junk", "cut member"])
def test_damage_is_reported_after_the_lines_before_it(
    codec: str, damage: str, tmp_path: Path
) -> None:
    packed = PACK[codec](TEXT)
    second = PACK[codec](b"1 1:1\n")
    raw = {
        "cut": packed[: 2 * len(packed) // 3],
        "cut short": packed[:-3],
        "junk": packed + b"junk and more of it",
        "cut member": packed + second[: len(second) // 2],
    }[damage]
    path = tmp_path / f"a.svm{SUFFIX[codec]}"
    path.write_bytes(raw)
    read: list[int] = []
    with pytest.raises(Lost, match=r"the file cannot be read from here on: .+; get it") as error:
        for block in open_source(path).blocks(1000, _never):
            read += block.lines
    assert read == list(range(1, len(read) + 1))
    assert str(error.value).startswith(f"{path}:{len(read) + 1}: ")
    assert error.value.exit_code == exits.DATA_ERROR
    assert len(read) == LINES or damage.startswith("cut")


@codecs
@given(position=st.integers(0, 10**6), bits=st.integers(1, 255), n_removed=st.integers(0, 30))
def test_a_changed_byte_never_adds_lines(
    codec: str, position: int, bits: int, n_removed: int
) -> None:
    """Either the text is read as it was, or an error comes after a part of it."""
    text = TEXT[:3000]
    raw = bytearray(PACK[codec](text))
    raw[position % len(raw)] ^= bits
    file, found, _ = identify(io.BytesIO(bytes(raw[: len(raw) - n_removed])))
    if found != codec:
        return
    content, buffer = b"", bytearray(1000)
    try:
        reader: Any = decompress(file, found)
        while n := reader.readinto1(buffer):
            content += buffer[:n]
    except (OSError, EOFError):
        if codec in ("xz", "bzip2"):  # the others deliver what precedes a checksum
            assert text.startswith(content)
    except Exception as error:  # zlib.error of a gzip file
        assert type(error).__name__ == "error"
    else:
        # gzip has unprotected bytes in its header; so has the descriptor of zstd.
        assert content == text


@codecs
@pytest.mark.parametrize("n", [1, 7, 2**18])
def test_several_members_and_padding(codec: str, n: int) -> None:
    pack = PACK[codec]
    raw = pack(b"one\n") + pack(b"") + pack(b"two\n") + bytes(8)
    reader: Any = decompress(io.BytesIO(raw), codec)
    content, buffer = b"", bytearray(n)
    while k := reader.readinto1(buffer):
        content += buffer[:k]
    assert content == b"one\ntwo\n"


def test_frames_that_zstd_skips_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_bytes(bytes.fromhex("50 2a 4d 18 04 00 00 00") + b"size" + zstd(b"1 1:1\n"))
    assert numbers(path) == [1]


def test_highly_compressed_text_is_expanded_in_small_pieces() -> None:
    raw = zstandard.ZstdCompressor(level=19).compress(b"1 1:1\n" * 2**23)
    assert len(raw) < 20_000
    reader: Any = decompress(io.BytesIO(raw), "zstd")
    largest, total, buffer = 0, 0, bytearray(2**17)
    while n := reader.readinto1(buffer):
        total += n
        largest = max(largest, len(reader._output))
    assert total == 6 * 2**23
    assert largest < 2**25


@codecs
def test_plain_text_with_the_suffix_of_a_compressed_file(codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.svm{SUFFIX[codec]}"
    path.write_bytes(TEXT)
    with pytest.raises(
        SourceError, match=rf"not compressed by {codec}; remove {SUFFIX[codec]} from its name"
    ):
        numbers(path)
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=rf"is empty: a {codec} file never is"):
        numbers(path)
    path.write_bytes(PACK[codec](TEXT)[:1])
    with pytest.raises(Lost, match="the file cannot be read from here on"):
        numbers(path)


@pytest.mark.parametrize("outer", PACK)
@pytest.mark.parametrize("inner", PACK)
def test_text_that_is_compressed_twice(outer: str, inner: str, tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_bytes(PACK[outer](PACK[inner](TEXT)))
    times = "twice" if outer == inner else f"and then by {outer}"
    with pytest.raises(SourceError, match=f"is compressed by {inner} {times}; decompress it once"):
        numbers(path)


def test_zstd_needs_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.svm"
    path.write_bytes(zstd(TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(
        SourceError, match=r"compressed by zstd, .* zstandard: pip install 'streaml1\[codecs\]'"
    ):
        numbers(path)


FOREIGN = {
    "a zip archive": b"PK\x03\x04\x14\x00",
    "a model of streaml1": b"streaml1\x01" + bytes(3),
    "a checkpoint of streaml1": b"streamcp\x01" + bytes(3),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\x00\x04",
    "compressed by lz4": b"\x04\x22\x4d\x18\x64\x40",
    "compressed by snappy": b"\xff\x06\x00\x00sNaPpY",
    "a Parquet file": b"PAR1\x15\x04\x15",
    "an Arrow file": b"ARROW1\x00\x00\xff",
    "a tar archive": b"a.svm" + bytes(252) + b"ustar\x00",
    "encoded in UTF-16": "1 1:1 2:1\n".encode("utf-16-be"),
    "encoded in UTF-32": "1 1:1\n".encode("utf-32"),
}


@pytest.mark.parametrize(("what", "head"), FOREIGN.items())
@pytest.mark.parametrize("packed", [False, True])
def test_files_that_are_not_text_are_rejected_by_name(
    what: str, head: bytes, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.svm"
    raw = head + b"\n1 1:1\n" * 3
    path.write_bytes(gzip.compress(raw) if packed else raw)
    within = " compressed by gzip" if packed else ""
    with pytest.raises(SourceError, match=rf"a\.svm is {what}.*{within}, not text; \w"):
        for _ in open_source(path).blocks(10, lambda place, reason: None):
            pytest.fail("an example was read")


def test_orc_files_are_named(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import orc

    path = tmp_path / "part-00000.zstd.orc"
    table = pa.table({"y": [0, 1] * 50, "site": ["news", "mail"] * 50})
    orc.write_table(table, path, compression="zstd")
    with pytest.raises(SourceError, match=r"orc is an ORC file, not text; convert it to Parquet"):
        open_source(path, target="y")


@pytest.mark.parametrize(
    "name", ["streaml1", "PAR1", "Object", "ORC", "ARROW1", "BZh9", "SEQ", "LZIP", "P"]
)
def test_text_may_begin_like_another_type(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{name},y\n2,1\n")
    [block] = open_source(path, target="y").blocks(10, _never)
    assert list(block.x) == [{name: 2}]


@codecs
def test_positions_and_background_reading(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "MIN_BACKGROUND_SIZE", 0)
    monkeypatch.setattr(text_file, "cores", lambda: 2)
    path = tmp_path / "a.svm"
    path.write_bytes(PACK[codec](TEXT))
    source: Any = open_source(path)
    source.begin(None)
    blocks = source.blocks(700, _never)
    at = next(blocks).after(700)
    blocks.close()
    assert at["line"] == 700
    source.begin(at)
    rest = [line for block in source.blocks(1000, _never) for line in block.lines]
    assert rest == list(range(701, LINES + 1))
