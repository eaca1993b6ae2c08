"""Owners of one folder, whatever they do and in whichever order: every step of two, and of three.

Owners run as threads of which one goes at a time, up to its next call that others can see; all
orders of these calls are tried that have at most so many changes in the middle of an owner's work.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streaml1.training.checkpoint import ownership
from streaml1.training.checkpoint.ownership import CheckpointDirectory, CheckpointError, TakenOver

Chain = list[int]
"""What a file holds here: the epoch that learnt each example, in order."""


def read(data: bytes, path: Path) -> Chain:
    if not data.endswith(b"]"):
        raise CheckpointError(f"{path} is torn")
    chain: Chain = json.loads(data)
    return chain


def written(chain: Chain) -> bytes:
    return json.dumps(chain).encode()


class Owner:
    """One process: what it does, step by step, and what it came to."""

    def __init__(self, name: str, folder: Path, log: list[tuple[Any, ...]], keep: int) -> None:
        self.name, self.log, self.keep = name, log, keep
        self.folder = folder
        self.files: CheckpointDirectory | None = None
        self.chain: Chain = []

    def claim(self) -> None:
        self.log.append(("claims", self.name))
        self.files = CheckpointDirectory(self.folder, keep=self.keep, alone=False)
        self.log.append(("claimed", self.name, self.files.epoch))
        self.chain = list(self.files.read_latest(read, lambda wrong: pytest.fail(str(wrong))) or [])
        self.log.append(("loaded", self.name, self.files.epoch, list(self.chain)))

    def save(self) -> None:
        assert self.files is not None
        self.chain.append(self.files.epoch)
        self.log.append(("saves", self.name, self.files.epoch))
        self.files.write(written(self.chain))
        self.log.append(("saved", self.name, self.files.epoch, list(self.chain)))

    def run(self, work: str) -> None:
        for step in work.split():
            try:
                getattr(self, step)()
            except TakenOver:
                self.log.append(("refused", self.name))
                return


class Stepper(threading.Thread):
    """An owner that stops before each call that others can see."""

    def __init__(self, owner: Owner, work: str) -> None:
        super().__init__(daemon=True)
        self.owner, self.work = owner, work
        self.go, self.stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.error: BaseException | None = None

    def run(self) -> None:
        self.go.acquire()
        try:
            self.owner.run(self.work)
        except BaseException as error:
            self.error = error
        self.over = True
        self.stopped.release()

    def step(self) -> None:
        self.go.release()
        self.stopped.acquire()

    def wait(self) -> None:
        self.stopped.release()
        self.go.acquire()


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def stepwise(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            thread = threading.current_thread()
            if isinstance(thread, Stepper):
                thread.wait()
            return call(*args, **options)

        return wrapped

    opened = os.open

    def made(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        call = stepwise(opened) if flags & os.O_EXCL else opened
        number: int = call(path, flags, *rest, **options)
        return number

    monkeypatch.setattr("os.open", made)
    monkeypatch.setattr("os.fsync", lambda number: None)
    for name in ("os.listdir", "os.link", "os.replace"):
        monkeypatch.setattr(name, stepwise(getattr(os, name.partition(".")[2])))
    monkeypatch.setattr(Path, "unlink", stepwise(Path.unlink))
    monkeypatch.setattr(Path, "read_bytes", stepwise(Path.read_bytes))


def orders(begin: Callable[[], list[Stepper]], changes: int) -> Iterator[tuple[list[int], Any]]:
    """Run the owners in every order of at most so many changes; yields it and the owners."""
    plans: list[list[int]] = [[]]
    while plans:
        plan = plans.pop()
        owners = begin()
        for one in owners:
            one.start()
        made: list[int] = []
        left, before = changes, -1
        while alive := [k for k, one in enumerate(owners) if not one.over]:
            free = before not in alive  # a change that is none: the one before has ended
            chosen = plan[len(made)] if len(made) < len(plan) else (alive[0] if free else before)
            if len(made) >= len(plan) and (free or left):
                plans += [[*made, other] for other in alive if other != chosen]
            left -= not free and chosen != before
            made.append(chosen)
            owners[chosen].step()
            before = chosen
        for one in owners:
            one.join()
        yield made, owners


def wrong(log: list[tuple[Any, ...]], final: Chain) -> str | None:
    """What of the promises a history breaks."""
    claiming = [(at, entry[1]) for at, entry in enumerate(log) if entry[0] == "claims"]
    loaded = [(at, *entry[2:]) for at, entry in enumerate(log) if entry[0] == "loaded"]
    claimed = {entry[2]: at for at, entry in enumerate(log) if entry[0] == "claimed"}
    for at, entry in enumerate(log):
        if entry[0] == "saved":
            _, name, epoch, chain = entry
            alone = all(when > at or who == name for when, who in claiming)
            if alone and final[: len(chain)] != chain:
                return f"{chain} was saved by the only owner, and is not in {final}"
            began = max(k for k in range(at) if log[k] == ("saves", name, epoch))
            if any(other > epoch and when < began for other, when in claimed.items()):
                return f"{name} saved after it was overtaken"
    for at, epoch, chain in loaded:
        for when, later, other in loaded:
            if later > epoch and at < claimed[later] < when and not goes_on(chain, epoch, other):
                return f"{later} went on from {other}, beside {chain} of {epoch}"
    if loaded:
        _, epoch, chain = max(loaded, key=lambda one: one[1])
        if not goes_on(chain, epoch, final):
            return f"{final} does not go on from {chain} of {epoch}, the last owner"
    return None


def goes_on(chain: Chain, epoch: int, other: Chain) -> bool:
    """Whether one chain is the beginning of another, and the rest is of no earlier owner."""
    rest = other[len(chain) :]
    return other[: len(chain)] == chain and all(one >= epoch for one in rest)


def explore(
    folder: Path, works: list[str], changes: int, keep: int = 3, until_found: bool = False
) -> tuple[int, list[str]]:
    """How many orders there were, and what went wrong in them; the first owner has two saves."""
    log: list[tuple[Any, ...]] = []

    def begin() -> list[Stepper]:
        shutil.rmtree(folder, ignore_errors=True)
        log.clear()
        owners = [Owner("abc"[k], folder, log, keep) for k in range(len(works))]
        owners[0].run("claim save save")
        return [Stepper(owner, work) for owner, work in zip(owners, works, strict=True)]

    n, found = 0, []
    for order, owners in orders(begin, changes):
        n += 1
        for one in owners:
            if one.error is not None:
                found.append(f"{order}: {one.error!r}")
        last = CheckpointDirectory(folder, keep=keep, alone=False)
        final = last.read_latest(read, lambda wrong: None) or []
        if (broken := wrong(log, final)) is not None:
            found.append(f"{order}: {broken}")
        if found and until_found:
            break
    return n, found


MORE = 1 if "STREAML1_STORM" in os.environ else 0
"""A change more in each order takes minutes."""

WORKS = {
    "a zombie saves twice while another claims": (["save save", "claim save"], 2 + MORE),
    "two claim at once": (["", "claim save", "claim save"], 1 + MORE),
    "a zombie wakes between two that claim": (["save", "claim save", "claim"], 1 + MORE),
}


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("works", WORKS)
def test_every_order(works: str, keep: int, tmp_path: Path) -> None:
    n, found = explore(tmp_path / "kept", *WORKS[works], keep=keep)
    assert not found, (len(found), n, found[:3])
    assert n > 100


def test_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.link", none)
    _, found = explore(tmp_path / "kept", ["save", "claim save"], 1)
    assert not found, found[:3]


@pytest.mark.parametrize("part", ["_adopt", "require_ownership"])
def test_what_is_left_out_is_missed(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explorer would find it if a claim named nothing, or if nobody looked before saving."""
    monkeypatch.setattr(CheckpointDirectory, part, lambda *args: None)
    _, found = explore(tmp_path / "kept", ["save", "claim", "claim"], 1, until_found=True)
    assert found


def test_a_claim_does_not_wait(tmp_path: Path) -> None:
    one = CheckpointDirectory(tmp_path / "kept", alone=False)
    one.write(b"[1]")
    other = CheckpointDirectory(tmp_path / "kept", alone=False)
    assert other.epoch == 2 and other.owner() == {"pid": os.getpid(), "host": socket.gethostname()}
    with pytest.raises(TakenOver, match=rf"kept was taken over by process {os.getpid()} on "):
        one.write(b"[1, 1]")
    assert other.read_latest(read, pytest.fail) == [1]
    assert other.files() == [(2, 2), (1, 1)]
    other.write(b"[1, 2]")
    assert other.read_latest(read, pytest.fail) == [1, 2]


def test_a_torn_file_is_passed_over(tmp_path: Path) -> None:
    one = CheckpointDirectory(tmp_path / "kept", alone=False)
    one.write(b"[1]")
    one.write(b"[1, ")
    passed: list[Any] = []
    other = CheckpointDirectory(tmp_path / "kept", alone=False)
    assert other.read_latest(read, passed.append) == [1]
    assert len(passed) == 1 and other.files()[0] == (2, 3)
    other.path_of(ownership.CheckpointFile(1, 1)).unlink()
    for name in other.files():
        other.path_of(name).write_bytes(b"[")
    with pytest.raises(CheckpointError, match=r"holds no valid checkpoint: .* is torn"):
        CheckpointDirectory(tmp_path / "kept", alone=False).read_latest(read, passed.append)


def test_half_written_files_of_a_later_owner_stay(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    CheckpointDirectory(folder, alone=False)
    for name in (".00000001-000000000009.checkpoint.1.1", ".00000009-000000000009.checkpoint.1.1"):
        (folder / name).touch()
    CheckpointDirectory(folder, alone=False)
    names = {path.name for path in folder.iterdir()}
    assert names == {"00000002.owner", ".00000009-000000000009.checkpoint.1.1"}


def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    one = CheckpointDirectory(tmp_path / "kept", alone=False)
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(CheckpointError, match="kept cannot be written: no such file or directory"):
        one.write(b"[1]")
    assert ownership.CheckpointError is CheckpointError
