"""The log of pending examples: it survives crashes and stays small."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.core.named_options import command_line_options
from streaml1.training import RunConfig, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from streaml1.training.delayed_labels import (
    DelayedLabelRun,
    open_events,
)
from streaml1.training.delayed_labels import (
    pending as waiting,
)
from streaml1.training.delayed_labels import (
    segment_log as log,
)
from streaml1.training.delayed_labels.log_entries import estimate_size
from streaml1.training.delayed_labels.pending import PendingStore
from streaml1.training.delayed_labels.pending_table import EARLY_LABEL, UNLABELED
from streaml1.training.delayed_labels.segment_log import SegmentLog
from streaml1.training.error_policy import ErrorPolicy
from tests.process_kills import die_at, run_with_kills

ROOT = Path(__file__).parent.parent
CONFIG = RunConfig(label_within=12.0, waiting=16, unanswered="negative", every=10)


def model() -> Any:
    return streaml1.ElasticNetClassifier(l1=1e-3, l2=1e-3, lr=0.5)


def events(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return events 0.7 s apart: examples whose labels come soon, late, twice or never."""
    rng = random.Random(seed)
    examples: list[int] = []
    stream: list[dict[str, Any]] = []
    for k in range(n):
        draw = rng.random()
        event: dict[str, Any] = {"time": 1000.0 + k * 0.7}
        if draw < 0.5 or not examples:
            examples.append(k)
            event |= {"id": f"i{k}", "x": {f"f{rng.randrange(9)}": rng.uniform(-1, 1)}}
        elif draw < 0.9:
            event |= {"id": f"i{rng.choice(examples[-20:])}", "y": rng.randrange(2), "w": 2.0}
        elif draw < 0.95:
            event |= {"id": f"never {k}", "y": 1}
        else:
            event |= {"x": {"f1": 1.0}, "y": rng.randrange(2)}
        stream.append(event)
    return [*stream, {"id": "never at the end", "y": 1}]


def write(path: Path, stream: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in stream))
    return str(path)


def run(spec: str, store: Checkpoints | None, size: int = 7, config: RunConfig = CONFIG,
        limit: int | None = None) -> DelayedLabelRun:  # fmt: skip
    source = open_events(spec)
    run_config = replace(config, limit=limit)
    delayed_run = DelayedLabelRun(model(), source, ErrorPolicy("skip"), run_config, store=store)
    delayed_run.begin()
    for block in () if delayed_run.is_full else source.blocks(size, ErrorPolicy("skip")):
        delayed_run.feed(block)
        if delayed_run.is_full:
            break
    else:
        if not delayed_run.is_full:
            delayed_run.end_pass(True)
    delayed_run.finish()
    return delayed_run


def run_state(delayed_run: DelayedLabelRun) -> Any:
    """Return the complete state of a run for comparison."""
    t = delayed_run.pending.table
    t.check()
    facts, arrays = delayed_run.report.state_dict()
    lines = [(line["examples"], line["loss"], line["recent_loss"], line["constant_loss"])
             for line in facts["lines"] if line["examples"] % 10 == 0]  # fmt: skip
    pending = [
        (t.kind[s], t.id[s], t.body[s], t.since[s], str(t.time[s]), t.seq[s], t.number[s],
         t.weight[s] if t.number[s] >= 0 else 0, t.p[s] if t.kind[s] != EARLY_LABEL else 0)
        for negative in (False, True) for s in t.queue(negative)
    ]  # fmt: skip
    return {
        "weights": delayed_run.model.weights,
        "intercept": delayed_run.model.intercept,
        "sums": (facts["examples"], facts["refused"], facts["all"], facts["recent"]),
        "total": facts["total"],
        "window": [arrays[name].tolist() for name in ("p", "y")],
        "lines": lines,
        "waits": pending,
        "numbers": delayed_run.metrics(),
        "clock": delayed_run.pending.clock.dump(),
    }


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments small, so that there are many of them and cleaning is frequent."""
    for module in (log, waiting):
        monkeypatch.setattr(module, "SEGMENT_BYTES", 700)
    monkeypatch.setattr(log, "BUFFER_BYTES", 150)


def test_buffered_entries_are_bounded(tmp_path: Path, small_segments: None) -> None:
    """Entries between two checkpoints are not kept in memory."""
    segment_log = SegmentLog(tmp_path / "waiting", 1)
    for _ in range(30):
        segment_log.append(b"x" * 40)
        written = sum(path.stat().st_size for path in (tmp_path / "waiting").iterdir())
        assert segment_log.total - written < 150
    segment_log.close()


def test_full_disk_is_a_temporary_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    segment_log = SegmentLog(tmp_path / "waiting", 1)
    segment_log.append(b"entry")
    with monkeypatch.context() as patch:
        patch.setattr("os.write", fail)
        with pytest.raises(CheckpointError, match="waiting cannot be written: no space") as caught:
            segment_log.flush()
    assert caught.value.exit_code == 75
    segment_log.close()


# Crashes


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests
def test_run_survives_a_kill_at_every_system_call(tmp_path: Path, small_segments: None) -> None:
    """Each child process dies one system call later than the last and its successor resumes."""
    spec = write(tmp_path / "a.jsonl", events(200))
    expected = run_state(run(spec, None))
    assert all(expected["numbers"][name] for name in expected["numbers"] if name != "correctable")
    step = ended = killed = 0
    while not ended:
        step = step % 90 + 1
        pid = os.fork()
        if pid == 0:
            die_at(step)
            with Checkpoints(tmp_path / "checkpoints", seconds=0) as store:
                run(spec, store, size=3)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, 9), f"step {step}"
        ended, killed = status == 0, killed + (status == 9)
    assert killed >= 30
    with Checkpoints(tmp_path / "checkpoints", seconds=0) as store:
        assert run_state(run(spec, store)) == expected


@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 60), max_size=4),
    st.sampled_from(
        [
            CONFIG,
            replace(CONFIG, label_within=5.0, waiting=4, unanswered="drop"),
            replace(CONFIG, label_within=30.0, waiting=1000),
        ]
    ),
)
def test_runs_resumed_after_limits_equal_one_run(
    seed: int, limits: list[int], config: RunConfig
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = write(folder / "a.jsonl", events(120, seed))
        for limit in [*sorted(limits), None]:
            with Checkpoints(folder / "checkpoints", seconds=0) as store:
                resumed = run(spec, store, config=config, limit=limit)
        assert run_state(resumed) == run_state(run(spec, None, config=config))


def test_killed_command_line_run_resumes(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.jsonl", events(25_000))
    expected = model()
    report = progressive(expected, spec, every=1000, label_within=300, unanswered="negative")
    killed, out = run_with_kills(
        ["learn", spec, "--l1", "1e-3", "--l2", "1e-3", "--lr", "0.5", "--label-within", "300",
         "--unanswered", "negative", "--every", "1000", "--checkpoint", "checkpoints",
         "--checkpoint-every", "0.05", "--save", "m"],
        tmp_path,
        (5, 5),
    )  # fmt: skip
    assert killed == 2
    loaded = streaml1.load(tmp_path / "m")
    assert (loaded.weights, loaded.intercept) == (expected.weights, expected.intercept)
    figures = [f"{name.replace('_', ' ')} {n:,.0f}" for name, n in report.numbers.items() if n]
    assert figures and set(figures) <= {" ".join(line.split()) for line in out.splitlines()}


# Damage


@pytest.fixture
def checkpoints(tmp_path: Path, small_segments: None) -> Path:
    spec = write(tmp_path / "a.jsonl", events(120))
    with Checkpoints(tmp_path / "checkpoints", seconds=0) as store:
        run(spec, store, limit=40)
    return tmp_path / "checkpoints"


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "waiting").glob("*.log"))


def latest_segments(folder: Path) -> list[Any]:
    with Checkpoints(folder) as store:
        checkpoint = store.latest()
    assert checkpoint is not None
    return [list(segment) for segment in checkpoint.extra["segments"]]


def test_log_beyond_the_last_checkpoint_is_ignored(checkpoints: Path) -> None:
    expected = run_state(run(str(checkpoints.parent / "a.jsonl"), None))
    epoch, number, length = latest_segments(checkpoints)[-1]
    last = checkpoints / "waiting" / f"{epoch:08}-{number:08}.log"
    assert last.stat().st_size == length
    with last.open("ab") as file:
        file.write(b"torn")
    (checkpoints / "waiting" / f"{epoch:08}-{number + 1:08}.log").write_bytes(b"stre")
    with Checkpoints(checkpoints, seconds=0) as store:
        assert run_state(run(str(checkpoints.parent / "a.jsonl"), store)) == expected
    assert not (checkpoints / "waiting" / f"{epoch:08}-{number + 1:08}.log").exists()


@pytest.mark.parametrize("damage", ["cut", "gone", "changed", "magic", "newer"])
def test_damaged_segments_are_rejected(checkpoints: Path, damage: str) -> None:
    epoch, number, _ = latest_segments(checkpoints)[0]
    path = checkpoints / "waiting" / f"{epoch:08}-{number:08}.log"
    data = bytearray(path.read_bytes())
    message = "is truncated or not a log: the pending examples are lost; use another directory"
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "gone":
        path.unlink()
        message = "no such file or directory; the latest checkpoint needs it"
    elif damage == "changed":
        data[30] ^= 1
        path.write_bytes(data)
        message = r"is damaged at byte \d\d: the pending"
    elif damage == "magic":
        path.write_bytes(b"X" + data[1:])
    else:
        data[8] = 9
        path.write_bytes(data)
        message = "has format 9, newer than 1; upgrade streaml1"
    with Checkpoints(checkpoints) as store, pytest.raises(CheckpointError, match=message) as caught:
        run(str(checkpoints.parent / "a.jsonl"), store)
    assert caught.value.exit_code == (2 if damage == "newer" else 65)


def test_any_flipped_bit_of_an_entry_is_detected(tmp_path: Path) -> None:
    with Checkpoints(tmp_path / "checkpoints") as store:
        segment_log = SegmentLog(tmp_path / "log", store.epoch)
    for entry in (b"first", b"\0" * 40, b"last"):
        segment_log.append(entry)
    segment_log.flush()
    state = segment_log.segments_from(0)
    path = next((tmp_path / "log").iterdir())
    data = path.read_bytes()
    assert [entry for _, entry in SegmentLog(tmp_path / "log", 9).resume(state)] == [
        b"first", b"\0" * 40, b"last",
    ]  # fmt: skip
    for pos in range(len(data)):
        for mask in (1, 0x80):
            path.write_bytes(data[:pos] + bytes([data[pos] ^ mask]) + data[pos + 1 :])
            with pytest.raises(CheckpointError):
                list(SegmentLog(tmp_path / "log", 9).resume(state))
    segment_log.close()


def test_damaged_checkpoints_and_their_logs_are_skipped(checkpoints: Path) -> None:
    """The checkpoint before it needs segments that the damaged one no longer needs."""
    spec = str(checkpoints.parent / "a.jsonl")
    expected = run_state(run(spec, None))
    paths = sorted(checkpoints.glob("*.checkpoint"))
    assert len(paths) == 3
    for path in paths[1:]:
        path.write_bytes(path.read_bytes()[:-1])
    with Checkpoints(checkpoints, seconds=0) as store:
        assert run_state(run(spec, store)) == expected


def test_resumed_checkpoint_stays_usable(checkpoints: Path) -> None:
    """A later checkpoint dropped segments from the log and is damaged."""
    spec = str(checkpoints.parent / "a.jsonl")
    expected = run_state(run(spec, None))
    with Checkpoints(checkpoints, seconds=1e9) as store:
        run(spec, store, limit=60)
    newest = sorted(checkpoints.glob("*.checkpoint"))[-1]
    assert newest.name.startswith("00000002")
    newest.write_bytes(newest.read_bytes()[:-1])
    with Checkpoints(checkpoints, seconds=0) as store:
        assert run_state(run(spec, store)) == expected


def test_runs_with_and_without_delayed_labels_do_not_mix(checkpoints: Path, tmp_path: Path) -> None:
    spec = str(checkpoints.parent / "a.jsonl")
    with pytest.raises(
        CheckpointError, match="belongs to a run with delayed labels; give label_within"
    ):
        progressive(model(), spec, checkpoint=checkpoints)
    with command_line_options({}), pytest.raises(CheckpointError, match="; give --label-within$"):
        progressive(model(), spec, checkpoint=checkpoints)
    plain = write(tmp_path / "b.jsonl", [{"x": {"a": 1.0}, "y": 1}])
    progressive(model(), plain, checkpoint=tmp_path / "plain")
    with pytest.raises(
        CheckpointError, match="belongs to a run without delayed labels; leave label_within out"
    ):
        progressive(model(), plain, checkpoint=tmp_path / "plain", label_within=5.0)


def test_changed_limits_apply_after_resuming(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.jsonl", [{"id": k, "x": {"a": 1.0}} for k in range(20)])
    progressive(model(), spec, checkpoint=tmp_path / "checkpoints", label_within=5.0)
    longer = [{"id": k, "x": {"a": 1.0}} for k in range(21)]
    report = progressive(
        model(), write(tmp_path / "a.jsonl", longer), checkpoint=tmp_path / "checkpoints",
        label_within=9.0, waiting=4, unanswered="negative",
    )  # fmt: skip
    assert report.numbers["pushed_out"] == 17 and report.numbers["waiting"] == 4


# Size of the log


def add_example(store: PendingStore, k: int, size: int = 30) -> None:
    store.add(f"i{k}", UNLABELED, None, b"p:1\n" + b"x" * size, 0.25 + k)


def test_log_size_is_proportional_to_the_pending_examples(
    tmp_path: Path, small_segments: None
) -> None:
    """With a few examples pending forever, cleaning rewrites them and frees old segments."""
    store = PendingStore(1e9)
    store.open_log(tmp_path / "log", 1, 3)
    max_excess = 0
    for k in range(2000):
        add_example(store, k)
        if k > 50 and k % 100:
            store.remove(store.table.find(f"i{k - 50 if (k - 50) % 100 else k}"))
        store.clean()
        if k % 25 == 0:
            store.dump()
            store.saved()
            used = sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
            max_excess = max(max_excess, used - 4 * store._live_bytes)
    state = store.dump()
    store.saved()
    assert max_excess < 16 * 700, "at most four times the live bytes and some segments"
    resumed = PendingStore(1e9)
    resumed.open_log(tmp_path / "log", 2, 3)
    resumed.resume(state)
    assert [resumed.table.id[s] for s in resumed.table.queue(False)] == [
        store.table.id[s] for s in store.table.queue(False)
    ]
    assert resumed._live_bytes == store._live_bytes and sum(resumed._live.values()) == len(resumed)
    store.close()
    resumed.close()


@pytest.mark.parametrize("seed", range(3))
def test_cleaning_moves_every_live_entry(tmp_path: Path, small_segments: None, seed: int) -> None:
    """A finished cleaning has moved every live entry, whatever changed in the meantime."""
    rng = random.Random(seed)
    store = PendingStore(1e9)
    store.open_log(tmp_path / "log", 1, 3)
    t, cleaned = store.table, 0
    for k in range(3000):
        draw = rng.random()
        at_cursor = store._cursor if rng.random() < 0.3 else -1
        alive = [s for s in range(len(t.kind)) if t.kind[s]]
        slot = at_cursor if at_cursor >= 0 or not alive else rng.choice(alive)
        if draw < 0.4 or len(alive) < 60:
            add_example(store, k)
        elif draw < 0.5 and t.kind[slot] == UNLABELED:
            store.assume_negative(slot, k, 1.0)
        elif draw < 0.9:
            store.remove(slot)
        target = store._clean_before
        store.clean()
        if target >= 0 and store._clean_before < 0:
            cleaned += 1
            assert all(t.segment[s] >= target for q in (False, True) for s in t.queue(q))
            store.dump()
    assert cleaned >= 3
    assert sum(store._live.values()) == len(store)
    slots = [slot for negative in (False, True) for slot in t.queue(negative)]
    sizes = [estimate_size(t.p[slot], t.id[slot], t.body[slot]) for slot in slots]
    assert store._live_bytes == sum(sizes)
    store.close()


def test_segments_without_live_entries_are_deleted(tmp_path: Path, small_segments: None) -> None:
    store = PendingStore(1e9)
    store.open_log(tmp_path / "log", 1, 2)
    for k in range(200):
        add_example(store, k)
    store.dump()
    store.saved()
    n_files_before = len(list((tmp_path / "log").iterdir()))
    for k in range(200):
        store.remove(store.table.find(f"i{k}"))
    for _ in range(3):
        store.dump()
        store.saved()
    assert n_files_before > 20 and len(list((tmp_path / "log").iterdir())) == 1
    store.close()


def test_files_of_a_later_owner_are_kept(tmp_path: Path) -> None:
    zombie, owner = PendingStore(9.0), PendingStore(9.0)
    zombie.open_log(tmp_path / "log", 1, 1)
    owner.open_log(tmp_path / "log", 2, 1)
    for store in (zombie, owner):
        add_example(store, 1)
        store.dump()
    zombie.saved()
    assert len(list((tmp_path / "log").iterdir())) == 2
    owner.saved()
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["00000002-00000001.log"]
    zombie.close()
    owner.close()


# Checkpoint latency


def test_checkpoints_do_not_stall_the_run(tmp_path: Path) -> None:
    """Measure checkpoints with 20,000 pending examples.

    `STREAML1_LATE_MILLION=1` makes it a million.
    """
    n = 1_000_000 if os.environ.get("STREAML1_LATE_MILLION") else 20_000
    body = (
        b"clicks/0@1234567\n"
        + json.dumps(
            {"id": "0123456789abcdef", "x": {f"C{k}": f"{k * 7919:08x}" for k in range(26)}}
        ).encode()
    )
    store = PendingStore(1e9)
    store.open_log(tmp_path / "log", 1, 3)
    rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stalls, adding = [], 0.0
    for start in range(0, n, n // 20):
        began = time.process_time()
        for k in range(start, start + n // 20):
            store.add(f"id{k:014}", UNLABELED, k * 1e-3, bytes([k % 256]) + body, 0.5)
        store.clean()
        adding += time.process_time() - began
        began = time.perf_counter()
        store.dump()
        store.saved()
        stalls.append(time.perf_counter() - began)
    bytes_per_example = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_before) * 1024 / n
    stalls.sort()
    state = store.dump()
    store.close()
    resumed_store = PendingStore(1e9)
    resumed_store.open_log(tmp_path / "log", 2, 3)
    began = time.process_time()
    resumed_store.resume(state)
    resumed = time.process_time() - began
    resumed_store.close()
    print(
        f"\n{n:,} pending examples of {len(body) + 1} bytes: "
        f"{bytes_per_example:.0f} bytes of memory each; "
        f"{adding / n * 1e6:.1f} us of CPU to add one; a checkpoint waits for the log "
        f"{stalls[len(stalls) // 2] * 1e3:.0f} ms (median), "
        f"{stalls[-1] * 1e3:.0f} ms (max); {resumed:.1f} s of CPU to resume"
    )
    assert len(resumed_store) == n
    assert stalls[len(stalls) // 2] < 0.1
