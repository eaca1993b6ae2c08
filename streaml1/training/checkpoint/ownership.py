"""A folder of numbered files that belongs to one owner at a time.

An owner is an epoch: the file `EPOCH.owner`, which can be made only once. What it writes is called
`EPOCH-NUMBER.checkpoint`, and of these the last is the one of the highest epoch, and among them of
the highest number. There may be a lock as well, so that a second process is told to wait; but a
process that is frozen keeps its lock, so where the folder has to change hands (`alone=False`) none
is taken, and epochs alone decide. Why that is enough, whatever two owners do and when:

1. No two owners have one epoch, so none ever writes over another's file, and a file is there whole
   or not at all.
2. An owner looks for a higher epoch before each write. So at most one file of an owner that was
   overtaken comes after the claim that overtook it, and it has a lower epoch.
3. A claim takes the last whole file, and at once gives it a second name in its own epoch. From then
   on files of lower epochs are behind it, whenever they come, and are never gone on from. If it is
   overtaken, or dies, before it has named anything, it has changed nothing.
4. So the files that are gone on from are one chain, each of them begun from the one before, as in
   one process without an end. What an owner did beside the chain is as if it had never been.
5. Nobody removes the last files that he sees, nor half-written ones of a higher epoch than his. A
   file that goes between a look and a reading was not the last one any more: look again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from streaml1.core import exit_codes as exits
from streaml1.core.atomic_write import fsync_folder, write_atomic
from streaml1.models.serialization import ModelFileError

__all__ = [
    "CheckpointError",
    "Folder",
    "Full",
    "InUse",
    "TakenOver",
    "Unreadable",
    "file_in",
    "names_in",
    "owner_of",
    "unwritable",
]

_NAME = re.compile(r"(\d{8,})-(\d{12,})\.checkpoint")
_OWNER = re.compile(r"(\d{8,})\.owner")
_HALF = re.compile(r"\.(\d{8,})-\d{12,}\.checkpoint\..*")

Name = tuple[int, int]
"""The epoch and the number of a file."""

Found = TypeVar("Found")


class CheckpointError(ModelFileError):
    """A checkpoint, or a folder of them, that is refused; its text is one sentence."""


class TakenOver(CheckpointError):
    """The folder has another owner by now: it is left to him, or asked for again in a group."""


class InUse(CheckpointError):
    """A folder that another process owns, until it ends."""

    exit_code = exits.TEMPORARY_FAILURE


class Full(CheckpointError):
    """A folder on a disk that has no room, or does not answer."""

    exit_code = exits.TEMPORARY_FAILURE


class Unreadable(CheckpointError):
    """A folder of which no checkpoint is whole."""

    exit_code = exits.DATA_ERROR


class Folder:
    """A folder of files of which this process is the owner, until it is closed or overtaken.

    Parameters
    ----------
    path
        Made if it is not there.
    keep
        How many files stay, from 1.
    alone
        Whether a process that is alive keeps the folder; else a new one takes it over.

    Raises
    ------
    CheckpointError
        Where the folder cannot be written, or a process that is alive keeps it.
    ValueError
        Where `keep` is below 1.
    """

    def __init__(self, path: str | Path, *, keep: int = 3, alone: bool = True) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep} would keep no checkpoint; give 1 or more")
        self.path = Path(path)
        self._keep = keep
        self._alone = alone
        self._lock = -1
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if alone:
                self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
                self._take_lock()
            self.epoch = self._claim()
            self._clear()
            self._next = max((number for _, number in self.names()), default=0) + 1
        except OSError as error:
            self.close()
            raise unwritable(self.path, error) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # Owners

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(
                f"{self.path} is in use by {_called(self.owner())}: end it first, or take another "
                "folder"
            ) from None

    def _claim(self) -> int:
        """Make the owner's file of an epoch above all others; returns the epoch."""
        about = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        while True:
            epoch = 1 + max([*self._owners(), *(epoch for epoch, _ in self.names())], default=0)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            try:
                file = os.open(_owner_file(self.path, epoch), flags, 0o666)
            except FileExistsError:
                continue  # another was faster
            try:
                os.write(file, about)
                os.fsync(file)
            finally:
                os.close(file)
            fsync_folder(self.path)
            if max(self._owners()) == epoch:
                return epoch

    def _clear(self) -> None:
        """Remove what owners of lower epochs have left half done, and their files."""
        for path in self.path.iterdir():
            half, owner = _HALF.fullmatch(path.name), _OWNER.fullmatch(path.name)
            left = half and (self._alone or int(half[1]) < self.epoch)
            if left or (owner and int(owner[1]) < self.epoch):
                path.unlink(missing_ok=True)

    def owner(self) -> dict[str, Any]:
        """What is known of the owner of the highest epoch."""
        return owner_of(self.path)

    def require_ours(self) -> None:
        """Raise TakenOver where there is a higher epoch."""
        if max(self._owners(), default=0) != self.epoch:
            error = TakenOver(
                f"{self.path} was taken over by {_called(self.owner())}, and nothing was saved: "
                "look there, or take another folder"
            )
            if not self._alone:
                error.exit_code = exits.TEMPORARY_FAILURE
            raise error

    def _owners(self) -> list[int]:
        return _owners_in(self.path)

    # Files

    def names(self) -> list[Name]:
        """Epoch and number of each file, the last one first."""
        return names_in(self.path)

    def file(self, name: Name) -> Path:
        """Where a file is."""
        return file_in(self.path, name)

    def last(
        self, read: Callable[[bytes, Path], Found], passed: Callable[[Exception], object]
    ) -> Found | None:
        """The last file that can be read, as what `read` makes of it; None where there is none.

        It has a name in this owner's epoch then. `passed` hears of those that `read` refuses.

        Raises
        ------
        CheckpointError
            Where there are files, and none can be read.
        """
        while True:
            with contextlib.suppress(FileNotFoundError):  # gone since the look: look again
                return self._last(read, passed)

    def _last(
        self, read: Callable[[bytes, Path], Found], passed: Callable[[Exception], object]
    ) -> Found | None:
        wrong: ModelFileError | None = None
        for name in self.names():
            try:
                data = self.file(name).read_bytes()
                found = read(data, self.file(name))
            except FileNotFoundError:
                raise
            except OSError as error:
                wrong = CheckpointError(f"{self.file(name)}: {exits.os_reason(error)}")
                passed(wrong)
            except ModelFileError as error:
                wrong = error
                passed(wrong)
            else:
                if not self._alone:
                    self._adopt(name, data)
                return found
        if wrong is not None:
            raise Unreadable(f"{self.path} holds no checkpoint that can be read: {wrong}")
        return None

    def _adopt(self, name: Name, data: bytes) -> None:
        """Give a file, and what was read of it, a name in this epoch."""
        if name[0] == self.epoch:
            return
        self.require_ours()
        own = self.file((self.epoch, self._next))
        try:
            try:
                os.link(self.file(name), own)
                fsync_folder(self.path)
            except OSError:  # it has gone since, or the disk has no links
                write_atomic(own, data)
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._next += 1

    def write(self, data: bytes) -> None:
        """Write the next file in one step, and drop the oldest.

        Raises
        ------
        TakenOver
            Where the folder has another owner by now.
        CheckpointError
            Where it cannot be written.
        """
        try:
            self.require_ours()
            write_atomic(self.file((self.epoch, self._next)), data)
        except OSError as error:
            with contextlib.suppress(OSError):
                self.require_ours()  # another owner clears away what is half done
            raise unwritable(self.path, error) from None
        self._next += 1
        for name in self.names()[self._keep :]:
            self.file(name).unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> CheckpointError:
    """Say that a folder cannot be written."""
    kind = Full if exits.is_temporary(error) else CheckpointError
    return kind(f"{path} cannot be written: {exits.os_reason(error)}")


def names_in(path: Path) -> list[Name]:
    """Epoch and number of each file in a folder, the last one first."""
    found = [_NAME.fullmatch(name) for name in os.listdir(path)]
    return sorted(((int(one[1]), int(one[2])) for one in found if one), reverse=True)


def file_in(path: Path, name: Name) -> Path:
    """Where a file of a folder is."""
    return path / f"{name[0]:08}-{name[1]:012}.checkpoint"


def owner_of(path: Path) -> dict[str, Any]:
    """What is known of the owner of the highest epoch."""
    try:
        about = json.loads(_owner_file(path, max(_owners_in(path))).read_text())
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _owners_in(path: Path) -> list[int]:
    found = [_OWNER.fullmatch(name) for name in os.listdir(path)]
    return [int(one[1]) for one in found if one]


def _owner_file(path: Path, epoch: int) -> Path:
    return path / f"{epoch:08}.owner"


def _called(owner: dict[str, Any]) -> str:
    return f"process {owner.get('pid', '?')} on {owner.get('host', '?')}"
