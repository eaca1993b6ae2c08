"""Background reading of files: the same examples and positions, and no leaked threads."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from streaml1 import ElasticNetClassifier
from streaml1.cli.signals import Interruptible, Signals
from streaml1.core.jit import COMPILED
from streaml1.sources import open_source
from streaml1.sources.readers import chunks
from streaml1.sources.readers import text_file as text
from streaml1.sources.readers.background import read_ahead
from streaml1.training import convert, predictions, progressive


def n_reader_threads() -> int:
    return sum(thread.name == "streaml1-ahead" for thread in threading.enumerate())


def count_to(n: int, closed: list[int]) -> Generator[int, None, None]:
    """Yield 0 to n - 1; append the id of the closing thread to `closed`."""
    try:
        yield from range(n)
    finally:
        closed.append(threading.get_ident())


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_items_keep_their_order(n: int) -> None:
    closed: list[int] = []
    assert list(read_ahead(count_to(n, closed))) == list(range(n))
    assert len(closed) == 1
    assert closed[0] != threading.get_ident()
    assert n_reader_threads() == 0


def test_error_is_raised_after_the_items_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise OSError("gone")

    items = []
    with pytest.raises(OSError, match="gone"):
        for item in read_ahead(failing()):
            items.append(item)
    assert items == [1, 2]
    assert n_reader_threads() == 0


@pytest.mark.parametrize("n_taken", [0, 1, 3])
def test_closing_early_ends_the_thread(n_taken: int) -> None:
    closed: list[int] = []
    items: Any = read_ahead(count_to(1000, closed))
    for _ in range(n_taken):
        next(items)
    items.close()
    assert len(closed) == (n_taken > 0)  # a generator that never started has nothing to close
    assert n_reader_threads() == 0


def test_read_ahead_is_bounded() -> None:
    produced = []

    def produce() -> Generator[int, None, None]:
        for k in range(100):
            produced.append(k)
            yield k

    items: Any = read_ahead(produce())
    assert next(items) == 0
    time.sleep(0.2)
    assert len(produced) <= 3
    items.close()


LINES = 6000
LINE_OF = {
    "svm": lambda k: f"{k % 2} {k % 50 + 1}:0.5 {k % 31 + 60}:{k}",
    "vw": lambda k: f"{k % 2} |site news{k % 9} |ad a{k % 50}:0.5 é",
    "jsonl": lambda k: f'{{"y": {k % 2}, "x": {{"a": {k}, "site": "s{k % 7}"}}}}',
    "csv": lambda k: f"{k % 2},{k},s{k % 7}" if k else "y,a,site",
}


@pytest.fixture(params=LINE_OF)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    lines = [LINE_OF[request.param](k) for k in range(LINES)]
    lines[LINES // 2] = "} broken"
    path = tmp_path / f"some.{request.param}"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read(path: Path, start: Any = None) -> Iterator[Any]:
    """Yield the content, positions and errors of each block of a file."""
    columns: Any = {"target": "y", "categorical": ["site"]} if path.suffix == ".csv" else {}
    source: Any = open_source(path, **columns)
    source.begin(start)
    errors: list[Any] = []
    for block in source.blocks(500, lambda *error: errors.append(error)):
        positions = [block.place(k) for k in range(len(block))]
        yield [dict(x) for x in block.x], list(block.y), block.w, positions, block.end, list(errors)


@pytest.mark.parametrize("chunk", [2**12, 2**16])
def test_background_reading_yields_the_same_blocks(
    path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaml1.sources.readers.chunks.CHUNK", chunk)
    monkeypatch.setattr(text, "MIN_BACKGROUND_SIZE", 0)
    blocks_by_cores = {}
    for cores in (1, 2):
        monkeypatch.setattr(text, "cores", lambda cores=cores: cores)
        whole = list(read(path))
        rest = list(read(path, whole[3][4]))
        blocks_by_cores[cores] = whole, rest
    assert blocks_by_cores[1] == blocks_by_cores[2]
    assert len(blocks_by_cores[1][0]) > 5
    assert n_reader_threads() == 0


def test_thread_starts_only_for_large_files_on_two_cores(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def thread_counts() -> set[int]:
        return {n_reader_threads() for _ in read(path)}

    monkeypatch.setattr(text, "cores", lambda: 2)
    monkeypatch.setattr("streaml1.sources.readers.chunks.CHUNK", 2**12)
    assert thread_counts() == {0}  # the file is small
    monkeypatch.setattr(text, "MIN_BACKGROUND_SIZE", 0)
    assert 1 in thread_counts()
    monkeypatch.setattr(text, "cores", lambda: 1)
    assert thread_counts() == {0}


@pytest.mark.skipif(not COMPILED, reason="interpreted parsers copy the lines")
@pytest.mark.parametrize("reader", ["progressive", "a command", "predictions", "convert"])
def test_only_one_buffer_is_alive(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one core, every loop over blocks releases a block before it reads the next one."""
    path = tmp_path / "some.vw"
    path.write_text("".join(f"{LINE_OF['vw'](k)}\n" for k in range(LINES)))
    buffers: list[weakref.ref[Any]] = []
    n_alive: list[int] = []
    allocate = chunks.text_buffer

    def counting_buffer(n: int) -> Any:
        buffer = allocate(n)
        buffers.append(weakref.ref(buffer))
        n_alive.append(sum(1 for ref in buffers if ref() is not None))
        return buffer

    monkeypatch.setattr(chunks, "text_buffer", counting_buffer)
    monkeypatch.setattr(chunks, "CHUNK", 2**12)
    monkeypatch.setattr(text, "FULL_EXAMPLES", 10)
    monkeypatch.setattr(text, "cores", lambda: 1)
    model = ElasticNetClassifier()
    blocks: list[int] = []
    if reader == "predictions":
        assert sum(1 for _ in predictions(model, path)) == LINES
    elif reader == "convert":
        assert convert(path, tmp_path / "some.rows").rows == LINES
    else:
        source: Any = open_source(path)
        if reader == "a command":
            source = Interruptible(source, Signals(), blocks.append)
        assert progressive(model, source).examples == LINES
        assert len(blocks) > 20 or reader == "progressive"
    assert len(n_alive) > 20 and max(n_alive) == 1
