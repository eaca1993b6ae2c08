"""What is refused goes to another topic before anything passes it; too much of it ends a run."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given as drawn
from hypothesis import strategies as st

import streaml1
from streaml1.cli import cli
from streaml1.sources import SourceError
from streaml1.sources.kafka.producer import TopicWriter, as_topic, create_topic, output_topic
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


def lines(n: int, bad: set[int], seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [
        "1 1:oops" if number in bad else f"{rng.choice((1, -1))} {rng.randint(1, 50)}:1"
        for number in range(n)
    ]


def model() -> Any:
    return streaml1.ElasticNetClassifier(l1=1e-4)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def learn(broker: Broker, topic: str, *args: str) -> Result:
    return run("learn", broker.url(topic), "--until-end", "--bad", "dead-letter", *args)


# The topic


@pytest.mark.kafka
def test_a_dead_letter_tells_where_it_is_from_and_why(broker: Broker) -> None:
    topic = broker.topic(2)
    several = '{"x": {}, "y": 1}\n{"x": {"é": "ü"}, "y": 2}\n\noops é\n'
    broker.send(topic, ["1 3:1", several, "\x01", "0 3:1"], [0, 1])
    start = time.time()
    done = learn(broker, topic)
    assert done.exit_code == 0, done.output
    letters = records_of(broker, f"{topic}.dlq")
    told = {letter.key.decode(): (letter.value, dict(letter.headers)) for letter in letters}
    assert set(told) == {f"{topic}-1-0:2", f"{topic}-1-0:4", f"{topic}-0-1"}
    value, headers = told[f"{topic}-1-0:4"]
    assert value.decode() == "oops é"
    assert time.time() + 1 > _seconds(headers.pop("time").decode()) > start - 1
    assert headers.pop("reason") == b"label: 'oops' is not a number"
    assert headers == {
        "topic": topic.encode(), "partition": b"1", "offset": b"0", "line": b"4", "key": b"key",
    }  # fmt: skip
    value, headers = told[f"{topic}-1-0:2"]  # refused not as it was read but as it was to be learnt
    assert json.loads(value) == {"x": {"é": "ü"}, "y": 2}
    assert headers["reason"].startswith(b"invalid label 2")
    value, headers = told[f"{topic}-0-1"]
    assert value == b"\x01"
    assert "line" not in headers


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


@pytest.mark.kafka
def test_the_rest_is_learnt_as_if_nothing_had_been(broker: Broker, tmp_path: Path) -> None:
    topic, bad = broker.topic(), set(range(7, 3000, 31))
    broker.send(topic, lines(3000, bad))
    (tmp_path / "good.svm").write_text(
        "".join(f"{line}\n" for line in lines(3000, bad) if "oops" not in line)
    )
    aside = f"{topic}-elsewhere"
    done = learn(broker, topic, "--dead-letters", aside, "--save", str(tmp_path / "a"))
    assert done.exit_code == 0, done.output
    assert f"({len(bad)} rejected)" in done.output or f"{len(bad)} " in done.output
    one = model()
    progressive(one, tmp_path / "good.svm")
    saved = streaml1.load(tmp_path / "a")
    assert saved.n_iterations == one.n_iterations
    assert [letter.key.decode() for letter in records_of(broker, aside)] == [
        f"{topic}-0-{offset}" for offset in sorted(bad)
    ]


@pytest.mark.kafka
def test_none_is_missing_whatever_ends_a_run(broker: Broker, tmp_path: Path) -> None:
    """A run that dies without a word, again and again: each is there, some of them twice."""
    topic, bad = broker.topic(3), set(range(3, 2000, 40))
    broker.send(topic, lines(2000, bad), [0, 1, 2])
    rng = random.Random(5)

    class Dies(BaseException):
        pass

    def dies(chance: float) -> Any:
        def on_line(line: Any) -> None:
            if rng.random() < chance:
                raise Dies

        return on_line

    for chance in [0.2] * 6 + [0.0]:
        with Checkpoints(tmp_path / "kept", seconds=0.02) as store:
            letters = DeadLetters(broker.url(topic))
            try:
                progressive(
                    model(), broker.url(topic), every=50, until_end=True, bad="skip",
                    observers=[letters], checkpoint=store, on_line=dies(chance),
                )  # fmt: skip
            except Dies:
                letters._writer._producer._sender.force_close()  # what is on its way is lost
            finally:
                letters.__exit__()
    with Checkpoints(tmp_path / "kept") as store:
        one = store.latest()
    assert one is not None
    assert one.learnt == 2000 - len(bad)
    keys = [letter.key.decode() for letter in records_of(broker, f"{topic}.dlq")]
    expected = {f"{topic}-{number % 3}-{number // 3}" for number in bad}
    assert set(keys) == expected


@pytest.mark.kafka
def test_a_checkpoint_does_not_pass_what_cannot_be_written(broker: Broker, tmp_path: Path) -> None:
    topic, aside = broker.topic(), broker.topic(**{"max.message.bytes": "1000"})
    values = lines(3000, {1500})
    values[1700] = "1 oops" + "s" * 5000
    broker.send(topic, values)
    for _ in range(2):
        done = learn(
            broker, topic, "--dead-letters", aside, "--checkpoint", str(tmp_path / "kept"),
            "--checkpoint-every", "0", "--every", "100",
        )  # fmt: skip
        assert done.exit_code != 0
        assert done.stderr.splitlines()[-1] == (
            f"streaml1: kafka://{broker.address}/{aside} does not accept the record "
            f"{topic}-0-1700: too large; raise the topic's max.message.bytes"
        )
        with Checkpoints(tmp_path / "kept") as store:
            found = store.latest()
        assert found is not None
        assert 1000 <= int(found.position["0"][0]) <= 1700
    assert {letter.key.decode() for letter in records_of(broker, aside)} == {f"{topic}-0-1500"}


@pytest.mark.kafka
def test_predict_puts_aside_too(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, lines(50, {7, 9}))
    model().save(tmp_path / "a")
    done = run("predict", str(tmp_path / "a"), broker.url(topic), "--until-end",
               "--bad", "dead-letter")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["" if one in (7, 9) else "0.5" for one in range(50)]
    assert [letter.offset for letter in records_of(broker, f"{topic}.dlq")] != []


@pytest.mark.kafka
def test_topics_that_cannot_be_written(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.topic.CONNECT_SECONDS", 1.0)
    topic = broker.topic()
    broker.send(topic, ["1 1:1"])
    done = learn(broker, topic, "--dead-letters", topic)
    assert done.stderr == (
        f"streaml1: kafka://{broker.address}/{topic} is the topic that is read; write to another "
        "one\n"
    )
    done = learn(broker, topic, "--dead-letters", "so bad")
    assert "'so bad' is not a valid topic name: use up to 249 letters" in done.stderr
    read_one = as_topic(broker.url(topic))
    with pytest.raises(
        SourceError, match=r"topic x-y does not exist and cannot be created \(.+\); "
    ):
        create_topic(output_topic(read_one, "x-y"), {"cleanup.policy": "nonsense"})
    with pytest.raises(SourceError, match="no broker answers at 127.0.0.1:1: is one running"):
        TopicWriter(as_topic("kafka://127.0.0.1:1/clicks"))


def test_dead_letters_are_for_topics(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n")
    for args, sentence in {
        (
            "--bad",
            "dead-letter",
        ): f"--bad dead-letter requires a Kafka source, got {path}; use skip",
        ("--dead-letters", "x"): "--dead-letters requires --bad dead-letter",
        ("--most-bad", "0.1"): "--most-bad requires --bad dead-letter or skip",
    }.items():
        for command in (("learn", str(path)), ("predict", str(path), str(path))):
            if command[0] == "learn":
                assert run(*command, *args).stderr == f"streaml1: {sentence}\n"


# The share


class Rows:
    """A block, as far as a share looks at it."""

    def __init__(self, lines: list[int]) -> None:
        self.lines = lines


def hear(share: BadShare, bad: list[bool], early: list[bool], size: int) -> None:
    """Examples as a run hears of them: in each block, first those bad that cannot be parsed."""
    for lo in range(0, len(bad), size):
        numbers = range(lo + 1, min(len(bad), lo + size) + 1)
        rest = [one for one in numbers if not (bad[one - 1] and early[one - 1])]
        for number in numbers:
            if bad[number - 1] and early[number - 1]:
                share.on_rejected(Rejected(f"t/0@{number}", "oops", None, number))
        good: list[int] = []
        for number in [*rest, None]:
            if number is not None and not bad[number - 1]:
                good.append(number)
                continue
            if good:
                share.on_batch(Batch(Rows(good), 0, len(good), None, None, None))
                good = []
            if number is not None:
                share.on_rejected(Rejected(f"t/0@{number}", "oops", None, number))


def exceeds(bad: list[bool], most: float) -> bool:
    """Whether the share is too large after any example from the first that it is asked for."""
    for end in range(MIN_EXAMPLES, len(bad) + 1):
        window = bad[max(0, end - WINDOW) : end]
        if sum(window) > most * len(window):
            return True
    return False


@drawn(
    st.integers(0, 10_000),
    st.integers(0, 2600),
    st.sampled_from([0.0, 0.02, 0.05, 0.3, 1.0]),
    st.floats(0.7, 1.4),
    st.sampled_from([1, 7, 100, 1000]),
)
def test_a_share_is_that_of_the_last_examples(
    seed: int, n: int, most: float, about: float, size: int
) -> None:
    rng = random.Random(seed)
    rate = most * about
    bad = [rng.random() < (rate if rng.random() < 0.8 else rate * 2) for _ in range(n)]
    early = [rng.random() < 0.5 for _ in range(n)]
    share = BadShare(most)
    try:
        hear(share, bad, early, size)
    except TooManyBad:
        assert exceeds(bad, most)
    else:
        assert not exceeds(bad, most)
        window = bad[max(0, n - WINDOW) :]
        assert share.defers_checkpoint() == (n > 0 and sum(window) > most * len(window))


def test_the_first_hundred_are_waited_for() -> None:
    share = BadShare(0.05)
    bad = [True] * 20 + [False] * 79
    hear(share, bad, [False] * 99, 10)
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


def test_too_many_bad_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("".join(f"{line}\n" for line in lines(2000, set(range(1200, 1400)))))
    args = ("learn", str(path), "--bad", "skip", "--save", str(tmp_path / "m"), "--most-bad")
    done = run(*args, "0.1")
    assert done.exit_code != 0
    assert done.stderr.splitlines()[-1].startswith(
        "streaml1: 101 of the last 1,000 examples were rejected, more than the maximum share 0.1"
    )
    assert not (tmp_path / "m").exists()
    assert run(*args, "0.2").exit_code == 0


@pytest.mark.kafka
def test_a_run_stops_before_it_has_drained_the_topic(broker: Broker, tmp_path: Path) -> None:
    """And its checkpoint with it: whoever starts it again comes back to the same records."""
    topic = broker.topic()
    broker.send(topic, lines(20_000, set(range(3000, 20_000))))
    kept = str(tmp_path / "kept")
    places = []
    for _ in range(3):
        done = learn(broker, topic, "--checkpoint", kept, "--checkpoint-every", "0",
                     "--every", "50")  # fmt: skip
        assert done.exit_code != 0
        assert "more than the share of 0.05 that may be: has the schema changed?" in done.stderr
        with Checkpoints(kept) as store:
            found = store.latest()
        assert found is not None
        places.append(int(found.position["0"][0]))
    assert all(2900 <= place <= 3050 for place in places)
    assert len({letter.key for letter in records_of(broker, f"{topic}.dlq")}) < 200


@pytest.mark.kafka
def test_in_python(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, lines(300, {5}))
    with DeadLetters(broker.url(topic)) as letters:
        report = progressive(
            model(), broker.url(topic), until_end=True, bad="skip", observers=[letters]
        )
        assert report.rejected == 1
        assert [one.key.decode() for one in records_of(broker, f"{topic}.dlq")] == [f"{topic}-0-5"]
        told = list(
            predictions(model(), broker.url(topic), until_end=True, bad="skip", observers=[letters])
        )
        assert [one.line for one in told if one.p is None] == [6]
    assert len(records_of(broker, f"{topic}.dlq")) == 2
