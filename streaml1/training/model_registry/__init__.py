"""Models in a Kafka topic: one run publishes them, any process loads the newest complete one.

The topic has two partitions and is compacted. A model is split into chunks, which are written to
partition 1. Once all chunks are acknowledged, a manifest is written to partition 0. It has the
number of chunks, their offsets, a SHA-256 of the whole model, and the id of the publication, which
each chunk has in a header.

Keys alternate between two slots: after a publication in slot 0, the next one has its chunks and its
manifest in slot 1, and the one after that in slot 0 again. At every moment the following holds.

A reader gets one publication or nothing.
    It takes a manifest and the chunks between its offsets that have its id, each number once, and
    checks the SHA-256 of the result.

The newest manifest belongs to a complete publication.
    All in-sync replicas have acknowledged its chunks before it was sent. Compaction removes a
    record only for a later one with its key. The only later records with these keys are those of
    the publication after the next one, and they come after the manifest in the other slot, which is
    the newest by then. A publication that was interrupted, at whatever point, has overwritten keys
    of the older slot and left no manifest; the next publication uses that slot again.

A reader that is overtaken starts again.
    While it reads, two publications may be written, and compaction may remove what it reads. It
    then finds a newer manifest.

Chunks that a larger model has left have another id.
    These are chunks with numbers that a smaller model does not reach. They are deleted after the
    next publication in the slot.

Two runs that publish at the same time would share slots. Each run increments the epoch of the topic
when it starts, and a run that finds a manifest of a later epoch stops publishing. Its last chunks
may have been written between those of the other run, and compaction may have run in between. Then
id and SHA-256 reveal the incomplete publication, readers use the other slot, and the next
publication repairs it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from streaml1 import models
from streaml1.models.serialization import ModelFileError

__all__ = ["load"]

logger = logging.getLogger("streaml1")


def load(path: str | Path) -> Any:
    """Load a model from a file, a directory of checkpoints, or a topic.

    The model resumes learning bit-identically to the one that was saved.

    Parameters
    ----------
    path
        A file written by `save`; a directory of ``learn --checkpoint``, whose latest intact
        checkpoint is used; or a topic of ``learn --publish`` or ``learn --mixed``,
        ``kafka://host:port/topic``, whose newest complete model is used.

    Raises
    ------
    ModelFileError
        If the file is missing, truncated, modified, not a model or of a newer format, or the
        directory or topic holds no complete model.
    SourceError
        If no broker answers, or the topic cannot be read.
    """
    if not (isinstance(path, str) and path.startswith("kafka:")):
        return _load_checkpoint(Path(path)) if Path(path).is_dir() else models.load(path)
    from streaml1.training.model_registry.reader import read

    return read(path)


def _load_checkpoint(directory: Path) -> Any:
    from streaml1.training.checkpoint import (
        Unreadable,
        load_latest,
        partition_directories,
        several_models,
    )

    reasons: list[str] = []
    checkpoint = load_latest(directory, reasons.append)
    if checkpoint is None and reasons:
        raise Unreadable(f"{directory} holds no readable checkpoint: {reasons[0]}")
    if checkpoint is None:
        if partitions := partition_directories(directory):
            raise several_models(directory, partitions)
        raise ModelFileError(f"{directory} is a directory without a checkpoint; give a model file")
    if reasons:
        logger.warning("%s; using the previous checkpoint", reasons[0])
    return checkpoint.model
