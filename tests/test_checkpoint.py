"""Checkpoints: however a run ends, the next one resumes such that each example is learnt once."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import streaml1
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import chunks
from streaml1.training import Observer, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints, load_latest, ownership, store
from streaml1.training.checkpoint.store import _HEAD, _digest
from streaml1.training.consumer_group import Group
from tests.process_kills import die_at, run_with_kills

ROOT = Path(__file__).parent.parent


def new_model(**params: Any) -> Any:
    return streaml1.ElasticNetClassifier(**{"lr": 0.1, "l1": 1e-4, "l2": 1e-4, **params})


def state(model: Any) -> tuple[Any, ...]:
    return model.weights, model.intercept, model.n_iterations


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


@pytest.mark.parametrize("model", ["elastic-net", "ftrl"])
def test_a_run_that_learnt_nothing_does_not_block_a_corrected_one(
    model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, store_dir = tmp_path / "a.csv", tmp_path / "checkpoints"
    source.write_text("n,click\n" + "1,1\n0.5,0\n" * 20)
    with pytest.raises(SourceError, match="no column 'clik'"):
        progressive(new_model(), source, target="clik", checkpoint=store_dir)
    found = load_latest(store_dir)
    assert found is not None and found.is_blank
    corrected = new_model() if model == "elastic-net" else streaml1.FTRLClassifier()
    report = progressive(corrected, source, target="click", checkpoint=store_dir)
    assert (report.examples, corrected.n_iterations) == (40, 40)
    assert "is from a run with other options, which learnt nothing" in caplog.text
    # What a run has learnt still belongs to its options.
    with pytest.raises(CheckpointError, match="its target is 'click'"):
        progressive(corrected, source, target="n", checkpoint=store_dir)


def run_without_checkpoint(source: str, **options: Any) -> tuple[Any, Any]:
    model = new_model()
    return model, progressive(model, source, **options)


def checkpoint_every_block(folder: Path) -> Checkpoints:
    """Return a store that saves whenever it is allowed to."""
    return Checkpoints(folder, seconds=0)


def checkpoint_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.checkpoint"))


# Killed runs


SOURCE_CASES: dict[str, Callable[[Path], tuple[str, dict[str, Any]]]] = {}


def source_case(make: Callable[[Path], tuple[str, dict[str, Any]]]) -> Any:
    """Register a function that writes a source and returns it with the options of its run."""
    SOURCE_CASES[make.__name__] = make
    return make


@source_case
def svmlight_file(folder: Path) -> tuple[str, dict[str, Any]]:
    good = rows(90)
    lines = [*good[:33], "# a comment", "spam", *good[33:71], "", "2 1:1", *good[71:], "1 1:nan"]
    return write(folder / "a.svm", lines), {}


@source_case
def gzip_file(folder: Path) -> tuple[str, dict[str, Any]]:
    return write(folder / "a.svm.gz", rows(60)), {}


@source_case
def csv_file(folder: Path) -> tuple[str, dict[str, Any]]:
    rng = random.Random(1)
    lines = ['shop,"pr\nice",sold']
    for k in range(80):
        shop = rng.choice(("fr", '"d\ne"', '" d\ne"', " it"))
        sold = "x" if k % 30 == 7 else rng.randrange(2)
        lines.append(f"{shop},{rng.random():.3f},{sold}")
    return write(folder / "a.csv", lines), {"target": "sold", "categorical": ["shop"]}


@source_case
def river_source(folder: Path) -> tuple[str, dict[str, Any]]:
    return "river:Phishing", {"limit": 70}


@source_case
def two_passes(folder: Path) -> tuple[str, dict[str, Any]]:
    return write(folder / "a.svm", rows(45)), {"passes": 2, "limit": 40}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests
def test_killed_at_every_step_of_a_save(tmp_path: Path) -> None:
    """A child process dies at system call k of its saves; the next one resumes, dies at k + 1."""
    for name, make in SOURCE_CASES.items():
        folder = tmp_path / name
        folder.mkdir()
        spec, options = make(folder)
        options |= {"bad": "skip", "every": 20}
        expected, report = run_without_checkpoint(spec, **options)
        step = is_complete = n_killed = 0
        while not is_complete:
            step = step % 30 + 1
            pid = os.fork()
            if pid == 0:
                die_at(step)
                progressive(
                    new_model(), spec, checkpoint=checkpoint_every_block(folder / "kept"), **options
                )
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert status in (0, 9), name
            is_complete = status == 0
            n_killed += status == 9
        assert n_killed >= 12, "none died"
        model = new_model()
        resumed = progressive(
            model, spec, checkpoint=checkpoint_every_block(folder / "kept"), **options
        )
        assert state(model) == state(expected), name
        assert (resumed.examples, resumed.rejected) == (report.examples, report.rejected), name


def test_killed_command_resumes(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(40_000))
    expected, _ = run_without_checkpoint(spec)
    n_killed, _ = run_with_kills(
        ["learn", "--lr", "0.1", spec, "--l1", "1e-4", "--l2", "1e-4", "--checkpoint", "kept",
         "--checkpoint-every", "0.05", "--every", "1000", "--save", "m"],
        tmp_path,
        (5, 5, 5),
    )  # fmt: skip
    assert n_killed == 3 and state(streaml1.load(tmp_path / "m")) == state(expected)


def test_interrupted_standard_input_resumes(tmp_path: Path) -> None:
    lines = rows(200)
    expected, _ = run_without_checkpoint(write(tmp_path / "a.svm", lines))

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "streaml1", "learn", "--lr=0.1", "-", "--format", "svm",
             "--l1", "1e-4",
             "--l2", "1e-4", "--checkpoint", "kept", "--every", "50", "--save", "m"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    first = start()
    assert first.stdin is not None and first.stdout is not None
    first.stdin.write("\n".join(lines[:70]) + "\n")
    first.stdin.flush()
    while not first.stdout.readline().startswith("       50"):
        pass
    time.sleep(0.3)
    sent_at = time.monotonic()
    first.terminate()
    assert first.wait(30) == 143 and time.monotonic() - sent_at < 10.0
    assert first.stderr is not None
    assert first.stderr.read() == "streaml1: interrupted after 70 examples; m, kept were written\n"
    for stream in (first.stdin, first.stdout, first.stderr):
        stream.close()
    second = start()
    out, err = second.communicate("\n".join(lines) + "\n", timeout=60)
    assert second.returncode == 0, err
    assert re.search(r"^examples +200$", out, re.M) and "checkpoint: kept\n" in out
    assert state(streaml1.load(tmp_path / "m")) == state(expected)


# Resumed runs


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    lines = rows(500)
    expected, expected_report = run_without_checkpoint(write(tmp_path / "a.svm", lines), every=60)
    printed_lines: list[Any] = []
    for n in (130, 130, 301, 500):
        spec = write(tmp_path / "b.svm", lines[:n])
        model = new_model()
        report = progressive(
            model, spec, every=60, checkpoint=tmp_path / "kept", on_line=printed_lines.append
        )
        assert report.examples == n
    assert state(model) == state(expected)
    for line, expected_line in zip(report.lines, expected_report.lines, strict=True):
        for field in ("examples", "loss", "recent_loss", "constant_loss", "error", "n_nonzero"):
            assert getattr(line, field) == getattr(expected_line, field)


def test_unterminated_last_line_is_learnt_once(tmp_path: Path) -> None:
    lines = rows(30)
    path = tmp_path / "a.svm"
    path.write_text("\n".join(lines[:10]))
    progressive(new_model(), path, checkpoint=tmp_path / "kept")
    path.write_text("\n".join(lines))
    model = new_model()
    progressive(model, path, checkpoint=tmp_path / "kept")
    assert state(model) == state(run_without_checkpoint(str(path))[0])


def test_skewed_run_keeps_its_auc_window(tmp_path: Path) -> None:
    lines = [f"{int(i % 25 == 0)} {i % 7}:1 {i % 11 + 10}:0.5" for i in range(600)]
    _, expected_report = run_without_checkpoint(write(tmp_path / "a.svm", lines))
    progressive(new_model(), write(tmp_path / "b.svm", lines[:310]), checkpoint=tmp_path / "kept")
    report = progressive(new_model(), tmp_path / "a.svm", checkpoint=tmp_path / "kept")
    assert report.lines[-1].auc == expected_report.lines[-1].auc is not None


def test_reached_limit_ends_the_resumed_run(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(90))
    model = new_model()
    progressive(model, spec, limit=40, checkpoint=tmp_path / "kept")
    before = state(model)
    for passes, n_learnt in ((1, 40), (2, 50)):
        resumed = new_model()
        report = progressive(resumed, spec, limit=10, checkpoint=tmp_path / "kept", passes=passes)
        assert report.examples == n_learnt
        assert (state(resumed) == before) == (passes == 1)


def test_limits_and_passes_count_from_the_first_run(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(50))
    for limit in (10, 25, 25, 40):
        model = new_model()
        progressive(model, spec, limit=limit, checkpoint=tmp_path / "kept")
        assert state(model) == state(run_without_checkpoint(spec, limit=limit)[0])
    model = new_model()
    progressive(model, spec, passes=3, checkpoint=tmp_path / "kept")
    assert state(model) == state(run_without_checkpoint(spec, passes=3, holdout=0)[0])
    progressive(model := new_model(), spec, passes=3, checkpoint=tmp_path / "kept")
    assert model.n_iterations == 150


def test_stop_among_rejected_lines_counts_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 2000)
    lines = [*rows(20), *["spam"] * 3000, *rows(10)]  # a full block, then empty ones
    spec = write(tmp_path / "a.svm", lines)

    class RejectionCounter(Observer):
        n = 0

        def on_rejected(self, rejected: Any) -> None:
            self.n += 1

    for limit in (1500, 0, 1, 10**9):
        counter = RejectionCounter()
        report = progressive(
            new_model(), spec, bad="skip", observers=[counter],
            stop=lambda counter=counter, limit=limit: counter.n >= limit,
            checkpoint=tmp_path / "kept", every=20,
        )  # fmt: skip
    assert (report.examples, report.rejected) == (30, 3000)


def test_failed_run_saves_no_further_checkpoint(tmp_path: Path) -> None:
    lines = rows(40)
    spec = write(tmp_path / "a.svm", [*lines[:30], "spam", *lines[30:]])
    for _ in range(2):
        with pytest.raises(BadExample, match="a.svm:31: "):
            progressive(new_model(), spec, checkpoint=tmp_path / "kept")
        assert [path.name for path in checkpoint_files(tmp_path / "kept")] == [
            "00000001-000000000001.checkpoint"
        ]
    model = new_model()
    report = progressive(model, spec, checkpoint=tmp_path / "kept", bad="skip")
    assert report.rejected == 1 and state(model) == state(
        run_without_checkpoint(spec, bad="skip")[0]
    )


def test_only_the_last_checkpoints_are_kept_and_leftovers_removed(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.svm", rows(60))
    with Checkpoints(tmp_path / "kept", seconds=0, keep=2) as store:
        progressive(new_model(), spec, every=10, checkpoint=store)
        assert len(checkpoint_files(tmp_path / "kept")) == 2
        assert store.is_due
    with Checkpoints(tmp_path / "kept", seconds=1000) as store:
        assert not store.is_due
    (tmp_path / "kept" / ".00000002-000000000009.checkpoint.1.2").write_bytes(b"half")
    with Checkpoints(tmp_path / "kept"):
        names = {path.name for path in (tmp_path / "kept").iterdir()}
        assert {"lock", "00000003.owner"} < names and len(names) == 4


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    """The folder may be in use for other files, such as a checkout."""
    (tmp_path / ".git").mkdir()
    for name in (".env", ".gitignore", ".a.checkpoint.1", "mine.txt"):
        (tmp_path / name).write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    for _ in range(2):
        with Checkpoints(tmp_path):
            pass
    assert {path.name for path in tmp_path.iterdir()} == {*before, "lock", "00000002.owner"}
    assert (tmp_path / ".env").read_text() == "mine"


def test_keep_must_be_positive(tmp_path: Path) -> None:
    for keep in (0, -1):
        with pytest.raises(ValueError, match=f"keep must be >= 1, got {keep}"):
            Checkpoints(tmp_path, keep=keep)
    assert not list(tmp_path.iterdir())


def test_file_system_without_locks_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(
        CheckpointError, match="kept cannot be written: no locks available"
    ) as error:
        Checkpoints(tmp_path / "kept")
    assert error.value.exit_code == 2


# Saving


Saved = tuple[Any, Any, dict[str, Any], None]
"""Arguments of `Checkpoints.save`."""


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    (tmp_path / "three.svm").write_text("1 3:1\n-1 4:1\n1 3:1\n")
    model = streaml1.FTRLClassifier()
    return model, progressive(model, tmp_path / "three.svm"), {"source": "three.svm"}, None


def test_save_in_background(saved: Saved, tmp_path: Path) -> None:
    with Checkpoints(tmp_path / "kept") as kept:
        assert kept.epoch == 1 and kept.size is None and not kept.settled(wait=True)
        kept.save_in_background(*saved)
        assert kept.settled(wait=True) and not kept.settled(wait=True)
        [path] = (tmp_path / "kept").glob("*.checkpoint")
        assert kept.size == path.stat().st_size
    latest = load_latest(tmp_path / "kept")
    assert latest is not None and (latest.pass_index, latest.learnt) == (0, 0)
    assert latest.report[0]["lines"] == saved[1].state_dict()[0]["lines"] != []
    with Checkpoints(tmp_path / "kept", keep=2) as kept:
        assert kept.epoch == 2 and kept.keep == 2


def test_close_waits_for_the_save_in_background(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write = threading.Event(), ownership.write_atomic

    def delayed(path: Path, data: bytes) -> None:
        assert gate.wait(60.0)
        write(path, data)

    monkeypatch.setattr(ownership, "write_atomic", delayed)
    kept = Checkpoints(tmp_path / "kept")
    kept.save_in_background(*saved)
    assert not kept.settled()
    threading.Timer(0.1, gate.set).start()
    kept.close()
    assert load_latest(tmp_path / "kept") is not None


def test_failed_save_in_background_is_reported(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ownership, "write_atomic", full)
    with Checkpoints(tmp_path / "kept") as kept:
        kept.save_in_background(*saved)
        with pytest.raises(ownership.StorageUnavailable, match="no space left"):
            kept.settled(wait=True)


def test_each_save_restarts_the_interval(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5.0
    monkeypatch.setattr(store, "time", SimpleNamespace(monotonic=lambda: now))
    with Checkpoints(tmp_path / "kept", seconds=10.0) as kept:
        for wait in (False, True, False):
            assert not kept.is_due
            now += 10.0
            assert kept.is_due
            if wait:
                kept.save(*saved)
            else:
                kept.save_in_background(*saved)
                assert not kept.is_due  # also because it is being written
                kept.settled(wait=True)


# Owners


def test_second_process_is_rejected_and_names_the_owner(tmp_path: Path) -> None:
    with (
        Checkpoints(tmp_path / "kept"),
        pytest.raises(
            CheckpointError, match=rf"kept is in use by process {os.getpid()} on .+; stop"
        ),
    ):
        Checkpoints(tmp_path / "kept")
    Checkpoints(tmp_path / "kept").close()


def test_stale_owner_saves_nothing(tmp_path: Path) -> None:
    """A process presumed dead wakes up, on a disk whose locks are not visible to all hosts."""
    spec = write(tmp_path / "a.svm", rows(60))
    stale = checkpoint_every_block(tmp_path / "kept")
    model = new_model()
    progressive(model, spec, limit=20, checkpoint=stale)
    last = checkpoint_files(tmp_path / "kept")[-1].read_bytes()
    stale.close()  # as if other hosts did not see its lock
    with checkpoint_every_block(tmp_path / "kept") as owner:
        progressive(new_model(), spec, limit=40, checkpoint=owner)
        report = progressive(new_model(), spec, limit=20)
        with pytest.raises(CheckpointError, match="was taken over by process .*, and nothing was"):
            stale.save(model, report, {}, None)
    # A file that it wrote between two checks of the ownership is ignored.
    (tmp_path / "kept" / "00000001-999999999999.checkpoint").write_bytes(last)
    with Checkpoints(tmp_path / "kept") as owner:
        latest = owner.latest()
        assert latest is not None and latest.model.n_iterations == 40


# Rejected checkpoints


@pytest.fixture
def checkpoint_dir(tmp_path: Path) -> Iterator[Path]:
    with checkpoint_every_block(tmp_path / "kept") as store:
        progressive(new_model(), write(tmp_path / "a.svm", rows(60)), every=20, checkpoint=store)
    yield tmp_path / "kept"


@pytest.mark.parametrize("length", [0, 7, 30, 60, 400, -1])
def test_damaged_checkpoint_falls_back_to_the_previous_one(
    checkpoint_dir: Path, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    newest, previous = checkpoint_files(checkpoint_dir)[::-1][:2]
    data = newest.read_bytes()
    newest.write_bytes(data[:length] if length >= 0 else data[:-1] + bytes([data[-1] ^ 1]))
    with Checkpoints(checkpoint_dir) as store:
        latest = store.latest()
    assert latest is not None and latest.learnt < 60
    assert "using the previous checkpoint" in caplog.text
    model = new_model()
    progressive(model, checkpoint_dir.parent / "a.svm", checkpoint=checkpoint_dir)
    assert state(model) == state(run_without_checkpoint(str(checkpoint_dir.parent / "a.svm"))[0])
    for path in checkpoint_files(checkpoint_dir):
        path.write_bytes(b"streamcp")
    with (
        Checkpoints(checkpoint_dir) as store,
        pytest.raises(
            CheckpointError,
            match="holds no valid checkpoint: .*, or use another directory to begin again",
        ),
    ):
        store.latest()


def test_newer_format_is_rejected(checkpoint_dir: Path) -> None:
    data = bytearray(checkpoint_files(checkpoint_dir)[-1].read_bytes())
    data[8] = 2
    for path in checkpoint_files(checkpoint_dir):
        path.write_bytes(data)
    with (
        Checkpoints(checkpoint_dir) as store,
        pytest.raises(CheckpointError, match="newer than 1; upgrade"),
    ):
        store.latest()


def test_older_format_is_read(checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.training.checkpoint.store.FORMAT", 2)
    with Checkpoints(checkpoint_dir) as store:
        latest = store.latest()
    assert latest is not None and latest.learnt == 60


def test_checkpoint_of_another_loss_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses of one report would not be comparable."""
    spec = write(tmp_path / "a.svm", rows(20))
    with Checkpoints(tmp_path / "kept") as store:
        progressive(new_model(), spec, checkpoint=store)
    latest = Checkpoints.latest

    def changed(self: Checkpoints) -> Any:
        found = latest(self)
        assert found is not None
        return replace(found, report=({**found.report[0], "loss": "hinge"}, found.report[1]))

    monkeypatch.setattr(Checkpoints, "latest", changed)
    with (
        Checkpoints(tmp_path / "kept") as store,
        pytest.raises(
            CheckpointError, match="kept belongs to a run with loss 'hinge', got logistic"
        ),
    ):
        progressive(new_model(), spec, checkpoint=store)


def test_valid_envelope_with_invalid_body_is_rejected(checkpoint_dir: Path) -> None:
    for body in (b"", b"\0" * 24, b"x" * 100):
        data = _HEAD.pack(b"streamcp", 1, len(body), _digest(1, body)) + body
        for path in checkpoint_files(checkpoint_dir):
            path.write_bytes(data)
        with (
            Checkpoints(checkpoint_dir) as store,
            pytest.raises(CheckpointError, match="not a checkpoint written by"),
        ):
            store.latest()


def test_foreign_and_truncated_files_are_skipped(
    checkpoint_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest, older, first = checkpoint_files(checkpoint_dir)[::-1][:3]
    new_model().save(newest)
    data = bytearray(older.read_bytes())
    data[8] = 0  # format 0 never existed
    older.write_bytes(data)
    with Checkpoints(checkpoint_dir) as store:
        latest = store.latest()
    assert latest is not None and latest.learnt == 20
    assert f"{newest} is not a checkpoint" in caplog.text and f"{older} is truncated" in caplog.text


def test_checkpoint_of_another_file_is_rejected(checkpoint_dir: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b.svm", rows(60, seed=1))
    with pytest.raises(SourceError, match="b.svm does not match the checkpoint: its first 60"):
        progressive(new_model(), other, checkpoint=checkpoint_dir)
    short = write(tmp_path / "c.svm", rows(59))
    with pytest.raises(SourceError, match="has 59 lines, and the checkpoint is at line 60; is it"):
        progressive(new_model(), short, checkpoint=checkpoint_dir)
    with pytest.raises(
        CheckpointError, match="another source: its source is 'text', that of river"
    ):
        progressive(new_model(), "river:Phishing", checkpoint=checkpoint_dir)


def test_checkpoint_of_other_columns_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["y,a", "1,2", "0,3"])
    checkpoint_dir = tmp_path / "kept"
    progressive(new_model(), path, checkpoint=checkpoint_dir, target="y")
    with pytest.raises(CheckpointError, match="another source: its delimiter is ',', that of .*;"):
        progressive(new_model(), path, checkpoint=checkpoint_dir, target="y", delimiter=";")


def test_checkpoint_of_another_model_is_rejected(checkpoint_dir: Path) -> None:
    spec = checkpoint_dir.parent / "a.svm"
    with pytest.raises(
        CheckpointError, match=r"kept holds Elastic.*; resume with a model of these parameters"
    ):
        progressive(new_model(l1=0.5), spec, checkpoint=checkpoint_dir)
    with pytest.raises(CheckpointError, match="resume with a model of these parameters"):
        progressive(streaml1.FTRLClassifier(), spec, checkpoint=checkpoint_dir)
    from river import preprocessing

    with pytest.raises(CheckpointError, match="parameters"):
        progressive(preprocessing.StandardScaler() | new_model(), spec, checkpoint=checkpoint_dir)


def test_unnamed_examples_cannot_be_checkpointed(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match="checkpoints need a source that can resume, got examples"
    ):
        progressive(new_model(), [({"a": 1}, True)], checkpoint=tmp_path / "kept")


@pytest.mark.parametrize("seconds", [-5.0, float("nan"), -1])
def test_negative_checkpoint_interval_is_rejected(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"seconds must be >= 0, got {seconds}"):
        Checkpoints(tmp_path / "kept", seconds=seconds)
    with pytest.raises(ValueError, match=f"seconds must be >= 0, got {seconds}"):
        Group(new_model(), "kafka://h/t", group="g", directory=tmp_path / "kept", seconds=seconds)
    assert not (tmp_path / "kept").exists()


def test_unwritable_folder_raises_checkpoint_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written: "):
        Checkpoints(tmp_path / "file" / "kept")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    spec = write(tmp_path / "a.svm", rows(60))
    with checkpoint_every_block(tmp_path / "kept") as store:
        progressive(new_model(), spec, limit=20, checkpoint=store)
        before = [path.read_bytes() for path in checkpoint_files(tmp_path / "kept")]
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(CheckpointError, match="kept cannot be written: no space left on dev"):
            progressive(new_model(), spec, limit=40, checkpoint=store)
        assert [path.read_bytes() for path in checkpoint_files(tmp_path / "kept")] == before


def test_positions_serialize_to_json(tmp_path: Path) -> None:
    for make in SOURCE_CASES.values():
        spec, options = make(tmp_path)
        columns = {name: options[name] for name in options if name in ("target", "categorical")}
        opened: Any = open_source(spec, **columns)
        json.dumps([opened.identity(), opened.begin(None), opened.position()])


def test_content_is_synced_before_the_rename(
    tmp_path: Path, disk_steps: Callable[[], list[str]]
) -> None:
    with Checkpoints(tmp_path / "kept") as store:
        steps = disk_steps()
        model, report = run_without_checkpoint("river:Phishing", limit=5)
        store.save(model, report, {}, None)
    assert steps == ["file", "name", "folder"]


@pytest.mark.parametrize("make", [svmlight_file, gzip_file, csv_file])
def test_reading_resumes_between_any_two_records(
    make: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Include records that continue on the next line."""
    monkeypatch.setattr("streaml1.sources.readers.chunks.CHUNK", 32)  # a line or two
    spec, options = make(tmp_path)
    columns = {name: options[name] for name in options if name in ("target", "categorical")}

    def read(position: Any, size: int, lines: int) -> tuple[list[Any], Any]:
        opened: Any = open_source(spec, **columns)
        opened.begin(position)
        remaining = iter(range(lines))
        opened.set_stop(lambda: next(remaining, None) is None)
        records = []
        for block in opened.blocks(size, lambda *error: None):
            records += list(zip(block.x, block.y, strict=True))
            assert block.after(len(block)) == block.end
        return records, opened.position()

    all_records, _ = read(None, 1000, 10**9)
    opened: Any = open_source(spec, **columns)
    opened.begin(None)
    for k, block in enumerate(opened.blocks(1, lambda *error: None)):
        rest, _ = read(block.end, 1000, 10**9)
        assert rest == all_records[k + 1 :], "resuming after each record"
    for size, step in ((1, 7), (10, 13), (10, 1), (1000, 2)):
        first_records, position = read(None, size, 30)
        assert read(position, size, 9) == ([], position), "an immediate stop keeps the position"
        rest, _ = read(position, size, 10**9)
        assert first_records + rest == all_records
        records: list[Any] = []
        position, n = None, 0
        while n < 400 and len(records) < len(all_records):
            n += step
            batch, position = read(position, size, n)
            records += batch
        assert records == all_records
        assert read(position, size, 10**9)[0] == []


# Background saves


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests
def test_killed_at_every_step_of_a_background_save(tmp_path: Path) -> None:
    spec, options = svmlight_file(tmp_path)
    options |= {"bad": "skip", "every": 20}
    expected, report = run_without_checkpoint(spec, **options)
    checkpoint_dir, step, is_complete, n_killed = tmp_path / "kept", 0, False, 0
    while not is_complete:
        step = step % 30 + 1
        pid = os.fork()
        if pid == 0:
            die_at(step)
            progressive(
                new_model(), spec, checkpoint=Checkpoints(checkpoint_dir, seconds=1e-9), **options
            )
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, 9)
        is_complete, n_killed = status == 0, n_killed + (status == 9)
    assert n_killed >= 8, "none died"
    resumed = progressive(model := new_model(), spec, checkpoint=checkpoint_dir, **options)
    assert state(model) == state(expected)
    assert (resumed.examples, resumed.rejected) == (report.examples, report.rejected)


def test_background_save_excludes_later_learning(tmp_path: Path) -> None:
    for learner in (new_model(), streaml1.SoftmaxClassifier(), streaml1.FTRLClassifier()):
        for k in range(300):
            learner.learn_one({f"a{k}": 1.0, "shop=x": 0.5}, bool(k % 2))
        expected = learner._encode()
        snapshot = learner._snapshot()
        for k in range(3000):
            learner.learn_one({f"b{k}": 1.0, "shop": "y", f"a{k % 300}": 1.0}, bool(k % 3))
        assert snapshot() == expected != learner._encode()


def test_failed_background_save_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write(tmp_path / "a.svm", rows(3000))
    with Checkpoints(tmp_path / "kept", seconds=1e-9) as store:
        monkeypatch.setattr(
            "streaml1.training.checkpoint.store._encode", lambda *args: raise_memory_error()
        )
        with pytest.raises(MemoryError):
            for _ in range(100):
                progressive(new_model(), spec, limit=3000, every=10, checkpoint=store)
    assert store.settled() is False


def raise_memory_error() -> Any:
    raise MemoryError


def test_observers_are_notified_after_the_save(tmp_path: Path) -> None:
    spec, events = write(tmp_path / "a.svm", rows(300)), []

    class RecordingObserver(Observer):
        def flush(self) -> None:
            events.append(("flush", len(checkpoint_files(tmp_path / "kept"))))

        def on_checkpoint(self, checkpoint: Any) -> None:
            events.append(("saved", checkpoint_files(tmp_path / "kept")[-1].name))

        def on_block_end(self) -> None:
            """Wait for each save, since on a slow disk a short run has few checkpoints."""
            for thread in threading.enumerate():
                if thread.name == "streaml1-checkpoint":
                    thread.join()

    with Checkpoints(tmp_path / "kept", seconds=1e-9) as store:
        progressive(new_model(), spec, every=10, checkpoint=store, observers=[RecordingObserver()])
    assert [what for what, _ in events] == ["flush", "saved"] * (len(events) // 2) + ["flush"]
    saved_names = [name for what, name in events if what == "saved"]
    assert len(saved_names) > 3 and saved_names == sorted(set(saved_names))


# Multiclass labels


def test_labels_and_label_counts_resume(tmp_path: Path) -> None:
    """Labels may first appear after the checkpoint; the baseline counts the labels before it."""
    lines = [
        f"{'abcd'[k % (2 + k // 30)]}{line[line.index(' ') :]}" for k, line in enumerate(rows(80))
    ]
    path = write(tmp_path / "a.jsonl", [json.dumps(as_json(line)) for line in lines])
    expected_model = streaml1.SoftmaxClassifier()
    expected = progressive(expected_model, path, every=10)
    for limit in (25, 45, None):
        model = streaml1.SoftmaxClassifier()
        with checkpoint_every_block(tmp_path / "kept") as store:
            report = progressive(model, path, every=10, limit=limit, checkpoint=store)
    assert model.classes_met == expected_model.classes_met == ["a", "b", "c", "d"]
    assert (model.weights, model.intercept) == (expected_model.weights, expected_model.intercept)
    reported = [(line.loss, line.constant_loss, line.error) for line in report.lines]
    expected_lines = [line for line in expected.lines if line.examples % 10 == 0]
    assert [reported[-1]] == [
        (line.loss, line.constant_loss, line.error) for line in expected_lines[-1:]
    ]


def as_json(line: str) -> dict[str, Any]:
    y, *cells = line.split()
    return {"x": {name: float(v) for name, v in (cell.split(":") for cell in cells)}, "y": y}
