"""Where a run stands, in one file: the model, the report, and the position of the source.

A folder holds the last few checkpoints and belongs to one process at a time. A checkpoint is there
whole or not at all, so that whatever ends a process, the next one goes on from a model and the
position that belongs to it.

Layout of a file: 8 bytes `streamcp`, the format's version (uint32, little-endian), the length of
what follows the digest (uint64), its SHA-256; then the length of each part (3 uint64), JSON in
UTF-8, a model file, and a numpy archive without objects.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import logging
import os
import re
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streaml1 import exits, models
from streaml1.modelfile import ModelFileError, replace
from streaml1.models.base import OnlineModel
from streaml1.report import Report

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "require_model"]

logger = logging.getLogger("streaml1")

MAGIC = b"streamcp"
FORMAT = 1
_HEAD = struct.Struct("<8sIQ32s")
_PARTS = struct.Struct("<QQQ")
_NAME = re.compile(r"(\d{8})-(\d{12})\.checkpoint")


class CheckpointError(ModelFileError):
    """A checkpoint, or a folder of them, that is refused; its text is one sentence."""


class InUse(CheckpointError):
    """A folder that another process owns, until it ends."""

    exit_code = exits.AGAIN


class Full(CheckpointError):
    """A folder on a disk that has no room, or does not answer."""

    exit_code = exits.AGAIN


class Unreadable(CheckpointError):
    """A folder of which no checkpoint is whole."""

    exit_code = exits.DATA


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood.

    Parameters
    ----------
    model
        The model.
    identity
        What tells the source from others.
    position
        Where the source goes on; `learnt` examples of the pass `turn` are behind it.
    turn, learnt
        Which pass, from 0, and how many examples of it have been learnt.
    report
        What `Report.resume` takes.
    extra
        What else goes on, as JSON has it; None: nothing.
    """

    model: Any
    identity: dict[str, Any]
    position: Any
    turn: int
    learnt: int
    report: tuple[dict[str, Any], dict[str, Any]]
    extra: Any = None


class Checkpoints:
    """A folder of checkpoints, of which this process is the only owner until it is closed.

    Parameters
    ----------
    folder
        Made if it is not there.
    seconds
        How often `is_due`; 0: always.
    keep
        How many checkpoints stay.

    Attributes
    ----------
    size : int or None
        The bytes of the last one that was saved here.

    Raises
    ------
    CheckpointError
        Where another process owns the folder, with its number and its host.
    """

    def __init__(self, folder: str | Path, *, seconds: float = 10.0, keep: int = 3) -> None:
        self.folder = Path(folder)
        self.seconds = seconds
        self.keep = keep
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        try:
            self._claim()
        except BaseException:
            self.close()
            raise
        self._saved = time.monotonic()
        self.size: int | None = None
        self._found: Checkpoint | None = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # Owners

    def _claim(self) -> None:
        """Become the owner: by a lock, and by an epoch, where a lock is not seen by all hosts."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = self._owner()
            who = f"process {owner.get('pid', '?')} on {owner.get('host', '?')}"
            raise InUse(
                f"{self.folder} is in use by {who}: end it first, or take another folder"
            ) from None
        for left in self.folder.glob(".*"):  # of a process that was killed as it wrote
            left.unlink(missing_ok=True)
        epochs = [self._owner().get("epoch", 0), *(epoch for epoch, _ in self._names())]
        self.epoch = max(epochs) + 1
        self._next = max((number for _, number in self._names()), default=0) + 1
        about = {"epoch": self.epoch, "pid": os.getpid(), "host": socket.gethostname()}
        try:
            replace(self.folder / "owner", json.dumps(about).encode())
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    def _owner(self) -> dict[str, Any]:
        try:
            about = json.loads((self.folder / "owner").read_text())
        except (OSError, ValueError):
            return {}
        return about if isinstance(about, dict) else {}

    def _require_ours(self) -> None:
        owner = self._owner()
        if owner.get("epoch") != self.epoch:
            who = f"process {owner.get('pid', '?')} on {owner.get('host', '?')}"
            raise CheckpointError(f"{self.folder} was taken over by {who}; nothing was saved")

    # Files

    def _names(self) -> list[tuple[int, int]]:
        """Epoch and number of each checkpoint, the last one first."""
        found = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted(((int(one[1]), int(one[2])) for one in found if one), reverse=True)

    def _path(self, epoch: int, number: int) -> Path:
        return self.folder / f"{epoch:08}-{number:012}.checkpoint"

    def latest(self) -> Checkpoint | None:
        """The last checkpoint that is whole, or None where there is none at all."""
        if self._found is not None:
            return self._found
        error = None
        for name in self._names():
            path = self._path(*name)
            try:
                self._found = _read(path)
            except ModelFileError as wrong:
                logger.warning("%s; going on from the one before", wrong)
                error = wrong
            else:
                return self._found
        if error is not None:
            raise Unreadable(f"{self.folder} holds no checkpoint that can be read: {error}")
        return None

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is older than `seconds`."""
        return time.monotonic() - self._saved >= self.seconds

    def save(
        self,
        model: Any,
        report: Report,
        identity: dict[str, Any],
        position: Any,
        turn: int = 0,
        learnt: int = 0,
        *,
        extra: Any = None,
    ) -> None:
        """Write a checkpoint in one step, and drop the oldest.

        Raises
        ------
        CheckpointError
            Where the folder has another owner by now, or cannot be written.
        """
        require_model(model)
        facts, arrays = report.dump()
        header = {
            "identity": identity,
            "position": position,
            "turn": turn,
            "learnt": learnt,
            "report": facts,
            "epoch": self.epoch,
            "extra": extra,
        }
        archive = io.BytesIO()
        np.savez(archive, **arrays)
        parts = [json.dumps(header).encode(), model._encode(packed=False), archive.getvalue()]
        body = _PARTS.pack(*map(len, parts)) + b"".join(parts)
        data = _HEAD.pack(MAGIC, FORMAT, len(body), _digest(body)) + body
        self._require_ours()
        try:
            replace(self._path(self.epoch, self._next), data)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        self._next += 1
        self._saved = time.monotonic()
        self.size = len(data)
        for name in self._names()[self.keep :]:
            self._path(*name).unlink(missing_ok=True)


def require_model(model: Any) -> None:
    """Refuse what a checkpoint cannot hold."""
    if not isinstance(model, OnlineModel):
        raise CheckpointError(
            f"a checkpoint holds a model of streaml1, not a {type(model).__name__}: leave it out"
        )


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<I", FORMAT) + body).digest()


def _read(path: Path) -> Checkpoint:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        raise CheckpointError(f"{path} is no checkpoint, or is torn")
    _, version, length, digest = _HEAD.unpack_from(data)
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, newer than {FORMAT}: upgrade streaml1")
    body = data[_HEAD.size :]
    if len(body) != length or _digest(body) != digest:
        raise CheckpointError(f"{path} is torn, or has been altered")
    lengths = _PARTS.unpack_from(body)
    starts = np.cumsum([_PARTS.size, *lengths]).tolist()
    text, model, archive = (body[lo:hi] for lo, hi in zip(starts[:-1], starts[1:], strict=True))
    header = json.loads(text)
    with np.load(io.BytesIO(archive), allow_pickle=False) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    return Checkpoint(
        model=models.decode(model, path),
        report=(header["report"], arrays),
        extra=header.get("extra"),
        **{name: header[name] for name in ("identity", "position", "turn", "learnt")},
    )


def _unwritable(folder: Path, error: OSError) -> CheckpointError:
    reason = (error.strerror or str(error)).lower()
    kind = Full if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else CheckpointError
    return kind(f"{folder} cannot be written: {reason}")
