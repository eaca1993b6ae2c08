"""A model run over a stream: each example is predicted, then learnt, and the report grows."""

from __future__ import annotations

import contextlib
import heapq
import inspect
import itertools
import logging
import math
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from river import base

import streaml1.datasets  # noqa: F401  (makes `stdlib` a source)
from streaml1.batches import is_frame, is_matrix
from streaml1.checkpoint import Checkpoints, Keeper
from streaml1.classes import as_label
from streaml1.report import LEAST_PROBABILITY, MARGINS, NAMES, REGRESSION, Line, Report
from streaml1.rows import BadExample
from streaml1.streams import (
    Block,
    Refuse,
    SourceError,
    binary_label,
    class_label,
    number_label,
    open_source,
)
from streaml1.streams.source import Example, blocks_of, read_weight

__all__ = [
    "Prediction",
    "learner_of",
    "prediction_blocks",
    "predictions",
    "prepare",
    "progressive",
]

logger = logging.getLogger("streaml1")

BLOCK = 1000
"""The most examples that are read, and learnt, between two looks at `stop`."""

MATRIX_BLOCK = 8192

LOGGED = 5
"""How many refused examples are logged one by one."""


def progressive(
    model: Any,
    source: Any,
    *,
    every: int = 1000,
    limit: int | None = None,
    passes: int = 1,
    bad: str = "fail",
    on_line: Callable[[Line], object] | None = None,
    on_start: Callable[[Report], object] | None = None,
    stop: Any = None,
    format: str | None = None,
    target: str | None = None,
    categorical: Iterable[str] = (),
    weight: str | None = None,
    seed: int = 0,
    start: str | None = None,
    until_end: bool = False,
    partitions: Sequence[int] | None = None,
    group: str | None = None,
    checkpoint: str | Path | Checkpoints | None = None,
) -> Report:
    """Predict each example of a stream, then learn it, and report.

    Parameters
    ----------
    model
        An online learner of streaml1, or a river pipeline that ends in one.
    source
        What to learn from: a source as the command line names it (`"clicks.svm"`,
        `"river:Phishing"`, `"stdlib"`), a river dataset or any iterable of `(x, y)` or
        `(x, y, {"w": weight})`, or `(X, y)` or `(X, y, w)` with a data frame, a scipy.sparse
        matrix or a list of dicts.
    every
        A line of the report comes after each so many examples, and at the end.
    limit
        At most so many examples are learnt in each pass.
    passes
        How often the source is read.
    bad
        What to do with an example that is refused: `"fail"` stops, `"skip"` counts it, logs the
        first few under "streaml1" and goes on. It is never learnt.
    on_line
        Called with each line as it comes.
    on_start
        Called with the report once, before the stream is read.
    stop
        A `threading.Event`, or a function: once it is set, or true, the run ends after the
        current block.
    format, target, categorical, weight, seed, start, until_end, partitions, group
        As for `open_source`, where the source is a name.
    checkpoint
        A folder. The run goes on from the last checkpoint in it, if there is one, as if it had not
        ended: the model takes its state, and the report goes on too. Else it is the first. Another
        checkpoint follows every ten seconds, and at the end.

    Returns
    -------
    Report
        With `lines`, `table()`, `plot(path)` and `write(path)`.

    Raises
    ------
    BadExample
        Where an example is refused and `bad` is `"fail"`; the examples before it are learnt.
    SourceError
        Where the source cannot be read, or not as often as asked.

    Examples
    --------
    >>> from river import datasets
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> report = streaml1.progressive(model, datasets.Phishing(), every=500)
    >>> [line.examples for line in report.lines]
    [500, 1000, 1250]
    """
    _require_positive(every=every, limit=limit, passes=passes)
    refuse = _Refusals(bad)
    opened = _opened(
        source, format=format, target=target, categorical=categorical, weight=weight, seed=seed,
        start=start, until_end=until_end, partitions=partitions, group=group,
    )  # fmt: skip
    run = partial(_run, model, opened, every, limit, passes, refuse, on_line, on_start, stop)
    if isinstance(checkpoint, str | Path):
        with Checkpoints(checkpoint) as store:
            return run(store)
    return run(checkpoint)


def _run(
    model: Any,
    opened: _Opened,
    every: int,
    limit: int | None,
    passes: int,
    refuse: _Refusals,
    on_line: Callable[[Line], object] | None,
    on_start: Callable[[Report], object] | None,
    stop: Any,
    store: Checkpoints | None,
) -> Report:
    keeper = Keeper(store, opened, model)
    learner = learner_of(model)
    loss = _loss_of(learner)
    known = len(learner.classes_met) if loss == "softmax" else 0
    report = Report(loss, f"{opened.name}: {_called(model)}", getattr(opened, "d", None), known)
    learn, most = _learning(model, loss)
    stopped = _stopped(stop)
    if stop is not None and hasattr(opened, "heed"):
        opened.heed(stopped)
    report.skips = refuse.skip

    def tell(line: Line) -> None:
        if on_line is not None:
            on_line(line)

    def room() -> int:
        """How many examples may be learnt at once: up to the next line, and to the limit."""
        until_line = every - report.examples % every
        until_end = most if limit is None else limit - (report.examples - before)
        return min(most, until_line, until_end)

    prepare(model)
    report.start()
    first, learnt = keeper.begin(report)
    refuse.count = report.refused
    report.follow(learner)
    if on_start is not None:
        on_start(report)
    size = min(opened.block, every, limit or every)
    with contextlib.closing(_readings(opened, passes - first, size, refuse)) as readings:
        for turn, reading in enumerate(readings, start=first):
            before, learnt = report.examples - learnt, 0
            if room() == 0:
                continue
            for block in reading:
                chunk = _chunk(block, loss, opened.label)
                rows = 0
                for lo, rows, p in _parts(chunk, learn, room, refuse):
                    _, y, w = chunk.part(lo, rows)
                    report.add(p, _places(learner, y) if loss == "softmax" else y, w)
                    report.refused = refuse.count
                    if report.examples % every == 0:
                        tell(report.line(learner))
                report.refused = refuse.count
                done = room() == 0
                if store is not None:
                    after = block.after(rows if done else len(block))
                    keeper.moved(after, turn, report.examples - before)
                if stopped() or done:
                    break
            else:
                keeper.ended(turn, report.examples - before, stopped() or turn == passes - 1)
            if stopped():
                break
    report.refused = refuse.count
    keeper.finish()
    if report.finish(learner):
        tell(report.lines[-1])
    refuse.summarise()
    return report


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of one example.

    Parameters
    ----------
    line
        The line, or the number of the example, from 1.
    p
        The probability of True; the value for regressors; the probability of each label, where
        there are many; None for an example that was refused.
    place
        Where the example was read: ``clicks.svm:7``, or ``clicks/0@7`` of a topic.
    """

    line: int
    p: float | dict[Hashable, float] | None
    place: str


def predictions(
    model: Any, source: Any, *, limit: int | None = None, bad: str = "fail", **options: Any
) -> Iterator[Prediction]:
    """Predict each example of a stream; nothing is learnt, and no labels are needed.

    Parameters
    ----------
    model
        A model of streaml1.
    source, limit, bad
        As for `progressive`; a refused example that is skipped has the prediction None.
    options
        As for `open_source`; `target` names the column that is left out, if there is one.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier
    >>> from streaml1.consumer import predictions
    >>> [one.p for one in predictions(ElasticNetClassifier(), [({"cheap": 1}, None)])]
    [0.5]
    """
    blocks = prediction_blocks(model, source, limit=limit, bad=bad, **options)
    return itertools.chain.from_iterable(blocks)


def prediction_blocks(
    model: Any, source: Any, *, limit: int | None = None, bad: str = "fail", **options: Any
) -> Iterator[list[Prediction]]:
    """As `predictions`, but those that come at the same time together."""
    _require_positive(limit=limit)
    refuse = _Refusals(bad)
    opened = _opened(source, require_label=False, **options)
    return _predicted(model, opened, limit, refuse)


def _predicted(
    model: Any, opened: _Opened, limit: int | None, refuse: _Refusals
) -> Iterator[list[Prediction]]:
    loss = _loss_of(model)

    def predict(x: Any, y: Any, w: Any) -> Any:
        if loss == "softmax":
            labels = model.classes_met
            table = np.asarray(model.predict_proba_many(x), np.float64)
            told = np.empty(len(table), object)
            told[:] = [dict(zip(labels, row, strict=True)) for row in table.tolist()]
            return told
        if loss in REGRESSION:
            return np.asarray(model.predict_many(x), np.float64)
        return np.asarray(model.predict_proba_many(x), np.float64)[:, 1]

    def room() -> int:
        return opened.block if limit is None else limit - done

    done = 0
    refuse.lines = []
    for block in opened.blocks(min(opened.block, limit or opened.block), refuse):
        chunk = _Chunk(block.x, None, None, [], block)
        for lo, hi, p in _parts(chunk, predict, room, refuse):
            told: list[Prediction] = []
            for row, one in enumerate(p.tolist(), start=lo):
                line = block.lines[row]
                told += refuse.before(line)
                told.append(Prediction(line, one, block.place(row)))
            yield told
            done += hi - lo
        if room() == 0:
            return
    if last := list(refuse.before(None)):
        yield last
    refuse.summarise()


# Models


def learner_of(model: Any) -> Any:
    """The model itself, or the last step of a river pipeline."""
    steps = getattr(model, "steps", None)
    return learner_of(list(steps.values())[-1]) if isinstance(steps, Mapping) and steps else model


def _called(model: Any) -> str:
    """A model in a few words: the parameters that are not the defaults."""
    if not hasattr(model, "_get_params") or learner_of(model) is not model:
        return str(model)
    usual = inspect.signature(type(model)).parameters
    params = [
        f"{name}={value!r}"
        for name, value in model._get_params().items()
        if name not in usual or value != usual[name].default
    ]
    return f"{type(model).__name__}({', '.join(params)})"


def prepare(model: Any) -> None:
    """Have the kernels of a model ready: their first compilation takes seconds."""
    if hasattr(model, "progressive_many"):
        # The second row has its features in another order, which takes a kernel more.
        labels = (getattr(model, "classes", None) or [True, False])[:2]
        model.clone().progressive_many([{"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}], labels)


def _loss_of(learner: Any) -> str:
    if hasattr(learner, "classes_met"):
        return "softmax"
    loss = getattr(learner, "loss", None)
    if isinstance(loss, str) and loss in NAMES:
        return loss
    if isinstance(learner, base.Regressor):
        return "squared"
    if isinstance(learner, base.Classifier):
        return "logistic"
    raise TypeError(
        f"{type(learner).__name__} is neither a classifier nor a regressor of river; "
        "give a model such as streaml1.ElasticNetClassifier()"
    )


Learn = Callable[[Any, Any, Any], Any]


def _learning(model: Any, loss: str) -> tuple[Learn, int]:
    """What predicts and learns (X, y, w), and how many rows it may be given at once."""
    if hasattr(model, "progressive_many"):
        return model.progressive_many, 2**62
    return _one_by_one(model, loss), 1


def _one_by_one(model: Any, loss: str) -> Learn:
    """For pipelines, whose steps river teaches one example at a time."""

    def learn(xs: Any, ys: Any, ws: Any) -> Any:
        if not isinstance(xs, Sequence):
            raise TypeError(
                f"{type(model).__name__} learns one example at a time; give (x, y) pairs, dicts "
                "and labels, not a matrix or a frame"
            )
        x, y = xs[0], ys[0]
        if loss == "softmax":
            return _one_of_many(model, x, y, ws)
        if loss in REGRESSION:
            p = model.predict_one(x)
        else:
            p = model.predict_proba_one(x).get(True, 0.5)
            if loss in MARGINS:
                p = _margin(p)
        model.learn_one(x, y, **({} if ws is None else {"w": ws[0]}))
        return np.array([p], np.float64)

    return learn


def _one_of_many(model: Any, x: Any, y: Any, ws: Any) -> Any:
    """Probabilities of the labels; one that joins has its share of a model that knows nothing."""
    p = model.predict_proba_one(x)
    model.learn_one(x, y, **({} if ws is None else {"w": ws[0]}))
    labels = learner_of(model).classes_met
    share = 1.0 / len(labels) if y not in p else 0.0
    return np.array([[p[one] * (1.0 - share) if one in p else share for one in labels]])


def _places(learner: Any, y: Any) -> Any:
    places = {label: k for k, label in enumerate(learner.classes_met)}
    return np.array([places[one] for one in y], np.intp)


def _margin(p: float) -> float:
    """The margin that has the sigmoid `p`, as far as a float near 1 tells."""
    p = min(max(p, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)
    return math.log(p) - math.log1p(-p)


# Sources


class _Opened(Protocol):
    """A source of blocks, the most rows that one should have, and what its labels mean."""

    name: str
    block: int

    @staticmethod
    def label(y: Any, /) -> Hashable: ...

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Any]: ...


def _opened(source: Any, **options: Any) -> _Opened:
    if isinstance(source, str | Path):
        return _Named(open_source(source, **options))
    if hasattr(source, "blocks"):
        return _Named(source)
    if isinstance(source, tuple) and len(source) in (2, 3) and _is_table(source[0]):
        return _Table(*source)
    if isinstance(source, Iterable):
        return _Examples(source)
    raise TypeError(
        f"a {type(source).__name__} is no source; give the name of one, examples (x, y), "
        "or a matrix or a frame and its labels"
    )


def _is_table(x: Any) -> bool:
    return is_matrix(x) or is_frame(x) or isinstance(x, list)


class _Named:
    """A source of `streaml1.streams`."""

    block = BLOCK

    @staticmethod
    def label(y: Any, /) -> Hashable:
        return class_label(y)

    def __init__(self, source: Any) -> None:
        self.name = str(source.name)
        self.blocks = source.blocks
        if hasattr(source, "heed"):
            self.heed = source.heed
        if hasattr(source, "begin"):
            self.identity, self.begin = source.identity, source.begin
            self.position = source.position
        if hasattr(source, "kept"):
            self.kept = source.kept


class _Examples:
    """Any iterable of (x, y) or (x, y, {"w": weight}): a river data set, say."""

    block = BLOCK

    @staticmethod
    def label(y: Any, /) -> Hashable:
        return as_label(y)

    def __init__(self, examples: Iterable[Any]) -> None:
        kind = type(examples)
        self.name = "examples" if kind.__module__ == "builtins" else kind.__name__
        self._examples = examples
        self._readings = 0

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        self._readings += 1
        if self._readings > 1 and iter(self._examples) is self._examples:
            raise SourceError(
                f"{self.name} cannot be read twice: it is an iterator; give a list, or an object "
                "whose __iter__ begins anew"
            )
        return blocks_of(self._each(refuse), self.name, size)

    def _each(self, refuse: Refuse) -> Iterator[Example]:
        for number, example in enumerate(self._examples, start=1):
            try:
                x, y, w = _taken_apart(example)
            except ValueError as error:
                refuse(f"{self.name}:{number}", str(error))
                continue
            yield number, x, y, w


def _taken_apart(example: Any) -> tuple[dict[Hashable, Any], Any, float]:
    if not isinstance(example, tuple | list) or len(example) not in (2, 3):
        raise ValueError(f"{_cut(example)} is not an example: it must be (x, y)")
    x, y, *rest = example
    # A copy: a stream may hand out one dict again and again.
    x = dict(x) if isinstance(x, Mapping) else x
    if not rest:
        return x, y, 1.0
    if not isinstance(rest[0], Mapping) or not rest[0].keys() <= {"w"}:
        raise ValueError(f'{_cut(rest[0])} is no {{"w": weight}}, as the third part must be')
    return x, y, read_weight(rest[0].get("w", 1.0))


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}..."


@dataclass(frozen=True, slots=True)
class _Slice:
    """Consecutive rows of a matrix, a frame or a list of dicts."""

    x: Any
    y: Any
    w: Any
    name: str
    lines: range

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        return f"{self.name}:{self.lines[row]}"


class _Table:
    """Rows, labels and weights side by side."""

    block = MATRIX_BLOCK

    @staticmethod
    def label(y: Any, /) -> Hashable:
        return as_label(y)

    def __init__(self, x: Any, y: Any, w: Any = None) -> None:
        self.name = "rows"
        self._x = x.tocsr() if hasattr(x, "tocsr") else x
        self._n = len(x) if isinstance(x, list) else int(x.shape[0])
        self.d = int(x.shape[1]) if is_matrix(x) else None
        self._y, self._w = _plain(y), None if w is None else _plain(w)
        for what, column in (("labels", self._y), ("weights", self._w)):
            if column is not None and len(column) != self._n:
                raise ValueError(f"{len(column)} {what} stand beside {self._n} rows; give as many")

    def blocks(self, size: int, refuse: Refuse) -> Iterator[_Slice]:
        for lo in range(0, self._n, size):
            hi = min(self._n, lo + size)
            w = None if self._w is None else self._w[lo:hi]
            lines = range(lo + 1, hi + 1)
            yield _Slice(_rows(self._x, lo, hi), self._y[lo:hi], w, self.name, lines)


def _plain(column: Any) -> Any:
    """A series of any kind, or a sequence, as an array or a list."""
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def _rows(x: Any, lo: int, hi: int) -> Any:
    if not is_frame(x):
        return x[lo:hi]
    import narwhals as nw

    return nw.from_native(x, eager_only=True)[lo:hi].to_native()


def _readings(
    opened: _Opened, passes: int, size: int, refuse: Refuse
) -> Generator[Iterator[Any], None, None]:
    """One reading for each pass; that the source can be read twice is asked first."""
    first = [opened.blocks(size, refuse) for _ in range(min(passes, 2))]
    rest = (opened.blocks(size, refuse) for _ in range(passes - len(first)))
    for blocks in itertools.chain(first, rest):
        try:
            yield blocks
        finally:
            if hasattr(blocks, "close"):
                blocks.close()


# Blocks, cut into parts that can be learnt


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A block with its labels as models take them; `faults`: rows whose label is refused."""

    x: Any
    y: Any
    w: Any
    faults: list[tuple[int, str]]
    block: Any

    def part(self, lo: int, hi: int) -> tuple[Any, Any, Any]:
        y = None if self.y is None else self.y[lo:hi]
        return _rows(self.x, lo, hi), y, None if self.w is None else self.w[lo:hi]


def _chunk(block: Any, loss: str, label: Callable[[Any], Hashable]) -> _Chunk:
    if loss == "softmax":
        y, faults = _class_labels(block.y, label)
    else:
        y, faults = _labels(block.y, loss in REGRESSION)
    return _Chunk(block.x, y, block.w, faults, block)


def _class_labels(
    y: Any, read: Callable[[Any], Hashable]
) -> tuple[list[Hashable], list[tuple[int, str]]]:
    labels: list[Hashable] = []
    faults = []
    for row, one in enumerate(y.tolist() if isinstance(y, np.ndarray) else y):
        try:
            labels.append(read(one))
        except ValueError as error:
            labels.append(None)
            faults.append((row, str(error)))
    return labels, faults


def _labels(y: Any, regression: bool) -> tuple[Any, list[tuple[int, str]]]:
    """The labels as an array, and the rows and reasons of those that are none."""
    try:
        column = np.asarray(y)
    except ValueError:  # labels that are lists of different lengths
        column = np.empty(0, object)
    if column.ndim == 1 and column.dtype.kind in "biuf":
        if regression and np.isfinite(column).all():
            return column.astype(np.float64), []
        if not regression and np.isin(column, (-1, 0, 1)).all():
            return column > 0, []
    read: Callable[[Any], Any] = number_label if regression else binary_label
    labels = np.zeros(len(y), np.float64 if regression else bool)
    faults = []
    for row, one in enumerate(y):
        try:
            labels[row] = read(one)
        except ValueError as error:
            faults.append((row, str(error)))
    return labels, faults


def _parts(
    chunk: _Chunk, act: Learn, room: Callable[[], int], refuse: Refuse
) -> Iterator[tuple[int, int, Any]]:
    """Act on all rows but those refused: yields (first row, row after the last, result).

    A batch with a bad row is refused whole: the part before the row is tried again, and after it
    parts begin small and double, so that no number of bad rows costs more than a few looks a row.
    """
    faults = list(chunk.faults)  # rises, so it is a heap
    n = len(chunk.block)
    lo, size = 0, n
    while lo < n:
        if faults and faults[0][0] == lo:
            refuse(chunk.block.place(lo), heapq.heappop(faults)[1], chunk.block.lines[lo])
            lo, size = lo + 1, 1
            continue
        hi = min(n, lo + size, lo + room(), faults[0][0] if faults else n)
        if hi == lo:
            return
        try:
            result = act(*chunk.part(lo, hi))
        except BadExample as bad:
            heapq.heappush(faults, (lo + bad.row, bad.reason))
            continue
        yield lo, hi, result
        size = 2 * max(size, 1)
        lo = hi


class _Refusals:
    """What is done with a refused example: called with its place and the reason."""

    def __init__(self, bad: str) -> None:
        if bad not in ("fail", "skip"):
            raise ValueError(f'bad={bad!r} is not known; give one of "fail", "skip"')
        self.skip = bad == "skip"
        self.count = 0
        # Numbers and places of the refused, where they are wanted.
        self.lines: list[tuple[int, str]] | None = None

    def __call__(self, place: str, reason: str, number: int | None = None) -> None:
        if not self.skip:
            raise BadExample(f"{place}: {reason}")
        self.count += 1
        if self.count <= LOGGED:
            logger.warning("skipped %s: %s", place, reason)
        if self.lines is not None:
            line = int(place.rpartition(":")[2]) if number is None else number
            heapq.heappush(self.lines, (line, place))

    def before(self, line: int | None) -> Iterator[Prediction]:
        """What to say of the examples refused before a line; None: of all that are left."""
        while self.lines and (line is None or self.lines[0][0] < line):
            refused, place = heapq.heappop(self.lines)
            yield Prediction(refused, None, place)

    def summarise(self) -> None:
        if self.count > LOGGED:
            logger.warning("skipped %d more, %d in all", self.count - LOGGED, self.count)


def _stopped(stop: Any) -> Callable[[], bool]:
    if stop is None:
        return lambda: False
    asked: Callable[[], bool] = getattr(stop, "is_set", stop)
    return asked


def _require_positive(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"{name}={value!r} is out of range; give 1 or more")
