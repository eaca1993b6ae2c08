"""Atomic file writes, with leftovers of killed processes and with concurrent writers."""

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


def write_report(path: Path) -> None:
    progressive(ElasticNetClassifier(), DATA).write(path)


def write_rows(path: Path) -> None:
    source = path.with_name("a.svm")
    source.write_text("1 1:1\n0 2:1\n")
    convert(source, path)


WRITERS = {"model": ElasticNetClassifier().save, "report": write_report, "rows": write_rows}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_leftovers_of_a_killed_process_are_ignored(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    """The next process may have the same id, such as 1 in a container."""
    pid, thread = os.getpid(), threading.get_ident()
    leftovers = {tmp_path / f".it.{pid}", tmp_path / f".it.{pid}.{thread}"}
    for path in leftovers:
        path.write_bytes(b"half")
    write(tmp_path / "it")
    assert {*tmp_path.iterdir()} - {tmp_path / "a.svm"} == {tmp_path / "it", *leftovers}
    assert all(path.read_bytes() == b"half" for path in leftovers)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_content_is_synced_before_the_rename(
    write: Callable[[Path], object], tmp_path: Path, disk_steps: Callable[[], list[str]]
) -> None:
    steps = disk_steps()
    write(tmp_path / "it")
    assert steps == ["file", "name", "folder"]


def test_special_files_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="not a regular file"), open_atomic(tmp_path / name):
            raise AssertionError("it was opened")
    assert (tmp_path / "pipe").is_fifo() and len([*tmp_path.iterdir()]) == 1


def run_concurrently(action: Callable[[int], None], n: int = 8) -> None:
    barrier = threading.Barrier(n)
    errors: list[BaseException] = []

    def run(k: int) -> None:
        barrier.wait()
        try:
            action(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_errors_name_the_target_path(tmp_path: Path) -> None:
    path = tmp_path / "none" / "kept.rows"
    (tmp_path / "a.svm").write_text("1 1:1\n")
    for write in (
        lambda: write_atomic(path, b""),
        lambda: write_if_absent(path, b""),
        lambda: convert(str(tmp_path / "a.svm"), path),
    ):
        with pytest.raises(OSError) as caught:
            write()
        assert str(path) in str(caught.value)
        assert f"{tmp_path}/none/." not in str(caught.value)


@pytest.mark.parametrize("has_links", [True, False])
def test_concurrent_writers_leave_one_whole_file(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_link(*args: Any) -> None:
        raise OSError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr("os.link", refuse_link)
    for round_no in range(20):
        first_path, path = tmp_path / f"once{round_no}", tmp_path / f"it{round_no}"
        contents: set[bytes] = set()

        def write_first(k: int, path: Path = first_path, seen: set[bytes] = contents) -> None:
            write_if_absent(path, b"%d" % k)
            seen.add(path.read_bytes())

        run_concurrently(write_first)
        assert first_path.read_bytes() in contents and (len(contents) == 1 or not has_links)
        run_concurrently(lambda k, path=path: write_atomic(path, b"%d" % k * 1000))  # type: ignore[misc]
        assert len(path.read_bytes()) == 1000 and len({*path.read_bytes()}) == 1
        write_if_absent(first_path, b"later")
        assert first_path.read_bytes() in contents
    assert len([*tmp_path.iterdir()]) == 40


def test_processes_of_a_group_agree_on_one_partitions_file(tmp_path: Path) -> None:
    """Processes on hosts that share the directory may have the same id; one whole file remains."""
    partitions = {0, 1, 2}
    for round_no in range(20):
        folder = tmp_path / str(round_no)
        folder.mkdir()

        def start(k: int, folder: Path = folder) -> None:
            group = Group(
                ElasticNetClassifier(),
                "kafka://h/clicks",
                group="g",
                directory=folder,
                start="latest",
            )
            topic = SimpleNamespace(partitions_for_topic=lambda name: partitions)
            group._member = SimpleNamespace(consumer=topic)  # type: ignore[assignment]
            assert [group._start_of(partition) for partition in (2, 3)] == ["latest", "earliest"]

        run_concurrently(start)
        assert [path.name for path in folder.iterdir()] == ["clicks.partitions"]
        assert (folder / "clicks.partitions").read_text() == "3"
