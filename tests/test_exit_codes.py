"""What a supervisor is told: each kind of end has its code, which the errors carry."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import streaml1
from streaml1.cli import cli
from streaml1.core import exit_codes as exits
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError, open_source
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.source import Unavailable
from streaml1.training import evaluate, progressive
from streaml1.training.checkpoint import Checkpoints, TakenOver, load_latest, ownership
from streaml1.training.checkpoint.ownership import CheckpointDirectory
from streaml1.training.model_registry.publisher import ModelTopic
from streaml1.training.run import Unfinished
from tests.broker import Broker
from tests.topics import records_of

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.svm").write_text("1 1:1\n0 2:1\n" * 20)
    (tmp_path / "bad.svm").write_text("1 1:1\nspam\n")
    return tmp_path


def code(*args: str) -> int:
    done = CliRunner().invoke(cli, list(args))
    if done.exit_code:
        assert done.stderr.startswith("streaml1: ") and done.stderr.count("\n") == 1, done.stderr
    return done.exit_code


def test_the_page_and_the_help_name_every_code() -> None:
    told = (ROOT / "docs" / "operating.md").read_text()
    rows = {row for row in re.findall(r"^\| ([\d, ]+) \|", told, re.M)}
    named = {int(number) for row in rows for number in row.split(",")}
    ours = {exits.SUCCESS, exits.USAGE_ERROR, exits.DATA_ERROR, exits.TEMPORARY_FAILURE}
    signals = {128 + n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)}
    assert named == {*ours, *signals, 1}  # 1: Python's own, of a traceback
    helped = CliRunner().invoke(cli, ["learn", "--help"]).output
    codes = helped.partition("Exit codes:")[2].partition("Example")[0]
    assert {int(one) for one in re.findall(r"\d+", codes)} == named - {1, 141}


def test_files() -> None:
    assert code("learn", "a.svm") == 0
    assert code("learn", "nowhere.svm") == code("learn", "a.svm", "--l1", "-1") == 2
    assert code("learn", "a.svm", "--nonsense") == code("show", "a.svm") == 2
    assert code("learn", "bad.svm") == 65
    assert code("learn", "bad.svm", "--bad", "skip") == 0
    assert code("learn", "a.svm", "--metrics", "spam") == 2


@pytest.mark.parametrize("option", ["--checkpoint", "--save", "--report", "--plot", "--load"])
def test_a_name_that_is_empty(option: str, here: Path) -> None:
    before = sorted(here.iterdir())
    done = CliRunner().invoke(cli, ["learn", "a.svm", option, ""])
    assert (
        done.exit_code == 2
        and f"{option}': the path is empty; give one or omit the option" in done.stderr
    )
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_numbers_that_are_not_finite(number: str) -> None:
    options = ["--checkpoint-every", "--stalled", "--publish-every", "--session-timeout",
               "--label-within", "--most-bad"]  # fmt: skip
    for option in options:
        done = CliRunner().invoke(cli, ["learn", "a.svm", option, number])
        assert done.exit_code == 2, option
        assert (
            f"must be a finite number, got {number}" in done.stderr
            or f"{number} is not in the range" in done.stderr
        )


def test_a_disk_that_may_have_room_again() -> None:
    for number, told in ((errno.ENOSPC, 75), (errno.EDQUOT, 75), (errno.EIO, 75), (errno.EROFS, 2)):
        assert exits.write_failure_code(OSError(number, "")) == told
    assert exits.write_failure_code(RuntimeError()) == 2


def streams_of(line: str, unbuffered: str) -> tuple[int, str]:
    """What a line of a shell ends with, and its standard error."""
    done = subprocess.run(
        ["sh", "-c", line.replace("streaml1", f"{sys.executable} -m streaml1")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_streams_that_are_closed_or_full(unbuffered: str) -> None:
    for line, told, said in [
        ("streaml1 learn a.svm --save m 2>/dev/full", 0, ""),
        ("streaml1 learn bad.svm --bad skip --save n --log json 2>/dev/full", 0, ""),
        ("streaml1 learn nowhere.svm 2>/dev/full", 2, ""),
        ("streaml1 learn a.svm 2>&-", 0, ""),
        ("streaml1 learn a.svm --save o >&-", 2, "standard output is closed: redirect it"),
        ("streaml1 learn - --format svmlight <&-", 2, "standard input is closed: redirect"),
        ("streaml1 --help >/dev/full", 75, "standard output cannot be written: no space"),
        ("streaml1 predict m a.svm >/dev/full", 75, "standard output cannot be written: no"),
        (
            "streaml1 learn a.svm --every 10 --save p >/dev/full",
            75,
            "standard output cannot be written (no space left on device) after 10 examples; p was",
        ),
    ]:
        assert (streams := streams_of(line, unbuffered))[0] == told, (line, streams)
        assert (
            streams[1].startswith(f"streaml1: {said}" if said else "") and "Trace" not in streams[1]
        )
    assert all(Path(name).exists() for name in "mnp") and not Path("o").exists()


def test_errors_as_json() -> None:
    for args, number in ((["nowhere.svm"], 2), (["bad.svm"], 65), (["a.svm", "--lr", "x"], 2)):
        done = CliRunner().invoke(cli, ["learn", *args, "--log", "json"])
        *_, told = map(json.loads, done.stderr.splitlines())
        assert (told["event"], told["level"]) == ("error", "error")
        assert told["exit_code"] == done.exit_code == number
    for args in (["--nosuch", "--log", "json"], ["--log=json", "--every"], ["--log", "json", "b"]):
        done = CliRunner().invoke(cli, ["learn", "a.svm", *args])
        assert json.loads(done.stderr)["exit_code"] == done.exit_code == 2
    done = CliRunner().invoke(cli, ["learn", "--nosuch"], env={"STREAML1_LOG": "json"})
    assert json.loads(done.stderr)["event"] == "error"
    done = CliRunner().invoke(cli, ["learn", "a.svm", "--log", "json", "--log", "text", "--nosuch"])
    assert done.stderr.startswith("streaml1: No such option")
    # The next command of the process says sentences again.
    assert code("learn", "bad.svm") == 65


def test_folders_of_checkpoints(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ("learn", "a.svm", "--checkpoint", "kept")
    with Checkpoints("kept"):
        assert code(*kept) == 75
    assert code(*kept) == 0
    assert code("learn", "bad.svm", "--checkpoint", "kept") == 2  # of another source
    for path in Path("kept").glob("*.checkpoint"):
        path.write_bytes(b"torn")
    done = CliRunner().invoke(cli, list(kept))
    assert done.exit_code == 65 and "holds no valid checkpoint" in done.stderr
    for other in (("show", "kept"), ("predict", "kept", "a.svm"), ("evaluate", "kept", "a.svm")):
        assert code(*other) == 65
    Path("none").mkdir()
    assert code("show", "none") == 2  # there never was one
    for number, expected in ((errno.ENOSPC, 75), (errno.EDQUOT, 75), (errno.EACCES, 2)):

        def full(*args: Any, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(ownership, "write_atomic", full)
        assert code("learn", "a.svm", "--checkpoint", f"kept{number}") == expected


def test_a_folder_taken_over_is_left_to_the_new_owner() -> None:
    """But the processes of a group start again, and have other partitions."""
    for alone, expected in ((True, 2), (False, 75)):
        with CheckpointDirectory("kept", alone=alone) as files:
            Path("kept/00000099.owner").write_text('{"pid": 1, "host": "b"}')
            with pytest.raises(TakenOver, match="was taken over by process 1 on b") as error:
                files.write(b"")
        assert error.value.exit_code == expected
        Path("kept/00000099.owner").unlink()


@pytest.mark.kafka
def test_errors_of_kafka() -> None:
    from kafka import TopicPartition, errors

    topic = Topic("kafka://localhost:1/clicks")
    expected = [
        (errors.KafkaTimeoutError("x"), 75),
        (errors.NotLeaderForPartitionError(), 75),
        (errors.KafkaConnectionError("gone"), 75),
        (errors.OffsetOutOfRangeError({TopicPartition("clicks", 0): 7}), 65),
        (errors.CorruptRecordError("crc"), 65),
        (errors.LogTruncationError({TopicPartition("clicks", 0): None}), 65),
        (errors.UnsupportedCodecError("Libraries for lz4 compression codec not found"), 2),
        (errors.TopicAuthorizationFailedError("clicks"), 2),
        (errors.SaslAuthenticationFailedError("no"), 2),
    ]
    for error, number in expected:
        told = topic.read_error(error)
        assert told.exit_code == number, error
        assert "\n" not in str(told)


def test_errors_carry_their_codes() -> None:
    assert (BadExample("x").exit_code, SourceError("x").exit_code) == (65, 2)
    assert streaml1.ModelFileError("x").exit_code == 2


def test_an_error_of_any_kind_that_knows_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class TooMany(RuntimeError):
        exit_code = 65

    def fail(*args: Any, **options: Any) -> None:
        raise TooMany("too many records are bad: look at clicks.dlq")

    monkeypatch.setattr("streaml1.training.progressive", fail)
    assert code("learn", "a.svm") == 65


@pytest.mark.kafka
def test_topics(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.topic.CONNECT_SECONDS", 0.3)
    assert code("learn", "kafka://127.0.0.1:1/t") == 75
    broker.require_real()
    assert code("learn", broker.url("there-is-none"), "--until-end") == 2
    topic = broker.topic()
    broker.send(topic, ["1 1:1", "spam"])
    assert code("learn", broker.url(topic), "--until-end") == 65


@pytest.mark.kafka
def test_an_empty_day(broker: Broker) -> None:
    """A timer's job on a topic with nothing in it is well, where the position is kept."""
    broker.require_real()
    topic = broker.topic()
    url = broker.url(topic)
    kept = ("learn", url, "--until-end", "--checkpoint", "kept", "--bad", "skip")
    for refused, said in (([], ""), (["spam"], " (1 rejected)"), ([], " (1 rejected)")):
        broker.send(topic, refused)
        done = CliRunner().invoke(cli, list(kept))
        assert done.exit_code == 0, done.output
        assert done.stdout == f"no example yet in {url}{said}; the position is saved in kept\n"
        found = load_latest(Path("kept"))
        assert found is not None and found.position["0"][0] == (1 if said else 0)
    assert CliRunner().invoke(cli, ["learn", url, "--until-end", "--bad", "skip"]).exit_code == 2
    broker.send(topic, ["1 1:1"])
    assert code(*kept) == 0 and held(Path()) == 1
    assert code(*kept) == 0
    Path("empty.svm").touch()
    done = CliRunner().invoke(cli, ["learn", "empty.svm", "--checkpoint", "other"])
    assert done.exit_code == 2
    assert done.stderr.endswith("has no example to learn; nothing was written except other\n")


# SIGTERM


def started(here: Path, source: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", source, "--checkpoint", "kept",
         "--checkpoint-every", "3600", "--group", "g", *args],
        cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def crowd() -> float:
    """How many times as long as it takes by itself a computation takes now: others run beside."""
    start, own = time.perf_counter(), time.process_time()
    while time.process_time() - own < 0.1:
        pass
    return (time.perf_counter() - start) / (time.process_time() - own)


def ended(process: subprocess.Popen[str]) -> float:
    """Seconds from SIGTERM to the end, on a machine that does nothing else."""
    share = crowd()
    start = time.monotonic()
    process.terminate()
    _, err = process.communicate(timeout=60)
    seconds = time.monotonic() - start
    assert process.returncode == 143, err
    assert "Traceback" not in err, err
    return seconds / share


def until(process: subprocess.Popen[str], there: Callable[[str], bool]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if there(line):
            return
    raise AssertionError(process.communicate()[1])


@pytest.mark.kafka
def test_sigterm_saves_a_million_weights_in_two_seconds(here: Path, broker: Broker) -> None:
    rng = np.random.default_rng(0)
    topic = broker.topic()
    lines = []
    for row in range(2000):  # 10^6 features, each seen once
        cells = " ".join(f"{row * 500 + k}:{1 + rng.random():.3f}" for k in range(500))
        lines.append(f"{row % 2} {cells}")
    broker.send(topic, ["\n".join(lines[lo : lo + 100]) for lo in range(0, len(lines), 100)])
    process = started(here, broker.url(topic), "--l1", "0", "--every", "2000")
    try:
        until(process, lambda line: line.startswith("    2,000"))
        seconds = ended(process)
    finally:
        process.kill()
        process.communicate()
    with Checkpoints("kept") as store:
        found = store.latest()
    assert found is not None and found.learnt == 2000 and found.model.n_nonzero == 1_000_000
    begin = time.perf_counter()
    found.model.save(here / "again.model")
    here_and_now = time.perf_counter() - begin  # other tests may have the cores
    assert seconds < max(2.0, 4 * here_and_now)


class Between:
    """A way to the broker that can be cut, or stopped so that nothing comes and nothing closes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        code = PROXY.format(host=host, port=port)
        self.process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                                        text=True)  # fmt: skip
        assert self.process.stdout is not None
        self.address = f"127.0.0.1:{self.process.stdout.readline().strip()}"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


# Hands on bytes, and gives out itself as the broker: addresses in answers have its length.
PROXY = """
import selectors, socket
there = ("{host}", {port})
while True:
    server = socket.create_server(("127.0.0.1", 0))
    if len(str(server.getsockname()[1])) == len(str(there[1])):
        break
ours = server.getsockname()[1]
print(ours, flush=True)
old, new = there[1].to_bytes(4, "big"), ours.to_bytes(4, "big")
host = there[0].encode()
waiting = selectors.DefaultSelector()
waiting.register(server, selectors.EVENT_READ)
while True:
    for key, _ in waiting.select():
        if key.fileobj is server:
            one, other = server.accept()[0], socket.create_connection(there)
            waiting.register(one, selectors.EVENT_READ, (other, False))
            waiting.register(other, selectors.EVENT_READ, (one, True))
            continue
        other, answers = key.data
        try:
            data = key.fileobj.recv(1 << 16)
            if answers:
                data = data.replace(host + old, host + new)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (key.fileobj, other):
                try:
                    waiting.unregister(end)
                except (KeyError, ValueError):
                    pass
                end.close()
"""


@contextlib.contextmanager
def put_down_after(process: subprocess.Popen[str], between: Between) -> Iterator[None]:
    """Whatever comes, neither is left running."""
    try:
        yield
    finally:
        between.close()
        process.kill()
        process.communicate()


@pytest.mark.kafka
@pytest.mark.parametrize("how", ["gone", "silent"])
def test_sigterm_while_the_broker_is_away(how: str, here: Path, broker: Broker) -> None:
    broker.require_real()
    topic = broker.topic(2)
    broker.send(topic, ["1 1:1", "0 2:1"] * 20, (0, 1))
    between = Between(broker.address)
    process = started(here, f"kafka://{between.address}/{topic}", "--every", "40")
    with put_down_after(process, between):
        until(process, lambda line: line.startswith("       40"))
        between.stop() if how == "silent" else between.close()
        time.sleep(1.5)
        assert process.poll() is None
        seconds = ended(process)
    with Checkpoints("kept") as store:
        found = store.latest()
    assert found is not None and found.learnt == found.model.n_iterations == 40
    assert seconds < 2.0


def held(here: Path) -> int:
    """How many examples the last checkpoint holds."""
    found = load_latest(here / "kept") if (here / "kept").exists() else None
    return 0 if found is None else found.learnt


@pytest.mark.kafka
@pytest.mark.parametrize("how", ["gone", "silent"])
@pytest.mark.parametrize("seconds", ["0", "3600"])
def test_sigterm_while_who_takes_predictions_is_away(
    how: str, seconds: str, here: Path, broker: Broker
) -> None:
    """No checkpoint passes what was not written; files need no broker."""
    broker.require_real()
    topic, told, refused = broker.topic(), broker.topic(), broker.topic()
    broker.send(topic, ["1 1:1", "0 2:1"] * 20)
    between = Between(broker.address)
    away = f"kafka://{between.address}"
    process = started(
        here, broker.url(topic), "--every", "40", "--checkpoint-every", seconds,
        "--predictions", f"{away}/{told}", "--bad", "dead-letter", "--most-bad", "1",
        "--dead-letters", f"{away}/{refused}", "--save", "m", "--report", "r", "--plot", "p.svg",
    )  # fmt: skip
    with put_down_after(process, between):
        until(process, lambda line: line.startswith("       40"))
        while seconds == "0" and held(here) < 40:
            time.sleep(0.05)
        before = held(here)
        between.stop() if how == "silent" else between.close()
        broker.send(topic, ["1 1:1", "spam"] * 40)
        if seconds == "0":
            time.sleep(1.5)  # it waits before its next checkpoint by now
        else:
            until(process, lambda line: line.startswith("       80"))
        start = time.monotonic()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 20.0  # two topics, beside other tests
    assert process.returncode == 75, err
    lost = r"\d+ records were not written, as no broker accepted any for 3 seconds"
    n = streaml1.load("m").n_iterations
    assert re.fullmatch(
        rf"streaml1: interrupted after {n} examples; {away}/{told}: {lost}; {away}/{refused}: "
        rf"{lost}; kept keeps the checkpoint before; m, r, p.svg were written",
        err.splitlines()[-1],
    )
    assert Path("r").exists() and Path("p.svg").exists()
    assert held(here) == before == (40 if seconds == "0" else 0)
    assert n == 80 if seconds == "3600" else n > 40
    done = CliRunner().invoke(cli, [
        "learn", broker.url(topic), "--checkpoint", "kept", "--until-end", "--bad", "dead-letter",
        "--most-bad", "1", "--predictions", told, "--dead-letters", refused,
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert held(here) == 80
    assert {one.key for one in records_of(broker, told)} == {
        f"{topic}-0-{offset}".encode() for offset in [*range(40), *range(40, 120, 2)]
    }
    assert len({one.key for one in records_of(broker, refused)}) == 40


@pytest.mark.kafka
@pytest.mark.parametrize("how", ["gone", "silent"])
def test_sigterm_while_who_takes_models_is_away(how: str, here: Path, broker: Broker) -> None:
    broker.require_real()
    topic, models = broker.topic(), f"{broker.topic()}-models"
    broker.send(topic, ["1 1:1", "0 2:1"] * 20)
    between = Between(broker.address)
    process = started(
        here, broker.url(topic), "--every", "40", "--save", "m", "--report", "r",
        "--publish", f"kafka://{between.address}/{models}",
    )  # fmt: skip
    with put_down_after(process, between):
        until(process, lambda line: line.startswith("       40"))
        between.stop() if how == "silent" else between.close()
        start = time.monotonic()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 15.0
    assert process.returncode == 75, err
    lost = rf"kafka://[^; ]+/{models}: no broker answers[^;]*"
    assert re.search(f"after 40 examples; {lost}; m, r, kept were written", err)
    assert streaml1.load("m").n_iterations == 40 and Path("r").exists() and held(here) == 40


def test_a_source_that_is_lost_as_a_run_ends() -> None:
    """What was read before is reported, and in a checkpoint."""
    lines = open_source("a.svm")

    class Source:
        name = "a topic"
        identity, begin, position = lines.identity, lines.begin, lines.position
        stopped = False

        def blocks(self, size: int, refuse: Any) -> Any:
            yield from lines.blocks(size, refuse)
            self.stopped = True
            raise Unavailable("kafka://b/t: no broker answers")

    model, source = streaml1.ElasticNetClassifier(), Source()
    with pytest.raises(Unfinished, match="^kafka://b/t: no broker answers$") as caught:
        progressive(model, source, checkpoint="kept", stop=lambda: source.stopped)
    assert (caught.value.exit_code, caught.value.is_kept) == (75, True)
    assert caught.value.report.examples == held(Path()) == model.n_iterations == 40
    source = Source()
    with pytest.raises(Unfinished) as caught:
        evaluate(model, source, stop=lambda: source.stopped)
    assert caught.value.report.examples == caught.value.report.lines[-1].examples == 40


@pytest.mark.parametrize("number", [0, 15])
def test_a_group_that_loses_its_brokers_has_saved_nothing(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever signal comes as well; but one before a broker has answered ends it as it does."""
    for reports, expected in (({0: None}, 75), ({}, 128 + number if number else 75)):

        def run(group: Any, stopped: Any, reports: Any = reports) -> None:
            group.reports = reports
            stopped.__closure__[0].cell_contents.number = number
            raise Unavailable("kafka://b/t: no broker answers")

        monkeypatch.setattr("streaml1.training.consumer_group.Group.run", run)
        args = ("--per-partition", "--group", "g", "--checkpoint", "kept")
        assert code("learn", "kafka://b:1/t", *args) == expected


@pytest.mark.kafka
def test_who_takes_models_is_waited_for(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a run for longer than at its start, but not after a stop."""
    broker.require_real()
    monkeypatch.setattr("streaml1.sources.kafka.topic.CONNECT_SECONDS", 0.5)
    monkeypatch.setattr("streaml1.sources.kafka.topic.PROBE_SECONDS", 0.3)
    between = Between(broker.address)
    model = streaml1.ElasticNetClassifier()
    try:
        with ModelTopic(f"kafka://{between.address}/{broker.topic()}-models") as topic:
            between.stop()
            threading.Timer(4.0, between.go_on).start()
            start = time.monotonic()
            topic.publish(model)
            assert time.monotonic() - start > 3.5
            between.stop()
            topic.stop_deadline.set_stop(lambda: True)
            with pytest.raises(Unavailable, match="no broker answers"):
                topic.publish(model)
            assert time.monotonic() - start < 20.0
            between.go_on()
    finally:
        between.close()


@pytest.mark.kafka
def test_sigterm_while_there_was_never_a_broker(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = started(here, f"kafka://127.0.0.1:{silent.getsockname()[1]}/t")
        silent.settimeout(60.0)
        connection, _ = silent.accept()  # it asks, and hears nothing
        with connection:
            time.sleep(0.2)
            assert ended(process) < 2.0


@pytest.mark.kafka
def test_a_broker_that_goes_and_comes_is_logged_once(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.require_real()
    monkeypatch.setattr("streaml1.sources.kafka.topic_source.QUIET_SECONDS", 0.5)
    monkeypatch.setattr("streaml1.sources.kafka.topic.PROBE_SECONDS", 0.3)
    topic = broker.topic()
    broker.send(topic, ["1 1:1"] * 5)
    between = Between(broker.address)
    source = KafkaSource(f"kafka://{between.address}/{topic}")
    stopped = threading.Event()
    source.set_stop(stopped.is_set)
    seen: list[int] = []

    def read() -> None:
        seen.extend(len(block) for block in source.blocks(10, pytest.fail))

    reader = threading.Thread(target=read)
    reader.start()

    def until_logged(*names: str) -> None:
        limit = time.monotonic() + 30.0
        while [one.event for one in caplog.records if one.name == "streaml1"] != list(names):
            assert time.monotonic() < limit, caplog.records
            time.sleep(0.05)

    try:
        time.sleep(2.0)
        until_logged()
        between.stop()
        until_logged("broker_away")
        time.sleep(2.0)
        until_logged("broker_away")
        between.go_on()
        until_logged("broker_away", "broker_back")
        broker.send(topic, ["1 1:1"] * 5)
        limit = time.monotonic() + 30.0
        while sum(source.lag().values()) or source.position() != {0: (10, 0)}:
            assert time.monotonic() < limit
            time.sleep(0.05)
    finally:
        stopped.set()
        reader.join()
        between.close()
    assert sum(seen) == 10
    [away, _] = [one for one in caplog.records if one.name == "streaml1"]
    assert away.getMessage().endswith(f"{topic}: no broker answers: waiting for it")


# What is not written


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
@pytest.mark.parametrize(
    ("args", "patched"),
    [
        (("learn", "a.svm", "--report", "r.json"), "streaml1.training.report.Report.write"),
        (("learn", "a.svm", "--save", "m"), "streaml1.models.serialization.write_atomic"),
        (("convert", "a.svm", "a.rows"), "streaml1.sources.row_cache.writer.RowsWriter.add"),
    ],
)
def test_a_disk_that_is_full_may_have_room_again(
    args: tuple[str, ...], patched: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(patched, refuse)
    assert code(*args) == (2 if number == errno.EACCES else 75)


def test_memory_that_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise MemoryError("Unable to allocate 64.0 GiB for an array with shape (1,)")

    monkeypatch.setattr("streaml1.training.run.Run.feed", refuse)
    done = CliRunner().invoke(cli, ["learn", "a.svm"])
    assert done.exit_code == 2
    assert "out of memory (unable to allocate 64.0 GiB): reduce --hash-bits" in done.stderr


def test_converting_ends_at_sigterm_and_leaves_nothing(here: Path) -> None:
    os.mkfifo(here / "slow.svm")
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "convert", "slow.svm", "a.rows"], cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with open(here / "slow.svm", "w") as pipe:
        pipe.write("1 1:1\n")
        pipe.flush()
        while not [*here.glob(".a.rows*")]:
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err == "streaml1: interrupted by SIGTERM; a.rows was not written\n"
    assert not [*here.glob("*a.rows*")]


def test_a_pipe_that_nobody_writes_to_is_waited_for_until_sigterm(here: Path) -> None:
    os.mkfifo(here / "slow.svm")
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "slow.svm", "--log", "json"], cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert json.loads(process.stderr.readline())["event"] == "run_begins"
        time.sleep(0.3)  # then it opens the pipe
        process.terminate()
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143
    assert json.loads(err.splitlines()[-1])["event"] == "interrupted"
