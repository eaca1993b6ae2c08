"""Delayed labels: predict at once, learn when the label arrives, in a deterministic order."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.core.named_options import command_line_options
from streaml1.core.rows import BadExample
from streaml1.optim.tasks import REGRESSION
from streaml1.sources import SourceError
from streaml1.sources.kafka.record_formats import event_parser
from streaml1.sources.kafka.records import RecordReader
from streaml1.sources.readers.events import parse_event
from streaml1.training import Batch, Observer, RunConfig, progressive
from streaml1.training.delayed_labels import DelayedLabelRun, open_events
from streaml1.training.delayed_labels.pending_table import EARLY_LABEL, UNLABELED, PendingTable
from streaml1.training.delayed_labels.run import require_negatives
from streaml1.training.delayed_labels.stream_clock import StreamClock
from streaml1.training.error_policy import ErrorPolicy
from tests.test_records import Record

Event = dict[str, Any]


def model(**params: Any) -> Any:
    return streaml1.ElasticNetClassifier(**{"l1": 1e-3, "l2": 1e-3, "lr": 0.5, **params})


def state(model: Any) -> tuple[Any, ...]:
    return dict(model.weights), model.intercept, model.n_iterations


# Reference implementation: dicts and lists, one event at a time


class Twin:
    """A direct implementation of the rules in docs/late-labels.md."""

    def __init__(
        self, within: float, max_waiting: int, unanswered: str, learner: Any = None
    ) -> None:
        self.model = model() if learner is None else learner
        self.within, self.max_waiting, self.negative = within, max_waiting, unanswered == "negative"
        self.now = self.start = -math.inf
        self.buffered_times: list[float] = []
        self.waiting: list[dict[str, Any]] = []  # oldest first
        self.negatives: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(
            ["asked", "answered", "expired", "pushed_out", "corrected", "confirmed", "orphans",
             "duplicates"], 0,
        )  # fmt: skip
        self.predictions: list[float] = []  # in order
        self.versions: list[int] = []  # number of examples learnt before each prediction
        self.scored: list[list[Any]] = []  # p, y, w, prediction of the baseline
        self.constant_correction = 0.0
        self.n_rejected = 0

    def run(self, events: Iterable[Event]) -> Twin:
        for event in events:
            self.expire_overdue()
            self.process(event)
            self.advance_time(event.get("time"))
        self.expire_overdue()
        return self

    def advance_time(self, time: float | None) -> None:
        if time is None:
            return
        if time <= self.now + self.within / 10:
            self.buffered_times = []
            self.now = max(self.now, time)
            return
        self.buffered_times += [time]
        if len(self.buffered_times) == 10:
            before = self.now
            self.now = min(self.buffered_times)
            self.start = self.now if self.start == -math.inf else self.start
            while any(self.now < t <= self.now + self.within / 10 for t in self.buffered_times):
                self.now = min(t for t in self.buffered_times if t > self.now)
            self.buffered_times = [
                t for t in self.buffered_times if t > self.now + self.within / 10
            ]
            if len(self.buffered_times) < 9:  # several have confirmed each other
                n = 0
                for item in reversed(self.waiting):
                    if item["time"] is None:
                        continue
                    if item["time"] <= before or n == 10:
                        break
                    if item["time"] <= self.now:
                        item["since"] = item["time"]
                        n += 1

    def arrival_time(self, time: float | None) -> float:
        is_next = time is not None and self.now < time <= self.now + self.within / 10
        return time if is_next and time is not None else self.now

    def process(self, event: Event) -> None:
        x, y, time = event.get("x"), event.get("y"), event.get("time")
        if y is not None and y not in (0, 1):
            self.n_rejected += 1
            return
        waiting_events = [item for item in self.waiting if item["id"] == event.get("id")]
        expired = [item for item in self.negatives if item["id"] == event.get("id")]
        if event.get("id") is None:
            waiting_events = expired = []
        examples = [item for item in waiting_events if "x" in item]
        early_labels = [item for item in waiting_events if "x" not in item]
        if x is None or (y is not None and (examples or expired)):
            self.process_label(event, examples, early_labels, expired)
        elif examples or expired:
            self.counts["duplicates"] += 1
        else:
            w = event.get("w")
            joined = False
            for item in early_labels:
                self.waiting.remove(item)
                if y is not None:
                    self.counts["duplicates"] += 1
                elif self.is_in_time(item, time, 1):
                    y, w = item["y"], w if item["w"] is None else item["w"]
                    joined = True
                else:
                    self.counts["orphans"] += 1
            if y is None:
                self.enforce_limit()
                p = self.predict(x)
                if p is not None:
                    self.counts["asked"] += 1
                    self.predictions.append(p)
                    self.versions.append(self.model.n_iterations)
                    entry = {"id": event["id"], "x": x, "w": w, "p": p, "time": time}
                    self.waiting.append({**entry, "since": self.arrival_time(time)})
            else:
                p = self.predict(x)
                if p is not None:
                    self.counts["asked"] += joined
                    self.counts["answered"] += joined
                    self.predictions.append(p)
                    self.versions.append(self.model.n_iterations)
                    self.learn(x, y, w, p)
            assert not joined or y is not None

    def process_label(self, event: Event, examples: Any, early_labels: Any, expired: Any) -> None:
        y, w, time = event["y"], event.get("w"), event.get("time")
        if not examples and not early_labels and not expired:
            self.enforce_limit()
            self.waiting.append(
                {"id": event["id"], "y": y, "w": w, "since": self.arrival_time(time), "time": time}
            )
        for _ in early_labels:
            self.counts["duplicates"] += 1
        for item in examples:
            if self.is_in_time(item, time, 1):
                self.waiting.remove(item)
                self.counts["answered"] += 1
                self.learn(item["x"], y, item["w"] if w is None else w, item["p"])
            else:
                self.expire(item, "expired")
                if self.negative:
                    expired = self.negatives[-1:]
                else:
                    self.counts["orphans"] += 1
        for item in expired:
            if not self.is_in_time(item, time, 2):
                self.counts["orphans"] += 1
                continue
            self.negatives.remove(item)
            if not y:
                self.counts["confirmed"] += 1
                continue
            self.counts["corrected"] += 1
            w = item["w"] if w is None else w
            w = 1.0 if w is None else w
            self.model.learn_one(item["x"], True, w)
            scored = self.scored[item["number"]]
            r = (sum(c[2] for c in self.scored if c[1]) + 0.5) / (
                sum(c[2] for c in self.scored) + 1
            )
            self.constant_correction += w * -math.log(r) - scored[2] * -math.log(1 - r)
            # The baseline's prediction is replaced.
            self.constant_correction += scored[2] * -math.log(1 - scored[3])
            scored[1:] = [True, w, None]

    def is_in_time(self, item: Any, time: float | None, periods: int) -> bool:
        known = time is not None and item["time"] is not None
        return not known or abs(time - item["time"]) <= periods * self.within

    def is_overdue(self, item: Any) -> bool:
        return self.now > max(item["since"], self.start) + self.within

    def expire_overdue(self) -> None:
        while self.negatives and self.is_overdue(self.negatives[0]):
            self.negatives.pop(0)
        while self.waiting and self.is_overdue(self.waiting[0]):
            self.expire(self.waiting[0], "expired")

    def enforce_limit(self) -> None:
        while len(self.waiting) + len(self.negatives) >= self.max_waiting:
            if self.negatives:
                self.negatives.pop(0)
            else:
                self.expire(self.waiting[0], "pushed_out")

    def expire(self, item: Any, reason: str) -> None:
        self.waiting.remove(item)
        if "x" not in item:
            self.counts["orphans"] += 1
            return
        self.counts[reason] += 1
        if self.negative:
            number = len(self.scored)
            self.learn(item["x"], False, item["w"], item["p"])
            if reason == "expired":
                self.negatives.append({**item, "since": self.now, "number": number})

    def predict(self, x: Any) -> float | None:
        try:
            return float(self.model.predict_proba_one(x)[True])
        except BadExample:
            self.n_rejected += 1
            return None

    def learn(self, x: Any, y: Any, w: float | None, p: float) -> None:
        w = 1.0 if w is None else w
        self.model.learn_one(x, bool(y), w)
        weight = sum(item[2] for item in self.scored)
        positive = sum(item[2] for item in self.scored if item[1])
        self.scored.append([p, bool(y), w, (positive + 0.5) / (weight + 1)])

    def averages(self) -> tuple[float, float, float]:
        """Return the mean loss, the baseline's mean loss and the error."""
        weight = sum(item[2] for item in self.scored)
        loss = sum(w * -math.log(p if y else 1 - p) for p, y, w, _ in self.scored)
        constant = self.constant_correction + sum(
            w * -math.log(r if y else 1 - r) for _, y, w, r in self.scored if r is not None
        )
        error = sum(w for p, y, w, _ in self.scored if (p > 0.5) != y)
        return loss / weight, constant / weight, error / weight


class Recorder(Observer):
    essential = True

    def __init__(self) -> None:
        self.p: list[float] = []
        self.versions: list[int] = []
        self.example_places: list[str] = []
        self.late_labels: list[tuple[str, bool, float]] = []

    def on_batch(self, batch: Batch) -> None:
        self.p += np.asarray(batch.p).tolist()
        assert batch.hi - batch.lo == len(batch.p) and batch.learnt is not None
        step = 0 if batch.y is None else 1
        self.versions += [batch.learnt + step * k for k in range(len(batch.p))]
        if batch.y is None:
            self.example_places += [batch.block.place(row) for row in range(batch.lo, batch.hi)]

    def on_labels(self, batch: Batch) -> None:
        self.late_labels += [
            (batch.block.place(row), bool(batch.y[row - batch.lo]), float(batch.p[row - batch.lo]))
            for row in range(batch.lo, batch.hi)
        ]


def run(
    events: list[Event], within: float, max_waiting: int, unanswered: str, block_size: int = 1000,
    **options: Any,
) -> tuple[DelayedLabelRun, Recorder]:  # fmt: skip
    recorder = Recorder()
    source = open_events(events)
    policy = ErrorPolicy("skip", [recorder])
    config = RunConfig(label_within=within, waiting=max_waiting, unanswered=unanswered, **options)
    labeled_run = DelayedLabelRun(model(), source, policy, config)
    labeled_run.begin()
    for block in source.blocks(block_size, policy):
        labeled_run.feed(block)
        labeled_run.pending.table.check()
        if labeled_run.is_full:
            break
    labeled_run.finish()
    return labeled_run, recorder


FEATURES = st.sampled_from([{"a": 1.0}, {"b": -2.0, "c": "d"}, {"a": 0.5, "b": 1.0}, {"a": 1e60}])
IDS = st.one_of(st.integers(0, 4), st.sampled_from(["0", "k"]))
TIMES = st.sampled_from([None, 0.0, 0.5, 0.5, 1.0, 1.0, 3.0, 20.0, -4.0, 1e9])


@st.composite
def streams(draw: Any) -> list[Event]:
    now, events = 100.0, []
    for _ in range(draw(st.integers(0, 60))):
        kind = draw(st.sampled_from(["x", "x", "x", "y", "y", "xy", "xy without id"]))
        event: Event = {} if kind == "xy without id" else {"id": draw(IDS)}
        if "x" in kind:
            event["x"] = draw(FEATURES)
        if "y" in kind:
            event["y"] = draw(st.sampled_from([0, 1, True, 2]))
        if draw(st.integers(0, 3)) == 0:
            event["w"] = draw(st.sampled_from([2.0, 0.5]))
        step = draw(TIMES)
        if step is not None:
            event["time"] = now + step
            now += step if 0 < step < 1e9 else 0.0
        events.append(event)
    return events


SETTINGS = st.tuples(
    st.sampled_from([2.0, 10.0, 1000.0]),
    st.sampled_from([1, 2, 3, 7, 1000]),
    st.sampled_from(["drop", "negative"]),
)


@given(streams(), SETTINGS, st.sampled_from([1, 3, 17, 1000]), st.sampled_from([1, 4, 1000]))
def test_equals_the_reference(
    events: list[Event], settings: tuple[float, int, str], block_size: int, every: int
) -> None:
    twin = Twin(*settings).run(events)
    labeled_run, recorder = run(events, *settings, block_size=block_size, every=every)
    assert state(labeled_run.model) == state(twin.model)
    assert recorder.p == twin.predictions and recorder.versions == twin.versions
    kinds = labeled_run.pending.table.kinds
    assert labeled_run.metrics() == {
        **twin.counts,
        "waiting": sum("x" in item for item in twin.waiting),
        "waiting_labels": sum("x" not in item for item in twin.waiting),
        "correctable": len(twin.negatives),
    }
    assert sum(kinds) == len(twin.waiting) + len(twin.negatives)
    assert labeled_run.report.rejected == twin.n_rejected
    assert labeled_run.report.examples == len(twin.scored)
    assert [line.examples for line in labeled_run.report.lines][:-1] == [
        n for n in range(every, len(twin.scored) + 1, every)
    ][: len(labeled_run.report.lines) - 1]
    if sum(item[2] for item in twin.scored):
        sums = labeled_run.report._all
        averages = [total / sums.weight for total in (sums.loss, sums.constant, sums.error)]
        assert averages == pytest.approx(twin.averages(), abs=1e-9)


@given(streams(), SETTINGS, st.sampled_from([1, 7]), st.integers(1, 30))
def test_limit_stops_after_that_many_examples(
    events: list[Event], settings: tuple[float, int, str], block_size: int, limit: int
) -> None:
    """Learn exactly the first `limit` examples."""
    unlimited, _ = run(events, *settings)
    limited, _ = run(events, *settings, block_size=block_size, limit=limit)
    assert limited.report.examples == min(limit, unlimited.report.examples)


# Single events


def example(id: Any, time: float | None = None, **x: float) -> Event:
    return {"id": id, "x": x or {"a": 1.0}, **({} if time is None else {"time": time})}


def label(id: Any, y: Any, time: float | None = None, **more: Any) -> Event:
    return {"id": id, "y": y, **({} if time is None else {"time": time}), **more}


def timed_examples(start: int, end: int) -> list[Event]:
    """Return labeled examples one second apart, which advance the stream time."""
    return [{"x": {"t": 1.0}, "y": k % 2, "time": float(k)} for k in range(start, end)]


def nonzero_counts(
    events: list[Event],
    within: float = 20.0,
    max_waiting: int = 100,
    unanswered: str = "drop",
) -> dict[str, float]:
    labeled_run, _ = run(events, within, max_waiting, unanswered)
    return {name: count for name, count in labeled_run.metrics().items() if count}


def test_predicts_at_once_and_learns_with_the_label() -> None:
    events = [
        example(1, a=1.0),
        {"x": {"a": 1.0}, "y": 1},
        label(1, True),
        example(2, a=1.0),
    ]
    labeled_run, recorder = run(events, 20.0, 100, "drop")
    twin = model()
    p = [twin.predict_proba_one({"a": 1.0})[True]]
    p.append(twin.predict_proba_one({"a": 1.0})[True])
    twin.learn_one({"a": 1.0}, True)
    twin.learn_one({"a": 1.0}, True)
    p.append(twin.predict_proba_one({"a": 1.0})[True])
    assert state(labeled_run.model) == state(twin)
    assert recorder.p == p and p[0] == 0.5 < p[2]
    assert recorder.example_places == ["events:1", "events:4"]
    assert recorder.late_labels == [("events:3", True, 0.5)]
    assert labeled_run.report.lines[-1].loss == pytest.approx(math.log(2.0))


def test_counts_of_single_events() -> None:
    assert nonzero_counts([example(1), example(2), label(1, 0)]) == {
        "asked": 2,
        "answered": 1,
        "waiting": 1,
    }
    assert nonzero_counts([example(1), example(1)]) == {
        "asked": 1,
        "duplicates": 1,
        "waiting": 1,
    }
    assert nonzero_counts([label(1, 0), label(1, 1)]) == {
        "duplicates": 1,
        "waiting_labels": 1,
    }
    assert nonzero_counts([label(1, 0), example(1)]) == {"asked": 1, "answered": 1}
    assert nonzero_counts([example("1"), label(1, 0)]) == {
        "asked": 1,
        "waiting": 1,
        "waiting_labels": 1,
    }
    first = timed_examples(0, 15)
    events = [*first, example(1, 15.0), label(2, 1, 15.0), *timed_examples(16, 36)]
    assert nonzero_counts(events) == {"asked": 1, "waiting": 1, "waiting_labels": 1}
    assert nonzero_counts([*events, *timed_examples(36, 37)]) == {
        "asked": 1,
        "expired": 1,
        "orphans": 1,
    }
    counts = nonzero_counts([*events, *timed_examples(36, 37), label(1, 1, 37.0)])
    assert counts == {"asked": 1, "expired": 1, "orphans": 1, "waiting_labels": 1}


def test_event_times_decide_whether_a_label_is_in_time() -> None:
    assert nonzero_counts([example(1, 5.0), label(1, 1, 25.0)]) == {
        "asked": 1,
        "answered": 1,
    }
    expired = {"asked": 1, "expired": 1, "orphans": 1}
    assert nonzero_counts([example(1, 5.0), label(1, 1, 25.1)]) == expired
    early_label = {"asked": 1, "orphans": 1, "waiting": 1}
    assert nonzero_counts([label(1, 1, 5.0), example(1, 25.1)]) == early_label
    corrected = nonzero_counts([example(1, 5.0), label(1, 1, 45.0)], unanswered="negative")
    assert corrected == {"asked": 1, "expired": 1, "corrected": 1}
    confirmed = nonzero_counts([example(1, 5.0), label(1, 1, 45.1)], unanswered="negative")
    assert confirmed == {"asked": 1, "expired": 1, "orphans": 1, "correctable": 1}


def test_waiting_examples_without_times_are_pointed_out(caplog: pytest.LogCaptureFixture) -> None:
    progressive(model(), [example(1), example(2), label(1, 1)], label_within=20.0)
    assert caplog.messages == [
        'events: no record has a "time", in seconds since 1970, so no example expires and '
        "label_within has no effect"
    ]
    caplog.clear()
    progressive(model(), [example(1), label(1, 1)], label_within=20.0)  # nothing waits
    progressive(model(), [example(1, 3.0), example(2), label(1, 1)], label_within=20.0)
    assert not caplog.messages


@pytest.mark.parametrize("gap", [None, 15.0, 300.0])
def test_labels_in_time_are_learnt_at_the_start_and_after_a_gap(gap: float | None) -> None:
    """The first records are ahead of the clock, but wait as long as others."""
    before = [] if gap is None else timed_examples(0, 30)
    start = 0.0 if gap is None else 29.0 + gap
    events = []
    for k in range(40):
        events.append(example(k, start + k))
        if k >= 19:
            events.append(label(k - 19, 1, start + k))
    expected = {"asked": 40, "answered": 21, "waiting": 19}
    assert nonzero_counts([*before, *events]) == expected


def test_oldest_is_dropped_at_the_limit() -> None:
    assert nonzero_counts([example(1), label(2, 1), example(3), example(4)], max_waiting=2) == {
        "asked": 3,
        "pushed_out": 1,
        "orphans": 1,
        "waiting": 2,
    }
    events = [
        *timed_examples(0, 15),
        example(1, 15.0),
        *timed_examples(16, 37),
        example(2, 37.0),
        example(3, 37.0),
    ]
    counts = nonzero_counts(events, max_waiting=2, unanswered="negative")
    assert counts == {"asked": 3, "expired": 1, "waiting": 2}, "corrections are dropped first"


def test_unanswered_example_is_a_negative_until_corrected() -> None:
    events = [*timed_examples(0, 15), example(1, 15.0, b=1.0), *timed_examples(16, 37)]
    labeled_run, _ = run(events, 20.0, 100, "negative")
    twin = model()
    for k in (*range(15), *range(16, 37)):
        twin.learn_one({"t": 1.0}, k % 2 == 1)
    twin.learn_one({"b": 1.0}, False)
    assert state(labeled_run.model) == state(twin) and labeled_run.report.examples == 37
    corrected_events = [*events, label(1, 1, 37.0, w=3.0)]
    labeled_run, _ = run(corrected_events, 20.0, 100, "negative")
    twin.learn_one({"b": 1.0}, True, 3.0)
    assert state(labeled_run.model) == state(twin) and labeled_run.report.examples == 37
    line = labeled_run.report.lines[-1]
    answered, _ = run(corrected_events, 100.0, 100, "drop")
    assert answered.metrics()["answered"] == 1
    assert line.loss == pytest.approx(answered.report.lines[-1].loss), (
        "must count as if the label was in time"
    )
    assert line.error == pytest.approx(answered.report.lines[-1].error)
    assert line.recent_loss == pytest.approx(line.loss)


def test_correction_changes_the_window_but_not_past_lines() -> None:
    events = [
        *timed_examples(0, 15),
        example(1, 15.0, b=1.0),
        *timed_examples(16, 37),
        label(1, 1, 38.0),
    ]
    corrected, _ = run(events, 20.0, 100, "negative", every=37)
    before, _ = run(events[:-1], 20.0, 100, "negative", every=37)
    assert len(corrected.report.lines) == 1
    for name in ("loss", "recent_loss", "constant_loss", "error"):
        assert getattr(corrected.report.lines[0], name) == getattr(before.report.lines[0], name)
    windows = [labeled_run.report._window for labeled_run in (corrected, before)]
    changed = [k for k in range(37) if windows[0].y[k] != windows[1].y[k]]
    assert changed == [36] and windows[0].y[36]
    assert corrected.report._recent.weight == 0.0


def test_weight_of_the_label_overrides_that_of_the_example() -> None:
    for example_weight, label_weight, expected in (
        (None, 2.0, 2.0),
        (3.0, None, 3.0),
        (3.0, 2.0, 2.0),
    ):
        labeled_run, _ = run(
            [{**example(1), "w": example_weight}, label(1, 1, w=label_weight)],
            20.0,
            9,
            "drop",
        )
        twin = model()
        twin.learn_one({"a": 1.0}, True, expected)
        assert state(labeled_run.model) == state(twin)
        labeled_run, _ = run(
            [label(1, 1, w=label_weight), {**example(1), "w": example_weight}],
            20.0,
            9,
            "drop",
        )
        assert state(labeled_run.model) == state(twin)


LEAP = 2.0
# Multiples of half the leap: many steps are exactly one leap.
CLOCK_TIMES = st.one_of(st.none(), st.integers(-8, 8).map(float), st.just(1e9))


@given(st.lists(CLOCK_TIMES, min_size=15, max_size=60), CLOCK_TIMES)
@hypothesis.settings(max_examples=200)
def test_clock_equals_the_reference(times: list[float | None], next_time: float | None) -> None:
    twin, clock = Twin(10 * LEAP, 1, "drop"), StreamClock(LEAP)
    for time in times:
        twin.advance_time(time)
        clock.advance(time)
        resumed = StreamClock(LEAP)
        resumed.resume(json.loads(json.dumps(clock.dump())))
        for one in (clock, resumed):
            assert (one.now, one.start) == (twin.now, twin.start)
            assert one.arrival_time(next_time) == twin.arrival_time(next_time)
        clock = resumed


def test_times_one_leap_apart_are_followed() -> None:
    clock = StreamClock(LEAP)
    times = [100.0 + LEAP * k for k in range(10)]
    for time in times:
        clock.advance(time)
    assert (clock.start, clock.now) == (times[0], times[-1])
    following = clock.now + LEAP
    assert clock.arrival_time(following) == following
    clock.advance(following)
    assert clock.now == following
    beyond = math.nextafter(following + LEAP, math.inf)
    assert clock.arrival_time(beyond) == following
    clock.advance(beyond)
    assert clock.now == following


def test_record_from_the_future_expires_nothing() -> None:
    events = [*timed_examples(0, 15), example(1, 15.0), {"x": {"t": 1}, "y": 0, "time": 4e9}]
    for k in range(9):
        events += [*timed_examples(16 + k, 17 + k), {"x": {"t": 1}, "y": 0, "time": 4e9 + k}]
    assert nonzero_counts(events) == {"asked": 1, "waiting": 1}
    gap = [*timed_examples(0, 15), example(1, 15.0), *timed_examples(1000, 1009)]
    assert nonzero_counts(gap) == {"asked": 1, "waiting": 1}
    assert nonzero_counts([*gap, *timed_examples(1009, 1010)]) == {"asked": 1, "expired": 1}, (
        "ten events must confirm the time"
    )


# Other models


def test_multiclass_labels() -> None:
    events = [
        example(1, a=1.0),
        {"x": {"a": 1.0}, "y": "cat"},
        example(2, a=1.0),
        label(1, "dog"),
        label(2, "cat"),
        example(3, a=1.0),
        label(3, "cow"),
        example(4),
        label(4, "dog"),
    ]
    model_ = streaml1.SoftmaxClassifier(lr=0.5)
    recorder = Recorder()
    report = progressive(model_, events, label_within=10.0, observers=[BatchChecker()])
    twin = streaml1.SoftmaxClassifier(lr=0.5)
    losses = [0.0]  # a single known label is certain
    twin.learn_one({"a": 1.0}, "cat")
    p2 = twin.predict_proba_one({"a": 1.0})
    losses.append(-math.log(1 / 2))  # dog was unknown: its share among the labels after joining
    twin.learn_one({"a": 1.0}, "dog")
    losses.append(-math.log(p2["cat"]))
    twin.learn_one({"a": 1.0}, "cat")
    losses.append(-math.log(1 / 3))
    twin.learn_one({"a": 1.0}, "cow")
    losses.append(-math.log(twin.predict_proba_one({"a": 1.0})["dog"]))
    twin.learn_one({"a": 1.0}, "dog")
    assert (model_.weights, model_.intercept) == (twin.weights, twin.intercept)
    assert report.lines[-1].loss == pytest.approx(sum(losses) / 5)
    assert not recorder.p


class BatchChecker(Observer):
    essential = True

    def on_batch(self, batch: Batch) -> None:
        assert len(batch.p) == batch.hi - batch.lo


@pytest.mark.parametrize(
    "loss", ["hinge", "smoothed_hinge", "squared", "absolute", "quantile", "poisson"]
)
def test_losses_match_immediate_labels(loss: str) -> None:
    regression = loss in REGRESSION
    make_model = streaml1.ElasticNetRegressor if regression else streaml1.ElasticNetClassifier
    examples = [({f"f{k % 3}": 1.0, f"g{k % 5}": 0.5}, k % 2) for k in range(40)]
    immediate, delayed = make_model(loss=loss, lr=0.3), make_model(loss=loss, lr=0.3)
    expected = progressive(immediate, examples)
    events: list[Event] = []
    for k, (x, y) in enumerate(examples):
        events += [{"id": k, "x": x}, {"id": k, "y": y}]
    report = progressive(delayed, events, label_within=1.0)
    assert state(delayed) == state(immediate)
    for name in ("loss", "constant_loss", "error", "examples"):
        assert getattr(report.lines[-1], name) == getattr(expected.lines[-1], name)


def test_pipeline() -> None:
    from river import preprocessing

    events: list[Event] = []
    pipeline, twin = (preprocessing.StandardScaler() | model() for _ in range(2))
    for k in range(30):
        x = {"f": float(k % 4), "g": float(k)}
        events += [{"id": k, "x": x}, {"id": k, "y": k % 2}]
        twin.predict_proba_one(x)
        twin.learn_one(x, k % 2 == 1)
    assert progressive(pipeline, events, label_within=1.0).examples == 30
    assert pipeline["ElasticNetClassifier"].weights == twin["ElasticNetClassifier"].weights


def test_transformers_see_the_examples_only() -> None:
    """The kernels were compiled with a dict of other features, which such steps reject."""
    from river import compose, feature_extraction

    pipelines = [
        (compose.Select("price") | model(), {"price": 1.5, "ad": "shoes"}),
        (feature_extraction.BagOfWords() | model(), "cheap shoes"),
    ]
    for pipeline, x in pipelines:
        twin = pipeline.clone()
        events = [{"id": 1, "x": x}, {"id": 1, "y": 1}]
        assert progressive(pipeline, events, label_within=1.0).examples == 1
        twin.learn_one(x, True)
        weights = twin["ElasticNetClassifier"].weights
        assert pipeline["ElasticNetClassifier"].weights == weights != {}


# Rejected input


def test_invalid_events() -> None:
    for line, reason in [
        ('{"id": 1}', 'the event needs "x"'),
        ('{"x": {}}', '"x" needs an "id" to be matched with its "y"'),
        ('{"y": 1}', '"y" needs an "id" to be matched with its "x"'),
        ('{"id": true, "y": 1}', "must be a string or an integer"),
        ('{"id": 1.5, "y": 1}', "must be a string or an integer"),
        ('{"id": "' + 1001 * "a" + '", "y": 1}', "at most 1,000 characters, got 1,001"),
        ('{"id": 1, "y": 1, "time": "noon"}', "\"time\" must be .*, got 'noon'"),
        ('{"id": 1, "y": 1, "time": true}', '"time" must be .*, got True'),
        (
            '{"id": 1, "y": 1, "time": 1700000000000}',
            '"time" must be in seconds since 1970, got 1700000000000: divide milliseconds by 1000',
        ),
        ('{"id": 1, "x": {"a": [1]}}', "is nested"),
        ('{"id": 1, "y": 1, "w": -1}', "weight must be a number >= 0, got -1"),
        ("[1]", "is not an example"),
    ]:
        with pytest.raises(ValueError, match=reason.replace("[", r"\[")):
            parse_event(line)
    assert parse_event(" ") is None
    read = parse_event('{"id": 1, "y": null, "x": {"a": 1}, "time": "1970-01-02"}')
    assert read is not None and (read[0].y, read[0].time) == (None, 86400.0)


def test_rejected_negative_reports_its_record() -> None:
    """The example was predicted, but learning it exceeds the model's number of features."""
    values = [json.dumps({"id": k, "x": {f"f{k}": 1}}).encode() for k in range(30)]
    records = [Record(0, k, value, timestamp=1_000_000 * (k + 1)) for k, value in enumerate(values)]

    class ExampleTopic:
        name = "asked"

        def blocks(self, size: int, reject: Any) -> Any:
            return RecordReader("asked", event_parser(None)).blocks(records, size, reject)

    rejections: list[Any] = []

    class RejectionRecorder(Observer):
        def on_rejected(self, rejected: Any) -> None:
            rejections.append(rejected)

    report = progressive(
        streaml1.EGClassifier(n_features=5),
        ExampleTopic(),
        label_within=1000.0,
        unanswered="negative",
        bad="skip",
        observers=[RejectionRecorder()],
    )
    assert report.examples == 5 and report.numbers["expired"] == 29
    assert [rejection.place for rejection in rejections] == [f"t/0@{k}" for k in range(5, 29)]
    assert [rejection.origin.value for rejection in rejections] == values[5:29]
    assert "n_features=5" in rejections[0].reason


def test_rejected_example_is_not_counted() -> None:
    """Its label has arrived before."""
    events: list[Event] = [
        {"id": 1, "y": 1}, {"id": 1, "x": {"a": float("inf")}}, {"id": 2, "x": {"a": 1.0}}
    ]  # fmt: skip
    report = progressive(model(), events, label_within=10.0, bad="skip")
    assert report.rejected == 1
    assert (report.numbers["asked"], report.numbers["answered"]) == (1, 0)


def test_invalid_settings_are_rejected() -> None:
    for settings, message in [
        ({"label_within": 0.0}, "label_within must be a finite number of seconds > 0, got 0.0"),
        ({"label_within": math.nan}, "label_within must be a finite .* got nan"),
        ({"label_within": 1.0, "waiting": 0}, "waiting must be >= 1, got 0"),
        ({"label_within": 1.0, "unanswered": "no"}, "unanswered must be .* got 'no'"),
        ({"label_within": 1.0, "passes": 2}, "passes must be 1 with delayed labels, got 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            progressive(model(), [], **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="labels must be True and False"):
        progressive(streaml1.SoftmaxClassifier(), [], label_within=1.0, unanswered="negative")
    with pytest.raises(TypeError, match="delayed labels need JSON lines with events, got plain:1"):
        run_source(LabeledSource())
    with pytest.raises(SourceError, match="JSON lines or a topic, got river:Phishing"):
        progressive(model(), "river:Phishing", label_within=1.0)
    with pytest.raises(SourceError, match="delayed labels need format jsonl"):
        progressive(model(), "kafka://h/t", format="svmlight", label_within=1.0)


@pytest.mark.parametrize("source", [5, None, (example(1),), example(1)])
def test_objects_without_events_are_rejected(source: Any) -> None:
    with pytest.raises(TypeError, match='an iterable of dicts with "id" and "x" or "y", got an '):
        open_events(source)


class LabeledSource:
    name = "plain"

    def blocks(self, size: int, reject: Any) -> Any:
        from streaml1.sources import Block

        yield Block([{"a": 1.0}], [1], None, "plain", [1])


def run_source(source: Any) -> None:
    progressive(model(), source, label_within=1.0)


def test_example_keeps_waiting_after_a_bad_label() -> None:
    with pytest.raises(BadExample, match="events:2: invalid label 2"):
        progressive(model(), [example(1), label(1, 2)], label_within=9.0)
    labeled_run, _ = run([example(1), label(1, 2), label(1, 1)], 9.0, 9, "drop")
    assert labeled_run.report.rejected == 1 and labeled_run.report.examples == 1


# Files


def test_events_in_a_file(tmp_path: Path) -> None:
    events = [
        *timed_examples(0, 30),
        example("u", 30.0, b=2.0),
        *timed_examples(31, 40),
        label("u", 1, 40.0),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    from_file, from_events = model(), model()
    report = progressive(from_file, path, label_within=20)
    expected = progressive(from_events, events, label_within=20)
    assert state(from_file) == state(from_events) and report.numbers == expected.numbers
    assert "1 answered" in report.summary()
    with pytest.raises(SourceError, match="need JSON lines, Avro or a topic, got .*svm .svmlight"):
        (tmp_path / "a.svm").write_text("1 1:1\n")
        progressive(model(), tmp_path / "a.svm", label_within=20)


def test_pending_table_reuses_slots() -> None:
    pending = PendingTable()
    for turn in range(3):
        for k in range(500):
            pending.add(k, UNLABELED if k % 2 else EARLY_LABEL, turn * 1000 + k, 0.0, 0.0, b"")
        pending.check()
        for k in range(499, -1, -1):
            pending.remove(pending.find(k))
        pending.check()
    assert len(pending.kind) < 1000 and len(pending) == 0


def test_learning_negatives_needs_a_binary_classifier() -> None:
    regressor = streaml1.ElasticNetRegressor()
    with pytest.raises(ValueError, match='^unanswered="negative" needs a binary classifier'):
        require_negatives("negative", regressor)
    with command_line_options({}), pytest.raises(ValueError, match="^--unanswered negative needs"):
        require_negatives("negative", regressor)
    require_negatives("drop", regressor)
