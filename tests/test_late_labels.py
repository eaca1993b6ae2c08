"""Labels that come later: predicted at once, learnt once the label is there, in exact order."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError
from streaml1.sources.kafka.records import RecordReader, event_parser
from streaml1.sources.readers.events import parse_event
from streaml1.training import Batch, Observer, RunConfig, progressive
from streaml1.training.delayed_labels import DelayedLabelRun, open_events
from streaml1.training.delayed_labels.pending_table import EARLY_LABEL, UNLABELED, PendingTable
from streaml1.training.error_policy import ErrorPolicy
from tests.test_records import Record

Event = dict[str, Any]


def model(**params: Any) -> Any:
    return streaml1.ElasticNetClassifier(**{"l1": 1e-3, "l2": 1e-3, "lr": 0.5, **params})


def state(one: Any) -> tuple[Any, ...]:
    return dict(one.weights), one.intercept, one.n_iterations


# The twin: dicts and lists, one event after the other


class Twin:
    """What docs/late-labels.md says, as plainly as can be."""

    def __init__(self, within: float, most: int, unanswered: str, learner: Any = None) -> None:
        self.model = model() if learner is None else learner
        self.within, self.most, self.negative = within, most, unanswered == "negative"
        self.now = self.start = -math.inf
        self.ahead: list[float] = []
        self.waiting: list[dict[str, Any]] = []  # oldest first
        self.negatives: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(
            ["asked", "answered", "expired", "pushed_out", "corrected", "confirmed", "orphans",
             "duplicates"], 0,
        )  # fmt: skip
        self.told: list[float] = []  # predictions, in order
        self.versions: list[int] = []  # examples learnt before each
        self.counted: list[list[Any]] = []  # p, y, w, the prediction of the baseline
        self.constant_off = 0.0
        self.refused = 0

    def run(self, events: Iterable[Event]) -> Twin:
        for event in events:
            self.give_up()
            self.take(event)
            self.tell(event.get("time"))
        self.give_up()
        return self

    def tell(self, time: float | None) -> None:
        if time is None:
            return
        if time <= self.now + self.within / 10:
            self.ahead = []
            self.now = max(self.now, time)
            return
        self.ahead += [time]
        if len(self.ahead) == 10:
            self.now = min(self.ahead)
            self.start = self.now if self.start == -math.inf else self.start
            while any(self.now < t <= self.now + self.within / 10 for t in self.ahead):
                self.now = min(t for t in self.ahead if t > self.now)
            self.ahead = [t for t in self.ahead if t > self.now + self.within / 10]

    def at(self, time: float | None) -> float:
        is_next = time is not None and self.now < time <= self.now + self.within / 10
        return time if is_next and time is not None else self.now

    def take(self, event: Event) -> None:
        x, y, time = event.get("x"), event.get("y"), event.get("time")
        if y is not None and y not in (0, 1):
            self.refused += 1
            return
        own = [one for one in self.waiting if one["id"] == event.get("id")]
        late = [one for one in self.negatives if one["id"] == event.get("id")]
        if event.get("id") is None:
            own = late = []
        asked = [one for one in own if "x" in one]
        early = [one for one in own if "x" not in one]
        if x is None or (y is not None and (asked or late)):
            self.answer(event, asked, early, late)
        elif asked or late:
            self.counts["duplicates"] += 1
        else:
            w = event.get("w")
            joined = False
            for one in early:
                self.waiting.remove(one)
                if y is not None:
                    self.counts["duplicates"] += 1
                elif self.fits(one, time, 1):
                    y, w = one["y"], w if one["w"] is None else one["w"]
                    joined = True
                else:
                    self.counts["orphans"] += 1
            if y is None:
                self.make_room()
                p = self.predict(x)
                if p is not None:
                    self.counts["asked"] += 1
                    self.told.append(p)
                    self.versions.append(self.model.n_iterations)
                    kept = {"id": event["id"], "x": x, "w": w, "p": p, "time": time}
                    self.waiting.append({**kept, "since": self.at(time)})
            else:
                p = self.predict(x)
                if p is not None:
                    self.counts["asked"] += joined
                    self.counts["answered"] += joined
                    self.told.append(p)
                    self.versions.append(self.model.n_iterations)
                    self.learn(x, y, w, p)
            assert not joined or y is not None

    def answer(self, event: Event, asked: Any, early: Any, late: Any) -> None:
        y, w, time = event["y"], event.get("w"), event.get("time")
        if not asked and not early and not late:
            self.make_room()
            self.waiting.append(
                {"id": event["id"], "y": y, "w": w, "since": self.at(time), "time": time}
            )
        for _ in early:
            self.counts["duplicates"] += 1
        for one in asked:
            if self.fits(one, time, 1):
                self.waiting.remove(one)
                self.counts["answered"] += 1
                self.learn(one["x"], y, one["w"] if w is None else w, one["p"])
            else:
                self.expire(one, "expired")
                if self.negative:
                    late = [one]
                else:
                    self.counts["orphans"] += 1
        for one in late:
            if not self.fits(one, time, 2):
                self.counts["orphans"] += 1
                continue
            self.negatives.remove(one)
            if not y:
                self.counts["confirmed"] += 1
                continue
            self.counts["corrected"] += 1
            w = one["w"] if w is None else w
            w = 1.0 if w is None else w
            self.model.learn_one(one["x"], True, w)
            counted = self.counted[one["number"]]
            r = (sum(c[2] for c in self.counted if c[1]) + 0.5) / (
                sum(c[2] for c in self.counted) + 1
            )
            self.constant_off += w * -math.log(r) - counted[2] * -math.log(1 - r)
            self.constant_off += counted[2] * -math.log(1 - counted[3])  # counted[3] is gone
            counted[1:] = [True, w, None]

    def fits(self, one: Any, time: float | None, periods: int) -> bool:
        known = time is not None and one["time"] is not None
        return not known or abs(time - one["time"]) <= periods * self.within

    def overdue(self, one: Any) -> bool:
        return self.now > max(one["since"], self.start) + self.within

    def give_up(self) -> None:
        while self.negatives and self.overdue(self.negatives[0]):
            self.negatives.pop(0)
        while self.waiting and self.overdue(self.waiting[0]):
            self.expire(self.waiting[0], "expired")

    def make_room(self) -> None:
        while len(self.waiting) + len(self.negatives) >= self.most:
            if self.negatives:
                self.negatives.pop(0)
            else:
                self.expire(self.waiting[0], "pushed_out")

    def expire(self, one: Any, why: str) -> None:
        self.waiting.remove(one)
        if "x" not in one:
            self.counts["orphans"] += 1
            return
        self.counts[why] += 1
        if self.negative:
            number = len(self.counted)
            self.learn(one["x"], False, one["w"], one["p"])
            if why == "expired":
                self.negatives.append({**one, "since": self.now, "number": number})

    def predict(self, x: Any) -> float | None:
        try:
            return float(self.model.predict_proba_one(x)[True])
        except BadExample:
            self.refused += 1
            return None

    def learn(self, x: Any, y: Any, w: float | None, p: float) -> None:
        w = 1.0 if w is None else w
        self.model.learn_one(x, bool(y), w)
        weight = sum(one[2] for one in self.counted)
        positive = sum(one[2] for one in self.counted if one[1])
        self.counted.append([p, bool(y), w, (positive + 0.5) / (weight + 1)])

    def means(self) -> tuple[float, float, float]:
        """Loss, loss of the baseline, error."""
        weight = sum(one[2] for one in self.counted)
        loss = sum(w * -math.log(p if y else 1 - p) for p, y, w, _ in self.counted)
        constant = self.constant_off + sum(
            w * -math.log(r if y else 1 - r) for _, y, w, r in self.counted if r is not None
        )
        error = sum(w for p, y, w, _ in self.counted if (p > 0.5) != y)
        return loss / weight, constant / weight, error / weight


class Heard(Observer):
    essential = True

    def __init__(self) -> None:
        self.p: list[float] = []
        self.versions: list[int] = []
        self.asked: list[str] = []
        self.late: list[tuple[str, bool, float]] = []

    def on_batch(self, part: Batch) -> None:
        self.p += np.asarray(part.p).tolist()
        assert part.hi - part.lo == len(part.p) and part.learnt is not None
        step = 0 if part.y is None else 1
        self.versions += [part.learnt + step * k for k in range(len(part.p))]
        if part.y is None:
            self.asked += [part.block.place(row) for row in range(part.lo, part.hi)]

    def on_labels(self, part: Batch) -> None:
        self.late += [
            (part.block.place(row), bool(part.y[row - part.lo]), float(part.p[row - part.lo]))
            for row in range(part.lo, part.hi)
        ]


def run(
    events: list[Event], within: float, most: int, unanswered: str, size: int = 1000,
    **options: Any,
) -> tuple[DelayedLabelRun, Heard]:  # fmt: skip
    heard = Heard()
    opened = open_events(events)
    refuse = ErrorPolicy("skip", [heard])
    config = RunConfig(label_within=within, waiting=most, unanswered=unanswered, **options)
    one = DelayedLabelRun(model(), opened, refuse, config)
    one.begin()
    for block in opened.blocks(size, refuse):
        one.feed(block)
        one.pending.table.check()
        if one.is_full:
            break
    one.finish()
    return one, heard


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
def test_equals_the_twin(
    events: list[Event], settings: tuple[float, int, str], size: int, every: int
) -> None:
    twin = Twin(*settings).run(events)
    late, heard = run(events, *settings, size=size, every=every)
    assert state(late.model) == state(twin.model)
    assert heard.p == twin.told and heard.versions == twin.versions
    kinds = late.pending.table.kinds
    assert late.metrics() == {
        **twin.counts,
        "waiting": sum("x" in one for one in twin.waiting),
        "waiting_labels": sum("x" not in one for one in twin.waiting),
        "correctable": len(twin.negatives),
    }
    assert sum(kinds) == len(twin.waiting) + len(twin.negatives)
    assert late.report.rejected == twin.refused
    assert late.report.examples == len(twin.counted)
    assert [line.examples for line in late.report.lines][:-1] == [
        n for n in range(every, len(twin.counted) + 1, every)
    ][: len(late.report.lines) - 1]
    if sum(one[2] for one in twin.counted):
        sums = late.report._all
        found = [total / sums.weight for total in (sums.loss, sums.constant, sums.error)]
        assert found == pytest.approx(twin.means(), abs=1e-9)


@given(streams(), SETTINGS, st.sampled_from([1, 7]), st.integers(1, 30))
def test_a_limit_ends_it_where_it_goes_on(
    events: list[Event], settings: tuple[float, int, str], size: int, limit: int
) -> None:
    """The first so many examples are learnt, and nothing after."""
    whole, _ = run(events, *settings)
    part, _ = run(events, *settings, size=size, limit=limit)
    assert part.report.examples == min(limit, whole.report.examples)


# What is asked and answered, one by one


def ask(id: Any, time: float | None = None, **x: float) -> Event:
    return {"id": id, "x": x or {"a": 1.0}, **({} if time is None else {"time": time})}


def answer(id: Any, y: Any, time: float | None = None, **more: Any) -> Event:
    return {"id": id, "y": y, **({} if time is None else {"time": time}), **more}


def ticks(start: int, end: int) -> list[Event]:
    """Labelled examples a second apart, so that time goes on."""
    return [{"x": {"t": 1.0}, "y": k % 2, "time": float(k)} for k in range(start, end)]


def numbers(events: list[Event], within: float = 20.0, most: int = 100, unanswered: str = "drop",
            ) -> dict[str, float]:  # fmt: skip
    late, _ = run(events, within, most, unanswered)
    return {name: count for name, count in late.metrics().items() if count}


def test_predicted_at_once_learnt_with_the_label() -> None:
    events = [ask(1, a=1.0), {"x": {"a": 1.0}, "y": 1}, answer(1, True), ask(2, a=1.0)]
    late, heard = run(events, 20.0, 100, "drop")
    twin = model()
    p = [twin.predict_proba_one({"a": 1.0})[True]]
    p.append(twin.predict_proba_one({"a": 1.0})[True])
    twin.learn_one({"a": 1.0}, True)
    twin.learn_one({"a": 1.0}, True)
    p.append(twin.predict_proba_one({"a": 1.0})[True])
    assert state(late.model) == state(twin)
    assert heard.p == p and p[0] == 0.5 < p[2]
    assert heard.asked == ["events:1", "events:4"]
    assert heard.late == [("events:3", True, 0.5)]
    assert late.report.lines[-1].loss == pytest.approx(math.log(2.0))


def test_what_becomes_of_each() -> None:
    assert numbers([ask(1), ask(2), answer(1, 0)]) == {"asked": 2, "answered": 1, "waiting": 1}
    assert numbers([ask(1), ask(1)]) == {"asked": 1, "duplicates": 1, "waiting": 1}
    assert numbers([answer(1, 0), answer(1, 1)]) == {"duplicates": 1, "waiting_labels": 1}
    assert numbers([answer(1, 0), ask(1)]) == {"asked": 1, "answered": 1}
    assert numbers([ask("1"), answer(1, 0)]) == {"asked": 1, "waiting": 1, "waiting_labels": 1}
    begun = ticks(0, 15)
    events = [*begun, ask(1, 15.0), answer(2, 1, 15.0), *ticks(16, 36)]
    assert numbers(events) == {"asked": 1, "waiting": 1, "waiting_labels": 1}
    assert numbers([*events, *ticks(36, 37)]) == {"asked": 1, "expired": 1, "orphans": 1}
    gone = numbers([*events, *ticks(36, 37), answer(1, 1, 37.0)])
    assert gone == {"asked": 1, "expired": 1, "orphans": 1, "waiting_labels": 1}


def test_their_own_times_tell_whether_a_label_is_in_time() -> None:
    assert numbers([ask(1, 5.0), answer(1, 1, 25.0)]) == {"asked": 1, "answered": 1}
    late = {"asked": 1, "expired": 1, "orphans": 1}
    assert numbers([ask(1, 5.0), answer(1, 1, 25.1)]) == late
    early = {"asked": 1, "orphans": 1, "waiting": 1}
    assert numbers([answer(1, 1, 5.0), ask(1, 25.1)]) == early
    corrected = numbers([ask(1, 5.0), answer(1, 1, 45.0)], unanswered="negative")
    assert corrected == {"asked": 1, "expired": 1, "corrected": 1}
    kept = numbers([ask(1, 5.0), answer(1, 1, 45.1)], unanswered="negative")
    assert kept == {"asked": 1, "expired": 1, "orphans": 1, "correctable": 1}


def test_the_oldest_goes_where_no_more_may_wait() -> None:
    assert numbers([ask(1), answer(2, 1), ask(3), ask(4)], most=2) == {
        "asked": 3, "pushed_out": 1, "orphans": 1, "waiting": 2,
    }  # fmt: skip
    events = [*ticks(0, 15), ask(1, 15.0), *ticks(16, 37), ask(2, 37.0), ask(3, 37.0)]
    found = numbers(events, most=2, unanswered="negative")
    assert found == {"asked": 3, "expired": 1, "waiting": 2}, "a correction was given up first"


def test_an_unanswered_one_is_learnt_as_a_negative_and_corrected() -> None:
    events = [*ticks(0, 15), ask(1, 15.0, b=1.0), *ticks(16, 37)]
    late, _ = run(events, 20.0, 100, "negative")
    twin = model()
    for k in (*range(15), *range(16, 37)):
        twin.learn_one({"t": 1.0}, k % 2 == 1)
    twin.learn_one({"b": 1.0}, False)
    assert state(late.model) == state(twin) and late.report.examples == 37
    more = [*events, answer(1, 1, 37.0, w=3.0)]
    late, _ = run(more, 20.0, 100, "negative")
    twin.learn_one({"b": 1.0}, True, 3.0)
    assert state(late.model) == state(twin) and late.report.examples == 37
    told = late.report.lines[-1]
    answered, _ = run(more, 100.0, 100, "drop")
    assert answered.metrics()["answered"] == 1
    assert told.loss == pytest.approx(answered.report.lines[-1].loss), "counted as if in time"
    assert told.error == pytest.approx(answered.report.lines[-1].error)
    assert told.recent_loss == pytest.approx(told.loss)


def test_a_correction_leaves_lines_as_they_were_and_turns_the_label_in_the_window() -> None:
    events = [*ticks(0, 15), ask(1, 15.0, b=1.0), *ticks(16, 37), answer(1, 1, 38.0)]
    late, _ = run(events, 20.0, 100, "negative", every=37)
    before, _ = run(events[:-1], 20.0, 100, "negative", every=37)
    assert len(late.report.lines) == 1
    for name in ("loss", "recent_loss", "constant_loss", "error"):
        assert getattr(late.report.lines[0], name) == getattr(before.report.lines[0], name)
    windows = [one.report._window for one in (late, before)]
    changed = [k for k in range(37) if windows[0].y[k] != windows[1].y[k]]
    assert changed == [36] and windows[0].y[36]
    assert late.report._recent.weight == 0.0


def test_weights_stand_with_the_label_or_else_with_the_example() -> None:
    for first, second, expected in ((None, 2.0, 2.0), (3.0, None, 3.0), (3.0, 2.0, 2.0)):
        late, _ = run([{**ask(1), "w": first}, answer(1, 1, w=second)], 20.0, 9, "drop")
        twin = model()
        twin.learn_one({"a": 1.0}, True, expected)
        assert state(late.model) == state(twin)
        late, _ = run([answer(1, 1, w=second), {**ask(1), "w": first}], 20.0, 9, "drop")
        assert state(late.model) == state(twin)


def test_a_record_from_the_future_expires_nothing() -> None:
    events = [*ticks(0, 15), ask(1, 15.0), {"x": {"t": 1}, "y": 0, "time": 4e9}]
    for k in range(9):
        events += [*ticks(16 + k, 17 + k), {"x": {"t": 1}, "y": 0, "time": 4e9 + k}]
    assert numbers(events) == {"asked": 1, "waiting": 1}
    gap = [*ticks(0, 15), ask(1, 15.0), *ticks(1000, 1009)]
    assert numbers(gap) == {"asked": 1, "waiting": 1}
    assert numbers([*gap, *ticks(1009, 1010)]) == {"asked": 1, "expired": 1}, "ten in a row"


# Models of other kinds


def test_many_labels() -> None:
    events = [
        ask(1, a=1.0), {"x": {"a": 1.0}, "y": "cat"}, ask(2, a=1.0), answer(1, "dog"),
        answer(2, "cat"), ask(3, a=1.0), answer(3, "cow"), ask(4), answer(4, "dog"),
    ]  # fmt: skip
    one = streaml1.SoftmaxClassifier(lr=0.5)
    heard = Heard()
    report = progressive(one, events, label_within=10.0, observers=[Silent()])
    twin = streaml1.SoftmaxClassifier(lr=0.5)
    losses = [0.0]  # a label that joins alone is certain
    twin.learn_one({"a": 1.0}, "cat")
    p2 = twin.predict_proba_one({"a": 1.0})
    losses.append(-math.log(1 / 2))  # dog had not been met: its share of those known then
    twin.learn_one({"a": 1.0}, "dog")
    losses.append(-math.log(p2["cat"]))
    twin.learn_one({"a": 1.0}, "cat")
    losses.append(-math.log(1 / 3))
    twin.learn_one({"a": 1.0}, "cow")
    losses.append(-math.log(twin.predict_proba_one({"a": 1.0})["dog"]))
    twin.learn_one({"a": 1.0}, "dog")
    assert (one.weights, one.intercept) == (twin.weights, twin.intercept)
    assert report.lines[-1].loss == pytest.approx(sum(losses) / 5)
    assert not heard.p


class Silent(Observer):
    essential = True

    def on_batch(self, part: Batch) -> None:
        assert len(part.p) == part.hi - part.lo


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared", "absolute"])
def test_other_losses(loss: str) -> None:
    regression = loss in ("squared", "absolute")
    make = streaml1.ElasticNetRegressor if regression else streaml1.ElasticNetClassifier
    together = [({f"f{k % 3}": 1.0, f"g{k % 5}": 0.5}, k % 2) for k in range(40)]
    at_once, late = make(loss=loss, lr=0.3), make(loss=loss, lr=0.3)
    expected = progressive(at_once, together)
    events: list[Event] = []
    for k, (x, y) in enumerate(together):
        events += [{"id": k, "x": x}, {"id": k, "y": y}]
    report = progressive(late, events, label_within=1.0)
    assert state(late) == state(at_once)
    for name in ("loss", "constant_loss", "error", "examples"):
        assert getattr(report.lines[-1], name) == getattr(expected.lines[-1], name)


def test_a_pipeline() -> None:
    from river import preprocessing

    events: list[Event] = []
    one, twin = (preprocessing.StandardScaler() | model() for _ in range(2))
    for k in range(30):
        x = {"f": float(k % 4), "g": float(k)}
        events += [{"id": k, "x": x}, {"id": k, "y": k % 2}]
        twin.predict_proba_one(x)
        twin.learn_one(x, k % 2 == 1)
    assert progressive(one, events, label_within=1.0).examples == 30
    assert one["ElasticNetClassifier"].weights == twin["ElasticNetClassifier"].weights


# What is refused


def test_what_is_no_event() -> None:
    for line, reason in [
        ('{"id": 1}', 'the event needs "x"'),
        ('{"x": {}}', '"x" needs an "id" to be matched with its "y"'),
        ('{"y": 1}', '"y" needs an "id" to be matched with its "x"'),
        ('{"id": true, "y": 1}', "must be a string or an integer"),
        ('{"id": 1.5, "y": 1}', "must be a string or an integer"),
        ('{"id": "' + 1001 * "a" + '", "y": 1}', "at most 1,000 characters, got 1,001"),
        ('{"id": 1, "y": 1, "time": "noon"}', "\"time\" must be .*, got 'noon'"),
        ('{"id": 1, "y": 1, "time": true}', '"time" must be .*, got True'),
        ('{"id": 1, "x": {"a": [1]}}', "is nested"),
        ('{"id": 1, "y": 1, "w": -1}', "weight must be a number >= 0, got -1"),
        ("[1]", "is not an example"),
    ]:
        with pytest.raises(ValueError, match=reason.replace("[", r"\[")):
            parse_event(line)
    assert parse_event(" ") is None
    read = parse_event('{"id": 1, "y": null, "x": {"a": 1}, "time": "1970-01-02"}')
    assert read is not None and (read[0].y, read[0].time) == (None, 86400.0)


def test_a_negative_that_cannot_be_learnt_is_refused_where_it_stands() -> None:
    """Of a topic: it was predicted, and is a feature too many for its model."""
    values = [json.dumps({"id": k, "x": {f"f{k}": 1}}).encode() for k in range(30)]
    records = [Record(0, k, value, timestamp=1_000_000 * (k + 1)) for k, value in enumerate(values)]

    class Asked:
        name = "asked"

        def blocks(self, size: int, refuse: Any) -> Any:
            return RecordReader("asked", event_parser(None)).blocks(records, size, refuse)

    heard: list[Any] = []

    class Heard(Observer):
        def on_rejected(self, refused: Any) -> None:
            heard.append(refused)

    report = progressive(
        streaml1.EGClassifier(n_features=5), Asked(), label_within=1000.0, unanswered="negative",
        bad="skip", observers=[Heard()],
    )  # fmt: skip
    assert report.examples == 5 and report.numbers["expired"] == 29
    assert [one.place for one in heard] == [f"t/0@{k}" for k in range(5, 29)]
    assert [one.origin.value for one in heard] == values[5:29]
    assert "n_features=5" in heard[0].reason


def test_what_is_refused_is_not_asked() -> None:
    """Its label was there before."""
    events: list[Event] = [
        {"id": 1, "y": 1}, {"id": 1, "x": {"a": float("inf")}}, {"id": 2, "x": {"a": 1.0}}
    ]  # fmt: skip
    report = progressive(model(), events, label_within=10.0, bad="skip")
    assert report.rejected == 1
    assert (report.numbers["asked"], report.numbers["answered"]) == (1, 0)


def test_settings_out_of_range() -> None:
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
        run_source(Plain())
    with pytest.raises(SourceError, match="JSON lines or a topic, got river:Phishing"):
        progressive(model(), "river:Phishing", label_within=1.0)
    with pytest.raises(SourceError, match="delayed labels need format jsonl"):
        progressive(model(), "kafka://h/t", format="svmlight", label_within=1.0)


class Plain:
    name = "plain"

    def blocks(self, size: int, refuse: Any) -> Any:
        from streaml1.sources import Block

        yield Block([{"a": 1.0}], [1], None, "plain", [1])


def run_source(source: Any) -> None:
    progressive(model(), source, label_within=1.0)


def test_a_bad_label_is_refused_at_its_place_and_the_example_waits_on() -> None:
    with pytest.raises(BadExample, match="events:2: invalid label 2"):
        progressive(model(), [ask(1), answer(1, 2)], label_within=9.0)
    late, _ = run([ask(1), answer(1, 2), answer(1, 1)], 9.0, 9, "drop")
    assert late.report.rejected == 1 and late.report.examples == 1


# Files


def test_a_file(tmp_path: Path) -> None:
    events = [*ticks(0, 30), ask("u", 30.0, b=2.0), *ticks(31, 40), answer("u", 1, 40.0)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    one, other = model(), model()
    report = progressive(one, path, label_within=20)
    expected = progressive(other, events, label_within=20)
    assert state(one) == state(other) and report.numbers == expected.numbers
    assert "1 answered" in report.summary()
    with pytest.raises(SourceError, match="JSON lines or a topic, got .*svm .svmlight"):
        (tmp_path / "a.svm").write_text("1 1:1\n")
        progressive(model(), tmp_path / "a.svm", label_within=20)


def test_a_table_gives_back_its_slots() -> None:
    table = PendingTable()
    for turn in range(3):
        for k in range(500):
            table.add(k, UNLABELED if k % 2 else EARLY_LABEL, turn * 1000 + k, 0.0, 0.0, b"")
        table.check()
        for k in range(499, -1, -1):
            table.remove(table.find(k))
        table.check()
    assert len(table.kind) < 1000 and len(table) == 0
