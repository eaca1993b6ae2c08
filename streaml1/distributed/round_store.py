"""Checkpoints of `train`: the model after a round, and what has happened so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streaml1.core.rows import shown
from streaml1.distributed.round_report import Round
from streaml1.models import decode
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from streaml1.training.merge import Candidate
from streaml1.training.model_adapter import loss_of
from streaml1.training.report import Report
from streaml1.training.saved_state import require_type

__all__ = ["RoundStore"]

BEFORE = "before"
"""Name of the array that holds the base of the last round, as a model file."""


class RoundStore:
    """A directory with the state after the latest round; a no-op without one.

    The files are those of `streaml1.training.checkpoint`, so that all commands read the model.

    Parameters
    ----------
    directory
        The directory; None: nothing is saved.
    digests
        The SHA-256 of each file of the stream.
    settings
        Arguments that the bits of the result depend on, by name.

    Raises
    ------
    CheckpointError
        If the directory belongs to another process, or cannot be written.
    """

    def __init__(
        self, directory: str | Path | None, digests: Sequence[str], settings: dict[str, Any]
    ) -> None:
        self._store = None if directory is None else Checkpoints(directory)
        self._identity = {"source": "rounds", "sha256": list(digests), **settings}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._store is not None:
            self._store.close()

    def save(self, model: Any, done: Sequence[Round], before: Any) -> None:
        """Write the model after some rounds, and the base of the last one; None if it has none."""
        if self._store is None:
            return
        report, position = Report(loss_of(model)), {"rounds": len(done)}
        arrays = {}
        if before is not None:
            arrays[BEFORE] = np.frombuffer(before._encode(packed=False), np.uint8)
        self._store.save(
            model, report, self._identity, position, extra={"rounds": list(done)}, arrays=arrays
        )

    def resume(self, model: Any) -> tuple[Any, list[Round], Any]:
        """Return the latest model, what has happened and the last base, or `model` and nothing.

        Raises
        ------
        CheckpointError
            If the latest checkpoint is of another run, or was altered.
        """
        found = None if self._store is None else self._store.latest()
        if found is None:
            return model, [], None
        assert self._store is not None
        directory = self._store.directory
        for name in {**found.identity, **self._identity}:
            saved, current = found.identity.get(name), self._identity.get(name)
            if saved != current:
                raise CheckpointError(
                    f"{directory} belongs to another run: its {name} is {shown(saved)}, now it is "
                    f"{shown(current)}; use another directory"
                )
        if repr(found.model) != repr(model):
            raise CheckpointError(
                f"{directory} holds {found.model!r}; resume with a model of these parameters"
            )
        try:
            done = [_round(line) for line in found.extra["rounds"]]
            return found.model, done, _base(found.report[1], model)
        except (LookupError, TypeError, ValueError):
            raise CheckpointError(
                f"the latest checkpoint of {directory} was not written by streaml1; use another "
                "directory"
            ) from None


def _base(arrays: Mapping[str, NDArray[Any]], like: Any) -> Any:
    """Return the model among the arrays of a checkpoint, or None."""
    if BEFORE not in arrays:
        return None
    base = decode(arrays[BEFORE].tobytes(), BEFORE)
    if repr(base) != repr(like):
        raise ValueError(f"the base has other parameters: {base!r}")
    return base


def _round(saved: Any) -> Round:
    """Return a round as JSON holds it."""
    require_type(saved, list[Any], "a round")
    require_type(saved[3], list[list[Any]], "the candidates")
    line = Round(*saved)._replace(candidates=[Candidate(*one) for one in saved[3]])
    types = ((line.name, str), (line.rows, int), (line.loss, float | None), (line.chosen, str))
    numbers = ((line.n_nonzero, int), (line.n_bytes, int), (line.seconds, float))
    of_candidates = (
        (value, kind)
        for one in line.candidates
        for value, kind in zip(one, (str, float, int), strict=True)
    )
    for value, kind in (*types, *numbers, *of_candidates):
        require_type(value, kind, "a field of a round")
    return line
