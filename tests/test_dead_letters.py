"""Dead letters are written before a checkpoint passes them; too large a share ends the run."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.cli import cli
from streaml1.sources import SourceError
from streaml1.sources.kafka.output_topics import create_topic, output_topic
from streaml1.sources.kafka.producer import TopicWriter, as_topic
from streaml1.sources.kafka.wire_format import SCHEMA_ID
from streaml1.training import Batch, Rejected, predictions, progressive
from streaml1.training.bad_share import MIN_EXAMPLES, WINDOW, BadShare, TooManyBad
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.dead_letters import DeadLetters
from tests.broker import Broker
from tests.topics import records_of


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def svm_lines(n: int, bad: set[int], seed: int = 0) -> list[str]:
    """Return n lines, of which those in `bad` cannot be parsed."""
    rng = random.Random(seed)
    return [
        "1 1:oops" if i in bad else f"{rng.choice((1, -1))} {rng.randint(1, 50)}:1"
        for i in range(n)
    ]


def new_model() -> Any:
    return streaml1.ElasticNetClassifier(l1=1e-4)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def learn(broker: Broker, topic: str, *args: str) -> Result:
    """Learn a topic up to its end, with dead letters."""
    return run("learn", broker.url(topic), "--until-end", "--bad", "dead-letter", *args)


# The topic


@pytest.mark.kafka
def test_dead_letter_has_position_and_reason(broker: Broker) -> None:
    topic = broker.topic(2)
    lines = '{"x": {}, "y": 1}\n{"x": {"é": "ü"}, "y": 2}\n'
    mixed = '{"x": {}, "y": 1}\n\noops é\n'  # begins with JSON: rejected as a whole
    broker.send(topic, ["1 3:1", lines, "\x01", "0 3:1", mixed, "1 3:1"], [0, 1])
    start = time.time()
    result = learn(broker, topic)
    assert result.exit_code == 0, result.output
    letters = records_of(broker, f"{topic}.dlq")
    letters_by_key = {
        letter.key.decode(): (letter.value, dict(letter.headers)) for letter in letters
    }
    assert set(letters_by_key) == {f"{topic}-1-0:2", f"{topic}-0-1", f"{topic}-0-2"}
    value, headers = letters_by_key[f"{topic}-0-2"]
    assert value.decode() == mixed
    assert time.time() + 1 > timestamp_of(headers.pop("time").decode()) > start - 1
    assert headers.pop("reason").startswith(b"the lines of the record must be JSON objects")
    assert headers == {
        "topic": topic.encode(), "partition": b"0", "offset": b"2", "key": b"key",
    }  # fmt: skip
    value, headers = letters_by_key[f"{topic}-1-0:2"]  # valid JSON that the model rejects
    assert json.loads(value) == {"x": {"é": "ü"}, "y": 2} and headers["line"] == b"2"
    assert headers["reason"].startswith(b"invalid label 2")
    value, headers = letters_by_key[f"{topic}-0-1"]
    assert value == b"\x01"
    assert "line" not in headers


def timestamp_of(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


@pytest.mark.kafka
def test_valid_records_are_learnt_as_without_bad_ones(broker: Broker, tmp_path: Path) -> None:
    topic, bad = broker.topic(), set(range(7, 3000, 31))
    broker.send(topic, svm_lines(3000, bad))
    (tmp_path / "good.svm").write_text(
        "".join(f"{line}\n" for line in svm_lines(3000, bad) if "oops" not in line)
    )
    dead_letter_topic = f"{topic}-elsewhere"
    result = learn(
        broker, topic, "--dead-letters", dead_letter_topic, "--save", str(tmp_path / "a")
    )
    assert result.exit_code == 0, result.output
    assert f"({len(bad)} rejected)" in result.output or f"{len(bad)} " in result.output
    model = new_model()
    progressive(model, tmp_path / "good.svm")
    saved = streaml1.load(tmp_path / "a")
    assert saved.n_iterations == model.n_iterations
    assert [letter.key.decode() for letter in records_of(broker, dead_letter_topic)] == [
        f"{topic}-0-{offset}" for offset in sorted(bad)
    ]


@pytest.mark.kafka
def test_no_dead_letter_is_lost_by_killed_runs(broker: Broker, tmp_path: Path) -> None:
    """Runs end abruptly several times: each dead letter is written at least once."""
    topic, bad = broker.topic(3), set(range(3, 2000, 40))
    broker.send(topic, svm_lines(2000, bad), [0, 1, 2])
    rng = random.Random(5)

    class Killed(BaseException):
        pass

    def kill_with_probability(p: float) -> Any:
        def on_line(line: Any) -> None:
            if rng.random() < p:
                raise Killed

        return on_line

    for p in [0.2] * 6 + [0.0]:
        with Checkpoints(tmp_path / "kept", seconds=0.02) as store:
            letters = DeadLetters(broker.url(topic))
            try:
                progressive(
                    new_model(), broker.url(topic), every=50, until_end=True, bad="skip",
                    observers=[letters], checkpoint=store, on_line=kill_with_probability(p),
                )  # fmt: skip
            except Killed:
                letters._writer._producer._sender.force_close()  # records in flight are lost
            finally:
                letters.__exit__()
    with Checkpoints(tmp_path / "kept") as store:
        checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.learnt == 2000 - len(bad)
    keys = [letter.key.decode() for letter in records_of(broker, f"{topic}.dlq")]
    expected = {f"{topic}-{i % 3}-{i // 3}" for i in bad}
    assert set(keys) == expected


@pytest.mark.kafka
def test_checkpoint_does_not_pass_an_unwritable_dead_letter(broker: Broker, tmp_path: Path) -> None:
    topic, dead_letter_topic = broker.topic(), broker.topic(**{"max.message.bytes": "1000"})
    values = svm_lines(3000, {1500})
    values[1700] = "1 oops" + "s" * 5000
    broker.send(topic, values)
    for _ in range(2):
        result = learn(
            broker, topic, "--dead-letters", dead_letter_topic,
            "--checkpoint", str(tmp_path / "kept"),
            "--checkpoint-every", "0", "--every", "100",
        )  # fmt: skip
        assert result.exit_code != 0
        assert result.stderr.splitlines()[-1] == (
            f"streaml1: kafka://{broker.address}/{dead_letter_topic} does not accept the record "
            f"{topic}-0-1700: too large; raise the topic's max.message.bytes"
        )
        with Checkpoints(tmp_path / "kept") as store:
            checkpoint = store.latest()
        assert checkpoint is not None
        assert 1000 <= int(checkpoint.position["0"][0]) <= 1700
    assert {letter.key.decode() for letter in records_of(broker, dead_letter_topic)} == {
        f"{topic}-0-1500"
    }


@pytest.mark.kafka
def test_predict_writes_dead_letters(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, svm_lines(50, {7, 9}))
    new_model().save(tmp_path / "a")
    result = run("predict", str(tmp_path / "a"), broker.url(topic), "--until-end",
               "--bad", "dead-letter")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["" if i in (7, 9) else "0.5" for i in range(50)]
    assert [letter.offset for letter in records_of(broker, f"{topic}.dlq")] != []


@pytest.mark.kafka
def test_unwritable_topics_are_rejected(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.CONNECT_SECONDS", 1.0)
    topic = broker.topic()
    broker.send(topic, ["1 1:1"])
    result = learn(broker, topic, "--dead-letters", topic)
    assert result.stderr == (
        f"streaml1: kafka://{broker.address}/{topic} is the topic that is read; write to another "
        "one\n"
    )
    result = learn(broker, topic, "--dead-letters", "so bad")
    assert "'so bad' is not a valid topic name: use up to 249 letters" in result.stderr
    input_topic = as_topic(broker.url(topic))
    with pytest.raises(
        SourceError, match=r"topic x-y does not exist and cannot be created \(.+\); "
    ):
        create_topic(output_topic(input_topic, "x-y"), {"cleanup.policy": "nonsense"})
    with pytest.raises(SourceError, match="no broker answers at 127.0.0.1:1: is one running"):
        TopicWriter(as_topic("kafka://127.0.0.1:1/clicks"))


def test_dead_letters_require_a_kafka_source(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n")
    for args, message in {
        (
            "--bad",
            "dead-letter",
        ): f"--bad dead-letter requires a Kafka source, got {path}; use skip",
        ("--dead-letters", "x"): "--dead-letters requires --bad dead-letter",
        ("--most-bad", "0.1"): "--most-bad requires --bad dead-letter or skip",
    }.items():
        for command in (("learn", str(path)), ("predict", str(path), str(path))):
            if command[0] == "learn":
                assert run(*command, *args).stderr == f"streaml1: {message}\n"


# The share of bad examples


class Rows:
    """A block, reduced to what `BadShare` reads."""

    def __init__(self, lines: list[int]) -> None:
        self.lines = lines


def feed(share: BadShare, bad: list[bool], early: list[bool], size: int) -> None:
    """Call the hooks as a run does: in each block, examples that cannot be parsed come first.

    `bad[i]` is whether example i is rejected; `early[i]` is whether the parser rejects it, not the
    model.
    """
    for lo in range(0, len(bad), size):
        numbers = range(lo + 1, min(len(bad), lo + size) + 1)
        parsed = [number for number in numbers if not (bad[number - 1] and early[number - 1])]
        for number in numbers:
            if bad[number - 1] and early[number - 1]:
                share.on_rejected(Rejected(f"t/0@{number}", "oops", None, number))
        good: list[int] = []
        for number in [*parsed, None]:
            if number is not None and not bad[number - 1]:
                good.append(number)
                continue
            if good:
                share.on_batch(Batch(Rows(good), 0, len(good), None, None, None))
                good = []
            if number is not None:
                share.on_rejected(Rejected(f"t/0@{number}", "oops", None, number))


def exceeds(bad: list[bool], max_share: float, min_rejected: int) -> bool:
    """Return whether the share exceeds its maximum after any example from MIN_EXAMPLES on."""
    for end in range(MIN_EXAMPLES, len(bad) + 1):
        window = bad[max(0, end - WINDOW) : end]
        if sum(window) > max_share * len(window) and sum(window) >= min_rejected:
            return True
    return False


@given(
    st.integers(0, 10_000),
    st.integers(0, 2600) | st.integers(MIN_EXAMPLES, 2 * MIN_EXAMPLES),
    st.sampled_from([0.0, 0.02, 0.05, 0.3, 1.0]),
    st.floats(0.7, 1.4),
    st.sampled_from([1, 7, 100, 1000]),
    st.sampled_from([1, 5, 20]),
)
def test_share_is_measured_over_the_last_examples(
    seed: int, n: int, max_share: float, factor: float, size: int, min_rejected: int
) -> None:
    rng = random.Random(seed)
    rate = max_share * factor
    bad = [rng.random() < (rate if rng.random() < 0.8 else rate * 2) for _ in range(n)]
    early = [rng.random() < 0.5 for _ in range(n)]
    share = BadShare(max_share, min_rejected)
    try:
        feed(share, bad, early, size)
    except TooManyBad:
        assert exceeds(bad, max_share, min_rejected)
    else:
        assert not exceeds(bad, max_share, min_rejected)
        window = bad[max(0, n - WINDOW) :]
        assert share.defers_checkpoint() == (n > 0 and sum(window) > max_share * len(window))


def test_share_is_not_checked_before_100_examples() -> None:
    share = BadShare(0.05)
    bad = [True] * 20 + [False] * 79
    feed(share, bad, [False] * 99, 10)
    assert share.defers_checkpoint()
    with pytest.raises(TooManyBad) as caught:
        share.on_batch(Batch(Rows([100]), 0, 1, None, None, None))
    assert str(caught.value) == (
        "20 of the last 100 examples were rejected, more than the maximum share 0.05; "
        "check whether the schema has changed (last: t/0@20: oops)"
    )
    share.on_pass_start()
    assert not share.defers_checkpoint()
    with pytest.raises(ValueError, match="max_share must be between 0 and 1, got 5"):
        BadShare(5)


def test_few_rejected_examples_are_never_too_many() -> None:
    bad = [True] * 20 + [False] * 80
    feed(BadShare(0.05, min_rejected=21), bad, [False] * 100, 10)
    with pytest.raises(TooManyBad, match="20 of the last 100 examples"):
        feed(BadShare(0.05, min_rejected=20), bad, [False] * 100, 10)


def test_large_share_of_a_file_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("".join(f"{line}\n" for line in svm_lines(2000, set(range(1200, 1400)))))
    args = ("learn", str(path), "--bad", "skip", "--save", str(tmp_path / "m"), "--most-bad")
    result = run(*args, "0.1")
    assert result.exit_code != 0
    assert result.stderr.splitlines()[-1].startswith(
        "streaml1: 101 of the last 1,000 examples were rejected, more than the maximum share 0.1"
    )
    assert not (tmp_path / "m").exists()
    assert run(*args, "0.2").exit_code == 0


@pytest.mark.kafka
def test_large_share_stops_the_run_early(broker: Broker, tmp_path: Path) -> None:
    """The checkpoint stays before the bad records, so that a restart reads them again."""
    topic = broker.topic()
    broker.send(topic, svm_lines(20_000, set(range(3000, 20_000))))
    checkpoint_dir = str(tmp_path / "kept")
    offsets = []
    for _ in range(3):
        result = learn(broker, topic, "--checkpoint", checkpoint_dir, "--checkpoint-every", "0",
                     "--every", "50")  # fmt: skip
        assert result.exit_code != 0
        assert (
            "more than the maximum share 0.05; check whether the schema has changed"
            in result.stderr
        )
        with Checkpoints(checkpoint_dir) as store:
            checkpoint = store.latest()
        assert checkpoint is not None
        offsets.append(int(checkpoint.position["0"][0]))
    assert all(2900 <= offset <= 3050 for offset in offsets)
    assert len({letter.key for letter in records_of(broker, f"{topic}.dlq")}) < 200


@pytest.mark.kafka
def test_the_schema_of_a_value_is_kept(broker: Broker) -> None:
    """If the id of the schema is in a header, the value cannot be decoded without it."""
    topic = broker.topic()
    schema_id = (SCHEMA_ID, b"\x01" + bytes(range(16)))
    with TopicWriter(as_topic(broker.url(topic))) as writer:
        writer.send("k", b"\x02\x03", [("other", b"1"), schema_id], 0)
        writer.flush()
    with DeadLetters(broker.url(topic)) as letters:
        report = progressive(
            new_model(), broker.url(topic), until_end=True, format="json", bad="skip",
            observers=[letters],
        )  # fmt: skip
    assert report.rejected == 1
    [letter] = records_of(broker, f"{topic}.dlq")
    assert letter.value == b"\x02\x03" and schema_id in letter.headers
    assert b"use schema_registry=" in dict(letter.headers)["reason"]


@pytest.mark.kafka
def test_dead_letters_observer_in_python(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, svm_lines(300, {5}))
    with DeadLetters(broker.url(topic)) as letters:
        report = progressive(
            new_model(), broker.url(topic), until_end=True, bad="skip", observers=[letters]
        )
        assert report.rejected == 1
        keys = [letter.key.decode() for letter in records_of(broker, f"{topic}.dlq")]
        assert keys == [f"{topic}-0-5"]
        results = list(
            predictions(
                new_model(), broker.url(topic), until_end=True, bad="skip", observers=[letters]
            )
        )
        assert [result.line for result in results if result.p is None] == [6]
    assert len(records_of(broker, f"{topic}.dlq")) == 2
