"""Process exit codes: each kind of end has its code, and errors carry it as `exit_code`."""

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

import click
import numpy as np
import pytest
from click.testing import CliRunner

import streaml1
from streaml1.cli import cli
from streaml1.cli.run_options import signal_before_broker
from streaml1.cli.signals import Signals
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
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.svm").write_text("1 1:1\n0 2:1\n" * 20)
    (tmp_path / "bad.svm").write_text("1 1:1\nspam\n")
    return tmp_path


def exit_code(*args: str) -> int:
    """Run a command; return its exit code, and assert that an error is one line."""
    result = CliRunner().invoke(cli, list(args))
    if result.exit_code:
        assert result.stderr.startswith("streaml1: ") and result.stderr.count("\n") == 1, (
            result.stderr
        )
    return result.exit_code


def test_docs_and_help_list_every_exit_code() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    rows = {row for row in re.findall(r"^\| ([\d, ]+) \|", page, re.M)}
    documented = {int(number) for row in rows for number in row.split(",")}
    own_codes = {exits.SUCCESS, exits.USAGE_ERROR, exits.DATA_ERROR, exits.TEMPORARY_FAILURE}
    signals = {128 + n for n in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)}
    assert documented == {*own_codes, *signals, 1}  # 1 is Python's code after a traceback
    help_text = CliRunner().invoke(cli, ["learn", "--help-all"]).output
    codes = help_text.partition("Exit codes:")[2].partition("Example")[0]
    assert {int(number) for number in re.findall(r"\d+", codes)} == documented - {1, 141}


def test_file_arguments() -> None:
    assert exit_code("learn", "a.svm") == 0
    assert exit_code("learn", "nowhere.svm") == exit_code("learn", "a.svm", "--l1", "-1") == 2
    assert exit_code("learn", "a.svm", "--nonsense") == exit_code("show", "a.svm") == 2
    assert exit_code("learn", "bad.svm") == 65
    assert exit_code("learn", "bad.svm", "--bad", "skip") == 0
    assert exit_code("learn", "a.svm", "--metrics", "spam") == 2


@pytest.mark.parametrize("option", ["--checkpoint", "--save", "--report", "--plot", "--load"])
def test_empty_path_is_a_usage_error(option: str, cwd: Path) -> None:
    before = sorted(cwd.iterdir())
    result = CliRunner().invoke(cli, ["learn", "a.svm", option, ""])
    assert (
        result.exit_code == 2
        and f"{option}': the path is empty; give one or omit the option" in result.stderr
    )
    assert sorted(cwd.iterdir()) == before


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_non_finite_number_is_a_usage_error(number: str) -> None:
    options = ["--checkpoint-every", "--stalled", "--publish-every", "--session-timeout",
               "--label-within", "--most-bad"]  # fmt: skip
    for option in options:
        result = CliRunner().invoke(cli, ["learn", "a.svm", option, number])
        assert result.exit_code == 2, option
        assert (
            f"must be a finite number, got {number}" in result.stderr
            or f"{number} is not in the range" in result.stderr
        )


def test_write_failures_are_temporary_or_usage_errors() -> None:
    for errno_value, expected in (
        (errno.ENOSPC, 75),
        (errno.EDQUOT, 75),
        (errno.EIO, 75),
        (errno.EROFS, 2),
    ):
        assert exits.write_failure_code(OSError(errno_value, "")) == expected
    assert exits.write_failure_code(RuntimeError()) == 2


def run_in_shell(command: str, unbuffered: str) -> tuple[int, str]:
    """Run a shell command; return its exit code and standard error."""
    result = subprocess.run(
        ["sh", "-c", command.replace("streaml1", f"{sys.executable} -m streaml1")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return result.returncode, result.stderr


FULL = "standard output cannot be written"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="requires /dev/full")
def test_closed_and_full_standard_streams() -> None:
    assert exit_code("learn", "a.svm", "--save", "m") == 0
    for command, expected_code, message in [
        ("streaml1 learn bad.svm --bad skip --save n --log json 2>/dev/full", 0, None),
        ("streaml1 learn nowhere.svm 2>/dev/full", 2, None),
        ("streaml1 learn a.svm 2>&-", 0, None),
        ("streaml1 learn a.svm --save o >&-", 2, "standard output is closed: redirect it"),
        ("streaml1 learn - --format svmlight <&-", 2, "standard input is closed: redirect"),
    ]:
        code, stderr = run_in_shell(command, "")
        assert code == expected_code, (command, code, stderr)
        assert stderr.startswith(f"streaml1: {message}") if message else not stderr, stderr
    # A write fails at once, or when buffered output is flushed.
    for unbuffered in ("", "1"):
        for command, message in [
            ("streaml1 --help", f"{FULL}: no space left on device"),
            ("streaml1 predict m a.svm", f"{FULL}: no space left on device"),
            (
                "streaml1 learn a.svm --every 10 --save p",
                f"{FULL} (no space left on device) after 10 examples; p was written",
            ),
        ]:
            code, stderr = run_in_shell(f"{command} >/dev/full", unbuffered)
            assert (code, stderr) == (75, f"streaml1: {message}\n"), command
    assert all(Path(name).exists() for name in "mnp") and not Path("o").exists()


def test_errors_are_logged_as_json() -> None:
    for args, expected_code in (
        (["nowhere.svm"], 2),
        (["bad.svm"], 65),
        (["a.svm", "--lr", "x"], 2),
    ):
        result = CliRunner().invoke(cli, ["learn", *args, "--log", "json"])
        *_, event = map(json.loads, result.stderr.splitlines())
        assert (event["event"], event["level"]) == ("error", "error")
        assert event["exit_code"] == result.exit_code == expected_code
    for args in (["--nosuch", "--log", "json"], ["--log=json", "--every"], ["--log", "json", "b"]):
        result = CliRunner().invoke(cli, ["learn", "a.svm", *args])
        assert json.loads(result.stderr)["exit_code"] == result.exit_code == 2
    result = CliRunner().invoke(cli, ["learn", "--nosuch"], env={"STREAML1_LOG": "json"})
    assert json.loads(result.stderr)["event"] == "error"
    result = CliRunner().invoke(
        cli, ["learn", "a.svm", "--log", "json", "--log", "text", "--nosuch"]
    )
    assert result.stderr.startswith("streaml1: No such option")
    # The next command in this process logs text again.
    assert exit_code("learn", "bad.svm") == 65


def test_checkpoint_folders(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn_args = ("learn", "a.svm", "--checkpoint", "kept")
    with Checkpoints("kept"):
        assert exit_code(*learn_args) == 75
    assert exit_code(*learn_args) == 0
    assert exit_code("learn", "bad.svm", "--checkpoint", "kept") == 2  # another source
    for path in Path("kept").glob("*.checkpoint"):
        path.write_bytes(b"torn")
    result = CliRunner().invoke(cli, list(learn_args))
    assert result.exit_code == 65 and "holds no valid checkpoint" in result.stderr
    for args in (("show", "kept"), ("predict", "kept", "a.svm"), ("evaluate", "kept", "a.svm")):
        assert exit_code(*args) == 65
    Path("none").mkdir()
    assert exit_code("show", "none") == 2  # it never had a checkpoint
    for errno_value, expected in ((errno.ENOSPC, 75), (errno.EDQUOT, 75), (errno.EACCES, 2)):

        def raise_os_error(*args: Any, errno_value: int = errno_value) -> None:
            raise OSError(errno_value, os.strerror(errno_value))

        monkeypatch.setattr(ownership, "write_atomic", raise_os_error)
        assert exit_code("learn", "a.svm", "--checkpoint", f"kept{errno_value}") == expected


def test_lost_ownership_restarts_only_group_members() -> None:
    """A process of a group restarts with other partitions; a single process leaves the folder."""
    for alone, expected in ((True, 2), (False, 75)):
        with CheckpointDirectory("kept", alone=alone) as files:
            Path("kept/00000099.owner").write_text('{"pid": 1, "host": "b"}')
            with pytest.raises(TakenOver, match="was taken over by process 1 on b") as error:
                files.write(b"")
        assert error.value.exit_code == expected
        Path("kept/00000099.owner").unlink()


@pytest.mark.kafka
def test_kafka_errors_map_to_exit_codes() -> None:
    from kafka import TopicPartition, errors

    topic = Topic("kafka://localhost:1/clicks")
    cases = [
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
    for error, expected_code in cases:
        mapped = topic.read_error(error)
        assert mapped.exit_code == expected_code, error
        assert "\n" not in str(mapped)


def test_errors_carry_their_codes() -> None:
    assert (BadExample("x").exit_code, SourceError("x").exit_code) == (65, 2)
    assert streaml1.ModelFileError("x").exit_code == 2


def test_exit_code_attribute_of_any_error_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class TooMany(RuntimeError):
        exit_code = 65

    def fail(*args: Any, **options: Any) -> None:
        raise TooMany("too many records are bad: look at clicks.dlq")

    monkeypatch.setattr("streaml1.training.progressive", fail)
    assert exit_code("learn", "a.svm") == 65


@pytest.mark.kafka
def test_topics_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.CONNECT_SECONDS", 0.3)
    assert exit_code("learn", "kafka://127.0.0.1:1/t") == 75
    broker.require_real()
    assert exit_code("learn", broker.url("there-is-none"), "--until-end") == 2
    topic = broker.topic()
    broker.send(topic, ["1 1:1", "spam"])
    assert exit_code("learn", broker.url(topic), "--until-end") == 65


@pytest.mark.kafka
def test_empty_topic_with_a_checkpoint_is_a_success(broker: Broker) -> None:
    """A periodic job on a topic without examples succeeds if it saves the position."""
    broker.require_real()
    topic = broker.topic()
    url = broker.url(topic)
    learn_args = ("learn", url, "--until-end", "--checkpoint", "kept", "--bad", "skip")
    for records, suffix in (([], ""), (["spam"], " (1 rejected)"), ([], " (1 rejected)")):
        broker.send(topic, records)
        result = CliRunner().invoke(cli, list(learn_args))
        assert result.exit_code == 0, result.output
        assert result.stdout == f"no example yet in {url}{suffix}; the position is saved in kept\n"
        checkpoint = load_latest(Path("kept"))
        assert checkpoint is not None and checkpoint.position["0"][0] == (1 if suffix else 0)
    assert CliRunner().invoke(cli, ["learn", url, "--until-end", "--bad", "skip"]).exit_code == 2
    broker.send(topic, ["1 1:1"])
    assert exit_code(*learn_args) == 0 and n_checkpointed(Path()) == 1
    assert exit_code(*learn_args) == 0
    Path("empty.svm").touch()
    result = CliRunner().invoke(cli, ["learn", "empty.svm", "--checkpoint", "other"])
    assert result.exit_code == 2
    assert result.stderr.endswith("has no example to learn; nothing was written except other\n")


# SIGTERM


def start_learning(cwd: Path, source: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", source, "--checkpoint", "kept",
         "--checkpoint-every", "3600", "--group", "g", *args],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def load_factor() -> float:
    """Return elapsed time / CPU time of a computation: how much other processes slow this one."""
    start, cpu_start = time.perf_counter(), time.process_time()
    while time.process_time() - cpu_start < 0.1:
        pass
    return (time.perf_counter() - start) / (time.process_time() - cpu_start)


def terminate(process: subprocess.Popen[str]) -> float:
    """Send SIGTERM; return the seconds until the end, corrected for the load of the machine."""
    load = load_factor()
    start = time.monotonic()
    process.terminate()
    _, err = process.communicate(timeout=60)
    seconds = time.monotonic() - start
    assert process.returncode == 143, err
    assert "Traceback" not in err, err
    return seconds / load


def read_until(process: subprocess.Popen[str], predicate: Callable[[str], bool]) -> None:
    """Read standard output up to the first line that satisfies the predicate."""
    assert process.stdout is not None
    for line in process.stdout:
        if predicate(line):
            return
    raise AssertionError(process.communicate()[1])


@pytest.mark.kafka
def test_sigterm_saves_a_million_weights_in_two_seconds(cwd: Path, broker: Broker) -> None:
    rng = np.random.default_rng(0)
    topic = broker.topic()
    lines = []
    for row in range(2000):  # 10^6 features, each seen once
        cells = " ".join(f"{row * 500 + k}:{1 + rng.random():.3f}" for k in range(500))
        lines.append(f"{row % 2} {cells}")
    broker.send(topic, ["\n".join(lines[lo : lo + 100]) for lo in range(0, len(lines), 100)])
    process = start_learning(cwd, broker.url(topic), "--l1", "0", "--every", "2000")
    try:
        read_until(process, lambda line: line.startswith("    2,000"))
        seconds = terminate(process)
    finally:
        process.kill()
        process.communicate()
    with Checkpoints("kept") as store:
        checkpoint = store.latest()
    assert (
        checkpoint is not None
        and checkpoint.learnt == 2000
        and checkpoint.model.n_nonzero == 1_000_000
    )
    begin = time.perf_counter()
    checkpoint.model.save(cwd / "again.model")
    save_seconds = time.perf_counter() - begin  # longer if other tests use the cores
    assert seconds < max(2.0, 4 * save_seconds)


class BrokerProxy:
    """A TCP proxy in front of the broker that can be closed, or suspended with open connections."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        script = PROXY.format(host=host, port=port)
        self.process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                                        text=True)  # fmt: skip
        assert self.process.stdout is not None
        self.address = f"127.0.0.1:{self.process.stdout.readline().strip()}"

    def stop(self) -> None:
        """Suspend the proxy: connections stay open, and no data arrive."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Forward data again."""
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Close all connections."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


# Forward bytes, and replace the broker's address in its answers by that of the proxy. The port must
# have as many digits as the broker's, so that the length of the answers does not change.
PROXY = """
import selectors, socket
upstream = ("{host}", {port})
while True:
    server = socket.create_server(("127.0.0.1", 0))
    if len(str(server.getsockname()[1])) == len(str(upstream[1])):
        break
port = server.getsockname()[1]
print(port, flush=True)
old, new = upstream[1].to_bytes(4, "big"), port.to_bytes(4, "big")
host = upstream[0].encode()
selector = selectors.DefaultSelector()
selector.register(server, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is server:
            client, broker = server.accept()[0], socket.create_connection(upstream)
            selector.register(client, selectors.EVENT_READ, (broker, False))
            selector.register(broker, selectors.EVENT_READ, (client, True))
            continue
        peer, is_answer = key.data
        try:
            data = key.fileobj.recv(1 << 16)
            if is_answer:
                data = data.replace(host + old, host + new)
            peer.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (key.fileobj, peer):
                try:
                    selector.unregister(end)
                except (KeyError, ValueError):
                    pass
                end.close()
"""


@contextlib.contextmanager
def stopping(process: subprocess.Popen[str], proxy: BrokerProxy) -> Iterator[None]:
    """Stop the process and the proxy at the end of the block, also after an error."""
    try:
        yield
    finally:
        proxy.close()
        process.kill()
        process.communicate()


@pytest.mark.kafka
@pytest.mark.parametrize("outage", ["closed", "silent"])
def test_sigterm_during_a_broker_outage_saves_the_checkpoint(
    outage: str, cwd: Path, broker: Broker
) -> None:
    broker.require_real()
    topic = broker.topic(2)
    broker.send(topic, ["1 1:1", "0 2:1"] * 20, (0, 1))
    proxy = BrokerProxy(broker.address)
    process = start_learning(cwd, f"kafka://{proxy.address}/{topic}", "--every", "40")
    with stopping(process, proxy):
        read_until(process, lambda line: line.startswith("       40"))
        proxy.stop() if outage == "silent" else proxy.close()
        time.sleep(1.5)
        assert process.poll() is None
        seconds = terminate(process)
    with Checkpoints("kept") as store:
        checkpoint = store.latest()
    assert checkpoint is not None and checkpoint.learnt == checkpoint.model.n_iterations == 40
    assert seconds < 2.0


def n_checkpointed(cwd: Path) -> int:
    """Return the number of examples in the last checkpoint."""
    checkpoint = load_latest(cwd / "kept") if (cwd / "kept").exists() else None
    return 0 if checkpoint is None else checkpoint.learnt


@pytest.mark.kafka
@pytest.mark.parametrize(("outage", "seconds"), [("closed", "0"), ("silent", "3600")])
def test_sigterm_during_an_outage_of_the_prediction_broker(
    outage: str, seconds: str, cwd: Path, broker: Broker
) -> None:
    """The checkpoint does not pass unwritten predictions; files are written without a broker."""
    broker.require_real()
    topic, prediction_topic, dead_letter_topic = broker.topic(), broker.topic(), broker.topic()
    broker.send(topic, ["1 1:1", "0 2:1"] * 20)
    proxy = BrokerProxy(broker.address)
    proxy_url = f"kafka://{proxy.address}"
    process = start_learning(
        cwd, broker.url(topic), "--every", "40", "--checkpoint-every", seconds,
        "--predictions", f"{proxy_url}/{prediction_topic}", "--bad", "dead-letter",
        "--most-bad", "1", "--dead-letters", f"{proxy_url}/{dead_letter_topic}",
        "--save", "m", "--report", "r", "--plot", "p.svg",
    )  # fmt: skip
    with stopping(process, proxy):
        read_until(process, lambda line: line.startswith("       40"))
        while seconds == "0" and n_checkpointed(cwd) < 40:
            time.sleep(0.05)
        before = n_checkpointed(cwd)
        proxy.stop() if outage == "silent" else proxy.close()
        broker.send(topic, ["1 1:1", "spam"] * 40)
        if seconds == "0":
            time.sleep(1.5)  # by then it waits before its next checkpoint
        else:
            read_until(process, lambda line: line.startswith("       80"))
        start = time.monotonic()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 20.0  # two topics, with other tests running
    assert process.returncode == 75, err
    not_written = r"\d+ records were not written, as no broker accepted any for 3 seconds"
    n = streaml1.load("m").n_iterations
    assert re.fullmatch(
        rf"streaml1: interrupted after {n} examples; "
        rf"{proxy_url}/{prediction_topic}: {not_written}; "
        rf"{proxy_url}/{dead_letter_topic}: {not_written}; "
        rf"kept still holds the previous checkpoint; m, r, p.svg were written",
        err.splitlines()[-1],
    )
    assert Path("r").exists() and Path("p.svg").exists()
    assert n_checkpointed(cwd) == before == (40 if seconds == "0" else 0)
    assert n == 80 if seconds == "3600" else n > 40
    result = CliRunner().invoke(cli, [
        "learn", broker.url(topic), "--checkpoint", "kept", "--until-end", "--bad", "dead-letter",
        "--most-bad", "1", "--predictions", prediction_topic, "--dead-letters", dead_letter_topic,
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    assert n_checkpointed(cwd) == 80
    assert {record.key for record in records_of(broker, prediction_topic)} == {
        f"{topic}-0-{offset}".encode() for offset in [*range(40), *range(40, 120, 2)]
    }
    assert len({record.key for record in records_of(broker, dead_letter_topic)}) == 40


@pytest.mark.kafka
@pytest.mark.parametrize("outage", ["closed", "silent"])
def test_sigterm_during_an_outage_of_the_model_broker(
    outage: str, cwd: Path, broker: Broker
) -> None:
    broker.require_real()
    topic, models = broker.topic(), f"{broker.topic()}-models"
    broker.send(topic, ["1 1:1", "0 2:1"] * 20)
    proxy = BrokerProxy(broker.address)
    process = start_learning(
        cwd, broker.url(topic), "--every", "40", "--save", "m", "--report", "r",
        "--publish", f"kafka://{proxy.address}/{models}",
    )  # fmt: skip
    with stopping(process, proxy):
        read_until(process, lambda line: line.startswith("       40"))
        proxy.stop() if outage == "silent" else proxy.close()
        start = time.monotonic()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 15.0
    assert process.returncode == 75, err
    not_published = rf"kafka://[^; ]+/{models}: no broker answers[^;]*"
    assert re.search(f"after 40 examples; {not_published}; m, r, kept were written", err)
    assert (
        streaml1.load("m").n_iterations == 40 and Path("r").exists() and n_checkpointed(cwd) == 40
    )


def test_source_error_after_a_stop_keeps_report_and_checkpoint() -> None:
    """Examples read before the error are in the report and in the checkpoint."""
    lines = open_source("a.svm")

    class Source:
        name = "a topic"
        identity, begin, position = lines.identity, lines.begin, lines.position
        is_stopped = False

        def blocks(self, size: int, reject: Any) -> Any:
            yield from lines.blocks(size, reject)
            self.is_stopped = True
            raise Unavailable("kafka://b/t: no broker answers")

    model, source = streaml1.ElasticNetClassifier(), Source()
    with pytest.raises(Unfinished, match="^kafka://b/t: no broker answers$") as caught:
        progressive(model, source, checkpoint="kept", stop=lambda: source.is_stopped)
    assert (caught.value.exit_code, caught.value.is_kept) == (75, True)
    assert caught.value.report.examples == n_checkpointed(Path()) == model.n_iterations == 40
    source = Source()
    with pytest.raises(Unfinished) as caught:
        evaluate(model, source, stop=lambda: source.is_stopped)
    assert caught.value.report.examples == caught.value.report.lines[-1].examples == 40


@pytest.mark.parametrize("signal_no", [0, 15])
def test_group_without_brokers_is_a_temporary_failure(
    signal_no: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds after a signal, unless it arrives before a broker has answered."""
    for reports, expected in (({0: None}, 75), ({}, 128 + signal_no if signal_no else 75)):

        def run(group: Any, stopped: Any, reports: Any = reports) -> None:
            group.reports = reports
            stopped.__self__.signals.number = signal_no
            raise Unavailable("kafka://b/t: no broker answers")

        monkeypatch.setattr("streaml1.training.consumer_group.Group.run", run)
        args = ("--per-partition", "--group", "g", "--checkpoint", "kept")
        assert exit_code("learn", "kafka://b:1/t", *args) == expected


@pytest.mark.kafka
def test_publisher_waits_for_the_broker_unless_stopped(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits longer in the middle of a run than at its start, and not after a stop."""
    broker.require_real()
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.CONNECT_SECONDS", 0.5)
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.PROBE_SECONDS", 0.3)
    proxy = BrokerProxy(broker.address)
    model = streaml1.ElasticNetClassifier()
    try:
        with ModelTopic(f"kafka://{proxy.address}/{broker.topic()}-models") as topic:
            proxy.stop()
            threading.Timer(4.0, proxy.resume).start()
            start = time.monotonic()
            topic.publish(model)
            assert time.monotonic() - start > 3.5
            proxy.stop()
            topic.stop_deadline.set_stop(lambda: True)
            with pytest.raises(Unavailable, match="no broker answers"):
                topic.publish(model)
            assert time.monotonic() - start < 20.0
            proxy.resume()
    finally:
        proxy.close()


@pytest.mark.kafka
def test_sigterm_before_any_broker_answers(cwd: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start_learning(cwd, f"kafka://127.0.0.1:{silent.getsockname()[1]}/t")
        silent.settimeout(60.0)
        connection, _ = silent.accept()  # the client sends a request and gets no answer
        with connection:
            time.sleep(0.2)
            assert terminate(process) < 2.0


@pytest.mark.kafka
def test_broker_outage_is_logged_once(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.require_real()
    monkeypatch.setattr("streaml1.sources.kafka.topic_source.QUIET_SECONDS", 0.5)
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.PROBE_SECONDS", 0.3)
    topic = broker.topic()
    broker.send(topic, ["1 1:1"] * 5)
    proxy = BrokerProxy(broker.address)
    source = KafkaSource(f"kafka://{proxy.address}/{topic}")
    stopped = threading.Event()
    source.set_stop(stopped.is_set)
    block_sizes: list[int] = []

    def read() -> None:
        block_sizes.extend(len(block) for block in source.blocks(10, pytest.fail))

    reader = threading.Thread(target=read)
    reader.start()

    def log_records() -> list[Any]:
        return [record for record in caplog.records if record.name == "streaml1"]

    def wait_for_events(*names: str) -> None:
        deadline = time.monotonic() + 30.0
        while [record.event for record in log_records()] != list(names):
            assert time.monotonic() < deadline, caplog.records
            time.sleep(0.05)

    try:
        time.sleep(2.0)
        wait_for_events()
        proxy.stop()
        wait_for_events("broker_away")
        time.sleep(2.0)
        wait_for_events("broker_away")
        proxy.resume()
        wait_for_events("broker_away", "broker_back")
        broker.send(topic, ["1 1:1"] * 5)
        deadline = time.monotonic() + 30.0
        while sum(source.lag().values()) or source.position() != {0: (10, 0)}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        stopped.set()
        reader.join()
        proxy.close()
    assert sum(block_sizes) == 10
    [away, _] = log_records()
    assert away.getMessage().endswith(f"{topic}: no broker answers: waiting for it")


# Failed writes


@pytest.mark.parametrize("errno_value", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
@pytest.mark.parametrize(
    ("args", "patched"),
    [
        (("learn", "a.svm", "--report", "r.json"), "streaml1.training.report.Report.write"),
        (("learn", "a.svm", "--save", "m"), "streaml1.models.serialization.write_atomic"),
        (("convert", "a.svm", "a.rows"), "streaml1.sources.row_cache.writer.RowsWriter.add"),
    ],
)
def test_full_disk_is_a_temporary_failure(
    args: tuple[str, ...], patched: str, errno_value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_os_error(*args: Any) -> None:
        raise OSError(errno_value, os.strerror(errno_value))

    monkeypatch.setattr(patched, raise_os_error)
    assert exit_code(*args) == (2 if errno_value == errno.EACCES else 75)


def test_out_of_memory_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_memory_error(*args: Any) -> None:
        raise MemoryError("Unable to allocate 64.0 GiB for an array with shape (1,)")

    monkeypatch.setattr("streaml1.training.run.Run.feed", raise_memory_error)
    result = CliRunner().invoke(cli, ["learn", "a.svm"])
    assert result.exit_code == 2
    assert "out of memory (unable to allocate 64.0 GiB): reduce --hash-bits" in result.stderr
    rule = streaml1.ElasticNetClassifier()._state.rule
    per_feature = (rule.slots.nbytes + rule.origins.nbytes) // rule.size
    assert f"keeps 8 bytes per feature instead of {per_feature}" in result.stderr


def test_convert_leaves_no_file_after_sigterm(cwd: Path) -> None:
    os.mkfifo(cwd / "slow.svm")
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "convert", "slow.svm", "a.rows"], cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with open(cwd / "slow.svm", "w") as pipe:
        pipe.write("1 1:1\n")
        pipe.flush()
        while not [*cwd.glob(".a.rows*")]:
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err == "streaml1: interrupted by SIGTERM; a.rows was not written\n"
    assert not [*cwd.glob("*a.rows*")]


def test_pipe_without_a_writer_waits_until_sigterm(cwd: Path) -> None:
    os.mkfifo(cwd / "slow.svm")
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "slow.svm", "--log", "json"], cwd=cwd,
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


def test_interruption_at_the_start_is_not_a_missing_broker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    signals = Signals()
    with pytest.raises(Unavailable), signal_before_broker(signals):
        raise Unavailable("no broker answers")
    signals.number = signal.SIGTERM
    with pytest.raises(click.exceptions.Exit) as end, signal_before_broker(signals):
        raise Unavailable("no broker answers")
    assert end.value.exit_code == 143
    assert capsys.readouterr().err == (
        "streaml1: interrupted before the run started; nothing was learnt or written\n"
    )
