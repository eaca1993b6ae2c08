"""Checkpoints on the disk: model, report and position of the source in one atomic file.

A directory holds the latest checkpoints and belongs to one process at a time. A file is complete or
does not exist, so whatever ends a process, the next one resumes from a model and the position that
belongs to it.

File layout, little-endian:

1. 8 bytes ``streamcp``, the version of the format (uint32), the length of the body (uint64), and
   the SHA-256 of version and body.
2. The body: the lengths of its three parts (3 x uint64), then JSON in UTF-8 (see `_header`), a
   model file, and a numpy archive without objects (the arrays of the report).
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import struct
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1 import models
from streaml1.core import exit_codes as exits
from streaml1.core.parser_race import retry_parse
from streaml1.core.types import SourcePosition
from streaml1.models.pipelines import snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.training.checkpoint.ownership import (
    CheckpointDirectory,
    CheckpointError,
    list_files,
    path_of,
)
from streaml1.training.report import Report
from streaml1.training.saved_state import require_like, require_type

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "load_latest",
    "load_latest_file",
    "require_model",
    "require_seconds",
]

logger = logging.getLogger("streaml1")

MAGIC = b"streamcp"
FORMAT = 1
_HEAD = struct.Struct("<8sIQ32s")
_LENGTHS = struct.Struct("<QQQ")


@dataclass(frozen=True)
class Checkpoint:
    """State of a run.

    Parameters
    ----------
    model
        The model.
    identity
        Facts that identify the source, by name.
    position
        Position of the source to resume at; None is the start of a pass.
    pass_index, learnt
        Index of the pass, from 0, and the examples learnt in it.
    report
        Arguments of `Report.load_state_dict`.
    extra
        Further state as JSON holds it, such as that of delayed labels; None if there is none.
    """

    model: Any
    identity: dict[str, Any]
    position: Any
    pass_index: int
    learnt: int
    report: tuple[dict[str, Any], dict[str, Any]]
    extra: Any = None

    @property
    def is_blank(self) -> bool:
        """Whether its run has learnt nothing, so that a run with other options may replace it."""
        return self.extra is None and self.report[0].get("examples") == 0


class Checkpoints:
    """A directory of checkpoints. This process owns it until it is closed.

    Parameters
    ----------
    directory
        The directory. It is created if it does not exist.
    seconds
        Interval after which `is_due` is true; 0 makes it always true.
    keep
        Number of checkpoints to keep, at least 1.
    alone
        Whether a live owner keeps the directory, so that a second process is rejected. If False,
        the second takes it over, and the first fails when it saves again; see `ownership.py`.

    Attributes
    ----------
    directory : Path
        The directory.
    size : int or None
        Bytes of the last checkpoint that this process saved.

    Raises
    ------
    CheckpointError
        If another process owns the directory (the message has its pid and host), or if it cannot be
        written.
    ValueError
        If `seconds` is negative or NaN, or `keep` is below 1.
    """

    def __init__(
        self, directory: str | Path, *, seconds: float = 10.0, keep: int = 3, alone: bool = True
    ) -> None:
        require_seconds(seconds)
        self._files = CheckpointDirectory(directory, keep=keep, alone=alone)
        self.directory = self._files.path
        self.seconds = seconds
        self.keep = keep
        self.size: int | None = None
        self._saved_at = time.monotonic()
        self._latest: Checkpoint | None = None
        self._writer: _BackgroundWriter | None = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish a write in the background, and release the directory."""
        if self._writer is not None:
            self._writer.thread.join()
        self._files.close()

    @property
    def epoch(self) -> int:
        """Ordinal of this owner of the directory, from 1."""
        return self._files.epoch

    def latest(self) -> Checkpoint | None:
        """Return the latest valid checkpoint; None if there is no file.

        Raises
        ------
        CheckpointError
            If there are files, and none is valid.
        """
        if self._latest is None:
            self._latest = self._files.read_latest(
                _decode, lambda error: logger.warning("%s; using the previous checkpoint", error)
            )
        return self._latest

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is older than `seconds` and none is being written."""
        return self._writer is None and time.monotonic() - self._saved_at >= self.seconds

    def save(
        self,
        model: Any,
        report: Report,
        identity: dict[str, Any],
        position: SourcePosition | None,
        pass_index: int = 0,
        learnt: int = 0,
        extra: Any = None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Write a checkpoint atomically, and remove the oldest.

        `arrays` are saved next to those of the report, which have other names.

        Raises
        ------
        CheckpointError
            If the directory has another owner by now, or cannot be written.
        """
        self.settled(wait=True)
        facts, own = report.state_dict()
        saved = facts, {**own, **(arrays or {})}
        state = Checkpoint(model, identity, position, pass_index, learnt, saved, extra)
        data = self._snapshot(state)()
        self._files.write(data)
        self.size = len(data)
        self._saved_at = time.monotonic()

    def save_in_background(
        self,
        model: Any,
        report: Report,
        identity: dict[str, Any],
        position: SourcePosition | None,
        pass_index: int = 0,
        learnt: int = 0,
        extra: Any = None,
    ) -> None:
        """Start to write a checkpoint of the current state in a thread, and return.

        The model may continue to learn at once. `settled` reports when the checkpoint is durable.
        """
        self.settled(wait=True)
        self._saved_at = time.monotonic()
        facts = report.state_dict()
        state = Checkpoint(model, identity, position, pass_index, learnt, facts, extra)
        self._writer = _BackgroundWriter(self._snapshot(state), self._files)

    def settled(self, wait: bool = False) -> bool:
        """Return whether a background write has finished since the last call; `wait` waits for it.

        Raises
        ------
        CheckpointError
            If the write failed.
        """
        writer = self._writer
        if writer is None or (writer.thread.is_alive() and not wait):
            return False
        writer.thread.join()
        self._writer = None
        if writer.error is not None:
            raise writer.error
        self.size = writer.size
        return True

    def _snapshot(self, state: Checkpoint) -> Callable[[], bytes]:
        """Copy a state, and return a function that any thread may call to encode the copy."""
        require_model(state.model)
        _, arrays = state.report
        arrays = {name: array.copy() for name, array in arrays.items()}
        header = self._header(state)
        model = snapshot(state.model, packed=False)
        return lambda: _encode(header, model(), arrays)

    def _header(self, state: Checkpoint) -> bytes:
        return json.dumps(
            {
                "identity": state.identity,
                "position": state.position,
                "turn": state.pass_index,
                "learnt": state.learnt,
                "report": state.report[0],
                "epoch": self.epoch,
                "extra": state.extra,
            }
        ).encode()


class _BackgroundWriter:
    """A thread that encodes and writes one checkpoint."""

    def __init__(self, encode: Callable[[], bytes], files: CheckpointDirectory) -> None:
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


def load_latest(
    directory: Path, on_invalid: Callable[[str], object] = lambda reason: None
) -> Checkpoint | None:
    """Return the latest valid checkpoint of a directory that another process may own, or None.

    `on_invalid` is called with the reason for each later file that is passed over.
    """
    found = load_latest_file(directory, on_invalid)
    return None if found is None else found[0]


def load_latest_file(
    directory: Path, on_invalid: Callable[[str], object] = lambda reason: None
) -> tuple[Checkpoint, Path] | None:
    """Return what `load_latest` returns, and its file."""
    for file in list_files(directory):
        path = path_of(directory, file)
        try:
            return _decode(path.read_bytes(), path), path
        except FileNotFoundError:  # its owner has removed it
            continue
        except ModelFileError as error:
            on_invalid(str(error))
        except OSError as error:
            on_invalid(f"{path}: {exits.os_reason(error)}")
    return None


def require_seconds(seconds: float) -> None:
    """Raise ValueError unless a number of seconds can be an interval of checkpoints."""
    if not seconds >= 0.0:
        raise ValueError(f"seconds must be >= 0, got {seconds}")


def require_model(model: Any) -> None:
    """Raise CheckpointError unless a checkpoint can hold the model."""
    try:
        snapshot(model)
    except ModelFileError as error:
        raise CheckpointError(f"{error}; leave the checkpoint out") from None


def _encode(header: bytes, model: bytes, arrays: dict[str, Any]) -> bytes:
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    parts = [header, model, archive.getvalue()]
    body = _LENGTHS.pack(*map(len, parts)) + b"".join(parts)
    return _HEAD.pack(MAGIC, FORMAT, len(body), _digest(FORMAT, body)) + body


def _digest(version: int, body: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<I", version) + body).digest()


def _decode(data: bytes, path: Path) -> Checkpoint:
    """Decode a file; raise CheckpointError if it is damaged, foreign, or of a newer format."""
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        raise CheckpointError(f"{path} is not a checkpoint, or is truncated")
    _, version, length, digest = _HEAD.unpack_from(data)
    if version < 1:
        raise CheckpointError(f"{path} is truncated or altered")
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, newer than {FORMAT}; upgrade streaml1")
    body = data[_HEAD.size :]
    if len(body) != length or _digest(version, body) != digest:
        raise CheckpointError(f"{path} is truncated or altered")
    try:
        return _parse_body(body, path)
    except ModelFileError:
        raise
    except Exception:  # a crafted file may provoke any error
        raise CheckpointError(f"{path} is not a checkpoint written by streaml1") from None


def _parse_body(body: bytes, path: Path) -> Checkpoint:
    lengths = _LENGTHS.unpack_from(body)
    starts = np.cumsum([_LENGTHS.size, *lengths]).tolist()
    text, model, archive = (body[lo:hi] for lo, hi in zip(starts[:-1], starts[1:], strict=True))
    header = json.loads(text)
    require_type(header["identity"], dict[str, Any], "identity")
    require_type(header["report"], dict[str, Any], "report")
    counts = {name: header[name] for name in ("turn", "learnt")}
    require_like(counts, {"turn": 0, "learnt": 0}, "the checkpoint")
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        if any(member.compress_type != zipfile.ZIP_STORED for member in members.infolist()):
            raise ValueError("arrays are compressed, and may have any size")
    arrays = retry_parse(partial(_read_arrays, archive))
    return Checkpoint(
        model=models.decode(model, path),
        report=(header["report"], arrays),
        pass_index=header["turn"],
        **{name: header[name] for name in ("identity", "position", "learnt", "extra")},
    )


def _read_arrays(archive: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(archive), allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}
