"""One model from one pass over a stream that is divided among workers, in rounds.

The stream is a sequence of `.rows` files, read as one. The model learns the first rows alone. The
rest is cut into rounds, and each round into shards: consecutive rows. In a round each shard is
learnt by a copy of the model, the copies are merged, and the result is the base of the next round.
How they join is decided by the first rows of the next round, which none has learnt yet. The last
rows of the stream decide about the last round, and are learnt afterwards. So every row is learnt
once, and is predicted before that.

A shard has a clock of its own. Where learning rates fall with the number of examples, its rate is
that of a model which has learnt 1/K of the rows so far. At the small rate of all rows, K copies
that are averaged would move the model by 1/K of what one model moves. Coins have no rate; what they
have bet is divided instead (`start_shards`).

Cuts depend on the numbers of rows alone, and a task is a pure function of a model and a range of
rows. So the bits of the result depend on the files and the arguments, and not on the executor, the
number of workers, or the order in which tasks end.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from streaml1 import training
from streaml1.core.named_options import by_caller
from streaml1.distributed.executors import Executor, TaskFailed, executor_of
from streaml1.distributed.fan_out import Progress
from streaml1.distributed.round_report import Round, Trained
from streaml1.distributed.round_store import RoundStore
from streaml1.models.merging import (
    always_has_momentum,
    can_have_momentum,
    require_mergeable,
    set_clock,
    start_shards,
)
from streaml1.sources import SourceOptions, is_many, list_files
from streaml1.sources.row_cache.row_range import RowRange, RowStream
from streaml1.training.config import require_positive
from streaml1.training.example_sources import open_examples
from streaml1.training.merge import compare
from streaml1.training.model_adapter import loss_of, text_features
from streaml1.training.report import NAMES

__all__ = ["MAX_SHARDS", "MIN_SHARD_ROWS", "train"]

logger = logging.getLogger("streaml1")

MIN_SHARD_ROWS = 10_000
"""Rows of the stream per shard, at least: models of few rows do not join well."""

MAX_SHARDS = 4
"""Number of shards by default, if there are enough rows."""

SLACK = 0.02
"""A merge is taken unless the base or a part has a loss that is smaller by more than this share.

Smaller differences are those of the probe. A merge that is refused loses what the other parts have
learnt. The probe judges how models predict the next example: the published averages of
``lr="auto"`` follow the weights with a delay, and would show too late that a merge goes too far.
"""

MOMENTUM_SLACK = 0.1
"""The same if all candidates repeat the last move: it may take a few rounds to pay off."""


class _Stretch(NamedTuple):
    """Rows `lo` to `hi` of the stream, learnt in a number of shards."""

    name: str
    lo: int
    hi: int
    shards: int

    def cuts(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each shard and the row after its last."""
        n, K = self.hi - self.lo, self.shards
        for k in range(K):
            yield self.lo + n * k // K, self.lo + n * (k + 1) // K


def train(
    model: Any,
    sources: Any,
    *,
    executor: Executor | None = None,
    shards: int | None = None,
    rounds: int = 16,
    warm: float = 0.05,
    probe: int = 2000,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Learn one model from one pass over a stream, in several shards at the same time.

    After each round the models of the shards are merged as by `streaml1.merge`. The result is close
    to that of one learner which reads everything in order, and not equal to it, unless there is one
    shard. Then it is bit-identical.

    Parameters
    ----------
    model
        The model to learn on from. It stays as it is. Its class must be one that can be merged.
    sources
        ``.rows`` files, written by `streaml1 convert`: one, a list, a directory or a pattern. They
        are read as one stream, in this order. Workers open them by these paths.
    executor
        Where shards are learnt; None: in this process, one after the other.
    shards
        Number of shards: at most one for 10,000 rows of the stream. None: 4, or fewer if there are
        not enough rows. More shards can use more workers, and cost accuracy.
    rounds
        Number of rounds.
    warm
        Share of the rows that the model learns alone before the first round.
    probe
        Number of rows that judge a merge.
    checkpoint
        Directory for checkpoints, which are written after each round. A run resumes from the latest
        one, and ends with the bits of a run that was not interrupted. It can be given to `load`.
    progress
        Called with the number of finished rounds and of all, warm-up and rest included.

    Returns
    -------
    Trained
        The model, and a table of the rounds.

    Raises
    ------
    BadExample
        If a row is rejected; the error names the file and the line. Nothing of the round is merged.
    CheckpointError
        If the checkpoint belongs to another process or another run, or cannot be read or written.
    SourceError
        If a file is not a ``.rows`` file, is damaged or cannot be read.
    TaskFailed
        If the worker of a shard died each time it was tried; the error names the files and rows.
    TypeError, ValueError
        If an argument is out of range, the model cannot be merged, or the shards of a round have
        seen more features together than one model may see.

    Examples
    --------
    >>> import tempfile, streaml1
    >>> from streaml1.distributed import train
    >>> from streaml1.training import convert
    >>> rows = [({k % 7: 1.0, 7 + k % 9: 1.0}, k % 7 < 3) for k in range(21_000)]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     converted = convert(rows, f"{directory}/clicks.rows")
    ...     trained = train(streaml1.FTRLClassifier(), f"{directory}/clicks.rows", rounds=2)
    >>> trained.shards, trained.model.n_iterations, [line.name for line in trained.rounds]
    (2, 21000, ['warm-up', '1', '2', 'rest'])
    """
    require_mergeable([model])
    stream = RowStream(_files(sources))
    open_examples(stream.range(0, 0), SourceOptions(text=text_features(model)))  # may reject it
    shards = _number_of_shards(len(stream), shards)
    stretches = _stretches(len(stream), shards, rounds, warm, probe)
    run = _Run(_unpickled(_pickled(model)), stream, executor_of(executor), probe)
    settings = {"shards": shards, "rounds": rounds, "warm": warm, "probe": probe}
    with RoundStore(checkpoint, stream.digests, settings) as store:
        run.model, run.done, run.before = store.resume(run.model)
        for number, stretch in enumerate(stretches[len(run.done) :], start=len(run.done) + 1):
            run.learn(stretch)
            store.save(run.model, run.done, run.before)
            if progress is not None:
                progress(number, len(stretches))
    return Trained(run.model, run.done, shards, NAMES[loss_of(model)])


def _files(sources: Any) -> list[str]:
    """Return the names of the files of the stream."""
    if is_many(sources):
        return list_files(sources)
    if isinstance(sources, list | tuple) and not sources:
        raise ValueError(f"sources must name at least one .rows file, got {sources}")
    if not isinstance(sources, str | Path):
        raise TypeError(
            f"sources must be the names of .rows files, got an object of type "
            f"{type(sources).__name__}; write it to a file with streaml1.training.convert"
        )
    return [str(sources)]


def _number_of_shards(n_rows: int, shards: int | None) -> int:
    """Return the number of shards of a stream."""
    limit = max(1, n_rows // MIN_SHARD_ROWS)
    if shards is None:
        return min(MAX_SHARDS, limit)
    require_positive("shards", shards)
    if shards > limit:
        raise ValueError(
            f"{by_caller('--shards', 'shards')} must be <= {limit} for {n_rows:,} rows, one for "
            f"{MIN_SHARD_ROWS:,} rows, got {shards}"
        )
    return shards


def _stretches(n_rows: int, shards: int, rounds: int, warm: float, probe: int) -> list[_Stretch]:
    """Cut a stream into the warm-up, the rounds and the rest."""
    require_positive("rounds", rounds)
    require_positive("probe", probe)
    if not (isinstance(warm, int | float) and 0.0 <= warm < 1.0):
        raise ValueError(f"warm must be in [0, 1), got {warm!r}")
    first = int(warm * n_rows)
    last = n_rows - (probe if shards > 1 else 0)  # one shard is not merged: nothing is judged
    n = last - first
    if n < rounds * shards:
        given = by_caller(
            f"--warm {warm}, --rounds {rounds}, --shards {shards} and --probe-rows {probe}",
            f"warm={warm}, rounds={rounds}, shards={shards} and probe={probe}",
        )
        raise ValueError(f"{n_rows:,} rows are too few for {given}; lower one of them")
    cuts = [first + n * k // rounds for k in range(rounds + 1)]
    parts = [
        _Stretch("warm-up", 0, first, 1),
        *(_Stretch(str(k + 1), cuts[k], cuts[k + 1], shards) for k in range(rounds)),
        _Stretch("rest", last, n_rows, 1),
    ]
    return [part for part in parts if part.hi > part.lo]


class _Run:
    """The model, what has happened so far, and the base of the last round if the next needs it."""

    def __init__(self, model: Any, stream: RowStream, executor: Executor, probe: int) -> None:
        self.model = model
        self.done: list[Round] = []
        self.before: Any = None
        self._stream, self._executor, self._probe = stream, executor, probe

    def learn(self, stretch: _Stretch) -> None:
        """Learn some rows, and merge what the shards have learnt."""
        started = time.perf_counter()
        learnt, step = self.model.n_iterations, self.model._state.rate_step
        set_clock(self.model, learnt, step // stretch.shards)
        base = _start_of_shards(self.model, stretch)
        calls = [(base, self._stream.range(lo, hi)) for lo, hi in stretch.cuts()]
        handles = [self._executor.submit(_learn, *call) for call in calls]
        try:
            sent, sums = zip(*self._executor.gather(handles), strict=True)
        except TaskFailed as error:
            place = calls[error.index][1].place
            raise TaskFailed(f"{place} (round {stretch.name})", error.index) from None
        n_bytes = len(base) * len(sent) + sum(map(len, sent))
        parts = [_unpickled(part) for part in sent]
        weight, loss = (sum(column) for column in zip(*sums, strict=True))
        candidates, chosen = [], ""
        if stretch.shards == 1:
            [self.model] = parts
        else:
            after = min(stretch.hi + self._probe, len(self._stream))
            probe = self._stream.range(stretch.hi, after)
            start = self.model
            slack = MOMENTUM_SLACK if always_has_momentum(start) else SLACK
            before = start if self.before is None else self.before
            merged = compare(
                parts, start, probe=probe, slack=slack, before=before, published=False,
                every=self._probe,
            )  # fmt: skip
            self.model, candidates, chosen = merged.model, merged.candidates, merged.chosen
            self.before = start if can_have_momentum(start) else None
        n = stretch.hi - stretch.lo
        set_clock(self.model, learnt + n, step + n)
        seconds = time.perf_counter() - started
        mean = loss / weight if weight > 0.0 else None
        line = Round(
            name=stretch.name, rows=n, loss=mean, candidates=candidates,
            chosen=chosen, n_nonzero=self.model.n_nonzero, n_bytes=n_bytes, seconds=seconds,
        )  # fmt: skip
        self.done.append(line)
        logger.info("round %s: %s", stretch.name, line)


def _start_of_shards(model: Any, stretch: _Stretch) -> bytes:
    """Return the model from which each shard starts."""
    sent = _pickled(model)
    if stretch.shards == 1:
        return sent
    copy = _unpickled(sent)
    start_shards(copy, stretch.shards, stretch.hi - stretch.lo)
    return _pickled(copy)


def _learn(base: bytes, rows: RowRange) -> tuple[bytes, tuple[float, float]]:
    """Return the model after some rows, and the sums of sample weights and losses.

    It is a pure function, which may run anywhere and more than once.
    """
    model = _unpickled(base)
    report = training.progressive(
        model, rows, every=max(1, len(rows)), data_checks=False, on_drift="ignore"
    )
    weight, loss, _ = report.sums
    return _pickled(model), (weight, loss)


# Models travel as bytes, so that each round pickles its base once, and no executor shares a model
# with the caller.


def _pickled(model: Any) -> bytes:
    return pickle.dumps(model, pickle.HIGHEST_PROTOCOL)


def _unpickled(data: bytes) -> Any:
    return pickle.loads(data)
