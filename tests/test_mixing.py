"""Mixing without a broker: messages, the state of a topic, and groups in any order of events."""

from __future__ import annotations

import copy
import json
import logging
import math
from collections import Counter, deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import streaml1
from streaml1.cli import cli
from streaml1.datasets import Drifting
from streaml1.distributed.mixing import guard
from streaml1.distributed.mixing.group import _MixedRun
from streaml1.distributed.mixing.guard import ModelJoin, ModelLearner, Rows, updated_scores
from streaml1.distributed.mixing.merger import Joined, Merger
from streaml1.distributed.mixing.partition import OpenPartition, Piece
from streaml1.distributed.mixing.simulation import simulate
from streaml1.models import decode
from streaml1.models.merging import merge_candidates
from streaml1.models.pipelines import snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.training.mixed_models import messages
from streaml1.training.mixed_models.messages import (
    Assembler,
    Base,
    Part,
    Record,
    encode,
    tombstones,
)
from streaml1.training.mixed_models.state import MixState
from streaml1.training.observers import Observers

PARTITIONS, RECORDS, EVERY, WAIT = 3, 40, 4, 5.0


# A group whose models are the examples that they have learnt


class Tally:
    """A model that counts how often it has learnt each example."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def restore(self, data: bytes) -> None:
        self.counts = Counter(json.loads(data))

    def learn(self, rows: Any) -> None:
        self.counts.update(rows)

    def encode(self) -> bytes:
        return json.dumps(dict(sorted(self.counts.items()))).encode()


def join(base: Base, parts: Sequence[Part], probe: Sequence[Any]) -> Joined:
    """Add what the parts have learnt since the base."""
    start = Counter(json.loads(base.data))
    counts = Counter(start)
    for part in parts:
        learnt = Counter(json.loads(part.data))
        assert not start - learnt, "a part does not continue its base"
        counts.update(learnt - start)
    examples = base.examples + sum(part.examples for part in parts)
    return Joined(json.dumps(dict(counts)).encode(), examples, {})


def initial() -> Base:
    return Base(0, "0", 0, {}, {}, 0, b"{}")


class Topic:
    """The records of a topic; compaction removes those with a later one of their key."""

    def __init__(self) -> None:
        self.records: list[Record | None] = []

    def send(self, message: Base | Part) -> None:
        self.records += encode(message)

    def compact(self, end: int) -> None:
        last = {record.key: k for k, record in enumerate(self.records[:end]) if record}
        for k, record in enumerate(self.records[:end]):
            if record is not None and last[record.key] != k:
                self.records[k] = None


class Process:
    """A process of the group, which may be wrong about the partitions that it owns."""

    def __init__(self, topic: Topic, number: int) -> None:
        self.topic, self.state, self.read_to = topic, MixState(), 0
        self.assembler = Assembler()
        self.writer = f"{number:x}"
        self.open: dict[int, OpenPartition] = {}
        self.merger: Merger | None = None

    def read(self, n: int | None = None) -> None:
        """Read the next records of the topic, or all."""
        end = len(self.topic.records)
        end = end if n is None else min(end, self.read_to + n)
        for record in self.topic.records[self.read_to : end]:
            message = None if record is None else self.assembler.feed(record)
            if message is not None and self.state.apply(message):
                assert self.state.base is not None
                for partition in self.open.values():
                    partition.adopt(self.state.base, self.state.base_id)
        self.read_to = end

    def own(self, partition: int, now: float) -> None:
        """Become the owner of a partition."""
        self.read()
        if partition == 0:
            self.merger = Merger(self.writer, WAIT, join)
            self.topic.send(self.merger.claim(self.state, initial(), now))
            self.read()
        if self.state.base is not None:
            opened = OpenPartition(partition, Tally(), EVERY)
            opened.start(self.state)
            self.open[partition] = opened

    def learn(self, partition: int, n: int) -> None:
        opened = self.open.get(partition)
        if opened is None:
            return
        for offset in range(opened.hi, min(RECORDS, opened.hi + n)):
            name = f"{partition}/{offset}"
            assert isinstance(opened._learner, Tally)
            opened._learner.learn([name])
            opened.add(Piece(offset + 1, 1, [name]))
        if opened.is_due:
            self.topic.send(opened.cut())

    def merge(self, now: float) -> None:
        if self.merger is None:
            return
        if self.merger.is_fenced(self.state, now):
            self.topic.send(self.merger.claim(self.state, initial(), now))
        probe = self.open[0].unpublished() if 0 in self.open else []
        base = self.merger.step(self.state, probe, now)
        if base is not None:
            self.topic.send(base)


def chain_of(topic: Topic) -> list[Base]:
    """Return the bases that a reader of all records takes up, in order."""
    state, assembler, bases = MixState(), Assembler(), []
    for record in topic.records:
        message = None if record is None else assembler.feed(record)
        if message is not None and state.apply(message):
            assert state.base is not None
            bases.append(state.base)
    return bases


def examples_before(offsets: dict[int, int]) -> dict[str, int]:
    """Return the counts of a model that has learnt each example before some offsets once."""
    return {f"{p}/{offset}": 1 for p, hi in offsets.items() for offset in range(hi)}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["own", "learn", "learn", "learn", "read", "merge", "merge", "die"]),
        st.integers(0, 2),
        st.integers(0, 8),
    ),
    min_size=60,
    max_size=120,
)


def play(events: list[tuple[str, int, int]], topic: Topic) -> tuple[list[Process], float]:
    """Let three processes act; return them and the time.

    Owners are never told that they have lost a partition: all but the last one are zombies.
    """
    processes, number, now = [Process(topic, k) for k in range(3)], 3, 0.0
    for k, partition in ((0, 0), (1, 1), (2, 2)):
        processes[k].own(partition, now)
    for event, k, n in events:
        process = processes[k]
        if event == "own":
            process.own(n % PARTITIONS, now)
        elif event == "learn":
            for partition in list(process.open):
                process.learn(partition, n)
        elif event == "read":
            process.read(n)
        elif event == "merge":
            now += n
            process.read(n)
            process.merge(now)
        elif n > 4:
            processes[k], number = Process(topic, number), number + 1
        else:
            topic.compact(len(topic.records) - n)
    return processes, now


@given(EVENTS)
@settings(max_examples=60)
def test_each_example_is_merged_exactly_once(events: list[tuple[str, int, int]]) -> None:
    topic = Topic()
    _, now = play(events, topic)
    # One process that knows the topic alone completes the work.
    last = Process(topic, 0xFFFF)
    for partition in range(PARTITIONS):
        last.own(partition, now)
    for _ in range(2 * RECORDS):
        now += WAIT + 1.0
        last.read()
        for partition in range(PARTITIONS):
            last.learn(partition, 3)
        last.merge(now)
    last.read()
    base = last.state.base
    assert base is not None
    assert base.frontier.keys() == set(range(PARTITIONS))
    assert all(RECORDS - EVERY < hi <= RECORDS for hi in base.frontier.values())
    assert json.loads(base.data) == examples_before(base.frontier)
    assert base.examples == sum(base.frontier.values())


@given(EVENTS)
@settings(max_examples=60)
def test_models_hold_the_examples_before_their_offsets(events: list[tuple[str, int, int]]) -> None:
    topic = Topic()
    processes, _ = play(events, topic)
    bases = chain_of(topic)
    for base in bases:
        assert json.loads(base.data) == examples_before(base.frontier)
    # Of one run, or continued by the next from a base that the readers know.
    assert [base.rank for base in bases] == sorted({base.rank for base in bases})
    for process in processes:
        newest = process.state.base
        for p, opened in process.open.items():
            assert newest is not None
            assert isinstance(opened._learner, Tally)
            assert opened._learner.counts == examples_before({**newest.frontier, p: opened.hi})


# The rules of the state, one by one


def base(epoch: int = 1, number: int = 0, **fields: Any) -> Base:
    return initial()._replace(epoch=epoch, writer="a", round=number, **fields)


def part(of: Base, partition: int = 1, epoch: int = 1, lo: int = 0, hi: int = 4) -> Part:
    return Part(partition, epoch, of.id, of.round, lo, hi, hi - lo, b"{}")


def test_parts_of_an_earlier_owner_are_ignored() -> None:
    state, newest = MixState(), base()
    state.apply(newest)
    state.apply(part(newest, epoch=2, hi=5))
    state.apply(part(newest, epoch=1, hi=7))
    assert {p: found.hi for p, found in state.mergeable().items()} == {1: 5}
    assert (state.next_epoch(1), state.next_epoch(2)) == (3, 1)


def test_owners_whose_epoch_is_lower_than_one_before_are_heard() -> None:
    """Compaction has removed the part of epoch 3 where the next owner reads."""
    state, newest = MixState(), base()
    state.apply(newest)
    state.apply(part(newest, epoch=3))
    state.apply(part(newest, epoch=1))
    state.apply(base(number=1, frontier={1: 4}, data=b"[]"))
    assert state.base is not None
    resumed = MixState()
    resumed.apply(part(newest, epoch=1))
    assert resumed.next_epoch(1) == 2
    state.apply(part(state.base, epoch=2, lo=4, hi=8))
    assert {p: found.hi for p, found in state.mergeable().items()} == {1: 8}


@pytest.mark.parametrize("late", [base(1, 0), base(0, 9), base(1, 1, data=b"[]")])
def test_bases_of_an_earlier_run_are_ignored(late: Base) -> None:
    state = MixState()
    state.apply(base(2, 0) if late.round else base(1, 0))
    assert not state.apply(late)


def test_a_part_continues_one_base_and_one_offset() -> None:
    state, newest = MixState(), base(frontier={1: 4})
    state.apply(newest)
    assert state.is_mergeable(part(newest, lo=4, hi=8))
    assert not state.is_mergeable(part(newest, lo=0, hi=8))
    assert not state.is_mergeable(part(base(frontier={1: 4}, data=b"[]"), lo=4, hi=8))
    # The base is the same although another run publishes it again.
    assert state.is_mergeable(part(base(epoch=7, frontier={1: 4}), lo=4, hi=8))


def test_a_new_owner_continues_after_the_last_part() -> None:
    state, newest = MixState(), base(data=b'{"a": 1}')
    state.apply(newest)
    state.apply(part(newest, hi=4)._replace(data=b'{"a": 1, "b": 3}'))
    tally = Tally()
    opened = OpenPartition(1, tally, EVERY)
    assert opened.start(state) == 4
    assert (tally.counts, opened.epoch, opened.is_waiting) == ({"a": 1, "b": 3}, 2, True)
    # Another base without the part: what was not kept here is read again.
    assert opened.adopt(base(number=1), "other")
    assert (opened.hi, tally.counts) == (0, {})


def test_what_a_base_lacks_is_learnt_again() -> None:
    state, newest = MixState(), base()
    state.apply(newest)
    opened = OpenPartition(1, Tally(), EVERY)
    opened.start(state)
    for k in range(6):
        opened.add(Piece(k + 1, 1, [f"1/{k}"]))
    assert not opened.adopt(base(number=1, frontier={1: 4}, data=b'{"x": 9}'), "next")
    assert isinstance(opened._learner, Tally)
    assert opened._learner.counts == {"x": 9, "1/4": 1, "1/5": 1}
    assert (opened.open_examples, opened.is_due, opened.room()) == (2, False, 2)
    # While a part waits for its merge, examples are learnt a part at a time.
    opened.add(Piece(8, 2, ["1/6", "1/7"]))
    opened.cut()
    assert opened.room() == EVERY
    opened.add(Piece(13, 5, ["more"]))
    assert (opened.open_examples, opened.room()) == (5, 3)


def test_a_partition_ahead_of_the_round_waits_before_each_part() -> None:
    state, newest = MixState(), base()
    state.apply(newest)
    run = _MixedRun.__new__(_MixedRun)
    run.open = OpenPartition(1, Tally(), EVERY)
    run.open.start(state)
    sent: list[Any] = []
    run._mix, run._wait, run._waiting_since = SimpleNamespace(send=sent.append), WAIT, 0.0
    run._examples_per_record = 1.0
    run._run = cast(Any, SimpleNamespace(observers=Observers()))
    run.queue = deque([cast(Any, offset) for offset in range(100)])

    def learn(records: list[Any]) -> None:
        run.open.add(Piece(records[-1] + 1, len(records), [f"1/{k}" for k in records]))

    run._learn = learn  # type: ignore[method-assign]
    learnt = []
    for now in (1.0, 1.1, 1.2, 1.2 + WAIT, 1.2 + 1.1 * WAIT, 1.3 + 2.1 * WAIT, 1.3 + 3.2 * WAIT):
        run.advance(now)
        learnt.append(run.open.hi)
    assert len(sent) == 1 and sent[0].hi == EVERY
    assert learnt == [4, 8, 8, 12, 12, 16, 20]


# When a round ends


PROBE = [Piece(99, 2, ["probe"])]


def merger_with(*partitions: int) -> tuple[MixState, Merger]:
    """Return a merger that expects parts of these partitions."""
    state, merger = MixState(), Merger("a", WAIT, join, 2)
    state.apply(merger.claim(state, initial(), 0.0))
    assert state.base is not None
    for p in partitions:
        state.apply(part(state.base, p))
    merged = merger.step(state, PROBE, 0.0)
    assert merged is not None
    state.apply(merged)
    return state, merger


def test_a_round_ends_with_the_parts_of_all_or_after_a_time() -> None:
    state, merger = merger_with(0, 1, 2)
    assert state.base is not None
    for p in (0, 1):
        state.apply(part(state.base, p, lo=4, hi=8))
    assert merger.step(state, PROBE, 10.0) is None
    assert merger.step(state, PROBE, 10.0 + WAIT) is None
    merged = merger.step(state, PROBE, 10.1 + WAIT)
    assert merged is not None
    assert merged.frontier == {0: 8, 1: 8, 2: 4}
    state.apply(merged)
    # The one that was late is not waited for, until it is back.
    for p in (0, 1):
        state.apply(part(merged, p, lo=8, hi=12))
    merged = merger.step(state, PROBE, 20.0)
    assert merged is not None
    state.apply(merged)
    state.apply(part(base(), 2, lo=4, hi=12))
    for p in (0, 1):
        state.apply(part(merged, p, lo=12, hi=16))
    assert merger.step(state, PROBE, 20.0) is None


def test_a_round_waits_for_examples_that_judge_it() -> None:
    state, merger = merger_with(0, 1)
    assert state.base is not None
    for p in (0, 1):
        state.apply(part(state.base, p, lo=4, hi=8))
    assert merger.step(state, [], 10.0) is None
    assert merger.step(state, [Piece(99, 1, [])], 10.0) is None
    assert merger.step(state, [], 10.1 + WAIT) is not None


def test_a_merger_without_the_last_word_merges_nothing() -> None:
    state, merger = merger_with(0, 1)
    assert state.base is not None
    state.apply(state.base._replace(epoch=2, writer="b"))
    state.apply(part(state.base, lo=4, hi=8))
    assert merger.step(state, PROBE, 0.0) is None
    # If the other one is silent for long, this one takes over.
    assert not merger.is_fenced(state, 0.0)
    assert not merger.is_fenced(state, 9 * WAIT)
    assert merger.is_fenced(state, 11 * WAIT)
    assert merger.claim(state, None, 99.0).rank > state.base.rank


# Messages


def test_messages_that_readers_would_ignore_are_rejected() -> None:
    """After a crafted epoch of 2^63 - 1, members would publish for nothing."""
    last, state = base(2**63 - 1, 2**63 - 1), MixState()
    assert Assembler().feed(*encode(last)) == last
    state.apply(last)
    state.apply(part(last, epoch=2**63 - 1))
    claim = Merger("b", 1.0, lambda *_: Joined(b"", 0, {})).claim(state, None, 0.0)
    next_part = part(last, epoch=state.next_epoch(1))
    for message in (claim, last._replace(round=last.round + 1), next_part):
        with pytest.raises(
            ModelFileError, match="epoch or a round of 9223372036854775807, and mem"
        ):
            list(encode(message))


def test_messages_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.training.mixed_models.messages.CHUNK_BYTES", 10)
    data = bytes(np.random.default_rng(0).integers(0, 256, 95, np.uint8))
    topic = {"cluster": "c", "topic": "t", "topic id": None}
    sent = base(
        3, 5, frontier={0: 7, 12: 2**40}, scores={"mean": (1.5, 2.0)}, data=data, source=topic
    )
    records = list(encode(sent))
    assert len(records) > 9
    for lost in (None, 0, 4, len(records) - 1):
        assembler = Assembler()
        read = [assembler.feed(r) for k, r in enumerate(records) if k != lost]
        assert [message for message in read if message] == ([] if lost is not None else [sent])
    changed = [r._replace(value=b"x" + (r.value or b"")[1:]) for r in records]
    assert not any(map(Assembler().feed, changed))
    older = [record.key for record in encode(sent._replace(epoch=2))]
    deleted = list(tombstones([*older, *(r.key for r in records), "part-1-000000"], sent))
    assert [record.key for record in deleted] == older
    assert all(record.value is None for record in deleted)


@given(st.dictionaries(st.sampled_from([*Base._fields, *Part._fields, "kind", "chunks"]),
                       st.one_of(st.none(), st.integers(), st.text(), st.floats(),
                                 st.dictionaries(st.text(), st.integers()))))  # fmt: skip
def test_crafted_messages_are_ignored_or_valid(changes: dict[str, Any]) -> None:
    for sent in (base(), part(base())):
        [record] = encode(sent)
        [(name, header), chunk] = record.headers
        fields = json.dumps({**json.loads(header), **changes}).encode()
        message = Assembler().feed(record._replace(headers=[(name, fields), chunk]))
        if message is not None:
            MixState().apply(message)
            assert [*encode(message)]


# Models


def stream(n: int = 800) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = [{f"f{k}": 1.0 for k in rng.integers(0, 40, 5)} for _ in range(n)]
    return X, np.array([("f3" in x or "f7" in x) != (rng.random() < 0.1) for x in X])


def test_one_member_learns_as_one_learner() -> None:
    X, y = stream(400)
    alone = streaml1.FTRLClassifier(alpha=0.5)
    alone.learn_many(X[:380], y[:380])
    done = simulate(streaml1.FTRLClassifier(alpha=0.5), X, y, members=1, every=20)
    mixed = decode(done.base.data, "")
    assert (done.rounds, mixed.n_iterations) == (19, 380)
    assert (mixed.weights, mixed.intercept) == (alone.weights, alone.intercept)


def test_a_replay_makes_the_same_part() -> None:
    X, y = stream(60)
    first = streaml1.FTRLClassifier()
    state, newest = MixState(), base(data=snapshot(first, False)())
    state.apply(newest)
    made = []
    for cuts in ((0, 30, 60), (0, 7, 8, 60)):  # polls return as many records as they like
        learner = ModelLearner(streaml1.FTRLClassifier(), "")
        opened = OpenPartition(1, learner, 60)
        opened.start(state)
        for lo, hi in zip(cuts, cuts[1:], strict=False):
            rows = [Rows(X[lo:hi], y[lo:hi], None)]
            learner.learn(rows)
            opened.add(Piece(hi, hi - lo, rows))
        made.append(opened.cut())
    assert made[0] == made[1]
    # Learnt again, on top of the same base.
    opened.adopt(newest, newest.id)
    assert opened.cut() == made[0]


def test_a_mix_that_diverges_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    X, y = stream(100)
    start = streaml1.FTRLClassifier()
    start.learn_many(X[:60], y[:60])
    newest = base(data=snapshot(start)(), examples=60)
    wrong = []
    for k in range(2):
        learner = decode(newest.data, "")
        learner.learn_many(X[20 * k : 20 * k + 20] * 20, ~np.tile(y[20 * k : 20 * k + 20], 20))
        wrong.append(part(newest, k)._replace(data=snapshot(learner)(), examples=400))
    probe = [[Rows(X[60:], y[60:], None)]]
    with caplog.at_level(logging.WARNING):
        joined = ModelJoin("kafka://b/t")(newest, wrong, probe)
    assert (joined.data, joined.examples) == (newest.data, 860)
    [message] = caplog.messages
    assert message.startswith("kafka://b/t: round 1 was not merged: the loss would rise from 0.")


@pytest.mark.parametrize("label", [True, False])
def test_parts_with_too_many_features_together(
    label: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A part alone is taken if it is good enough, so that the group goes on."""
    start = streaml1.EGClassifier(n_features=3)
    start.learn_one({"a": 1.0}, True)
    scores = {"mean": (1.0, 9.0)}
    newest = base(data=snapshot(start, packed=False)(), examples=1, scores=scores)
    learners = []
    for name in ("c", "d"):
        learners.append(decode(newest.data, ""))
        learners[-1].learn_many([{"b": 1.0, name: 1.0}] * 200, [label] * 200)
    parts = [
        part(newest, k)._replace(data=snapshot(learner, packed=False)())
        for k, learner in enumerate(learners)
    ]
    probe = [[Rows([{"b": 1.0}] * 5, np.array([True] * 5), None)]]
    with caplog.at_level(logging.WARNING):
        joined = ModelJoin("kafka://b/t")(newest, parts, probe)
    assert joined.data == (parts[0] if label else newest).data and joined.scores == scores
    [message] = caplog.messages
    assert message.startswith("kafka://b/t: round 1 was not merged: the models have seen 4 featur")


def test_ways_to_join_are_scored_over_rounds() -> None:
    X, y = stream(120)
    start = streaml1.FTRLClassifier()
    data = snapshot(start)()
    learnt = []
    for k in range(2):
        learner = decode(data, "")
        learner.learn_many(X[40 * k : 40 * k + 40], y[40 * k : 40 * k + 40])
        learnt.append(part(base(), k)._replace(data=snapshot(learner)()))
    probe = [[Rows(X[80:], y[80:], None)]]
    # A way that was far better for long is chosen although another one is better now.
    for favourite in ("sum", "mean"):
        scores = {name: (5e4, 1e4) for name in ("sum", "rho", "half", "blend", "mean")}
        scores[favourite] = (1.0, 1e4)
        joined = ModelJoin("")(base(data=data, scores=scores), learnt, probe)
        by_name = dict(merge_candidates(
            [decode(one.data, "") for one in learnt], start
        ))  # fmt: skip
        chosen = decode(joined.data, "")
        assert chosen.weights == by_name[favourite].weights
        assert joined.scores[favourite][1] == pytest.approx(1e4 * np.exp(-40 / 2000) + 40)
    assert updated_scores({"mean": (1.0, 1.0)}, [], 1.0) == {}


def joined_on(
    start: Any, learnt: list[Any], probe: tuple[Any, Any], scores: Any = None
) -> tuple[Any, Any]:
    """Return the model that joins some models, judged on a probe, and the scores."""
    data = snapshot(start)()
    parts = [part(base(), k)._replace(data=snapshot(one)()) for k, one in enumerate(learnt)]
    join = ModelJoin("")(base(data=data, scores=scores or {}), parts, [[Rows(*probe, None)]])
    return decode(join.data, ""), join.scores


def test_ways_are_judged_by_what_members_predict_next() -> None:
    X, y = Drifting(n=600, d=60, change="none", seed=3).matrix()
    start = streaml1.ElasticNetClassifier()
    learnt = []
    for k in range(2):
        learner = start.clone()
        learner.learn_many(X[80 * k : 80 * k + 80], y[80 * k : 80 * k + 80])
        learnt.append(learner)
    _, scores = joined_on(start, learnt, (X[400:], y[400:]))
    for name, joined in merge_candidates(learnt, start):
        live = log_loss(joined.predict_proba_many(X[400:])[:, 1], y[400:])
        assert scores[name] == pytest.approx((200 * live, 200.0))
        assert log_loss(joined.freeze().predict_proba_many(X[400:])[:, 1], y[400:]) != live


def test_momentum_requires_the_merge_before() -> None:
    X, y = Drifting(n=300, d=60, change="none", seed=3).matrix()
    join, scores = ModelJoin(""), []
    current = base(data=snapshot(streaml1.ElasticNetClassifier())())
    for k, (epoch, number) in enumerate([(1, 0), (1, 1), (2, 2), (2, 2), (2, 3)]):
        current = current._replace(epoch=epoch, round=number, scores={})
        parts = []
        for p in range(2):
            learner, rows = decode(current.data, ""), slice(40 * k + 20 * p, 40 * k + 20 * p + 20)
            learner.learn_many(X[rows], y[rows])
            parts.append(part(current, p)._replace(data=snapshot(learner)()))
        joined = join(current, parts, [[Rows(X[200:], y[200:], None)]])
        scores.append("momentum" in joined.scores)
        current = current._replace(data=joined.data)
    assert scores == [False, True, False, False, True]


@pytest.mark.parametrize("usual", [0.005, 0.3])
def test_a_few_easy_examples_do_not_refuse_a_join(usual: float) -> None:
    x = {"b": 1.0}
    start = streaml1.FTRLClassifier(alpha=1.0, l1=0.0)
    start.learn_many([x] * 400, [False] * 400)
    learnt = [copy.deepcopy(start) for _ in range(2)]
    for learner in learnt:
        learner.learn_many([x] * 2, [True] * 2)
    losses = [
        log_loss(model.predict_proba_many([x])[:, 1], [False])
        for model in (*dict(merge_candidates(learnt, start)).values(), *learnt)
    ]
    assert 0.005 < log_loss(start.predict_proba_many([x])[:, 1], [False]) < min(losses) / 1.5
    scores = {"base": (2000.0 * usual, 2000.0)}
    kept, after = joined_on(start, learnt, ([x] * 10, [False] * 10), scores)
    assert kept.n_iterations == (404 if usual > 0.1 else 400)
    assert after["base"][1] == pytest.approx(2000.0 * np.exp(-10 / 2000) + 10.0)


def test_losses_of_an_untrained_regressor_do_not_allow_a_bad_join() -> None:
    x = {"b": 1.0}
    start = streaml1.ElasticNetRegressor(lr=0.5, intercept_lr=0.0)
    start.learn_many([x] * 40, [10.0] * 40)
    learnt = [copy.deepcopy(start) for _ in range(2)]
    for learner in learnt:
        learner.learn_many([x] * 4, [90.0] * 4)
    scores = {"base": (2000.0 * 1e4, 2000.0)}
    kept, _ = joined_on(start, learnt, ([x] * 10, [10.5] * 10), scores)
    assert kept.n_iterations == 40


def test_a_base_without_a_finite_loss_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = Drifting(n=300, d=60, change="none", seed=3).matrix()
    start = streaml1.FTRLClassifier()
    learnt = [copy.deepcopy(start) for _ in range(2)]
    for k, learner in enumerate(learnt):
        learner.learn_many(X[80 * k : 80 * k + 80], y[80 * k : 80 * k + 80])
    monkeypatch.setattr(guard, "mean_loss", lambda model, rows: math.inf)
    _, scores = joined_on(start, learnt, (X[200:], y[200:]))
    assert scores and "base" not in scores


def log_loss(p: Any, y: Any) -> float:
    return float(-np.log(np.where(np.asarray(y) > 0, p, 1.0 - np.asarray(p))).mean())


def test_models_that_cannot_be_merged_are_rejected() -> None:
    X, y = stream(40)
    with pytest.raises(ValueError, match="the model cannot be merged: PegasosClassifier does not"):
        simulate(streaml1.PegasosClassifier(), X, y, members=2, every=5)


@pytest.mark.parametrize("other", [streaml1.FTRLClassifier(l1=2.0), streaml1.PegasosClassifier()])
def test_a_member_with_another_model_is_rejected(other: Any) -> None:
    learner = ModelLearner(streaml1.FTRLClassifier(l1=1.0), "kafka://h/mix")
    with pytest.raises(ModelFileError, match="start all members with the same model"):
        learner.restore(snapshot(other, packed=False)())
    learner.restore(snapshot(streaml1.FTRLClassifier(l1=1.0), packed=False)())


def test_a_model_beyond_the_limit_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    large = base(data=bytes(5_000))
    records = [*encode(large)]
    monkeypatch.setattr(messages, "MAX_BYTES", 5_000)
    with pytest.raises(ModelFileError, match="the model has 5,000 bytes"):
        [*encode(large)]
    monkeypatch.setattr(messages, "MAX_BYTES", 4_000)  # a reader does not unpack it, either
    assembler = Assembler()
    assert [assembler.feed(record) for record in records] == [None]


# The command line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mix-every", "20"], "--mix-every requires --mixed"),
        (["--mix-wait", "2"], "--mix-wait requires --mixed"),
        (["--mixed", "m"], "--mixed requires --group"),
        (["--mixed", "m", "--group", "g", "--save", "f"], "--save cannot be combined with --mixed"),
        (
            ["--mixed", "m", "--group", "g", "--checkpoint-every", "5"],
            "--checkpoint-every cannot be combined with --mixed",
        ),
        (["--mixed", "m", "--group", "g", "--top", "3"], "--top cannot be combined with --mixed"),
        (["--mixed", "m", "--group", "g", "--seed", "3"], "--seed cannot be combined with --mixed"),
        (["--mixed", "m", "--group", "g", "--stalled", "9"], "--stalled requires --metrics"),
        (["--mixed", "m", "--group", "g", "--ngrams", "2"], "--ngrams requires --text"),
        (
            ["--mixed", "m", "--group", "g", "--checkpoint", "d"],
            "--checkpoint cannot be combined with --mixed",
        ),
        (
            ["--mixed", "m", "--group", "g", "--per-partition"],
            "--per-partition cannot be combined with --mixed",
        ),
        (
            ["--mixed", "m", "--group", "g", "--model", "pegasos"],
            "--mixed: the model cannot be merged: PegasosClassifier does not support it",
        ),
        (
            ["--mixed", "m", "--group", "g", "--model", "ftrl", "--from", "checkpoint"],
            "--from checkpoint requires checkpoints, which a mixed model does not have: its topic "
            "holds the offsets",
        ),
        (
            ["--mixed", "m", "--group", "g", "--bad", "dead-letter", "--dead-letters", "m"],
            "--dead-letters m is also --mixed: choose another topic",
        ),
    ],
)
def test_rejected_options(options: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["learn", "kafka://localhost:1/t", *options])
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_only_topics_are_mixed() -> None:
    options = ["--mixed", "m", "--group", "g"]
    result = CliRunner().invoke(cli, ["learn", "river:Phishing", *options])
    assert result.exit_code == 2
    assert "--mixed requires a Kafka source, got river:Phishing" in result.stderr
