"""One model from shards, in rounds: its bits, its checkpoints and its errors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier, FTRLClassifier, FTRLRegressor
from streaml1.datasets import Drifting
from streaml1.distributed import (
    DaskExecutor,
    InlineExecutor,
    ProcessExecutor,
    TaskFailed,
    Trained,
    rounds,
    train,
)
from streaml1.distributed.round_store import BEFORE
from streaml1.distributed.rounds import _number_of_shards
from streaml1.models.merging import set_clock
from streaml1.sources.row_cache.row_range import RowStream
from streaml1.training import convert
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from streaml1.training.merge import compare
from streaml1.training.report import Report

N = 24_000
SETTINGS: dict[str, Any] = {"shards": 2, "rounds": 3, "warm": 0.1, "probe": 500}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    return Drifting(n=N, d=60, change="none", seed=5).matrix()


@pytest.fixture(scope="module")
def files(data: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return files of unequal size; no cut is one of a round."""
    X, y = data
    directory = tmp_path_factory.mktemp("rows")
    paths = [str(directory / f"part-{k}.rows") for k in range(3)]
    for path, (lo, hi) in zip(paths, pairwise((0, 7_001, 9_000, N)), strict=True):
        convert((X[lo:hi], y[lo:hi]), path)
    return paths


@pytest.fixture(scope="module")
def in_memory(data: tuple[Any, Any]) -> Any:
    """Return the model of a loop over arrays, and the progressive losses of its rounds."""
    X, y = data
    model, before = FTRLClassifier(l1=0.5), None
    losses = [progressive_loss(model, X[:2_400], y[:2_400])]
    cuts = [2_400 + 21_100 * k // 3 for k in range(4)]
    for lo, hi in pairwise(cuts):
        parts = [copy.deepcopy(model) for _ in range(2)]
        middle = lo + (hi - lo) // 2
        total = 0.0
        for part, (first, last) in zip(parts, ((lo, middle), (middle, hi)), strict=True):
            total += (last - first) * progressive_loss(part, X[first:last], y[first:last])
        losses.append(total / (hi - lo))
        probe = X[hi : hi + 500], y[hi : hi + 500]
        given = {"probe": probe, "slack": rounds.SLACK, "before": before or model}
        before, model = model, compare(parts, model, **given).model
        set_clock(model, hi, hi)
    losses.append(progressive_loss(model, X[23_500:], y[23_500:]))
    return model, losses


def progressive_loss(model: Any, X: Any, y: Any) -> float:
    p = np.asarray(model.progressive_many(X, y))
    return float(-np.log(np.where(y, p, 1.0 - p)).mean())


def figures(trained: Trained) -> list[Any]:
    return [line._replace(seconds=0.0) for line in trained.rounds]


@pytest.fixture(params=["inline", "1 process", "2 processes", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "dask":
        pytest.importorskip("distributed")
    make: dict[str, Any] = {
        "inline": InlineExecutor,
        "1 process": lambda: ProcessExecutor(1),
        "2 processes": lambda: ProcessExecutor(2),
        "dask": lambda: DaskExecutor(workers=1),
    }
    with make[request.param]() as opened:
        yield opened


def test_bits_do_not_depend_on_the_executor(
    files: list[str], in_memory: Any, executor: Any
) -> None:
    model, seen = FTRLClassifier(l1=0.5), []
    trained = train(
        model, files, executor=executor, progress=lambda *done: seen.append(done), **SETTINGS
    )
    expected, losses = in_memory
    assert trained.model._encode() == expected._encode()
    assert trained.model.n_iterations == N and model.n_iterations == 0
    assert [line.loss for line in trained.rounds] == pytest.approx(losses, rel=1e-12)
    assert [line.name for line in trained.rounds] == ["warm-up", "1", "2", "3", "rest"]
    assert sum(line.rows for line in trained.rounds) == N
    assert seen == [(k, 5) for k in range(1, 6)]


def test_the_best_candidate_is_the_next_base(files: list[str]) -> None:
    trained = train(FTRLClassifier(l1=0.5), files[-1], shards=1, rounds=2, warm=0.0)
    assert all(not line.candidates and not line.chosen for line in trained.rounds)
    trained = train(FTRLClassifier(l1=0.5), Path(files[0]).parent, **SETTINGS)
    assert trained.shards == 2 and trained.loss_name == "log-loss"
    for line in trained.rounds[1:-1]:
        losses = {one.name: one.loss for one in line.candidates}
        assert losses[line.chosen] == min(losses.values())
        assert list(losses)[:5] == ["sum", "rho", "half", "blend", "mean"]
        assert list(losses)[5:7] == ["half-momentum", "mean-momentum"]
        assert "base" in losses and len(losses) == 9
    heads, *lines = trained.table().splitlines()
    assert heads.split()[:4] == ["round", "rows", "log-loss", "sum"] and "best part" in heads
    assert [line.split()[0] for line in lines] == [line.name for line in trained.rounds]


@pytest.mark.parametrize("kind", [FTRLClassifier, FTRLRegressor])
@pytest.mark.parametrize(("n_rounds", "warm"), [(1, 0.0), (5, 0.3)])
def test_one_shard_is_one_run(
    data: tuple[Any, Any], files: list[str], tmp_path: Path, kind: Any, n_rounds: int, warm: float
) -> None:
    model = kind(alpha=0.3)
    trained = train(model, files, shards=1, rounds=n_rounds, warm=warm)
    convert(data, tmp_path / "whole.rows")
    report = streaml1.progressive(model, tmp_path / "whole.rows")
    assert trained.model._encode() == model._encode()
    total = sum(line.rows * (line.loss or 0.0) for line in trained.rounds)
    assert total / N == pytest.approx(report.lines[-1].loss, rel=1e-12)


class Interrupt(Exception):
    """Ends a run, as a signal does."""


@pytest.mark.parametrize(
    ("model", "after"),
    [(FTRLClassifier(l1=0.5), n) for n in (1, 3, 5)] + [(ElasticNetClassifier(), 3)],
)
def test_a_resumed_run_has_the_same_bits(
    files: list[str], tmp_path: Path, model: Any, after: int
) -> None:
    seen: list[int] = []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == after:
            raise Interrupt

    whole = train(model, files, **SETTINGS)
    with pytest.raises(Interrupt):
        train(model, files, checkpoint=tmp_path, progress=interrupt, **SETTINGS)
    trained = train(model, files, checkpoint=tmp_path, progress=interrupt, **SETTINGS)
    assert trained.model._encode() == whole.model._encode()
    assert figures(trained) == figures(whole)
    assert seen == [1, 2, 3, 4, 5]
    assert streaml1.load(tmp_path)._encode() == whole.model._encode()


def test_a_checkpoint_belongs_to_one_run(files: list[str], tmp_path: Path) -> None:
    model = FTRLClassifier(l1=0.5)
    train(model, files, checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(CheckpointError, match="its rounds is 3, now it is 4; use another dir"):
        train(model, files, checkpoint=tmp_path, **{**SETTINGS, "rounds": 4})
    with pytest.raises(CheckpointError, match="its sha256 is"):
        train(model, files[::-1], checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(CheckpointError, match="resume with a model of these parameters"):
        train(FTRLClassifier(l1=0.6), files, checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(CheckpointError, match="belongs to another source"):
        streaml1.progressive(model, files[0], checkpoint=tmp_path)


@pytest.mark.parametrize(
    "extra",
    [
        None,
        {"rounds": 3},
        {"rounds": [["1", 2]]},
        {"rounds": [["1", 2, 0.5, [], "", 3, 4, "x"]]},
        {"rounds": [["1", 2, 0.5, [["sum", 0.1]], "", 3, 4, 0.1]]},
    ],
)
def test_an_altered_checkpoint_is_rejected(files: list[str], tmp_path: Path, extra: Any) -> None:
    model = FTRLClassifier()
    train(model, files[1], checkpoint=tmp_path, rounds=1, warm=0.0)
    with Checkpoints(tmp_path) as store:
        found = store.latest()
        assert found is not None
        report = Report("logistic")
        store.save(found.model, report, found.identity, found.position, extra=extra)
    with pytest.raises(CheckpointError, match="was not written by streaml1"):
        train(model, files[1], checkpoint=tmp_path, rounds=1, warm=0.0)


def test_a_base_of_another_model_is_rejected(files: list[str], tmp_path: Path) -> None:
    model = FTRLClassifier()
    train(model, files[1], checkpoint=tmp_path, rounds=1, warm=0.0)
    with Checkpoints(tmp_path) as store:
        found = store.latest()
        assert found is not None
        base = np.frombuffer(FTRLClassifier(l1=0.6)._encode(packed=False), np.uint8)
        store.save(
            found.model, Report("logistic"), found.identity, found.position, extra=found.extra,
            arrays={BEFORE: base},
        )  # fmt: skip
    with pytest.raises(CheckpointError, match="was not written by streaml1"):
        train(model, files[1], checkpoint=tmp_path, rounds=1, warm=0.0)


def test_a_rejected_row_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names file and line; the last checkpoint is that of the round before."""
    monkeypatch.setattr(rounds, "MIN_SHARD_ROWS", 20)
    lines = [f"{k % 2} {k % 7 + 1}:1" for k in range(200)]
    lines[120] = "7 3:1"  # a label that no classifier has, in the second round
    (tmp_path / "x.svm").write_text("\n".join(lines))
    convert(tmp_path / "x.svm", tmp_path / "x.rows")
    settings = {"shards": 2, "rounds": 2, "warm": 0.1, "probe": 20}
    with pytest.raises(streaml1.BadExample, match=r"x\.svm:121"):
        train(FTRLClassifier(), tmp_path / "x.rows", checkpoint=tmp_path / "kept", **settings)
    assert streaml1.load(tmp_path / "kept").n_iterations == 100
    assert train(FTRLRegressor(), tmp_path / "x.rows", **settings).model.n_iterations == 200


class Dying(InlineExecutor):
    """Ends the tasks of the second round, as if their workers had died."""

    n = 0

    def gather(self, handles: Any) -> Iterator[Any]:
        self.n += 1
        if self.n == 3:
            raise TaskFailed("the task", 1)
        return super().gather(handles)


def test_a_shard_that_fails_ends_the_run(files: list[str], tmp_path: Path) -> None:
    """The error names the rows; the last checkpoint is that of the round before."""
    place = rf"^{files[2]}:3950-7466 \(round 2\) was tried 3 times, and its worker died"
    with pytest.raises(TaskFailed, match=place):
        train(FTRLClassifier(), files, executor=Dying(), checkpoint=tmp_path, **SETTINGS)
    assert streaml1.load(tmp_path).n_iterations == 9_433


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"shards": 3}, ValueError, "shards must be <= 2 for 24,000 rows, one for 10,000 rows"),
        ({"shards": 0}, ValueError, "shards must be >= 1, got 0"),
        ({"rounds": 0}, ValueError, "rounds must be >= 1, got 0"),
        ({"probe": 0}, ValueError, "probe must be >= 1, got 0"),
        ({"warm": "auto"}, ValueError, r"warm must be in \[0, 1\), got 'auto'"),
        ({"sources": []}, ValueError, r"sources must name at least one .rows file, got \[\]"),
        ({"warm": 1.0}, ValueError, r"warm must be in \[0, 1\), got 1.0"),
        ({"probe": 30_000}, ValueError, "24,000 rows are too few for warm=0.05, rounds=16, shard"),
        ({"model": FTRLClassifier(text=["t"])}, ValueError, "use the file it was converted from"),
        ({"model": streaml1.FOBOSClassifier()}, ValueError, "FOBOSClassifier does not support it"),
        ({"sources": [({1: 1.0}, True)]}, TypeError, "sources must be the names of .rows files"),
        ({"sources": __file__}, ValueError, "is not a .rows file"),
    ],
)
def test_rejected_arguments(files: list[str], options: Any, error: Any, message: str) -> None:
    given = {"model": FTRLClassifier(), "sources": files, **options}
    with pytest.raises(error, match=message):
        train(given.pop("model"), given.pop("sources"), **given)


def test_the_default_number_of_shards(files: list[str]) -> None:
    assert train(FTRLClassifier(), files, rounds=1).shards == 2
    assert train(FTRLClassifier(), files[:2], rounds=1).shards == 1
    assert _number_of_shards(10**6, None) == 4


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("named")
    paths = [directory / f"{k}.rows" for k in range(3)]
    for k, (path, n) in enumerate(zip(paths, (5, 1, 8), strict=True)):
        convert([({f"n{i}": 1.0, "p": 10.0 * k + i + 1}, i % 2 == 0) for i in range(n)], path)
    return paths


@given(lo=st.integers(0, 14), n=st.integers(0, 14), size=st.integers(1, 9))
def test_ranges_of_a_stream(named: list[Path], lo: int, n: int, size: int) -> None:
    every = [10.0 * k + i + 1 for k, length in enumerate((5, 1, 8)) for i in range(length)]
    stream = RowStream(named)
    rows = stream.range(lo, min(lo + n, 14))
    assert len(stream) == 14 and len(rows) == min(lo + n, 14) - lo
    for _ in range(2):
        blocks = list(rows.blocks(size, lambda *_: None))
        assert [x["p"] for block in blocks for x in block.x] == every[lo : lo + n]
        assert all(0 < len(block) <= size for block in blocks)


def test_a_file_that_is_replaced_ends_the_run(files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.rows"
    path.write_bytes(Path(files[0]).read_bytes())
    rows = RowStream([path]).range(10, 20)
    path.write_bytes(Path(files[1]).read_bytes())
    with pytest.raises(streaml1.sources.SourceError, match="was replaced while it was read"):
        list(rows.blocks(5, lambda *_: None))
