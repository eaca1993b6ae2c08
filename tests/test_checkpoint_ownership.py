"""Ownership of a checkpoint folder: all interleavings of two and three owners.

An owner is a thread. One thread runs at a time, up to its next system call that other owners can
observe. The explorer tries all orders of these calls with a bounded number of preemptions: switches
to another owner while the current one could continue.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streaml1.training.checkpoint import ownership
from streaml1.training.checkpoint.ownership import (
    CheckpointDirectory,
    CheckpointError,
    TakenOver,
    list_files,
)

Chain = list[int]
"""The content of a checkpoint in these tests: the epoch that learnt each example, in order."""


def decode(data: bytes, path: Path) -> Chain:
    if not data.endswith(b"]"):
        raise CheckpointError(f"{path} is torn")
    chain: Chain = json.loads(data)
    return chain


def encode(chain: Chain) -> bytes:
    return json.dumps(chain).encode()


class Owner:
    """One process: its steps, and the log of what they did."""

    def __init__(self, name: str, folder: Path, log: list[tuple[Any, ...]], keep: int) -> None:
        self.name, self.log, self.keep = name, log, keep
        self.folder = folder
        self.files: CheckpointDirectory | None = None
        self.chain: Chain = []

    def claim(self) -> None:
        self.log.append(("claims", self.name))
        self.files = CheckpointDirectory(self.folder, keep=self.keep, alone=False)
        self.log.append(("claimed", self.name, self.files.epoch))
        self.chain = list(
            self.files.read_latest(decode, lambda error: pytest.fail(str(error))) or []
        )
        self.log.append(("loaded", self.name, self.files.epoch, list(self.chain)))

    def save(self) -> None:
        assert self.files is not None
        self.chain.append(self.files.epoch)
        self.log.append(("saves", self.name, self.files.epoch))
        self.files.write(encode(self.chain))
        self.log.append(("saved", self.name, self.files.epoch, list(self.chain)))

    def run(self, work: str) -> None:
        for step in work.split():
            try:
                getattr(self, step)()
            except TakenOver:
                self.log.append(("rejected", self.name))
                return


class Stepper(threading.Thread):
    """A thread that runs an owner and stops before each call that other owners can observe."""

    def __init__(self, owner: Owner, work: str) -> None:
        super().__init__(daemon=True)
        self.owner, self.work = owner, work
        self.resume, self.stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.is_done = False
        self.error: BaseException | None = None

    def run(self) -> None:
        self.resume.acquire()
        try:
            self.owner.run(self.work)
        except BaseException as error:
            self.error = error
        self.is_done = True
        self.stopped.release()

    def step(self) -> None:
        """Run the owner up to its next observable call."""
        self.resume.release()
        self.stopped.acquire()

    def pause(self) -> None:
        """Return control to `step`; the owner's thread calls this."""
        self.stopped.release()
        self.resume.acquire()


@pytest.fixture(autouse=True)
def stepwise_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause the threads of owners before each system call that other owners can observe."""

    def stepwise(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            thread = threading.current_thread()
            if isinstance(thread, Stepper):
                thread.pause()
            return call(*args, **options)

        return wrapped

    open_directly = os.open

    def open_stepwise(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        call = stepwise(open_directly) if flags & os.O_EXCL else open_directly
        number: int = call(path, flags, *rest, **options)
        return number

    monkeypatch.setattr("os.open", open_stepwise)
    monkeypatch.setattr("os.fsync", lambda number: None)
    for name in ("os.listdir", "os.link", "os.replace"):
        monkeypatch.setattr(name, stepwise(getattr(os, name.partition(".")[2])))
    monkeypatch.setattr(Path, "unlink", stepwise(Path.unlink))
    monkeypatch.setattr(Path, "read_bytes", stepwise(Path.read_bytes))


def orders(
    start: Callable[[], list[Stepper]], max_preemptions: int
) -> Iterator[tuple[list[int], Any]]:
    """Run the owners in every order with at most `max_preemptions`; yield the order and the owners.

    This is a depth-first search: a plan is the beginning of an order. After its plan, a run
    continues with the current owner and adds a new plan for each alternative.
    """
    plans: list[list[int]] = [[]]
    while plans:
        plan = plans.pop()
        owners = start()
        for owner in owners:
            owner.start()
        order: list[int] = []
        preemptions, current = max_preemptions, -1
        while alive := [k for k, owner in enumerate(owners) if not owner.is_done]:
            is_free = current not in alive  # the current owner has ended: a switch is no preemption
            default = alive[0] if is_free else current
            chosen = plan[len(order)] if len(order) < len(plan) else default
            if len(order) >= len(plan) and (is_free or preemptions):
                plans += [[*order, k] for k in alive if k != chosen]
            preemptions -= not is_free and chosen != current
            order.append(chosen)
            owners[chosen].step()
            current = chosen
        for owner in owners:
            owner.join()
        yield order, owners


def broken_promise(log: list[tuple[Any, ...]], final: Chain) -> str | None:
    """Return the promise that a history breaks, or None.

    `pos` and `*_pos` are positions in the log; `final` is the chain after all owners have ended.
    """
    claims = [(pos, event[1]) for pos, event in enumerate(log) if event[0] == "claims"]
    loaded = [(pos, *event[2:]) for pos, event in enumerate(log) if event[0] == "loaded"]
    claimed = {event[2]: pos for pos, event in enumerate(log) if event[0] == "claimed"}
    for pos, event in enumerate(log):
        if event[0] == "saved":
            _, name, epoch, chain = event
            is_alone = all(claim_pos > pos or owner == name for claim_pos, owner in claims)
            if is_alone and final[: len(chain)] != chain:
                return f"{chain} was saved by the only owner, but is not in {final}"
            start = max(k for k in range(pos) if log[k] == ("saves", name, epoch))
            if any(later > epoch and later_pos < start for later, later_pos in claimed.items()):
                return f"{name} saved after it was overtaken"
    for pos, epoch, chain in loaded:
        for later_pos, later, later_chain in loaded:
            is_later = later > epoch and pos < claimed[later] < later_pos
            if is_later and not is_continuation(chain, epoch, later_chain):
                return f"{later} resumed from {later_chain}, ignoring {chain} of {epoch}"
    if loaded:
        _, epoch, chain = max(loaded, key=lambda load: load[1])
        if not is_continuation(chain, epoch, final):
            return f"{final} does not continue {chain} of {epoch}, the last owner"
    return None


def is_continuation(chain: Chain, epoch: int, longer: Chain) -> bool:
    """Return whether a chain starts with `chain` and the rest is not from an earlier epoch."""
    rest = longer[len(chain) :]
    return longer[: len(chain)] == chain and all(later >= epoch for later in rest)


def explore(
    folder: Path, works: list[str], preemptions: int, keep: int = 3, until_found: bool = False
) -> tuple[int, list[str]]:
    """Return the number of orders, and the broken promises; the first owner has saved twice.

    `works` holds the steps of each owner, separated by spaces.
    """
    log: list[tuple[Any, ...]] = []

    def start() -> list[Stepper]:
        shutil.rmtree(folder, ignore_errors=True)
        log.clear()
        owners = [Owner("abc"[k], folder, log, keep) for k in range(len(works))]
        owners[0].run("claim save save")
        return [Stepper(owner, work) for owner, work in zip(owners, works, strict=True)]

    n, found = 0, []
    for order, owners in orders(start, preemptions):
        n += 1
        for owner in owners:
            if owner.error is not None:
                found.append(f"{order}: {owner.error!r}")
        directory = CheckpointDirectory(folder, keep=keep, alone=False)
        final = directory.read_latest(decode, lambda error: None) or []
        if (broken := broken_promise(log, final)) is not None:
            found.append(f"{order}: {broken}")
        if found and until_found:
            break
    return n, found


EXTRA_PREEMPTIONS = 1 if "STREAML1_STORM" in os.environ else 0
"""One more preemption in each order takes minutes."""

WORKS = {
    "a stale owner saves twice while another claims": (
        ["save save", "claim save"],
        2 + EXTRA_PREEMPTIONS,
    ),
    "two claim at once": (["", "claim save", "claim save"], 1 + EXTRA_PREEMPTIONS),
    "a stale owner wakes between two that claim": (
        ["save", "claim save", "claim"],
        1 + EXTRA_PREEMPTIONS,
    ),
}


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("case", WORKS)
def test_no_order_breaks_a_promise(case: str, keep: int, tmp_path: Path) -> None:
    n, found = explore(tmp_path / "kept", *WORKS[case], keep=keep)
    assert not found, (len(found), n, found[:3])
    assert n > 100


def test_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_link(*args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.link", refuse_link)
    _, found = explore(tmp_path / "kept", ["save", "claim save"], 1)
    assert not found, found[:3]


@pytest.mark.parametrize("method", ["_adopt", "require_ownership"])
def test_explorer_detects_missing_checks(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without adoption of files at a claim, or the check before a save, promises are broken."""
    monkeypatch.setattr(CheckpointDirectory, method, lambda *args: None)
    _, found = explore(tmp_path / "kept", ["save", "claim", "claim"], 1, until_found=True)
    assert found


def test_claim_does_not_wait(tmp_path: Path) -> None:
    first = CheckpointDirectory(tmp_path / "kept", alone=False)
    first.write(b"[1]")
    second = CheckpointDirectory(tmp_path / "kept", alone=False)
    assert second.epoch == 2 and second.owner() == {
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
    with pytest.raises(TakenOver, match=rf"kept was taken over by process {os.getpid()} on "):
        first.write(b"[1, 1]")
    assert second.read_latest(decode, pytest.fail) == [1]
    assert second.files() == [(2, 2), (1, 1)]
    second.write(b"[1, 2]")
    assert second.read_latest(decode, pytest.fail) == [1, 2]


def test_torn_file_is_skipped(tmp_path: Path) -> None:
    first = CheckpointDirectory(tmp_path / "kept", alone=False)
    first.write(b"[1]")
    first.write(b"[1, ")
    skipped: list[Any] = []
    second = CheckpointDirectory(tmp_path / "kept", alone=False)
    assert second.read_latest(decode, skipped.append) == [1]
    assert len(skipped) == 1 and second.files()[0] == (2, 3)
    second.path_of(ownership.CheckpointFile(1, 1)).unlink()
    for name in second.files():
        second.path_of(name).write_bytes(b"[")
    with pytest.raises(CheckpointError, match=r"holds no valid checkpoint: .* is torn"):
        CheckpointDirectory(tmp_path / "kept", alone=False).read_latest(decode, skipped.append)


def test_temporary_files_of_a_later_owner_stay(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    CheckpointDirectory(folder, alone=False)
    for name in (".00000001-000000000009.checkpoint.1.1", ".00000009-000000000009.checkpoint.1.1"):
        (folder / name).touch()
    CheckpointDirectory(folder, alone=False)
    names = {path.name for path in folder.iterdir()}
    assert names == {"00000002.owner", ".00000009-000000000009.checkpoint.1.1"}


def test_removed_folder_raises_checkpoint_error(tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path / "kept", alone=False)
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(CheckpointError, match="kept cannot be written: no such file or directory"):
        directory.write(b"[1]")
    assert ownership.CheckpointError is CheckpointError


def test_directory_without_a_lock_closes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    with CheckpointDirectory(tmp_path / "new" / "kept", alone=False) as directory:
        assert directory.epoch == 1
        monkeypatch.setattr(os, "close", closed.append)
    monkeypatch.undo()
    assert not closed


def test_claim_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure could give the epoch to a second owner."""
    synced: list[tuple[Path, bool]] = []

    def record(path: Path) -> None:
        synced.append((path, bool(list(path.glob("*.owner")))))

    monkeypatch.setattr(ownership, "fsync_directory", record)
    with CheckpointDirectory(tmp_path):
        assert synced == [(tmp_path, True)]


def test_removed_owner_file_ends_the_run(tmp_path: Path) -> None:
    with CheckpointDirectory(tmp_path) as directory:
        directory.write(b"[1]")
        (tmp_path / "00000001.owner").unlink()
        message = r"/00000001\.owner was removed, and nothing was saved; start again$"
        with pytest.raises(TakenOver, match=message) as error:
            directory.write(b"[1, 1]")
        assert error.value.exit_code == 2 and directory.files() == [(1, 1)]
    with CheckpointDirectory(tmp_path) as directory:
        assert directory.epoch == 2  # above the epochs of all files


@pytest.mark.parametrize(
    ("owner", "described"),
    [
        ({"pid": 7, "host": "a"}, "process 7 on a"),
        ({"pid": 7, "host": "a" * 255}, f"process 7 on {'a' * 255}"),
        ({"pid": 7, "host": "a" * 256}, "process 7 on ?"),
        ({"pid": 7, "host": "\x1b[31m\n"}, "process 7 on ?"),
        ({"pid": "7", "host": "a"}, "another process"),
        ({"pid": True, "host": "a"}, "another process"),
        ({"pid": 7}, "another process"),
        ([], "another process"),
        (None, "another process"),
    ],
)
def test_new_owner_is_described(owner: Any, described: str, tmp_path: Path) -> None:
    directory = CheckpointDirectory(tmp_path, alone=False)
    (tmp_path / "00000002.owner").write_text("[" * 100_000 if owner is None else json.dumps(owner))
    message = rf" was taken over by {re.escape(described)}, and nothing was saved; see that process"
    with pytest.raises(TakenOver, match=message) as error:
        directory.write(b"[1]")
    assert error.value.exit_code == 75  # the owner may be gone by then


def test_adopted_file_is_durable_and_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CheckpointDirectory(tmp_path, alone=False).write(b"[1]")
    directory = CheckpointDirectory(tmp_path, alone=False)
    synced: list[Any] = []
    monkeypatch.setattr(ownership, "fsync_directory", lambda path: synced.append(list_files(path)))
    for _ in range(2):  # its own file is not adopted again
        assert directory.read_latest(decode, pytest.fail) == [1]
    assert synced == [[(2, 2), (1, 1)]]
    directory.write(b"[1, 2]")
    assert directory.files() == [(2, 3), (2, 2), (1, 1)]


def test_overtaken_claimant_names_no_file(tmp_path: Path) -> None:
    CheckpointDirectory(tmp_path, alone=False).write(b"[1]")
    overtaken = CheckpointDirectory(tmp_path, alone=False)
    CheckpointDirectory(tmp_path, alone=False)
    with pytest.raises(TakenOver):
        overtaken.read_latest(decode, pytest.fail)
    assert overtaken.files() == [(1, 1)]


def test_lone_owner_adopts_nothing_and_removes_all_half_written_files(tmp_path: Path) -> None:
    (tmp_path / ".00000009-000000000009.checkpoint.1.1").touch()
    CheckpointDirectory(tmp_path).close()
    with CheckpointDirectory(tmp_path) as directory:
        directory.write(b"[1]")
    with CheckpointDirectory(tmp_path) as directory:
        assert directory.read_latest(decode, pytest.fail) == [1]
        assert directory.files() == [(2, 1)]
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".checkpoint"} == {
        "lock",
        "00000003.owner",
    }


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_failed_claim_releases_the_lock(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(ownership, "fsync_directory", fail)
        with pytest.raises((CheckpointError, KeyboardInterrupt)):
            CheckpointDirectory(tmp_path)
    directory = CheckpointDirectory(tmp_path)
    directory.close()
    directory.close()
    CheckpointDirectory(tmp_path).close()


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 24

    def fail(path: Path) -> bytes:
        raise OSError(number, os.strerror(number))

    with CheckpointDirectory(tmp_path) as directory:
        directory.write(b"[1]")
        monkeypatch.setattr(Path, "read_bytes", fail)
        with pytest.raises(ownership.StorageUnavailable, match="too many open files"):
            directory.read_latest(decode, pytest.fail)
        number = 5
        skipped: list[Any] = []
        with pytest.raises(ownership.Unreadable, match="no valid checkpoint: .*output error"):
            directory.read_latest(decode, skipped.append)
        assert len(skipped) == 1
