"""Atomic file writes, also with concurrent writers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streaml1 import ElasticNetClassifier
from streaml1.core.atomic_write import open_atomic, write_atomic, write_if_absent
from streaml1.training import convert, progressive
from streaml1.training.consumer_group import Group

DATA = [({"a": 1.0}, True), ({"b": 1.0}, False)] * 3


def report(path: Path) -> None:
    progressive(ElasticNetClassifier(), DATA).write(path)


def rows(path: Path) -> None:
    source = path.with_name("a.svm")
    source.write_text("1 1:1\n0 2:1\n")
    convert(source, path)


WRITERS = {"model": ElasticNetClassifier().save, "report": report, "rows": rows}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_leftovers_of_a_killed_process_do_no_harm(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    """Even if the next process has the same id, as the first process of a container has."""
    pid, thread = os.getpid(), threading.get_ident()
    leftovers = {tmp_path / f".it.{pid}", tmp_path / f".it.{pid}.{thread}"}
    for path in leftovers:
        path.write_bytes(b"half")
    write(tmp_path / "it")
    assert {*tmp_path.iterdir()} - {tmp_path / "a.svm"} == {tmp_path / "it", *leftovers}
    assert all(path.read_bytes() == b"half" for path in leftovers)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_content_reaches_the_disk_before_the_name(
    write: Callable[[Path], object], tmp_path: Path, disk_steps: Callable[[], list[str]]
) -> None:
    steps = disk_steps()
    write(tmp_path / "it")
    assert steps == ["file", "name", "folder"]


def test_other_than_regular_files_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="not a regular file"), open_atomic(tmp_path / name):
            raise AssertionError("it was opened")
    assert (tmp_path / "pipe").is_fifo() and len([*tmp_path.iterdir()]) == 1


def run_concurrently(act: Callable[[int], None], n: int = 8) -> None:
    begin = threading.Barrier(n)
    failed: list[BaseException] = []

    def run(k: int) -> None:
        begin.wait()
        try:
            act(k)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_errors_name_the_target_not_the_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "none" / "kept.rows"
    (tmp_path / "a.svm").write_text("1 1:1\n")
    for write in (
        lambda: write_atomic(path, b""),
        lambda: write_if_absent(path, b""),
        lambda: convert(str(tmp_path / "a.svm"), path),
    ):
        with pytest.raises(OSError) as refused:
            write()
        assert str(path) in str(refused.value)
        assert f"{tmp_path}/none/." not in str(refused.value)


@pytest.mark.parametrize("links", [True, False])
def test_concurrent_writers(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr("os.link", fail)
    for round_ in range(20):
        once, path = tmp_path / f"once{round_}", tmp_path / f"it{round_}"
        seen: set[bytes] = set()

        def first(k: int, once: Path = once, seen: set[bytes] = seen) -> None:
            write_if_absent(once, b"%d" % k)
            seen.add(once.read_bytes())

        run_concurrently(first)
        assert once.read_bytes() in seen and (len(seen) == 1 or not links)
        run_concurrently(lambda k, path=path: write_atomic(path, b"%d" % k * 1000))  # type: ignore[misc]
        assert len(path.read_bytes()) == 1000 and len({*path.read_bytes()}) == 1
        write_if_absent(once, b"later")
        assert once.read_bytes() in seen
    assert len([*tmp_path.iterdir()]) == 40


def test_processes_of_a_group_that_start_together(tmp_path: Path) -> None:
    """Processes on hosts that share the folder may have the same id: one whole note remains."""
    partitions = {0, 1, 2}
    for round_ in range(20):
        folder = tmp_path / str(round_)
        folder.mkdir()

        def begin(k: int, folder: Path = folder) -> None:
            group = Group(
                ElasticNetClassifier(),
                "kafka://h/clicks",
                group="g",
                directory=folder,
                start="latest",
            )
            topic = SimpleNamespace(partitions_for_topic=lambda name: partitions)
            group._member = SimpleNamespace(consumer=topic)  # type: ignore[assignment]
            assert [group._start_of(one) for one in (2, 3)] == ["latest", "earliest"]

        run_concurrently(begin)
        assert [path.name for path in folder.iterdir()] == ["clicks.partitions"]
        assert (folder / "clicks.partitions").read_text() == "3"
