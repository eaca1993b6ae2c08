"""What waits survives whatever ends a process, and the log of it stays small."""

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
from streaml1.training.delayed_labels.pending import PendingStore
from streaml1.training.delayed_labels.pending_table import EARLY_LABEL, UNLABELED
from streaml1.training.delayed_labels.segment_log import SegmentLog
from streaml1.training.error_policy import ErrorPolicy
from tests.process_kills import run_with_kills

ROOT = Path(__file__).parent.parent
LATE = RunConfig(label_within=12.0, waiting=16, unanswered="negative", every=10)


def model() -> Any:
    return streaml1.ElasticNetClassifier(l1=1e-3, l2=1e-3, lr=0.5)


def events(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Asked, answered soon, late or never, some twice; a second between any two."""
    rng = random.Random(seed)
    asked: list[int] = []
    found: list[dict[str, Any]] = []
    for k in range(n):
        what = rng.random()
        event: dict[str, Any] = {"time": 1000.0 + k * 0.7}
        if what < 0.5 or not asked:
            asked.append(k)
            event |= {"id": f"i{k}", "x": {f"f{rng.randrange(9)}": rng.uniform(-1, 1)}}
        elif what < 0.9:
            event |= {"id": f"i{rng.choice(asked[-20:])}", "y": rng.randrange(2), "w": 2.0}
        elif what < 0.95:
            event |= {"id": f"never {k}", "y": 1}
        else:
            event |= {"x": {"f1": 1.0}, "y": rng.randrange(2)}
        found.append(event)
    return [*found, {"id": "never at the end", "y": 1}]


def write(path: Path, some: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in some))
    return str(path)


def run(spec: str, store: Checkpoints | None, size: int = 7, late: RunConfig = LATE,
        limit: int | None = None) -> DelayedLabelRun:  # fmt: skip
    opened = open_events(spec)
    config = replace(late, limit=limit)
    one = DelayedLabelRun(model(), opened, ErrorPolicy("skip"), config, store=store)
    one.begin()
    for block in () if one.is_full else opened.blocks(size, ErrorPolicy("skip")):
        one.feed(block)
        if one.is_full:
            break
    else:
        if not one.is_full:
            one.end_pass(True)
    one.finish()
    return one


def told(one: DelayedLabelRun) -> Any:
    """All that a run has come to."""
    t = one.pending.table
    t.check()
    facts, arrays = one.report.state_dict()
    lines = [(line["examples"], line["loss"], line["recent_loss"], line["constant_loss"])
             for line in facts["lines"] if line["examples"] % 10 == 0]  # fmt: skip
    waits = [
        (t.kind[s], t.id[s], t.body[s], t.since[s], str(t.time[s]), t.seq[s], t.number[s],
         t.weight[s] if t.number[s] >= 0 else 0, t.p[s] if t.kind[s] != EARLY_LABEL else 0)
        for negative in (False, True) for s in t.queue(negative)
    ]  # fmt: skip
    return {
        "weights": one.model.weights,
        "intercept": one.model.intercept,
        "sums": (facts["examples"], facts["refused"], facts["all"], facts["recent"]),
        "total": facts["total"],
        "window": [arrays[name].tolist() for name in ("p", "y")],
        "lines": lines,
        "waits": waits,
        "numbers": one.metrics(),
        "clock": one.pending.clock.dump(),
    }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of some entries, so that there are many of them, and much cleaning."""
    for module in (log, waiting):
        monkeypatch.setattr(module, "SEGMENT_BYTES", 700)
    monkeypatch.setattr(log, "BUFFER_BYTES", 150)


def test_a_full_disk_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    kept = SegmentLog(tmp_path / "waiting", 1)
    kept.append(b"entry")
    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(CheckpointError, match="waiting cannot be written: no space") as told:
            kept.flush()
    assert told.value.exit_code == 75
    kept.close()


# Killed


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # threads of other tests
def test_killed_at_every_step(tmp_path: Path, small: None) -> None:
    """A child dies at its k-th call of the system; the next goes on, and dies a step later."""
    spec = write(tmp_path / "a.jsonl", events(200))
    expected = told(run(spec, None))
    assert all(expected["numbers"][name] for name in expected["numbers"] if name != "correctable")
    step = ended = killed = 0
    while not ended:
        step = step % 90 + 1
        pid = os.fork()
        if pid == 0:
            die_at(step)
            with Checkpoints(tmp_path / "kept", seconds=0) as store:
                run(spec, store, size=3)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, 9), f"step {step}"
        ended, killed = status == 0, killed + (status == 9)
    assert killed >= 30
    with Checkpoints(tmp_path / "kept", seconds=0) as store:
        assert told(run(spec, store)) == expected


def die_at(step: int) -> None:
    """Have the k-th system call be the last thing this process does, half done."""
    left = [step]

    def dying(call: Any, half: Any = None) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if half is not None:
                    half(*args)
                os._exit(9)
            result = call(*args, **options)
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return result

        return wrapped

    write = os.write
    os.write = dying(os.write, lambda file, data: write(file, data[: len(data) // 2]))
    os.fsync = dying(os.fsync)
    os.replace = dying(os.replace)
    Path.unlink = dying(Path.unlink)  # type: ignore[method-assign]


@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 60), max_size=4),
    st.sampled_from(
        [
            LATE,
            replace(LATE, label_within=5.0, waiting=4, unanswered="drop"),
            replace(LATE, label_within=30.0, waiting=1000),
        ]
    ),
)
def test_limits_that_go_on_are_one_run(seed: int, limits: list[int], late: RunConfig) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = write(folder / "a.jsonl", events(120, seed))
        for limit in [*sorted(limits), None]:
            with Checkpoints(folder / "kept", seconds=0) as store:
                one = run(spec, store, late=late, limit=limit)
        assert told(one) == told(run(spec, None, late=late))


def test_a_killed_process_on_the_command_line(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.jsonl", events(25_000))
    expected = model()
    report = progressive(expected, spec, every=1000, label_within=300, unanswered="negative")
    killed, out = run_with_kills(
        ["learn", spec, "--l1", "1e-3", "--l2", "1e-3", "--lr", "0.5", "--label-within", "300",
         "--unanswered", "negative", "--every", "1000", "--checkpoint", "kept",
         "--checkpoint-every", "0.05", "--save", "m"],
        tmp_path,
        (5, 5),
    )  # fmt: skip
    assert killed == 2
    found = streaml1.load(tmp_path / "m")
    assert (found.weights, found.intercept) == (expected.weights, expected.intercept)
    assert report.summary().split("; ")[-1] in out


# Damage


@pytest.fixture
def kept(tmp_path: Path, small: None) -> Path:
    spec = write(tmp_path / "a.jsonl", events(120))
    with Checkpoints(tmp_path / "kept", seconds=0) as store:
        run(spec, store, limit=40)
    return tmp_path / "kept"


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "waiting").glob("*.log"))


def known(folder: Path) -> list[Any]:
    with Checkpoints(folder) as store:
        found = store.latest()
    assert found is not None
    return [list(one) for one in found.extra["segments"]]


def test_what_stands_behind_the_last_checkpoint_is_nothing(kept: Path) -> None:
    expected = told(run(str(kept.parent / "a.jsonl"), None))
    epoch, number, length = known(kept)[-1]
    last = kept / "waiting" / f"{epoch:08}-{number:08}.log"
    assert last.stat().st_size == length
    with last.open("ab") as file:
        file.write(b"torn")
    (kept / "waiting" / f"{epoch:08}-{number + 1:08}.log").write_bytes(b"stre")
    with Checkpoints(kept, seconds=0) as store:
        assert told(run(str(kept.parent / "a.jsonl"), store)) == expected
    assert not (kept / "waiting" / f"{epoch:08}-{number + 1:08}.log").exists()


@pytest.mark.parametrize("damage", ["cut", "gone", "changed", "magic", "newer"])
def test_damage_within_is_refused_in_one_sentence(kept: Path, damage: str) -> None:
    epoch, number, _ = known(kept)[0]
    path = kept / "waiting" / f"{epoch:08}-{number:08}.log"
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
    with Checkpoints(kept) as store, pytest.raises(CheckpointError, match=message) as caught:
        run(str(kept.parent / "a.jsonl"), store)
    assert caught.value.exit_code == (2 if damage == "newer" else 65)


def test_every_byte_of_an_entry_counts(tmp_path: Path) -> None:
    with Checkpoints(tmp_path / "kept") as store:
        one = SegmentLog(tmp_path / "log", store.epoch)
    for entry in (b"first", b"\0" * 40, b"last"):
        one.append(entry)
    one.flush()
    told = one.segments_from(0)
    path = next((tmp_path / "log").iterdir())
    data = path.read_bytes()
    assert [entry for _, entry in SegmentLog(tmp_path / "log", 9).resume(told)] == [
        b"first", b"\0" * 40, b"last",
    ]  # fmt: skip
    for at in range(len(data)):
        for flip in (1, 0x80):
            path.write_bytes(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])
            with pytest.raises(CheckpointError):
                list(SegmentLog(tmp_path / "log", 9).resume(told))
    one.close()


def test_a_damaged_checkpoint_is_passed_over_and_its_log_too(kept: Path) -> None:
    """The one before it needs segments that the damaged one needed no more."""
    spec = str(kept.parent / "a.jsonl")
    expected = told(run(spec, None))
    names = sorted(kept.glob("*.checkpoint"))
    assert len(names) == 3
    for path in names[1:]:
        path.write_bytes(path.read_bytes()[:-1])
    with Checkpoints(kept, seconds=0) as store:
        assert told(run(spec, store)) == expected


def test_the_checkpoint_it_went_on_from_is_still_good(kept: Path) -> None:
    """One more was written, whose log has dropped what it did not need, and it is damaged."""
    spec = str(kept.parent / "a.jsonl")
    expected = told(run(spec, None))
    with Checkpoints(kept, seconds=1e9) as store:
        run(spec, store, limit=60)
    newest = sorted(kept.glob("*.checkpoint"))[-1]
    assert newest.name.startswith("00000002")
    newest.write_bytes(newest.read_bytes()[:-1])
    with Checkpoints(kept, seconds=0) as store:
        assert told(run(spec, store)) == expected


def test_with_and_without_late_labels(kept: Path, tmp_path: Path) -> None:
    spec = str(kept.parent / "a.jsonl")
    with pytest.raises(
        CheckpointError, match="belongs to a run with delayed labels; give label_within"
    ):
        progressive(model(), spec, checkpoint=kept)
    plain = write(tmp_path / "b.jsonl", [{"x": {"a": 1.0}, "y": 1}])
    progressive(model(), plain, checkpoint=tmp_path / "plain")
    with pytest.raises(
        CheckpointError, match="belongs to a run without delayed labels; leave label_within out"
    ):
        progressive(model(), plain, checkpoint=tmp_path / "plain", label_within=5.0)


def test_other_limits_hold_when_it_goes_on(tmp_path: Path) -> None:
    spec = write(tmp_path / "a.jsonl", [{"id": k, "x": {"a": 1.0}} for k in range(20)])
    progressive(model(), spec, checkpoint=tmp_path / "kept", label_within=5.0)
    more = [{"id": k, "x": {"a": 1.0}} for k in range(21)]
    report = progressive(
        model(), write(tmp_path / "a.jsonl", more), checkpoint=tmp_path / "kept",
        label_within=9.0, waiting=4, unanswered="negative",
    )  # fmt: skip
    assert report.numbers["pushed_out"] == 17 and report.numbers["waiting"] == 4


# The log stays small


def fill(one: PendingStore, k: int, size: int = 30) -> None:
    one.add(f"i{k}", UNLABELED, None, b"p:1\n" + b"x" * size, 0.25 + k)


def test_the_log_follows_what_waits(tmp_path: Path, small: None) -> None:
    """A few wait for ever, most are answered soon: the old ones are written anew."""
    one = PendingStore(1e9)
    one.open_log(tmp_path / "log", 1, 3)
    most = 0
    for k in range(2000):
        fill(one, k)
        if k > 50 and k % 100:
            one.remove(one.table.find(f"i{k - 50 if (k - 50) % 100 else k}"))
        one.clean()
        if k % 25 == 0:
            one.dump()
            one.saved()
            used = sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
            most = max(most, used - 4 * one._live_bytes)
    state = one.dump()
    one.saved()
    assert most < 16 * 700, "four times what waits, and some segments"
    other = PendingStore(1e9)
    other.open_log(tmp_path / "log", 2, 3)
    other.resume(state)
    assert [other.table.id[s] for s in other.table.queue(False)] == [
        one.table.id[s] for s in one.table.queue(False)
    ]
    assert other._live_bytes == one._live_bytes and sum(other._live.values()) == len(other)
    one.close()
    other.close()


@pytest.mark.parametrize("seed", range(3))
def test_cleaning_misses_nothing(tmp_path: Path, small: None, seed: int) -> None:
    """Whatever comes, goes and turns meanwhile, all that waits is in the segments behind."""
    rng = random.Random(seed)
    one = PendingStore(1e9)
    one.open_log(tmp_path / "log", 1, 3)
    t, cleaned = one.table, 0
    for k in range(3000):
        what = rng.random()
        at_cursor = one._cursor if rng.random() < 0.3 else -1
        alive = [s for s in range(len(t.kind)) if t.kind[s]]
        slot = at_cursor if at_cursor >= 0 or not alive else rng.choice(alive)
        if what < 0.4 or len(alive) < 60:
            fill(one, k)
        elif what < 0.5 and t.kind[slot] == UNLABELED:
            one.assume_negative(slot, k, 1.0)
        elif what < 0.9:
            one.remove(slot)
        target = one._clean_before
        one.clean()
        if target >= 0 and one._clean_before < 0:
            cleaned += 1
            assert all(t.segment[s] >= target for q in (False, True) for s in t.queue(q))
            one.dump()
    assert cleaned >= 3
    assert sum(one._live.values()) == len(one)
    one.close()


def test_segments_that_all_are_done_with_go(tmp_path: Path, small: None) -> None:
    one = PendingStore(1e9)
    one.open_log(tmp_path / "log", 1, 2)
    for k in range(200):
        fill(one, k)
    one.dump()
    one.saved()
    before = len(list((tmp_path / "log").iterdir()))
    for k in range(200):
        one.remove(one.table.find(f"i{k}"))
    for _ in range(3):
        one.dump()
        one.saved()
    assert before > 20 and len(list((tmp_path / "log").iterdir())) == 1
    one.close()


def test_the_files_of_a_later_owner_stay(tmp_path: Path) -> None:
    zombie, owner = PendingStore(9.0), PendingStore(9.0)
    zombie.open_log(tmp_path / "log", 1, 1)
    owner.open_log(tmp_path / "log", 2, 1)
    for one in (zombie, owner):
        fill(one, 1)
        one.dump()
    zombie.saved()
    assert len(list((tmp_path / "log").iterdir())) == 2
    owner.saved()
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["00000002-00000001.log"]
    zombie.close()
    owner.close()


# A million


def test_a_checkpoint_does_not_stall_what_waits(tmp_path: Path) -> None:
    """20,000 wait, or with STREAML1_LATE_MILLION=1 a million; what a checkpoint takes of it."""
    n = 1_000_000 if os.environ.get("STREAML1_LATE_MILLION") else 20_000
    body = (
        b"clicks/0@1234567\n"
        + json.dumps(
            {"id": "0123456789abcdef", "x": {f"C{k}": f"{k * 7919:08x}" for k in range(26)}}
        ).encode()
    )
    one = PendingStore(1e9)
    one.open_log(tmp_path / "log", 1, 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stalls, adding = [], 0.0
    for start in range(0, n, n // 20):
        began = time.process_time()
        for k in range(start, start + n // 20):
            one.add(f"id{k:014}", UNLABELED, k * 1e-3, bytes([k % 256]) + body, 0.5)
        one.clean()
        adding += time.process_time() - began
        began = time.perf_counter()
        one.dump()
        one.saved()
        stalls.append(time.perf_counter() - began)
    held = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / n
    stalls.sort()
    state = one.dump()
    one.close()
    other = PendingStore(1e9)
    other.open_log(tmp_path / "log", 2, 3)
    began = time.process_time()
    other.resume(state)
    resumed = time.process_time() - began
    other.close()
    print(
        f"\n{n:,} wait, each of {len(body) + 1} bytes: {held:.0f} bytes of memory each; "
        f"{adding / n * 1e6:.1f} us of CPU to keep one; a checkpoint waits for the log "
        f"{stalls[len(stalls) // 2] * 1e3:.0f} ms (median), {stalls[-1] * 1e3:.0f} ms (most); "
        f"{resumed:.1f} s of CPU to read it again"
    )
    assert len(other) == n
    assert stalls[len(stalls) // 2] < 0.1
