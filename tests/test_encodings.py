"""Text in UTF-16 with a byte order mark."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import encodings
from streaml1.sources.readers.encodings import utf8_file
from streaml1.sources.source import Lost
from tests.test_many_files import fail, read

LINES = 3000
TEXT = "n,site,y\n" + "".join(f"{k},sö😀{k % 5},{k % 2}\n" for k in range(LINES))
CSV = {"target": "y", "categorical": ["site"]}
MARKED = {
    "le": b"\xff\xfe" + TEXT.encode("utf-16-le"), "be": b"\xfe\xff" + TEXT.encode("utf-16-be"),
}  # fmt: skip
marks = pytest.mark.parametrize("raw", MARKED.values(), ids=MARKED)


class Pieces(io.RawIOBase):
    """A file that returns a few bytes at a time, as a pipe does."""

    def __init__(self, raw: bytes, sizes: list[int]) -> None:
        self._file, self._sizes, self._n = io.BytesIO(raw), sizes, 0

    def readinto1(self, space: Any) -> int:
        self._n += 1
        part = self._file.read(min(len(space), self._sizes[self._n % len(self._sizes)]))
        space[: len(part)] = part
        return len(part)


@given(
    text=st.text(max_size=40),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32"]),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    space=st.integers(1, 50),
)
def test_any_pieces(text: str, encoding: str, sizes: list[int], space: int) -> None:
    is_wide = encoding.startswith("utf-16")
    raw = ("\ufeff" * is_wide + text).encode(encoding)
    if is_wide and raw.startswith(b"\xff\xfe\0\0"):
        return  # U+0000 after the mark is UTF-32
    file, found = utf8_file(Pieces(raw, sizes)), b""  # type: ignore[arg-type]
    destination = bytearray(space)
    while n := file.readinto1(destination):  # type: ignore[attr-defined]
        found += destination[:n]
    assert found == (text.encode() if is_wide else raw)


@marks
@pytest.mark.parametrize("size", [7, 2**16])
def test_files_are_read_like_those_in_utf_8(
    raw: bytes, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encodings, "READ_SIZE", size)
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(TEXT)
    expected = read(open_source("a.csv", **CSV))
    for packed in (raw, gzip.compress(raw)):
        Path("a.csv").write_bytes(packed)
        assert read(open_source("a.csv", **CSV)) == expected


@marks
def test_positions_are_those_of_utf_8(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    source: Any = open_source(path, **CSV)
    source.begin(None)
    [*before, block] = [block for block, _ in zip(source.blocks(700, fail), range(2), strict=False)]
    at = json.loads(json.dumps(block.after(len(block))))
    path.write_bytes(raw)
    source = open_source(path, **CSV)
    source.begin(at)
    rest = read(source)
    assert [line for _, line, _ in rest] == list(range(at["line"] + 1, LINES + 2))
    path.write_bytes(raw[:2] + raw[4:])  # the first name has changed
    source.begin(at)
    with pytest.raises(SourceError, match="does not match the checkpoint"):
        read(source)


def test_invalid_lines_are_rejected_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lone = (
        b"\xff\xfe"
        + "n,y\n1,1\n".encode("utf-16-le")
        + b"\x00\xd8"
        + "2,0\n3,1\nx,1\n".encode("utf-16-le")
    )
    path.write_bytes(lone)
    seen: list[str] = []
    found = read(
        open_source(path, target="y"), reject=lambda place, reason, *_: seen.append(place + reason)
    )
    assert [x for _, _, x in found] == [{"n": 1}, {"n": 3}]
    assert [line.partition("a.csv")[2][:2] for line in seen] == [":3", ":5"]
    assert "is not UTF-8" in seen[0]
    path.write_bytes(b"\xff\xfe" + "n,y\n1,1\n2,0\n".encode("utf-16-le") + b"3")
    rows = []
    with pytest.raises(Lost, match=r"a\.csv:4: the file cannot be read .*: it ends within a char"):
        for block in open_source(path, target="y").blocks(10, fail):
            rows += list(block.x)
    assert rows == [{"n": 1}, {"n": 2}]


def test_files_without_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match="is empty"):
        read(open_source(path, target="y"))
    path = tmp_path / "a.svm"
    path.write_bytes(b"\xfe\xff")
    assert read(open_source(path)) == []


@marks
def test_pipes(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    os.mkfifo(path)

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            for lo, hi in ((0, 1), (1, 3), (3, 1001), (1001, len(raw))):
                file.write(raw[lo:hi])

    writer = threading.Thread(target=write)
    writer.start()
    assert len(read(open_source(path, **CSV))) == LINES
    writer.join()


def test_unknown_names_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "export.txt"
    path.write_bytes("site\tclicked\nnews\t1\n".encode("utf-16"))
    with pytest.raises(SourceError, match='first line looks like format="tsv"'):
        open_source(path)
    found = read(open_source(path, format="tsv", target="clicked", categorical=["site"]))
    assert [x for _, _, x in found] == [{"site": "news"}]
