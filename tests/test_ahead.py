"""Files parsed by another thread: the same examples, positions and ends, and no thread is left."""

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


def threads() -> int:
    return sum(one.name == "streaml1-ahead" for one in threading.enumerate())


def counted(n: int, closed: list[int]) -> Generator[int, None, None]:
    try:
        yield from range(n)
    finally:
        closed.append(threading.get_ident())


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_all_items_come_in_their_order(n: int) -> None:
    closed: list[int] = []
    assert list(read_ahead(counted(n, closed))) == list(range(n))
    assert len(closed) == 1
    assert closed[0] != threading.get_ident()
    assert threads() == 0


def test_an_error_comes_behind_the_items_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise OSError("gone")

    found = []
    with pytest.raises(OSError, match="gone"):
        for item in read_ahead(failing()):
            found.append(item)
    assert found == [1, 2]
    assert threads() == 0


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_who_stops_leaves_no_thread(taken: int) -> None:
    closed: list[int] = []
    items: Any = read_ahead(counted(1000, closed))
    for _ in range(taken):
        next(items)
    items.close()
    assert len(closed) == (taken > 0)  # what never began has nothing to close
    assert threads() == 0


def test_few_items_are_made_ahead() -> None:
    made = []

    def making() -> Generator[int, None, None]:
        for k in range(100):
            made.append(k)
            yield k

    items: Any = read_ahead(making())
    assert next(items) == 0
    time.sleep(0.2)
    assert len(made) <= 3
    items.close()


LINES = 6000
FORMS = {
    "svm": lambda k: f"{k % 2} {k % 50 + 1}:0.5 {k % 31 + 60}:{k}",
    "vw": lambda k: f"{k % 2} |site news{k % 9} |ad a{k % 50}:0.5 é",
    "jsonl": lambda k: f'{{"y": {k % 2}, "x": {{"a": {k}, "site": "s{k % 7}"}}}}',
    "csv": lambda k: f"{k % 2},{k},s{k % 7}" if k else "y,a,site",
}


@pytest.fixture(params=FORMS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    lines = [FORMS[request.param](k) for k in range(LINES)]
    lines[LINES // 2] = "} broken"
    path = tmp_path / f"some.{request.param}"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read(path: Path, at: Any = None) -> Iterator[Any]:
    """All that a source tells, with its positions."""
    columns: Any = {"target": "y", "categorical": ["site"]} if path.suffix == ".csv" else {}
    source: Any = open_source(path, **columns)
    source.begin(at)
    faults: list[Any] = []
    for block in source.blocks(500, lambda *fault: faults.append(fault)):
        places = [block.place(k) for k in range(len(block))]
        yield [dict(x) for x in block.x], list(block.y), block.w, places, block.end, list(faults)


@pytest.mark.parametrize("chunk", [2**12, 2**16])
def test_a_file_is_read_the_same_by_a_thread(
    path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaml1.sources.readers.chunks.CHUNK", chunk)
    monkeypatch.setattr(text, "MIN_BACKGROUND_SIZE", 0)
    found = {}
    for cores in (1, 2):
        monkeypatch.setattr(text, "cores", lambda cores=cores: cores)
        whole = list(read(path))
        rest = list(read(path, whole[3][4]))
        found[cores] = whole, rest
    assert found[1] == found[2]
    assert len(found[1][0]) > 5
    assert threads() == 0


def test_a_thread_is_there_only_where_it_pays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> set[int]:
        return {threads() for _ in read(path)}

    monkeypatch.setattr(text, "cores", lambda: 2)
    monkeypatch.setattr("streaml1.sources.readers.chunks.CHUNK", 2**12)
    assert seen() == {0}  # the file is small
    monkeypatch.setattr(text, "MIN_BACKGROUND_SIZE", 0)
    assert 1 in seen()
    monkeypatch.setattr(text, "cores", lambda: 1)
    assert seen() == {0}


@pytest.mark.skipif(not COMPILED, reason="Python alone reads copies of the lines")
@pytest.mark.parametrize("who", ["progressive", "a command", "predictions", "convert"])
def test_one_buffer_is_alive_at_a_time(
    who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one core, every loop over blocks drops a block before it reads the next one."""
    path = tmp_path / "some.vw"
    path.write_text("".join(f"{FORMS['vw'](k)}\n" for k in range(LINES)))
    buffers: list[weakref.ref[Any]] = []
    alive: list[int] = []
    allocate = chunks.text_buffer

    def memory(n: int) -> Any:
        buffer = allocate(n)
        buffers.append(weakref.ref(buffer))
        alive.append(sum(1 for ref in buffers if ref() is not None))
        return buffer

    monkeypatch.setattr(chunks, "text_buffer", memory)
    monkeypatch.setattr(chunks, "CHUNK", 2**12)
    monkeypatch.setattr(text, "FULL_EXAMPLES", 10)
    monkeypatch.setattr(text, "cores", lambda: 1)
    model = ElasticNetClassifier()
    blocks: list[int] = []
    if who == "predictions":
        assert sum(1 for _ in predictions(model, path)) == LINES
    elif who == "convert":
        assert convert(path, tmp_path / "some.rows").rows == LINES
    else:
        source: Any = open_source(path)
        if who == "a command":
            source = Interruptible(source, Signals(), blocks.append)
        assert progressive(model, source).examples == LINES
        assert len(blocks) > 20 or who == "progressive"
    assert len(alive) > 20 and max(alive) == 1
