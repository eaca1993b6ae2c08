"""Where a run stands, in one file: the model, the report, and the position of the source.

A folder holds the last few checkpoints and belongs to one process at a time. A checkpoint is there
whole or not at all, so that whatever ends a process, the next one goes on from a model and the
position that belongs to it.

Layout of a file: 8 bytes `streamcp`, the format's version (uint32, little-endian), the length of
what follows the digest (uint64), its SHA-256; then the length of each part (3 uint64), JSON in
UTF-8, a model file, and a numpy archive without objects.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streaml1 import models
from streaml1.models.base import OnlineModel
from streaml1.models.serialization import ModelFileError
from streaml1.training.checkpoint.ownership import CheckpointError, Folder, file_in, names_in
from streaml1.training.report import Report

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "look",
    "require_model",
    "require_seconds",
]

logger = logging.getLogger("streaml1")

MAGIC = b"streamcp"
FORMAT = 1
_HEAD = struct.Struct("<8sIQ32s")
_PARTS = struct.Struct("<QQQ")


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
        How many checkpoints stay, from 1.
    alone
        Whether a process that is alive keeps the folder: a second one is refused. Else the second
        takes it over, and the first is refused where it saves again; see `claims.py`.

    Attributes
    ----------
    size : int or None
        The bytes of the last one that was saved here.

    Raises
    ------
    CheckpointError
        Where another process owns the folder, with its number and its host, or it cannot be
        written.
    ValueError
        Where `seconds` is below 0 or NaN, or `keep` below 1.
    """

    def __init__(
        self, folder: str | Path, *, seconds: float = 10.0, keep: int = 3, alone: bool = True
    ) -> None:
        require_seconds(seconds)
        self._files = Folder(folder, keep=keep, alone=alone)
        self.folder = self._files.path
        self.seconds = seconds
        self.keep = keep
        self._saved = time.monotonic()
        self.size: int | None = None
        self._found: Checkpoint | None = None
        self._saving: _Saving | None = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back; what is being written is written first."""
        if self._saving is not None:
            self._saving.thread.join()
        self._files.close()

    @property
    def epoch(self) -> int:
        """Which owner of the folder this process is, from 1."""
        return self._files.epoch

    def latest(self) -> Checkpoint | None:
        """The last checkpoint that is whole, or None where there is none at all."""
        if self._found is None:
            self._found = self._files.last(
                _decode, lambda wrong: logger.warning("%s; going on from the one before", wrong)
            )
        return self._found

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is older than `seconds`, and none is being written."""
        return self._saving is None and time.monotonic() - self._saved >= self.seconds

    def save(
        self,
        model: Any,
        report: Report,
        identity: dict[str, Any],
        position: Any,
        turn: int = 0,
        learnt: int = 0,
        extra: Any = None,
    ) -> None:
        """Write a checkpoint in one step, and drop the oldest.

        Raises
        ------
        CheckpointError
            Where the folder has another owner by now, or cannot be written.
        """
        self.settled(wait=True)
        data = self._snapshot(model, report, identity, position, turn, learnt, extra)()
        self._files.write(data)
        self.size = len(data)
        self._saved = time.monotonic()

    def save_aside(self, *state: Any) -> None:
        """Begin to write a checkpoint of what is now, and return: a thread does the rest.

        The model may go on learning at once. `settled` tells when it is kept.
        """
        self.settled(wait=True)
        self._saved = time.monotonic()
        self._saving = _Saving(self._snapshot(*state), self._files)

    def settled(self, wait: bool = False) -> bool:
        """Whether a checkpoint begun by `save_aside` is kept since the last call.

        Raises
        ------
        CheckpointError
            Where it could not be written.
        """
        saving = self._saving
        if saving is None or (saving.thread.is_alive() and not wait):
            return False
        saving.thread.join()
        self._saving = None
        if saving.error is not None:
            raise saving.error
        self.size = saving.size
        return True

    def _snapshot(
        self,
        model: Any,
        report: Report,
        identity: dict[str, Any],
        position: Any,
        turn: int = 0,
        learnt: int = 0,
        extra: Any = None,
    ) -> Callable[[], bytes]:
        """What a checkpoint of now holds, to be made at any time, by any thread."""
        require_model(model)
        facts, arrays = report.state_dict()
        arrays = {name: array.copy() for name, array in arrays.items()}
        header = json.dumps(
            {
                "identity": identity,
                "position": position,
                "turn": turn,
                "learnt": learnt,
                "report": facts,
                "epoch": self.epoch,
                "extra": extra,
            }
        ).encode()
        model = model._snapshot(packed=False)
        return lambda: _encode(header, model(), arrays)


class _Saving:
    """A checkpoint that is being written."""

    def __init__(self, encode: Callable[[], bytes], files: Folder) -> None:
        self.error: BaseException | None = None
        self.size = 0
        self._encode, self._files = encode, files
        self.thread = threading.Thread(target=self._run, name="streaml1-checkpoint")
        self.thread.start()

    def _run(self) -> None:
        try:
            data = self._encode()
            self._files.write(data)
            self.size = len(data)
        except BaseException as error:
            self.error = error


def look(folder: Path) -> Checkpoint | None:
    """The last whole checkpoint in a folder that may be another's; None where there is none."""
    for name in names_in(folder):
        path = file_in(folder, name)
        with contextlib.suppress(ModelFileError, OSError):
            return _decode(path.read_bytes(), path)
    return None


def require_seconds(seconds: float) -> None:
    """Refuse what is no time between two checkpoints."""
    if not seconds >= 0.0:
        raise ValueError(f"seconds={seconds} is no time between checkpoints; give 0 or more")


def require_model(model: Any) -> None:
    """Refuse what a checkpoint cannot hold."""
    if not isinstance(model, OnlineModel):
        raise CheckpointError(
            f"a checkpoint holds a model of streaml1, not a {type(model).__name__}: leave it out"
        )


def _encode(header: bytes, model: bytes, arrays: dict[str, Any]) -> bytes:
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    parts = [header, model, archive.getvalue()]
    body = _PARTS.pack(*map(len, parts)) + b"".join(parts)
    return _HEAD.pack(MAGIC, FORMAT, len(body), _digest(FORMAT, body)) + body


def _digest(version: int, body: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<I", version) + body).digest()


def _decode(data: bytes, path: Path) -> Checkpoint:
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        raise CheckpointError(f"{path} is no checkpoint, or is torn")
    _, version, length, digest = _HEAD.unpack_from(data)
    if version < 1:
        raise CheckpointError(f"{path} is torn, or has been altered")
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, newer than {FORMAT}: upgrade streaml1")
    body = data[_HEAD.size :]
    if len(body) != length or _digest(version, body) != digest:
        raise CheckpointError(f"{path} is torn, or has been altered")
    try:
        return _read(body, path)
    except ModelFileError:
        raise
    except Exception:  # whatever a crafted file provokes
        raise CheckpointError(f"{path} is no checkpoint that streaml1 has written") from None


def _read(body: bytes, path: Path) -> Checkpoint:
    lengths = _PARTS.unpack_from(body)
    starts = np.cumsum([_PARTS.size, *lengths]).tolist()
    text, model, archive = (body[lo:hi] for lo, hi in zip(starts[:-1], starts[1:], strict=True))
    header = json.loads(text)
    with np.load(io.BytesIO(archive), allow_pickle=False) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    return Checkpoint(
        model=models.decode(model, path),
        report=(header["report"], arrays),
        **{name: header[name] for name in ("identity", "position", "turn", "learnt", "extra")},
    )
