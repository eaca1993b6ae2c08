"""Observers of a run: a failing observer is detached unless it is essential."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
from streaml1.training.run_log import RunLog

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
    """An observer that records its calls."""

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


def failing_recorder(method: str, error: BaseException, essential: bool = False) -> Recorder:
    """Return a recorder that raises whenever the given method is called."""

    def fail(self: Any, *args: Any) -> Any:
        self.calls.append(method)
        raise error

    failing_type = type("Failing", (Recorder,), {method: fail, "essential": essential})
    recorder: Recorder = failing_type()
    return recorder


def source(folder: Path) -> str:
    path = folder / "a.svm"
    lines = [f"{int(y)} 1:{x['a']} 2:{x['b']}" for x, y in EXAMPLES]
    path.write_text("".join(f"{line}\n" for line in [*lines[:20], "spam", *lines[20:]]))
    return str(path)


def run(folder: Path, observers: list[Observer]) -> tuple[Any, Any]:
    trained = model()
    with Checkpoints(folder / "kept", seconds=0) as store:
        config = RunConfig(
            every=10, bad="skip", passes=2, holdout=0, checkpoint=store, observers=observers,
            on_line=lambda line: [
                observer.start.metrics() for observer in observers
                if isinstance(observer, Recorder) and observer.start is not None
            ],
        )  # fmt: skip
        return trained, progressive(trained, source(folder), config)


def state(model: Any) -> Any:
    return dict(model.weights), model.intercept, model.n_iterations


def test_observer_receives_all_events(tmp_path: Path) -> None:
    recorder = Recorder()
    trained, report = run(tmp_path, [recorder])
    assert set(recorder.calls) == set(METHODS)
    assert recorder.calls[:2] == ["set_stop", "flush"] or recorder.calls[0] == "set_stop"
    assert recorder.calls[-1] == "on_end"
    start = recorder.start
    assert start is not None and (start.model, start.learner) == (trained, trained)
    assert start.report is report and start.checkpoint_seconds == 0 and start.epoch == 1
    assert start.passes_done == 0 and start.source.name.endswith("a.svm")
    assert recorder.checkpoints[-1].examples == report.examples == 80
    assert recorder.checkpoints[-1].size and recorder.checkpoints[-1].directory == tmp_path / "kept"


@pytest.mark.parametrize("method", METHODS)
def test_failing_observer_is_logged_and_detached(
    method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing, recorder = failing_recorder(method, RuntimeError("oops")), Recorder()
    (tmp_path / "alone").mkdir()
    expected, _ = run(tmp_path / "alone", [])
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "streaml1"):
        trained, report = run(tmp_path, [failing, recorder])
    assert state(trained) == state(expected) and report.examples == 80
    assert failing.calls.count(method) == 1 and failing.calls[-1] == method
    assert recorder.calls.count("on_batch") == 8 and recorder.calls[-1] == "on_end"
    warnings = [r for r in caplog.records if getattr(r, "event", "") == "observer_detached"]
    assert [r.getMessage() for r in warnings] == [
        f"observer Failing raised RuntimeError in {method} and is detached; the run continues: oops"
    ]
    assert warnings[0].levelno == logging.WARNING and warnings[0].exc_info is None
    debug = [r for r in caplog.records if r.exc_info and "oops" in str(r.exc_info[1])]
    assert [r.levelno for r in debug] == [logging.DEBUG]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "metrics"])
def test_failing_essential_observer_ends_the_run(method: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="^oops$"):
        run(tmp_path, [failing_recorder(method, SourceError("oops"), essential=True)])


def test_no_checkpoint_if_a_sink_cannot_be_flushed(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        run(tmp_path, [failing_recorder("flush", SourceError("oops"), essential=True)])
    assert not [*(tmp_path / "kept").glob("*.checkpoint")]


def test_failing_metrics_do_not_detach_an_essential_observer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = failing_recorder("metrics", RuntimeError("oops"), essential=True)
    _, report = run(tmp_path, [sink])
    assert report.examples == 80 and sink.calls[-1] == "on_end"
    assert "raised RuntimeError in metrics" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("method", ["on_start", "on_batch", "flush"])
def test_interrupts_end_a_run(method: str, error: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(error):
        run(tmp_path, [failing_recorder(method, error())])


def test_essential_observers() -> None:
    """Observers that write output covered by checkpoints, or that may end a run, are essential."""
    for kind in (DeadLetters, PredictionRecords, ModelPublisher, BadShare, RegretObserver):
        assert kind.essential
    assert not Observer.essential


@pytest.mark.parametrize("name", ["on_line", "on_start"])
def test_failing_callback_is_detached(name: str, caplog: pytest.LogCaptureFixture) -> None:
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


def test_missing_callback_is_a_no_op() -> None:
    GuardedCallback("on_line", None)(1)


def test_prediction_observers_are_notified_or_detached() -> None:
    class Counter(Observer):
        rows, models, ends = 0, 0, 0

        def on_predict_start(self, model: Any) -> None:
            self.models += 1

        def on_batch(self, batch: Batch) -> None:
            self.rows += batch.hi - batch.lo
            assert batch.y is None

        def on_end(self) -> None:
            self.ends += 1

    counter = Counter()
    failing = failing_recorder("on_predict_start", RuntimeError("oops"))
    predicted = list(predictions(model(), EXAMPLES, observers=[failing, counter]))
    assert len(predicted) == 40 and (counter.rows, counter.models, counter.ends) == (40, 1, 1)
    assert failing.calls == ["on_predict_start"]


def test_rejected_example_ends_a_run_that_does_not_skip(tmp_path: Path) -> None:
    with pytest.raises(BadExample):
        progressive(model(), source(tmp_path), observers=[Recorder()])


def test_of_returns_a_collection_unchanged() -> None:
    observers = Observers([Recorder()])
    assert Observers.of(observers) is observers and len([*Observers.of([*observers])]) == 1
    assert not Observers() and Observers().max_rows() == 2**62


def test_numbers_of_numpy_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Without compiled kernels the numbers of a report are numpy's."""
    report = progressive(streaml1.ElasticNetClassifier(lr=0.1), EXAMPLES)
    with caplog.at_level(logging.INFO, "streaml1"):
        RunLog().log_line(replace(report.lines[-1], rate=np.float64(0.5)))
    assert "40 examples" in caplog.text
