"""How parts are joined: by the way that has been best lately, unless it harms.

A round has few examples that judge it, so that the best of several candidates on these alone is
often one by luck. The losses of each way to join are therefore summed over rounds, with a decay,
and travel with the base.

Candidates are judged by the weights that members predict with, not by those they publish.

A join is refused if its loss on the examples of this round is far above that of the base. The few
examples of a classifier may all have the usual label: a base with hardly any loss on them is taken
to lose more. If a join is refused, the other ways are tried, then the best part alone. If all are
refused, the base stays as it is, and the examples of the round are lost to the model; one warning
says so. Parts that cannot be joined, because they have seen more features than one model may see,
are treated as if each way were refused.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from streaml1 import models
from streaml1.core.rows import BadExample
from streaml1.distributed.mixing.merger import Joined
from streaml1.models.merging import merge_candidates
from streaml1.models.pipelines import adopt_state, have_same_parameters, snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.optim.tasks import REGRESSION
from streaml1.training.mixed_models.messages import Base, Part, Scores
from streaml1.training.model_adapter import batch_learner, batch_predictor, loss_of
from streaml1.training.report import Report

__all__ = ["MAX_RATIO", "ModelJoin", "ModelLearner", "Rows"]

logger = logging.getLogger("streaml1")

MEMORY = 2000.0
"""Number of examples over which losses decay by the factor e."""

MAX_RATIO = 1.5
"""A join is refused if its loss is above that of the base by this factor."""

USUAL_WEIGHT = 20.0
"""The usual loss of bases counts for this number of examples, beside those of the round."""


class Rows(NamedTuple):
    """Features, labels and sample weights (or None) of some examples, as models take them."""

    x: Any
    y: Any
    w: Any


class ModelLearner:
    """A model that is replaced in place: a run and its observers keep their references."""

    def __init__(self, model: Any, url: str) -> None:
        self.model, self._url = model, url

    def restore(self, data: bytes) -> None:
        """Replace the state of the model.

        Raises
        ------
        ModelFileError
            If the topic holds another model, or one with other parameters.
        """
        saved = models.decode(data, self._url)
        if not have_same_parameters(self.model, saved):
            raise ModelFileError(
                f"{self._url} holds {saved!r}, but this process was started with {self.model!r}: "
                "start all members with the same model, or use another topic"
            )
        adopt_state(self.model, saved)

    def learn(self, rows: Sequence[Rows]) -> None:
        """Learn some rows once more; they are not reported again."""
        act = batch_learner(self.model, loss_of(self.model)).act
        for x, y, w in rows:
            try:
                done = len(act(x, y, w))
            except BadExample:
                done = 0
            # The first time each row was accepted. After another base one may overflow.
            for row in range(done, len(y)):
                try:
                    act(x[row : row + 1], y[row : row + 1], None if w is None else w[row : row + 1])
                except BadExample as error:
                    logger.warning("an example was left out of a mixed model: %s", error.reason)

    def encode(self) -> bytes:
        """Return the model as bytes."""
        return snapshot(self.model, packed=False)()  # messages are compressed


class _Candidate(NamedTuple):
    name: str
    model: Any
    loss: float
    """Mean loss on the probe; infinite if it is not a number."""


class ModelJoin:
    """Joins the models of parts.

    It keeps the base of the last merge, for candidates with momentum. After another process has
    merged there is none.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._last: tuple[int, int, Any] | None = None  # epoch and round of a base, and its model

    def __call__(self, base: Base, parts: Sequence[Part], probe: Sequence[Any]) -> Joined:
        """Join parts in order, judged on rows that none of them has learnt."""
        examples = base.examples + sum(part.examples for part in parts)
        if len(parts) == 1:  # as one learner would have learnt
            return Joined(parts[0].data, examples, base.scores)
        rows = [some for piece in probe for some in piece]
        start = models.decode(base.data, self._url)
        learnt = [models.decode(part.data, self._url) for part in parts]
        joined, obstacle = _all_joined(learnt, start, self._before(base), rows)
        self._last = base.epoch, base.round, start
        [unchanged] = _judged([("base", start)], rows)
        weight = sum(float(len(y)) for _, y, _ in rows)
        scores = base.scores
        if joined:
            judged = [*joined, unchanged] if unchanged.loss < math.inf else joined
            scores = updated_scores(base.scores, judged, weight)
        limit = MAX_RATIO * _usual_loss(unchanged, weight, scores) if rows else math.inf
        chosen = _first_within(limit, _by_score(joined, scores))
        if chosen is None:
            chosen = _first_within(limit, _judged((("part", model) for model in learnt), rows))
        if obstacle:
            logger.warning("%s: round %d was not merged: %s", self._url, base.round + 1, obstacle)
        elif chosen is None:
            logger.warning(
                "%s: round %d was not merged: the loss would rise from %.4g to %.4g; mix after "
                "fewer examples", self._url, base.round + 1, unchanged.loss,
                min(candidate.loss for candidate in joined),
            )  # fmt: skip
        if chosen is None:
            return Joined(base.data, examples, scores)
        return Joined(snapshot(chosen.model, packed=False)(), examples, scores)

    def _before(self, base: Base) -> Any:
        """Return the model of the base before, if this process has merged it."""
        if self._last is None or self._last[:2] != (base.epoch, base.round - 1):
            return None
        return self._last[2]


def updated_scores(scores: Scores, joined: Sequence[_Candidate], weight: float) -> Scores:
    """Return decayed sums of losses and of weights, with those of one more round.

    A loss that is not finite counts as a large one, so that sums stay finite.

    Examples
    --------
    >>> from streaml1.distributed.mixing.guard import updated_scores
    >>> updated_scores({"mean": (3.0, 4.0)}, [], 0.0)
    {}
    """
    decay = math.exp(-weight / MEMORY)
    new: Scores = {}
    for name, _, loss in joined:
        total, seen = scores.get(name, (0.0, 0.0))
        new[name] = decay * total + weight * min(loss, 1e6), decay * seen + weight
    return new


def _all_joined(
    parts: Sequence[Any], start: Any, before: Any, rows: Sequence[Rows]
) -> tuple[list[_Candidate], str]:
    """Return the candidates, and why there is none."""
    try:
        return _judged(merge_candidates(parts, start, before, prepared=False), rows), ""
    except ValueError as error:
        return [], str(error)


def _usual_loss(base: _Candidate, weight: float, scores: Scores) -> float:
    """Return the loss of the base; more if there are few examples, and bases usually lose more.

    The losses of regression are not compared with those of earlier rounds: an untrained base may
    lose any number of times what a trained one does.
    """
    if loss_of(base.model) in REGRESSION:
        return base.loss
    total, seen = scores.get(base.name, (0.0, 0.0))
    usual = total / seen if seen else base.loss
    return max(base.loss, (weight * base.loss + USUAL_WEIGHT * usual) / (weight + USUAL_WEIGHT))


def _by_score(joined: Sequence[_Candidate], scores: Scores) -> list[_Candidate]:
    """Return the candidate that was best lately, and then the others by their loss now."""

    def mean(candidate: _Candidate) -> float:
        total, seen = scores[candidate.name]
        return total / seen if seen else 0.0

    leaders = [min(joined, key=mean)] if joined else []
    return [*leaders, *sorted(joined, key=lambda candidate: candidate.loss)]


def _first_within(limit: float, candidates: Sequence[_Candidate]) -> _Candidate | None:
    within = (c for c in candidates if c.loss <= limit and c.loss < math.inf)
    return next(within, None)


def _judged(candidates: Any, rows: Sequence[Rows]) -> list[_Candidate]:
    return [_Candidate(name, model, mean_loss(model, rows)) for name, model in candidates]


def mean_loss(model: Any, rows: Sequence[Rows]) -> float:
    """Return the mean loss of a model on some rows; 0 without rows."""
    loss = loss_of(model)
    predict = batch_predictor(model, loss).act
    report = Report(loss)
    for x, y, w in rows:
        try:
            report.add(predict(x, y, w), y, w)
        except BadExample:  # not for this model: the others are not judged by it either
            return math.inf
    weight, total, _ = report.sums
    mean = total / weight if weight > 0.0 else 0.0
    return mean if math.isfinite(mean) else math.inf
