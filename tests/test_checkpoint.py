"""Whatever ends a run: the next one goes on so that each example is learnt once."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streaml1
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import chunks
from streaml1.training import Observer, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from streaml1.training.checkpoint.store import _HEAD, _digest
from streaml1.training.consumer_group import Group
from tests.killing import killed_and_resumed

ROOT = Path(__file__).parent.parent


def model(**params: Any) -> Any:
    return streaml1.ElasticNetClassifier(**{"l1": 1e-4, "l2": 1e-4, **params})


def state(one: Any) -> tuple[Any, ...]:
    return one.weights, one.intercept, one.n_iterations


def rows(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [
        f"{rng.choice((1, -1))} "
        + " ".join(f"{k}:{rng.uniform(-1, 1):.4g}" for k in sorted(rng.sample(range(1, 60), 4)))
        for _ in range(n)
    ]


def write(path: Path, lines: list[str]) -> str:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def clean(source: str, **options: Any) -> tuple[Any, Any]:
    one = model()
    return one, progressive(one, source, **options)


def always(folder: Path) -> Checkpoints:
    return Checkpoints(folder, seconds=0)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.checkpoint"))


# Killed


SOURCES: dict[str, Callable[[Path], tuple[str, dict[str, Any]]]] = {}


def source(make: Callable[[Path], tuple[str, dict[str, Any]]]) -> Any:
    SOURCES[make.__name__] = make
    return make


@source
def svmlight(folder: Path) -> tuple[str, dict[str, Any]]:
    good = rows(90)
    lines = [*good[:33], "# a comment", "spam", *good[33:71], "", "2 1:1", *good[71:], "1 1:nan"]
    return write(folder / "a.svm", lines), {}


@source
def packed(folder: Path) -> tuple[str, dict[str, Any]]:
    return write(folder / "a.svm.gz", rows(60)), {}


@source
def csv(folder: Path) -> tuple[str, dict[str, Any]]:
    return table(folder, 'shop,"pr\nice",sold', "")


def twins(folder: Path) -> tuple[str, dict[str, Any]]:
    """As `csv`, with a column twice: Python alone reads it."""
    return table(folder, 'shop,"pr\nice",sold,"pr\nice"', ",2")


def table(folder: Path, header: str, last: str) -> tuple[str, dict[str, Any]]:
    rng = random.Random(1)
    lines = [header]
    for k in range(80):
        shop = rng.choice(("fr", '"d\ne"', '" d\ne"', " it"))
        sold = "x" if k % 30 == 7 else rng.randrange(2)
        lines.append(f"{shop},{rng.random():.3f},{sold}{last}")
    return write(folder / "a.csv", lines), {"target": "sold", "categorical": ["shop"]}


@source
def river(folder: Path) -> tuple[str, dict[str, Any]]:
    return "river:Phishing", {"limit": 70}


@source
def twice(folder: Path) -> tuple[str, dict[str, Any]]:
    return write(folder / "a.svm", rows(45)), {"passes": 2, "limit": 40}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests
def test_killed_at_every_step_of_a_save(tmp_path: Path) -> None:
    """A child dies at its k-th system call of a save; the next goes on, and dies a step later."""
    for name, make in SOURCES.items():
        folder = tmp_path / name
        folder.mkdir()
        spec, options = make(folder)
        options |= {"bad": "skip", "every": 20}
        expected, report = clean(spec, **options)
        step = ended = killed = 0
        while not ended:
            step = step % 30 + 1
            pid = os.fork()
            if pid == 0:
                die_at(step)
                progressive(model(), spec, checkpoint=always(folder / "kept"), **options)
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert status in (0, 9), name
            ended = status == 0
            killed += status == 9
        assert killed >= 12, "none died"
        one = model()
        again = progressive(one, spec, checkpoint=always(folder / "kept"), **options)
        assert state(one) == state(expected), name
        assert (again.examples, again.rejected) == (report.examples, report.rejected), name


def die_at(step: int) -> None:
    """Have the k-th system call of saves be the last thing this process does, half done."""
    left = [step]

    def dying(call: Any, half: bool = False) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and half:
                os.ftruncate(args[0], os.fstat(args[0]).st_size // 2)
            if left[0] == 0:
                os._exit(9)
            result = call(*args, **options)
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return result

        return wrapped

    os.fsync = dying(os.fsync)
    os.replace = dying(os.replace)
    Path.unlink = dying(Path.unlink)  # type: ignore[method-assign]


def test_a_killed_process_on_the_command_line(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(40_000))
    expected, _ = clean(spec)
    killed, _ = killed_and_resumed(
        ["learn", "--lr", "0.1", spec, "--l1", "1e-4", "--l2", "1e-4", "--checkpoint", "kept",
         "--checkpoint-every", "0.05", "--every", "1000", "--save", "m"],
        tmp_path,
        (5, 5, 5),
    )  # fmt: skip
    assert killed == 3 and state(streaml1.load(tmp_path / "m")) == state(expected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_standard_input_goes_on(tmp_path: Path, number: int) -> None:
    lines = rows(200)
    expected, _ = clean(write(tmp_path / "a.svm", lines))

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "streaml1", "learn", "--lr=0.1", "-", "--format", "svm",
             "--l1", "1e-4",
             "--l2", "1e-4", "--checkpoint", "kept", "--every", "50", "--save", "m"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    first = start()
    assert first.stdin is not None and first.stdout is not None
    first.stdin.write("\n".join(lines[:70]) + "\n")
    first.stdin.flush()
    while not first.stdout.readline().startswith("       50"):
        pass
    time.sleep(0.3)
    sent = time.monotonic()
    first.send_signal(number)
    assert first.wait(30) == 128 + number and time.monotonic() - sent < 10.0
    assert first.stderr is not None
    assert first.stderr.read() == "streaml1: interrupted after 70 examples; m, kept were written\n"
    for one in (first.stdin, first.stdout, first.stderr):
        one.close()
    second = start()
    out, err = second.communicate("\n".join(lines) + "\n", timeout=60)
    assert second.returncode == 0, err
    assert "200 examples: " in out and "checkpoint: kept\n" in out
    assert state(streaml1.load(tmp_path / "m")) == state(expected)


# Going on


def test_a_run_goes_on_as_if_it_had_not_ended(tmp_path: Path) -> None:
    lines = rows(500)
    expected, whole = clean(write(tmp_path / "a.svm", lines), every=60)
    told: list[Any] = []
    for n in (130, 130, 301, 500):
        spec = write(tmp_path / "b.svm", lines[:n])
        one = model()
        report = progressive(one, spec, every=60, checkpoint=tmp_path / "kept", on_line=told.append)
        assert report.examples == n
    assert state(one) == state(expected)
    for line, other in zip(report.lines, whole.lines, strict=True):
        for field in ("examples", "loss", "recent_loss", "constant_loss", "error", "n_nonzero"):
            assert getattr(line, field) == getattr(other, field)


def test_a_last_line_that_was_not_ended(tmp_path: Path) -> None:
    lines = rows(30)
    path = tmp_path / "a.svm"
    path.write_text("\n".join(lines[:10]))
    progressive(model(), path, checkpoint=tmp_path / "kept")
    path.write_text("\n".join(lines))
    one = model()
    progressive(one, path, checkpoint=tmp_path / "kept")
    assert state(one) == state(clean(str(path))[0])


def test_a_skewed_run_keeps_its_window(tmp_path: Path) -> None:
    lines = [f"{int(i % 25 == 0)} {i % 7}:1 {i % 11 + 10}:0.5" for i in range(600)]
    expected, whole = clean(write(tmp_path / "a.svm", lines))
    progressive(model(), write(tmp_path / "b.svm", lines[:310]), checkpoint=tmp_path / "kept")
    report = progressive(model(), tmp_path / "a.svm", checkpoint=tmp_path / "kept")
    assert report.lines[-1].auc == whole.lines[-1].auc is not None


def test_a_limit_that_is_passed_already_ends_the_run(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(90))
    one = model()
    progressive(one, spec, limit=40, checkpoint=tmp_path / "kept")
    before = state(one)
    for passes, learnt in ((1, 40), (2, 50)):
        other = model()
        report = progressive(other, spec, limit=10, checkpoint=tmp_path / "kept", passes=passes)
        assert report.examples == learnt
        assert (state(other) == before) == (passes == 1)


def test_limits_and_passes_count_from_the_start(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(50))
    for limit in (10, 25, 25, 40):
        one = model()
        progressive(one, spec, limit=limit, checkpoint=tmp_path / "kept")
        assert state(one) == state(clean(spec, limit=limit)[0])
    one = model()
    progressive(one, spec, passes=3, checkpoint=tmp_path / "kept")
    assert state(one) == state(clean(spec, passes=3)[0])
    progressive(one := model(), spec, passes=3, checkpoint=tmp_path / "kept")
    assert one.n_iterations == 150


def test_a_stop_among_lines_that_are_refused_counts_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 2000)
    lines = [*rows(20), *["spam"] * 3000, *rows(10)]  # a block that is full, and then none
    spec = write(tmp_path / "a.svm", lines)

    class Heard(Observer):
        n = 0

        def on_rejected(self, rejected: Any) -> None:
            self.n += 1

    for stop in (1500, 0, 1, 10**9):
        heard = Heard()
        report = progressive(
            model(), spec, bad="skip", observers=[heard], stop=lambda at=stop, h=heard: h.n >= at,
            checkpoint=tmp_path / "kept", every=20,
        )  # fmt: skip
    assert (report.examples, report.rejected) == (30, 3000)


def test_a_run_that_fails_saves_nothing_more(tmp_path: Path) -> None:
    lines = rows(40)
    spec = write(tmp_path / "a.svm", [*lines[:30], "spam", *lines[30:]])
    for _ in range(2):
        with pytest.raises(BadExample, match="a.svm:31: "):
            progressive(model(), spec, checkpoint=tmp_path / "kept")
        assert [one.name for one in files(tmp_path / "kept")] == [
            "00000001-000000000001.checkpoint"
        ]
    one = model()
    report = progressive(one, spec, checkpoint=tmp_path / "kept", bad="skip")
    assert report.rejected == 1 and state(one) == state(clean(spec, bad="skip")[0])


def test_the_last_few_are_kept_and_leftovers_go(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(60))
    with Checkpoints(tmp_path / "kept", seconds=0, keep=2) as store:
        progressive(model(), spec, every=10, checkpoint=store)
        assert len(files(tmp_path / "kept")) == 2
        assert store.is_due
    with Checkpoints(tmp_path / "kept", seconds=1000) as store:
        assert not store.is_due
    (tmp_path / "kept" / ".00000002-000000000009.checkpoint.1.2").write_bytes(b"half")
    with Checkpoints(tmp_path / "kept"):
        names = {path.name for path in (tmp_path / "kept").iterdir()}
        assert {"lock", "00000003.owner"} < names and len(names) == 4


def test_what_is_not_of_a_checkpoint_stays(tmp_path: Path) -> None:
    """The folder may be one's own: a checkout, say."""
    (tmp_path / ".git").mkdir()
    for name in (".env", ".gitignore", ".a.checkpoint.1", "mine.txt"):
        (tmp_path / name).write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    for _ in range(2):
        with Checkpoints(tmp_path):
            pass
    assert {path.name for path in tmp_path.iterdir()} == {*before, "lock", "00000002.owner"}
    assert (tmp_path / ".env").read_text() == "mine"


def test_at_least_one_is_kept(tmp_path: Path) -> None:
    for keep in (0, -1):
        with pytest.raises(ValueError, match=f"keep must be >= 1, got {keep}"):
            Checkpoints(tmp_path, keep=keep)
    assert not list(tmp_path.iterdir())


def test_a_disk_without_locks_is_not_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(CheckpointError, match="kept cannot be written: no locks available") as told:
        Checkpoints(tmp_path / "kept")
    assert told.value.exit_code == 2


# Owners


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    with (
        Checkpoints(tmp_path / "kept"),
        pytest.raises(
            CheckpointError, match=rf"kept is in use by process {os.getpid()} on .+; stop"
        ),
    ):
        Checkpoints(tmp_path / "kept")
    Checkpoints(tmp_path / "kept").close()


def test_a_zombie_saves_nothing(tmp_path: Path) -> None:
    """One that was thought dead, on a disk whose locks are not seen by every host."""
    spec = write(tmp_path / "a.svm", rows(60))
    zombie = always(tmp_path / "kept")
    one = model()
    progressive(one, spec, limit=20, checkpoint=zombie)
    last = files(tmp_path / "kept")[-1].read_bytes()
    zombie.close()  # as if its lock were not seen
    with always(tmp_path / "kept") as owner:
        progressive(model(), spec, limit=40, checkpoint=owner)
        report = progressive(model(), spec, limit=20)
        with pytest.raises(CheckpointError, match="was taken over by process .*, and nothing was"):
            zombie.save(one, report, {}, None)
    # Even what it wrote in the moment between two looks counts for nothing.
    (tmp_path / "kept" / "00000001-999999999999.checkpoint").write_bytes(last)
    with Checkpoints(tmp_path / "kept") as owner:
        found = owner.latest()
        assert found is not None and found.model.n_iterations == 40


# Refused


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    with always(tmp_path / "kept") as store:
        progressive(model(), write(tmp_path / "a.svm", rows(60)), every=20, checkpoint=store)
    yield tmp_path / "kept"


@pytest.mark.parametrize("cut", [0, 7, 30, 60, 400, -1])
def test_a_damaged_checkpoint_is_passed_over(
    kept: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    newest, before = files(kept)[::-1][:2]
    data = newest.read_bytes()
    newest.write_bytes(data[:cut] if cut >= 0 else data[:-1] + bytes([data[-1] ^ 1]))
    with Checkpoints(kept) as store:
        found = store.latest()
    assert found is not None and found.learnt < 60
    assert "using the previous checkpoint" in caplog.text
    one = model()
    progressive(one, kept.parent / "a.svm", checkpoint=kept)
    assert state(one) == state(clean(str(kept.parent / "a.svm"))[0])
    for path in files(kept):
        path.write_bytes(b"streamcp")
    with (
        Checkpoints(kept) as store,
        pytest.raises(CheckpointError, match="holds no valid checkpoint"),
    ):
        store.latest()


def test_a_newer_format(kept: Path) -> None:
    data = bytearray(files(kept)[-1].read_bytes())
    data[8] = 2
    for path in files(kept):
        path.write_bytes(data)
    with Checkpoints(kept) as store, pytest.raises(CheckpointError, match="newer than 1; upgrade"):
        store.latest()


def test_an_older_format(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.training.checkpoint.store.FORMAT", 2)
    with Checkpoints(kept) as store:
        found = store.latest()
    assert found is not None and found.learnt == 60


def test_a_whole_file_of_something_else(kept: Path) -> None:
    for body in (b"", b"\0" * 24, b"x" * 100):
        data = _HEAD.pack(b"streamcp", 1, len(body), _digest(1, body)) + body
        for path in files(kept):
            path.write_bytes(data)
        with (
            Checkpoints(kept) as store,
            pytest.raises(CheckpointError, match="not a checkpoint written by"),
        ):
            store.latest()


def test_a_foreign_file_and_an_older_one(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    newest, before, first = files(kept)[::-1][:3]
    model().save(newest)
    data = bytearray(before.read_bytes())
    data[8] = 0  # there was none before the first format
    before.write_bytes(data)
    with Checkpoints(kept) as store:
        found = store.latest()
    assert found is not None and found.learnt == 20
    assert (
        f"{newest} is not a checkpoint" in caplog.text and f"{before} is truncated" in caplog.text
    )


def test_another_file(kept: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b.svm", rows(60, seed=1))
    with pytest.raises(SourceError, match="b.svm is not what the checkpoint is of: its first 60"):
        progressive(model(), other, checkpoint=kept)
    short = write(tmp_path / "c.svm", rows(59))
    with pytest.raises(SourceError, match="has 59 lines, but the checkpoint is of 60: is it"):
        progressive(model(), short, checkpoint=kept)
    with pytest.raises(
        CheckpointError, match="another source: its source is 'text', that of river"
    ):
        progressive(model(), "river:Phishing", checkpoint=kept)


def test_another_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["y,a", "1,2", "0,3"])
    kept = tmp_path / "kept"
    progressive(model(), path, checkpoint=kept, target="y")
    with pytest.raises(CheckpointError, match="another source: its delimiter is ',', that of .*;"):
        progressive(model(), path, checkpoint=kept, target="y", delimiter=";")


def test_another_model(kept: Path) -> None:
    spec = kept.parent / "a.svm"
    with pytest.raises(
        CheckpointError, match=r"kept holds Elastic.*; resume with a model of these parameters"
    ):
        progressive(model(l1=0.5), spec, checkpoint=kept)
    with pytest.raises(CheckpointError, match="resume with a model of these parameters"):
        progressive(streaml1.FTRLClassifier(), spec, checkpoint=kept)
    from river import preprocessing

    with pytest.raises(CheckpointError, match="need a model of streaml1, got Pipeline"):
        progressive(preprocessing.StandardScaler() | model(), spec, checkpoint=kept)


def test_examples_without_a_name(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match="checkpoints need a source that can resume, got examples"
    ):
        progressive(model(), [({"a": 1}, True)], checkpoint=tmp_path / "kept")


@pytest.mark.parametrize("seconds", [-5.0, float("nan"), -1])
def test_no_time_between_checkpoints(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"seconds must be >= 0, got {seconds}"):
        Checkpoints(tmp_path / "kept", seconds=seconds)
    with pytest.raises(ValueError, match=f"seconds must be >= 0, got {seconds}"):
        Group(model(), "kafka://h/t", group="g", directory=tmp_path / "kept", seconds=seconds)
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written: "):
        Checkpoints(tmp_path / "file" / "kept")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    spec = write(tmp_path / "a.svm", rows(60))
    with always(tmp_path / "kept") as store:
        progressive(model(), spec, limit=20, checkpoint=store)
        before = [path.read_bytes() for path in files(tmp_path / "kept")]
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(CheckpointError, match="kept cannot be written: no space left on dev"):
            progressive(model(), spec, limit=40, checkpoint=store)
        assert [path.read_bytes() for path in files(tmp_path / "kept")] == before


def test_positions_are_json(tmp_path: Path) -> None:
    for make in SOURCES.values():
        spec, options = make(tmp_path)
        columns = {name: options[name] for name in options if name in ("target", "categorical")}
        opened: Any = open_source(spec, **columns)
        json.dumps([opened.identity(), opened.begin(None), opened.position()])


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, disk_steps: Callable[[], list[str]]
) -> None:
    with Checkpoints(tmp_path / "kept") as store:
        steps = disk_steps()
        one, report = clean("river:Phishing", limit=5)
        store.save(one, report, {}, None)
    assert steps == ["file", "name", "folder"]


@pytest.mark.parametrize("make", [svmlight, packed, csv, twins])
def test_a_stop_between_any_two_lines(
    make: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a record goes on in the next line."""
    monkeypatch.setattr("streaml1.sources.readers.chunks.CHUNK", 32)  # a line or two
    spec, options = make(tmp_path)
    columns = {name: options[name] for name in options if name in ("target", "categorical")}

    def read(at: Any, size: int, lines: int) -> tuple[list[Any], Any]:
        opened: Any = open_source(spec, **columns)
        opened.begin(at)
        left = iter(range(lines))
        opened.set_stop(lambda: next(left, None) is None)
        found = []
        for block in opened.blocks(size, lambda *told: None):
            found += list(zip(block.x, block.y, strict=True))
            assert block.after(len(block)) == block.end
        return found, opened.position()

    whole, _ = read(None, 1000, 10**9)
    opened: Any = open_source(spec, **columns)
    opened.begin(None)
    for k, block in enumerate(opened.blocks(1, lambda *told: None)):
        rest, _ = read(block.end, 1000, 10**9)
        assert rest == whole[k + 1 :], "of a position behind each record"
    for size, step in ((1, 7), (10, 13), (10, 1), (1000, 2)):
        half, at = read(None, size, 30)
        assert read(at, size, 9) == ([], at), "a stop before it is where it was"
        rest, _ = read(at, size, 10**9)
        assert half + rest == whole
        found: list[Any] = []
        at, n = None, 0
        while n < 400:
            n += step
            more, at = read(at, size, n)
            found += more
        assert found == whole


# Beside what is learnt


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests
def test_killed_at_every_step_of_a_save_beside_learning(tmp_path: Path) -> None:
    spec, options = svmlight(tmp_path)
    options |= {"bad": "skip", "every": 20}
    expected, report = clean(spec, **options)
    kept, step, ended, killed = tmp_path / "kept", 0, False, 0
    while not ended:
        step = step % 30 + 1
        pid = os.fork()
        if pid == 0:
            die_at(step)
            progressive(model(), spec, checkpoint=Checkpoints(kept, seconds=1e-9), **options)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, 9)
        ended, killed = status == 0, killed + (status == 9)
    assert killed >= 8, "none died"
    again = progressive(one := model(), spec, checkpoint=kept, **options)
    assert state(one) == state(expected)
    assert (again.examples, again.rejected) == (report.examples, report.rejected)


def test_what_is_learnt_while_a_checkpoint_is_written_is_not_in_it(tmp_path: Path) -> None:
    for learner in (model(), streaml1.SoftmaxClassifier(), streaml1.FTRLClassifier()):
        for k in range(300):
            learner.learn_one({f"a{k}": 1.0, "shop=x": 0.5}, bool(k % 2))
        expected = learner._encode()
        later = learner._snapshot()
        for k in range(3000):
            learner.learn_one({f"b{k}": 1.0, "shop": "y", f"a{k % 300}": 1.0}, bool(k % 3))
        assert later() == expected != learner._encode()


def test_a_save_beside_learning_that_fails_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write(tmp_path / "a.svm", rows(3000))
    with Checkpoints(tmp_path / "kept", seconds=1e-9) as store:
        monkeypatch.setattr(
            "streaml1.training.checkpoint.store._encode", lambda *parts: no_memory()
        )
        with pytest.raises(MemoryError):
            for _ in range(100):
                progressive(model(), spec, limit=3000, every=10, checkpoint=store)
    assert store.settled() is False


def no_memory() -> Any:
    raise MemoryError


def test_outs_hear_that_a_checkpoint_is_kept_once_it_is(tmp_path: Path) -> None:
    spec, told = write(tmp_path / "a.svm", rows(3000)), []

    class Listening(Observer):
        def flush(self) -> None:
            told.append(("flush", len(files(tmp_path / "kept"))))

        def on_checkpoint(self, checkpoint: Any) -> None:
            told.append(("saved", files(tmp_path / "kept")[-1].name))

        def on_block_end(self) -> None:
            """Or a slow disk leaves few checkpoints to a short run."""
            for thread in threading.enumerate():
                if thread.name == "streaml1-checkpoint":
                    thread.join()

    with Checkpoints(tmp_path / "kept", seconds=1e-9) as store:
        progressive(model(), spec, every=10, checkpoint=store, observers=[Listening()])
    assert [what for what, _ in told] == ["flush", "saved"] * (len(told) // 2) + ["flush"]
    kept = [name for what, name in told if what == "saved"]
    assert len(kept) > 3 and kept == sorted(set(kept))


# Many labels


def test_labels_and_their_counts_go_on(tmp_path: Path) -> None:
    """Labels that come after the checkpoint too; the baseline counts those before."""
    lines = [
        f"{'abcd'[k % (2 + k // 30)]}{line[line.index(' ') :]}" for k, line in enumerate(rows(80))
    ]
    path = write(tmp_path / "a.jsonl", [json.dumps(as_json(line)) for line in lines])
    whole = streaml1.SoftmaxClassifier()
    expected = progressive(whole, path, every=10)
    for limit in (25, 45, None):
        one = streaml1.SoftmaxClassifier()
        with always(tmp_path / "kept") as store:
            found = progressive(one, path, every=10, limit=limit, checkpoint=store)
    assert one.classes_met == whole.classes_met == ["a", "b", "c", "d"]
    assert (one.weights, one.intercept) == (whole.weights, whole.intercept)
    told = [(line.loss, line.constant_loss, line.error) for line in found.lines]
    every = [line for line in expected.lines if line.examples % 10 == 0]
    assert [told[-1]] == [(line.loss, line.constant_loss, line.error) for line in every[-1:]]


def as_json(line: str) -> dict[str, Any]:
    y, *cells = line.split()
    return {"x": {name: float(v) for name, v in (cell.split(":") for cell in cells)}, "y": y}
