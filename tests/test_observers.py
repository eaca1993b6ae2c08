"""Observers of a run: one that fails is detached, unless a promise hangs on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import streaml1
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError
from streaml1.training import (
    Batch,
    Consumer,
    Observer,
    Rejected,
    RunConfig,
    RunStart,
    SavedCheckpoint,
    predictions,
    progressive,
)
from streaml1.training.bad_share import BadShare
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.dead_letters import DeadLetters
from streaml1.training.model_publisher import ModelPublisher
from streaml1.training.observers import GuardedCallback, Observers
from streaml1.training.prediction_records import PredictionRecords
from streaml1.training.regret import RegretObserver

EXAMPLES: list[Any] = [({"a": float(k % 3), "b": 1.0}, k % 2 == 0) for k in range(40)]

METHODS = (
    "max_rows",
    "set_stop",
    "on_start",
    "on_batch",
    "on_rejected",
    "on_block_end",
    "on_pass_start",
    "defers_checkpoint",
    "flush",
    "on_checkpoint",
    "on_end",
    "metrics",
)


def model() -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-3)


class Recorder(Observer):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.start: RunStart | None = None
        self.checkpoints: list[SavedCheckpoint] = []

    def max_rows(self) -> int:
        self.calls.append("max_rows")
        return super().max_rows()

    def set_stop(self, stopped: Any) -> None:
        assert not stopped()
        self.calls.append("set_stop")

    def on_start(self, start: RunStart) -> None:
        self.calls.append("on_start")
        self.start = start

    def on_batch(self, batch: Batch) -> None:
        self.calls.append("on_batch")
        assert len(batch.p) == batch.hi - batch.lo

    def on_rejected(self, rejected: Rejected) -> None:
        self.calls.append("on_rejected")

    def on_block_end(self) -> None:
        self.calls.append("on_block_end")

    def on_pass_start(self) -> None:
        self.calls.append("on_pass_start")

    def defers_checkpoint(self) -> bool:
        self.calls.append("defers_checkpoint")
        return False

    def flush(self) -> None:
        self.calls.append("flush")

    def on_checkpoint(self, checkpoint: SavedCheckpoint) -> None:
        self.calls.append("on_checkpoint")
        self.checkpoints.append(checkpoint)

    def on_end(self) -> None:
        self.calls.append("on_end")

    def metrics(self) -> dict[str, float]:
        self.calls.append("metrics")
        return {"calls_total": float(len(self.calls))}


def failing(method: str, error: BaseException, essential: bool = False) -> Recorder:
    """A recorder that raises in one method, each time it is called."""

    def fail(self: Any, *args: Any) -> Any:
        self.calls.append(method)
        raise error

    kind = type("Failing", (Recorder,), {method: fail, "essential": essential})
    recorder: Recorder = kind()
    return recorder


def source(folder: Path) -> str:
    path = folder / "a.svm"
    lines = [f"{int(y)} 1:{x['a']} 2:{x['b']}" for x, y in EXAMPLES]
    path.write_text("".join(f"{line}\n" for line in [*lines[:20], "spam", *lines[20:]]))
    return str(path)


def run(folder: Path, observers: list[Observer]) -> tuple[Any, Any]:
    one = model()
    with Checkpoints(folder / "kept", seconds=0) as store:
        config = RunConfig(
            every=10, bad="skip", passes=2, checkpoint=store, observers=observers,
            on_line=lambda line: [
                each.start.metrics() for each in observers
                if isinstance(each, Recorder) and each.start is not None
            ],
        )  # fmt: skip
        return one, progressive(one, source(folder), config)


def state(one: Any) -> Any:
    return dict(one.weights), one.intercept, one.n_iterations


def test_an_observer_is_told_everything(tmp_path: Path) -> None:
    recorder = Recorder()
    one, report = run(tmp_path, [recorder])
    assert set(recorder.calls) == set(METHODS)
    assert recorder.calls[:2] == ["set_stop", "flush"] or recorder.calls[0] == "set_stop"
    assert recorder.calls[-1] == "on_end"
    start = recorder.start
    assert start is not None and (start.model, start.learner) == (one, one)
    assert start.report is report and start.checkpoint_seconds == 0 and start.epoch == 1
    assert start.passes_done == 0 and start.source.name.endswith("a.svm")
    assert recorder.checkpoints[-1].examples == report.examples == 80
    assert recorder.checkpoints[-1].size and recorder.checkpoints[-1].directory == tmp_path / "kept"


@pytest.mark.parametrize("method", METHODS)
def test_an_observer_that_raises_is_logged_and_detached(
    method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, other = failing(method, RuntimeError("oops")), Recorder()
    (tmp_path / "alone").mkdir()
    expected, _ = run(tmp_path / "alone", [])
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "streaml1"):
        one, report = run(tmp_path, [bad, other])
    assert state(one) == state(expected) and report.examples == 80
    assert bad.calls.count(method) == 1 and bad.calls[-1] == method
    assert other.calls.count("on_batch") == 8 and other.calls[-1] == "on_end"
    warned = [r for r in caplog.records if getattr(r, "event", "") == "observer_detached"]
    assert [r.getMessage() for r in warned] == [
        f"observer Failing raised RuntimeError in {method} and is detached; the run continues: oops"
    ]
    assert warned[0].levelno == logging.WARNING and warned[0].exc_info is None
    debug = [r for r in caplog.records if r.exc_info and "oops" in str(r.exc_info[1])]
    assert [r.levelno for r in debug] == [logging.DEBUG]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "metrics"])
def test_an_essential_observer_that_raises_ends_the_run(method: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="^oops$"):
        run(tmp_path, [failing(method, SourceError("oops"), essential=True)])


def test_a_checkpoint_never_passes_a_sink_that_cannot_be_flushed(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        run(tmp_path, [failing("flush", SourceError("oops"), essential=True)])
    assert not [*(tmp_path / "kept").glob("*.checkpoint")]


def test_metrics_that_fail_cost_an_essential_observer_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = failing("metrics", RuntimeError("oops"), essential=True)
    _, report = run(tmp_path, [sink])
    assert report.examples == 80 and sink.calls[-1] == "on_end"
    assert "raised RuntimeError in metrics" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("method", ["on_start", "on_batch", "flush"])
def test_interrupts_end_a_run(method: str, error: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(error):
        run(tmp_path, [failing(method, error())])


def test_who_is_essential() -> None:
    """Whoever writes what a checkpoint passes, and whoever is there to end a run."""
    for kind in (DeadLetters, PredictionRecords, ModelPublisher, BadShare, RegretObserver):
        assert kind.essential
    assert not Observer.essential


@pytest.mark.parametrize("name", ["on_line", "on_start"])
def test_a_callback_that_raises_is_not_called_again(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def fail(*args: Any) -> None:
        calls.append(args)
        raise ValueError("oops")

    options: dict[str, Any] = {name: fail}
    report = progressive(model(), EXAMPLES, every=10, **options)
    assert report.examples == 40 and len(calls) == 1
    assert (
        f"callback raised ValueError in {name} and is detached; the run continues: oops"
        in caplog.text
    )
    calls.clear()
    consumer = Consumer(model(), EXAMPLES, **options)
    assert consumer.run() is consumer.report and len(calls) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["on_line", "on_start"])
def test_interrupts_of_callbacks_end_a_run(name: str, error: type[BaseException]) -> None:
    def fail(*args: Any) -> None:
        raise error

    options: dict[str, Any] = {name: fail}
    with pytest.raises(error):
        progressive(model(), EXAMPLES, **options)


def test_no_callback() -> None:
    GuardedCallback("on_line", None)(1)


def test_predictions_are_announced_and_a_failure_is_detached() -> None:
    class Heard(Observer):
        rows, models, ends = 0, 0, 0

        def on_predict_start(self, model: Any) -> None:
            self.models += 1

        def on_batch(self, batch: Batch) -> None:
            self.rows += batch.hi - batch.lo
            assert batch.y is None

        def on_end(self) -> None:
            self.ends += 1

    heard = Heard()
    bad = failing("on_predict_start", RuntimeError("oops"))
    found = list(predictions(model(), EXAMPLES, observers=[bad, heard]))
    assert len(found) == 40 and (heard.rows, heard.models, heard.ends) == (40, 1, 1)
    assert bad.calls == ["on_predict_start"]


def test_a_rejected_example_still_ends_a_run_that_does_not_skip(tmp_path: Path) -> None:
    with pytest.raises(BadExample):
        progressive(model(), source(tmp_path), observers=[Recorder()])


def test_of_keeps_a_collection() -> None:
    observers = Observers([Recorder()])
    assert Observers.of(observers) is observers and len([*Observers.of([*observers])]) == 1
    assert not Observers() and Observers().max_rows() == 2**62
