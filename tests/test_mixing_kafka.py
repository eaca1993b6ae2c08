"""A group of processes that mix one model through a topic, with a real broker."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kafka
import pytest
from click.testing import CliRunner
from kafka.admin import KafkaAdminClient

import streaml1
from streaml1.cli import cli
from streaml1.distributed.mixing.group import MixedGroup
from streaml1.distributed.mixing.topic import read_mixed
from streaml1.models.serialization import ModelFileError
from streaml1.serving.model_source import open_source
from streaml1.sources import SourceError
from streaml1.sources.source import Lost
from streaml1.training import prepare
from streaml1.training.consumer_group import Group
from streaml1.training.mixed_models.messages import Base, Part
from streaml1.training.observers import Batch, Observer
from tests import mixing_storm
from tests.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("no_leaked_threads")]

ROOT = Path(__file__).parent.parent
EVERY = 20


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    prepare(model())


@pytest.fixture(autouse=True)
def real(broker: Broker) -> None:
    broker.require_real()


def model() -> Any:
    """Return a model with small steps: where a gradient is 0, a feature would not count as seen."""
    return streaml1.FTRLClassifier(alpha=0.05, l1=0.1)


def rows(n: int, seed: int = 0) -> list[str]:
    """Return rows whose first feature is their own, so that a model shows which it has learnt."""
    rng = random.Random(seed)
    return [f"{rng.choice((1, -1))} {k % 7 + 1}:1 {1000 * seed + k}:1" for k in range(n)]


class Member(threading.Thread):
    """A thread that acts as one process of the group."""

    def __init__(self, url: str, mixed: str, **options: Any) -> None:
        super().__init__(daemon=True)
        options = {"mix_every": EVERY, "session": 3.0, "wait": 0.3, **options}
        self.group = MixedGroup(model(), url, group="g" + mixed, mixed=mixed, **options)
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.group.run(self.stop.is_set)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self.join(20)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def wait(condition: Callable[[], bool], members: list[Member], seconds: float = 90.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        for member in members:
            if member.error is not None:
                raise member.error
        assert time.monotonic() < limit, "timed out"
        time.sleep(0.02)


def merged(member: Member) -> int:
    """Return the number of examples in the newest base that a member knows."""
    return 0 if member.group.base is None else member.group.base.examples


def test_one_model_of_two_members_of_which_one_is_killed(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(3)
    mixed = topic + "-mixed"
    broker.send(topic, rows(150, 1), [0, 1, 2])
    # The first one owns partition 0 and merges: the other takes this over.
    with (tmp_path / "errors").open("w") as errors:
        killed = subprocess.Popen(
            [
                sys.executable, "-m", "streaml1", "learn", broker.url(topic), "--group",
                "g" + mixed, "--mixed", mixed, "--mix-every", str(EVERY), "--mix-wait", "0.3",
                "--session-timeout", "6", "--model", "ftrl", "--alpha", "0.05", "--l1", "0.1",
            ],
            cwd=ROOT, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    survivor = Member(broker.url(topic), mixed)
    try:
        # A new process may have kernels to compile before it joins.
        wait(lambda: killed.poll() is not None or _merged(broker, mixed) > 0, [], seconds=120.0)
        survivor.start()
        wait(lambda: merged(survivor) > 60, [survivor])
        killed.send_signal(signal.SIGKILL)
        broker.send(topic, rows(150, 2), [0, 1, 2])
        # Fewer than a part of each partition may be left.
        wait(lambda: merged(survivor) > 300 - 3 * EVERY, [survivor])
    finally:
        killed.kill()
        killed.wait()
        print((tmp_path / "errors").read_text())
        if survivor.ident is not None:
            survivor.end()
    base = survivor.group.base
    assert base is not None
    assert_learnt_once(base, broker.url(mixed))


def test_backlog_of_several_partitions(broker: Broker) -> None:
    """Fetching stops and resumes often, as a queue holds a fraction of the records."""
    topic = broker.topic(3)
    broker.send(topic, rows(12_000, 1), [0, 1, 2])
    member = Member(broker.url(topic), topic + "-mixed", mix_every=500)
    member.start()
    try:
        wait(lambda: merged(member) == 12_000, [member])
    finally:
        member.end()
    assert member.group.base is not None
    assert_learnt_once(member.group.base, broker.url(topic + "-mixed"))


def test_records_of_many_lines_make_no_larger_parts(broker: Broker) -> None:
    topic = broker.topic(1)
    mixed = topic + "-mixed"
    lines = rows(EVERY * 25, 1)
    broker.send(topic, ["\n".join(lines[k : k + 5]) for k in range(0, len(lines), 5)])
    member = Member(broker.url(topic), mixed)
    sizes: set[int] = set()
    adopt = member.group._adopt

    def note_parts(is_new: bool) -> None:
        sizes.update(part.examples for part in member.group._mix.state.parts.values())
        adopt(is_new)

    member.group._adopt = note_parts  # type: ignore[method-assign]
    member.start()
    try:
        wait(lambda: merged(member) == len(lines), [member])
    finally:
        member.end()
    assert max(sizes) <= 2 * EVERY, sizes  # a part that is ahead may be merged with the next one


class Sink(Observer):
    """A sink that has received some examples since its last flush."""

    essential = True

    def __init__(self) -> None:
        self.n_unwritten, self.is_bad = 0, False

    def on_batch(self, batch: Batch) -> None:
        self.n_unwritten += batch.hi - batch.lo

    def flush(self) -> None:
        self.n_unwritten = 0

    def defers_checkpoint(self) -> bool:
        return self.is_bad


def test_what_a_part_led_to_is_written_before_it(broker: Broker) -> None:
    """Predictions and dead letters: no owner reads the records of a part again."""
    topic, sink = broker.topic(1), Sink()
    member = Member(broker.url(topic), topic + "-mixed", observers=lambda _: nullcontext([sink]))
    parts: list[tuple[int, int]] = []

    def note_parts(is_new: bool, adopt: Callable[[bool], None] = member.group._adopt) -> None:
        if member.group._mix.send is not send:
            send.topic, member.group._mix.send = member.group._mix.send, send
        adopt(is_new)

    def send(message: Any) -> None:
        if isinstance(message, Part):
            parts.append((message.examples, sink.n_unwritten))
        send.topic(message)  # type: ignore[attr-defined]

    member.group._adopt = note_parts  # type: ignore[method-assign]
    member.start()
    try:
        broker.send(topic, rows(EVERY, 1))
        wait(lambda: merged(member) == EVERY, [member])
        sink.is_bad = True
        broker.send(topic, rows(2 * EVERY, 2))
        wait(lambda: member.group.reports[0].examples == 3 * EVERY, [member])
        time.sleep(0.5)
        assert parts == [(EVERY, 0)]
        sink.is_bad = False
        broker.send(topic, rows(1, 3))
        wait(lambda: merged(member) == 3 * EVERY + 1, [member])
    finally:
        member.end()
    assert parts == [(EVERY, 0), (2 * EVERY + 1, 0)]


@pytest.mark.parametrize("n_checks", [0, 1, 2, 3])
def test_stop_before_the_group_is_joined(broker: Broker, n_checks: int) -> None:
    """A signal at any time ends a member without an error."""
    topic = broker.topic(1)
    member = Member(broker.url(topic), topic + "-mixed")
    checks = iter([False] * n_checks)
    assert member.group.run(lambda: next(checks, True)) == {}


def test_commands_read_the_newest_model(broker: Broker) -> None:
    topic = broker.topic(2)
    url = broker.url(topic + "-mixed")
    member = Member(broker.url(topic), topic + "-mixed")
    source = open_source(url)
    try:
        broker.topic(1, topic + "-mixed", **{"cleanup.policy": "compact"})
        with pytest.raises(ModelFileError, match="holds no model yet; start a MixedGroup"):
            source.load()
        assert source.stamp() is None
        member.start()
        broker.send(topic, rows(2 * EVERY, 1), [0, 1])
        wait(lambda: merged(member) == 2 * EVERY, [member])
        first, loaded = source.stamp(), source.load()
        assert loaded.model.n_iterations == 2 * EVERY
        assert 0.0 <= time.time() - loaded.published < 60.0
        broker.send(topic, rows(2 * EVERY, 2), [0, 1])
        wait(lambda: source.stamp() != first, [member])
    finally:
        member.end()
        source.close()
    shown = CliRunner().invoke(cli, ["show", url])
    assert shown.exit_code == 0, shown.stderr
    assert "examples learnt   80" in shown.output
    assert streaml1.load(url).n_iterations == 4 * EVERY


def test_topics_of_examples_hold_no_model(broker: Broker) -> None:
    """They are not read to their end."""
    topic = broker.topic(1)
    broker.send(topic, rows(1500))
    result = CliRunner().invoke(cli, ["show", broker.url(topic)])
    assert result.exit_code == 2
    assert "holds other records than those of a mixed model; use another topic" in result.stderr


def test_message_that_is_not_written_is_an_error(broker: Broker) -> None:
    """Without it, no other message would follow."""
    configs = {"cleanup.policy": "compact", "max.message.bytes": "100"}
    topic, mixed = broker.topic(1), broker.topic(1, **configs)
    member = Member(broker.url(topic), mixed)
    member.start()
    member.join(30)
    with pytest.raises(SourceError, match="too large; raise the topic's max.message.bytes"):
        member.end()


def test_deleted_topic_of_the_model_is_an_error(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.topic.METADATA_SECONDS", 0.2)
    monkeypatch.setattr("streaml1.sources.kafka.topic.MISSING_SECONDS", 0.5)
    topic = broker.topic(1)
    member = Member(broker.url(topic), topic + "-mixed")
    member.start()
    wait(lambda: member.group.base is not None, [member])
    broker.delete(topic + "-mixed")
    member.join(30)
    with pytest.raises(Lost, match=f"{topic}-mixed was deleted"):
        member.end()


def test_topic_that_does_not_retain_the_model_is_rejected(broker: Broker) -> None:
    topic, mixed = broker.topic(1), broker.topic(1)
    member = Member(broker.url(topic), mixed)
    member.start()
    member.join(30)
    with pytest.raises(SourceError, match="its cleanup.policy must be compact, got delete"):
        member.end()


def test_topic_of_other_examples_is_rejected(broker: Broker) -> None:
    """The offsets of the model refer to the records of one topic, not to one of the same name."""
    topic, other = broker.topic(2), broker.topic(2)
    mixed = topic + "-mixed"
    first = Member(broker.url(topic), mixed)
    first.start()
    broker.send(topic, rows(2 * EVERY, 1), [0, 1])
    wait(lambda: merged(first) == 2 * EVERY, [first])
    first.end()
    broker.send(other, rows(10 * EVERY, 2), [0, 1])
    broker.delete(topic)
    broker.topic(2, topic)
    broker.send(topic, rows(10 * EVERY, 3), [0, 1])
    for name, reason in [(topic, "its topic id is '"), (other, f"its topic is '{topic}'")]:
        member = Member(broker.url(name), mixed)
        member.start()
        member.join(30)
        with pytest.raises(SourceError, match=f"{mixed} belongs to another source: {reason}"):
            member.end()
    assert read_mixed(broker.url(mixed)).n_iterations == 2 * EVERY


def test_model_of_another_target_is_rejected(broker: Broker) -> None:
    """A restart with another label would teach the same model another task."""
    topic = broker.topic(1)
    mixed = topic + "-mixed"
    broker.send(topic, [f'{{"a": {k % 2}, "b": {k // 2 % 2}, "x": 1}}' for k in range(50)])
    first = Member(broker.url(topic), mixed, format="json", target="a", ignore=["c"])
    first.start()
    wait(lambda: merged(first) > 0, [first])
    first.end()
    for options, reason in (
        ({"target": "b", "ignore": ["c"]}, "its target is 'a', that of .* is 'b'"),
        ({"target": "a", "ignore": []}, "its ignore is"),
    ):
        member = Member(broker.url(topic), mixed, format="json", **options)
        member.start()
        member.join(30)
        with pytest.raises(SourceError, match=f"{mixed} belongs to another source: {reason}"):
            member.end()
    again = Member(broker.url(topic), mixed, format="json", target="a", ignore=["c"])
    again.start()
    broker.send(topic, ['{"a": 1, "b": 1, "x": 1}'] * 50)
    wait(lambda: merged(again) > 60, [again])
    again.end()


def test_group_of_other_models_is_rejected(broker: Broker, tmp_path: Path) -> None:
    """Members that share partitions but no model would each learn a part of the examples."""
    topic = broker.topic(2)
    mixed = topic + "-mixed"
    first = Member(broker.url(topic), mixed)
    first.start()
    broker.send(topic, rows(2 * EVERY, 1), [0, 1])
    wait(lambda: merged(first) == 2 * EVERY, [first])
    name = "g" + mixed
    groups: list[Any] = [
        Group(model(), broker.url(topic), directory=tmp_path, group=name, session=6.0),
        MixedGroup(model(), broker.url(topic), group=name, mixed=topic + "-other", session=6.0),
    ]
    limit = time.monotonic() + 20.0
    for group in groups:
        with pytest.raises(SourceError, match="a member of this consumer group is another program"):
            group.run(lambda: time.monotonic() > limit)
    first.end()


def test_expired_offset_is_an_error(broker: Broker) -> None:
    topic = broker.topic(1)
    mixed = topic + "-mixed"
    first = Member(broker.url(topic), mixed)
    first.start()
    broker.send(topic, rows(2 * EVERY, 1))
    wait(lambda: merged(first) == 2 * EVERY, [first])
    first.end()
    broker.send(topic, rows(2 * EVERY, 2))
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.delete_records({kafka.TopicPartition(topic, 0): 3 * EVERY})
    admin.close()
    member = Member(broker.url(topic), mixed)
    member.start()
    member.join(30)
    remedy = "start all members again, with another topic for mixed"
    with pytest.raises(Lost, match=f"{topic}/0@{2 * EVERY} no longer exists: .*; {remedy}"):
        member.end()


def test_short_storm(broker: Broker, tmp_path: Path) -> None:
    """`python -m tests.mixing_storm` runs a long storm that also kills the broker."""
    events = ["frozen", "killed", "partition added", "started", "terminated"]
    count = mixing_storm.run(broker.address, 2, tmp_path, 1, events)
    assert all(count[event] == 1 for event in events), count
    assert not count["ended with an error"], (tmp_path / "workers.log").read_text()


def _merged(broker: Broker, mixed: str) -> int:
    try:
        return read_mixed(broker.url(mixed)).n_iterations
    except SourceError:
        return 0


def assert_learnt_once(base: Base, url: str) -> None:
    """Check that the model in a topic has learnt each row before the frontier once."""
    learner = read_mixed(url)
    assert learner.n_iterations == base.examples == sum(base.frontier.values())
    # Each row has a feature of its own besides the 7 common ones.
    assert learner.n_features_seen == base.examples + 7
