"""A directory of numbered files that belongs to one owner at a time.

An owner is identified by an epoch: it has created the file ``EPOCH.owner``, which can be created
only once. Its files are named ``EPOCH-NUMBER.checkpoint``. The latest file is the one with the
highest epoch, and among those the highest number. A lock file additionally rejects a second process
while the first is alive. A frozen process keeps its lock, though, so where the directory must be
able to change hands (`alone=False`) there is no lock, and epochs alone decide.

Why epochs suffice, whatever two owners do and whenever they do it:

1. No two owners share an epoch, so no owner overwrites the file of another. Files are written
   atomically.
2. An owner checks for a higher epoch before each write. So at most one file of an overtaken owner
   appears after the claim that overtook it, and that file has a lower epoch.
3. A claim reads the latest valid file and at once gives it a second name in its own epoch. From
   then on files of lower epochs are older than this one, whenever they appear, and no run resumes
   from them. A claimant that is overtaken, or dies, before it has named a file has changed nothing.
4. So the files that runs resume from form one chain, each continued from the previous one, as in
   one process that never ended. What an owner did outside the chain has no effect.
5. No owner removes the latest files that it sees, nor half-written files of an epoch above its own.
   A file that disappears between listing and reading was not the latest any more: list again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from streaml1.core import exit_codes as exits
from streaml1.core.atomic_write import fsync_directory, write_atomic
from streaml1.core.named_options import by_caller
from streaml1.models.serialization import ModelFileError

__all__ = [
    "CheckpointDirectory",
    "CheckpointError",
    "CheckpointFile",
    "InUse",
    "StorageUnavailable",
    "TakenOver",
    "Unreadable",
    "list_files",
    "partition_directories",
    "path_of",
    "read_owner",
    "several_models",
    "unwritable",
]

_FILE = re.compile(r"(\d{8,})-(\d{12,})\.checkpoint")
_OWNER = re.compile(r"(\d{8,})\.owner")
_HALF_WRITTEN = re.compile(r"\.(\d{8,})-\d{12,}\.checkpoint\..*")


class CheckpointFile(NamedTuple):
    """Epoch and number of a file; the order of tuples is the order of the files."""

    epoch: int
    number: int


Decoded = TypeVar("Decoded")

Decode = Callable[[bytes, Path], Decoded]
"""Decodes the bytes of a file; raises `ModelFileError` if they are invalid."""


class CheckpointError(ModelFileError):
    """A checkpoint or a directory that cannot be used; the message is one sentence."""


class TakenOver(CheckpointError):
    """The directory has another owner by now."""


class InUse(CheckpointError):
    """The directory is locked by a process that is alive."""

    exit_code = exits.TEMPORARY_FAILURE


class StorageUnavailable(CheckpointError):
    """The disk of the directory is full, or does not answer."""

    exit_code = exits.TEMPORARY_FAILURE


class Unreadable(CheckpointError):
    """The directory holds no valid checkpoint."""

    exit_code = exits.DATA_ERROR


class CheckpointDirectory:
    """A directory that this process owns until it is closed or overtaken.

    Parameters
    ----------
    path
        The directory. It is created if it does not exist.
    keep
        Number of files to keep, at least 1.
    alone
        Whether a live owner keeps the directory. If False, a new process takes it over.

    Attributes
    ----------
    path : Path
        The directory.
    epoch : int
        Epoch of this owner.

    Raises
    ------
    CheckpointError
        If the directory cannot be written, or a live process keeps it.
    ValueError
        If `keep` is below 1.
    """

    def __init__(self, path: str | Path, *, keep: int = 3, alone: bool = True) -> None:
        if keep < 1:
            raise ValueError(f"keep must be >= 1, got {keep}")
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
            self._next_number = 1 + max((file.number for file in self.files()), default=0)
        except OSError as error:
            self.close()
            raise unwritable(self.path, error) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> CheckpointDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # Ownership

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(
                f"{self.path} is in use by {_describe(self.owner())}; stop it first, or use "
                "another directory"
            ) from None

    def _claim(self) -> int:
        """Create the owner file of a new highest epoch, and return the epoch."""
        owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        while True:
            used = [*_owner_epochs(self.path), *(file.epoch for file in self.files())]
            epoch = 1 + max(used, default=0)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            try:
                descriptor = os.open(_owner_path(self.path, epoch), flags, 0o666)
            except FileExistsError:
                continue  # another process claimed this epoch first
            try:
                os.write(descriptor, owner)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            fsync_directory(self.path)
            if max(_owner_epochs(self.path)) == epoch:
                return epoch

    def _clear(self) -> None:
        """Remove half-written files and owner files of lower epochs."""
        for path in self.path.iterdir():
            half, owner = _HALF_WRITTEN.fullmatch(path.name), _OWNER.fullmatch(path.name)
            abandoned = half and (self._alone or int(half[1]) < self.epoch)
            if abandoned or (owner and int(owner[1]) < self.epoch):
                path.unlink(missing_ok=True)

    def owner(self) -> dict[str, Any]:
        """Return what is known of the owner with the highest epoch."""
        return read_owner(self.path)

    def require_ownership(self) -> None:
        """Raise TakenOver if there is a higher epoch."""
        highest = max(_owner_epochs(self.path), default=0)
        if highest != self.epoch:
            error = TakenOver(
                f"{self.path} was taken over by {_describe(self.owner())}, and nothing was saved; "
                "see that process, or use another directory"
                if highest > self.epoch
                else f"{_owner_path(self.path, self.epoch)} was removed, and nothing was saved; "
                "start again"
            )
            if not self._alone:
                error.exit_code = exits.TEMPORARY_FAILURE
            raise error

    # Files

    def files(self) -> list[CheckpointFile]:
        """Return all files, the latest first."""
        return list_files(self.path)

    def path_of(self, file: CheckpointFile) -> Path:
        """Return the path of a file."""
        return path_of(self.path, file)

    def read_latest(
        self, decode: Decode[Decoded], on_invalid: Callable[[Exception], object]
    ) -> Decoded | None:
        """Decode the latest valid file, and give it a name in the epoch of this owner.

        Parameters
        ----------
        decode
            Decodes a file.
        on_invalid
            Called with the error of each invalid file that is passed over.

        Returns
        -------
        object or None
            What `decode` returned; None if there is no file.

        Raises
        ------
        CheckpointError
            If there are files, and none is valid.
        """
        while True:
            # A file may disappear between listing and reading (rule 5): list again.
            with contextlib.suppress(FileNotFoundError):
                return self._read_latest(decode, on_invalid)

    def _read_latest(
        self, decode: Decode[Decoded], on_invalid: Callable[[Exception], object]
    ) -> Decoded | None:
        invalid: ModelFileError | None = None
        for file in self.files():
            path = self.path_of(file)
            try:
                data = path.read_bytes()
                found = decode(data, path)
            except FileNotFoundError:
                raise
            except OSError as error:
                if exits.lacks_descriptors(error):  # says nothing about the file
                    raise StorageUnavailable(f"{path}: {exits.os_reason(error)}") from None
                invalid = CheckpointError(f"{path}: {exits.os_reason(error)}")
                on_invalid(invalid)
            except ModelFileError as error:
                invalid = error
                on_invalid(invalid)
            else:
                if not self._alone:
                    self._adopt(file, data)
                return found
        if invalid is not None:
            raise Unreadable(
                f"{self.path} holds no valid checkpoint: {invalid}; restore it from a copy, or use "
                "another directory to begin again"
            )
        return None

    def _adopt(self, file: CheckpointFile, data: bytes) -> None:
        """Give a file, with the given contents, a second name in this epoch (rule 3)."""
        if file.epoch == self.epoch:
            return
        self.require_ownership()
        own = self.path_of(CheckpointFile(self.epoch, self._next_number))
        try:
            try:
                os.link(self.path_of(file), own)
                fsync_directory(self.path)
            except OSError:  # the file has disappeared, or the file system has no hard links
                write_atomic(own, data)
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._next_number += 1

    def write(self, data: bytes) -> None:
        """Write the next file atomically, and remove the oldest.

        Raises
        ------
        TakenOver
            If the directory has another owner by now.
        CheckpointError
            If it cannot be written.
        """
        try:
            self.require_ownership()
            write_atomic(self.path_of(CheckpointFile(self.epoch, self._next_number)), data)
        except OSError as error:
            with contextlib.suppress(OSError):
                # A new owner removes our half-written file: report that, not the missing file.
                self.require_ownership()
            raise unwritable(self.path, error) from None
        self._next_number += 1
        for file in self.files()[self._keep :]:
            self.path_of(file).unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> CheckpointError:
    """Return the error for a directory that cannot be written."""
    kind = StorageUnavailable if exits.is_temporary(error) else CheckpointError
    return kind(f"{path} cannot be written: {exits.os_reason(error)}")


def list_files(path: Path) -> list[CheckpointFile]:
    """Return the checkpoint files of a directory, the latest first."""
    matches = [_FILE.fullmatch(name) for name in os.listdir(path)]
    files = (CheckpointFile(int(match[1]), int(match[2])) for match in matches if match)
    return sorted(files, reverse=True)


def partition_directories(path: Path) -> list[Path]:
    """Return the directories with checkpoints in that of a consumer group, by topic and number.

    There is none in a directory that has checkpoints of its own.
    """
    found = []
    for directory in path.iterdir() if path.is_dir() and not list_files(path) else ():
        topic, _, number = directory.name.rpartition("-")
        if topic and number.isdecimal() and directory.is_dir() and list_files(directory):
            found.append((topic, int(number), directory))
    return [directory for _, _, directory in sorted(found)]


def several_models(path: Path, partitions: Sequence[Path]) -> CheckpointError:
    """Return the error for the directory of a consumer group where one model is needed."""
    remedy = by_caller(
        f"streaml1 merge {shlex.quote(str(path))} -o FILE --probe SOURCE", "streaml1.merge"
    )
    return CheckpointError(
        f"{path} holds a model per partition: give one of them, such as {partitions[0]}, or merge "
        f"them with {remedy}"
    )


def path_of(path: Path, file: CheckpointFile) -> Path:
    """Return the path of a file in a directory."""
    return path / f"{file.epoch:08}-{file.number:012}.checkpoint"


def read_owner(path: Path) -> dict[str, Any]:
    """Return what is known of the owner with the highest epoch: pid and host, or nothing."""
    try:
        owner = json.loads(_owner_path(path, max(_owner_epochs(path))).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _owner_epochs(path: Path) -> list[int]:
    matches = [_OWNER.fullmatch(name) for name in os.listdir(path)]
    return [int(match[1]) for match in matches if match]


def _owner_path(path: Path, epoch: int) -> Path:
    return path / f"{epoch:08}.owner"


def _describe(owner: dict[str, Any]) -> str:
    pid, host = owner.get("pid"), owner.get("host")
    if type(pid) is not int or not isinstance(host, str):
        return "another process"
    return f"process {pid} on {host if host.isprintable() and len(host) < 256 else '?'}"
