"""Models in a topic of Kafka: one run puts them there, anyone may take the newest whole one.

The topic has two partitions and is compacted. A model is cut into chunks, which go to partition 1;
once all of them are there, a manifest goes to partition 0: how many chunks, their offsets, a
SHA-256 over all, and the publication's id, which every chunk has in a header.

Keys alternate between two slots: the publication after that in slot 0 has its chunks and its
manifest in slot 1, the one after it in slot 0 again. So, at every moment:

- *What a reader takes is one publication.* It takes a manifest, the chunks between its offsets that
  have its id, each number once, and what they give together has its SHA-256; or it takes nothing.
- *The newest manifest is of a publication that is whole.* Its chunks were acknowledged by all
  replicas in sync before it was sent. Compaction removes a record only for a later one of its key,
  and the only ones with these keys are of the publication after the next: they come after the
  manifest in the other slot, which then is the newest. A publication that was cut off, wherever,
  has overwritten keys of the older slot and left no manifest; the next one uses that slot again.
- *A reader that is overtaken begins anew.* While it reads, two publications may come and compaction
  may take what it is after. It then finds a newer manifest.
- *What a larger model has left* (chunks with numbers that a smaller one does not reach) has another
  id; it is deleted after the next publication in its slot.

Two runs that publish at a time would share slots. Each counts up the topic's epoch as it begins,
and one that finds a manifest of a later epoch publishes nothing more. Should its last chunks have
come between those of the other, and compaction between them, what is torn by that is found by id
and SHA-256, passed over for the slot before, and mended by the next publication.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streaml1 import models
from streaml1.models.serialization import ModelFileError

__all__ = ["load"]


def load(path: str | Path) -> Any:
    """Read a model: a file, a folder of checkpoints, or the newest in ``kafka://host:port/topic``.

    It goes on exactly as the saved one would have.

    Parameters
    ----------
    path
        The file that `save` wrote; the folder that ``learn --checkpoint`` keeps, whose last whole
        checkpoint counts; or the topic that ``learn --publish`` puts models in.

    Raises
    ------
    ModelFileError
        In one sentence, where the file is missing, torn, altered, foreign or too new, or the topic
        holds no whole model.
    SourceError
        Where no broker answers, or the topic cannot be read.
    """
    if not (isinstance(path, str) and path.startswith("kafka:")):
        return _of_folder(Path(path)) if Path(path).is_dir() else models.load(path)
    from streaml1.training.model_registry.reader import read

    return read(path)


def _of_folder(folder: Path) -> Any:
    from streaml1.training.checkpoint import Unreadable, look
    from streaml1.training.checkpoint.ownership import names_in

    found = look(folder)
    if found is None and names_in(folder):
        raise Unreadable(f"{folder} holds no checkpoint that can be read: all are torn or altered")
    if found is None:
        raise ModelFileError(f"{folder} is a directory without a whole checkpoint: name a file")
    return found.model
