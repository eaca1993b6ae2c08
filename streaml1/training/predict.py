"""Each example of a stream predicted; nothing is learnt."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streaml1.optim.tasks import REGRESSION
from streaml1.training.error_policy import Refusals, require_positive
from streaml1.training.example_parts import Chunk, parts_of
from streaml1.training.examples import Opened, opened_source
from streaml1.training.model_adapter import loss_of, texts_of
from streaml1.training.observers import Out, Part

__all__ = ["Prediction", "prediction_blocks", "predictions"]


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
    model: Any,
    source: Any,
    *,
    limit: int | None = None,
    bad: str = "fail",
    outs: Sequence[Out] = (),
    **options: Any,
) -> Iterator[Prediction]:
    """Predict each example of a stream; nothing is learnt, and no labels are needed.

    Parameters
    ----------
    model
        A model of streaml1.
    source, limit, bad
        As for `progressive`; a refused example that is skipped has the prediction None.
    outs
        Who hears of the predictions, and of what is refused.
    options
        As for `open_source`; `target` names the column that is left out, if there is one.

    Raises
    ------
    BadExample
        Where an example is refused and `bad` is `"fail"`, after those before it.
    SourceError
        Where the source cannot be read.
    TypeError
        Where the source, or the model, is none.
    ValueError
        Where `limit` or `bad` is out of range.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier
    >>> from streaml1.training import predictions
    >>> [one.p for one in predictions(ElasticNetClassifier(), [({"cheap": 1}, None)])]
    [0.5]
    """
    blocks = prediction_blocks(model, source, limit=limit, bad=bad, outs=outs, **options)
    return itertools.chain.from_iterable(blocks)


def prediction_blocks(
    model: Any,
    source: Any,
    *,
    limit: int | None = None,
    bad: str = "fail",
    outs: Sequence[Out] = (),
    **options: Any,
) -> Iterator[list[Prediction]]:
    """As `predictions`, but those that come at the same time together."""
    require_positive(limit=limit)
    refuse = Refusals(bad, outs)
    opened = opened_source(source, require_label=False, text=texts_of(model), **options)
    return _predicted(model, opened, limit, refuse, outs)


def _predicted(
    model: Any, opened: Opened, limit: int | None, refuse: Refusals, outs: Sequence[Out]
) -> Iterator[list[Prediction]]:
    loss = loss_of(model)

    def predict(x: Any, y: Any, w: Any) -> Any:
        if loss == "softmax":
            return np.asarray(model.predict_proba_many(x), np.float64)
        if loss in REGRESSION:
            return np.asarray(model.predict_many(x), np.float64)
        return np.asarray(model.predict_proba_many(x), np.float64)[:, 1]

    def room() -> int:
        return opened.block if limit is None else limit - done

    done = 0
    refuse.lines = []
    for out in outs:
        out.look(model)
    for block in opened.blocks(min(opened.block, limit or opened.block), refuse):
        chunk = Chunk(block.x, None, None, [], block)
        for lo, hi, p in parts_of(chunk, predict, room, refuse):
            told: list[Prediction] = []
            for out in outs:
                out.predicted(Part(block, lo, hi, None, None, p))
            each = p.tolist()
            if loss == "softmax":
                each = [dict(zip(model.classes_met, one, strict=True)) for one in each]
            for row, one in enumerate(each, start=lo):
                line = block.lines[row]
                told += _refused_before(refuse, line)
                told.append(Prediction(line, one, block.place(row)))
            yield told
            done += hi - lo
        if room() == 0:
            break
        del block, chunk  # so that their memory may be taken for the next
    for out in outs:
        out.finish()
    if room() and (last := list(_refused_before(refuse, None))):
        yield last
    refuse.summarise()


def _refused_before(refuse: Refusals, line: int | None) -> Iterator[Prediction]:
    """What to say of the examples refused before a line; None: of all that are left."""
    while refuse.lines and (line is None or refuse.lines[0][0] < line):
        refused, place = heapq.heappop(refuse.lines)
        yield Prediction(refused, None, place)
