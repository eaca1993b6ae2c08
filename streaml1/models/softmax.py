"""Multiclass logistic regression with a penalty on rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from river import base

from streaml1.features.batch import is_frame
from streaml1.features.labels import require_mapping, weights
from streaml1.models.base import OnlineModel, require_count, series_like
from streaml1.models.class_labels import Classes, declared
from streaml1.models.frozen import FrozenClasses
from streaml1.models.output_buffer import outputs_of, table_of
from streaml1.models.parameters import Parameter, choice, flag, number
from streaml1.models.schedules import rates as rates_of_steps
from streaml1.optim.softmax import PENALTIES, Softmax
from streaml1.optim.softmax_ball import SoftmaxBall

__all__ = ["SoftmaxClassifier"]


class SoftmaxClassifier(OnlineModel, base.MiniBatchClassifier):
    """Multiclass logistic regression, learnt online, whose penalty drops features whole.

    Each feature has a row of k weights, one for each label. With `penalty="l1/l2"` or `"l1/linf"`
    the rows of features that tell nothing are zero: a feature is in the model with all its
    weights or not at all. After each example the rows, all of them, are those of the dense
    update; a step costs time in k times the non-zeros of the example alone.

    Parameters
    ----------
    strength
        Strength of the penalty, from 0.
    penalty
        `"l1"`: the sum of all |w|; `"l1/l2"`: the sum of the Euclidean norms of the rows;
        `"l1/linf"`: the sum of the largest |w| of each row. `"ball"`: none of these, but the
        weights of each label are projected on an l1 ball of its own after each step.
    l2
        Strength of a squared l2 penalty (half the squared norm) beside it, from 0; not with the
        ball.
    radius
        Of the ball: the most that the distances of a label's weights from zero may add up to,
        from 1e-30 to 1e30. When it shrinks, the next step projects.
    nonnegative
        With the ball: whether no weight may be below zero.
    classes
        The labels; any other is refused. None: labels join as they come, with zero weights.
    lr
        The rate: a number, or a scheduler of `river.optim.schedulers`, asked `get(t)` for the
        t-th example, from 0.
    schedule
        Rate of the t-th example, where `lr` is a number: `"invsqrt"` (`lr / sqrt(t + 1)`),
        `"constant"` or `"inverse"` (`lr / (t + 1)`).
    intercept_lr
        The intercepts' own constant rate; 0 freezes them.
    intercept_init
        Where the intercept of each label starts.
    clip_gradient
        The most that the derivative of the loss in one margin counts for.
    max_features
        At most so many features have weights: before there would be more, those whose largest
        weight is nearest to zero go, until seven eighths are left.
    hash_bits
        Names are not kept, but hashed to `2**hash_bits` slots, from 1 to 30: names that share a
        slot share a row. The hash is the same on every machine.
    cross
        Pairs and triples of prefixes of names, such as `[("site", "ad")]`, whose features are
        multiplied with one another; the products are features too. None: nothing is crossed.
    text
        Names of features whose strings are text: its words count, in place of the whole.
    ngrams
        Of text so many neighbouring words at most are features too, from 1 to 10.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.SoftmaxClassifier(
    ...     penalty="l1/l2", strength=1e-3, lr=0.3
    ... )
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 86.27%

    References
    ----------
    [^1]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22: Eq. (8), Eq. (9), Proposition 4.
    """

    strength = Parameter(number(0.0, 1e30))
    penalty = Parameter(choice(*PENALTIES, "ball"), fixed=True)
    l2 = Parameter(number(0.0, 1e30))
    radius = Parameter(number(1e-30, 1e30))
    nonnegative = Parameter(flag, fixed=True)
    classes = Parameter(declared, fixed=True)

    loss = "logistic"
    _classes: Classes

    def __init__(
        self,
        *,
        strength: float = 1e-4,
        penalty: str = "l1",
        l2: float = 0.0,
        radius: float = 10.0,
        nonnegative: bool = False,
        classes: Iterable[Hashable] | None = None,
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        max_features: int | None = None,
        hash_bits: int | None = None,
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
    ) -> None:
        self.strength = strength
        self.penalty = penalty
        self.l2 = l2
        self.radius = radius
        self.nonnegative = nonnegative
        self.classes = classes
        self.lr = lr
        self.schedule = schedule
        self.intercept_lr = intercept_lr
        self.intercept_init = intercept_init
        self.clip_gradient = clip_gradient
        self.max_features = max_features
        self.hash_bits = hash_bits
        self.cross = cross
        self.text = text
        self.ngrams = ngrams
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"penalty": "l1/l2", "strength": 1e-3, "l2": 1e-3}
        yield {"penalty": "l1/linf", "strength": 1e-3, "schedule": "constant", "lr": 0.01}
        yield {"penalty": "ball", "radius": 3.0}

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _mutable_attributes(self) -> set[str]:
        return (super()._mutable_attributes | {"strength", "l2", "radius"}) - {"loss"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        rule = self._engine.rule
        if self.penalty == "ball":
            self._refuse_l2()
            rule.set_radius(float(self.radius))
        else:
            rule.clock[0].strength, rule.clock[0].l2 = float(self.strength), float(self.l2)

    def _refuse_l2(self) -> None:
        if self.l2:
            l2, self.__dict__["l2"] = self.l2, 0.0
            raise _no_l2(l2)

    def _begin(self) -> None:
        self._classes = Classes(self.classes or (), closed=self.classes is not None)
        super()._begin()

    def _rule(self) -> Any:
        if self.penalty == "ball":
            self._refuse_l2()
            return SoftmaxBall.start(
                *(0, len(self._classes), float(self.radius)),
                *(bool(self.nonnegative), float(self.intercept_init)),
            )
        return Softmax.start(
            *(0, len(self._classes), PENALTIES[self.penalty]),
            *(float(self.strength), float(self.l2), float(self.intercept_init)),
        )

    # Labels: those beyond the rule's k were never learnt

    @property
    def _met(self) -> int:
        return int(self._state.rule.clock[0].k)

    @contextmanager
    def _joining(self) -> Iterator[None]:
        """Labels that come meanwhile are the model's own if nothing goes wrong.

        No other thread learns meanwhile, whose labels would take the same places.
        """
        with self._state.lock:
            try:
                yield
            except BaseException:
                self._classes.cut(self._met)
                raise
            self._classes.learnt = self._met

    def _label(self, y: Any) -> float:
        try:
            return float(self.__dict__["_classes"].places[y])
        except (KeyError, TypeError):
            return float(self._new_label(y))

    def _new_label(self, y: Any) -> int:
        place = self._classes.place(y)
        self._state.reserve_outputs(len(self._classes))
        return place

    def _labels(self, y: Any, n: int) -> Any:
        places = self._classes.column(y, n)
        self._state.reserve_outputs(len(self._classes))
        return places

    # Learning

    def learn_one(self, x: dict[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            The features by name. Values are numbers; a string `v` of the name `n` is the feature
            `n=v` with value 1; None is absent.
        y
            The label: a string, a number, or anything else that can be a key of a dict.
        w
            Weight of the example: multiplies its gradient, not the penalty.

        Raises
        ------
        BadExample
            Where x, y or w is refused; nothing has been learnt then.
        """
        classes: Classes = self.__dict__["_classes"]
        try:
            learnt = classes.places[y] < classes.learnt
        except (KeyError, TypeError):
            learnt = False
        if learnt:  # it stays where it is, whatever other threads do: no lock
            return super().learn_one(x, y, w)
        with self._joining():
            super().learn_one(x, y, w)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn the rows of X one after the other, or none of them if one is refused.

        Parameters
        ----------
        X
            A data frame (pandas, polars, pyarrow), a scipy.sparse matrix of shape (n, d) whose
            column j is the feature j, or a list of dicts.
        y
            n labels.
        w
            One weight for all, or n.
        """
        self._learn_batch(X, y, w, told=False)
        self._y_name = getattr(y, "name", None)

    def progressive_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict each row just before it is learnt.

        Returns
        -------
        numpy.ndarray
            Shape (n, k): the probability of each label that is known in the end, in the order of
            `classes_met`; 0 where it was not met yet.
        """
        return self._learn_batch(X, y, w, told=True)

    def _learn_batch(self, X: Any, y: Any, w: Any, told: bool) -> Any:
        batch = self._state.batch(X, learns=True)
        n = batch.n
        with self._joining():
            labels, w = self._labels(y, n), weights(w, n)
            engine, k = self._state, len(self._classes) if told else 1
            eta = rates_of_steps(self.lr, self.schedule, engine.t, n)
            return engine.progressive(batch, labels, w, eta, k).reshape(n, k)

    # Predicting

    def predict_proba_one(  # type: ignore[override]
        self, x: dict[Hashable, Any]
    ) -> dict[Hashable, float]:
        """Probability of each label met so far, or declared; {} before there is any."""
        return dict(zip(self._classes.names, self._outputs(x)[1], strict=False))

    def predict_one(self, x: dict[Hashable, Any]) -> Hashable | None:  # type: ignore[override]
        """The most probable label, of equal ones the first met; None before there is any."""
        best = self._outputs(x)[0]
        return self._classes.names[best] if best >= 0 else None

    def _outputs(self, x: Mapping[Hashable, Any]) -> tuple[int, Any]:
        try:
            return outputs_of(self.__dict__["_engine"], x)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of the labels met so far, a frame like X; an (n, k) array for matrices."""
        batch = self._state.batch(X)
        with self._state.exclusive():
            _, p = table_of(self._state, batch)
        if not is_frame(X):
            return p
        from river.utils import dataframe

        names = self._classes.names[: p.shape[1]]
        columns = {name: p[:, k].copy() for k, name in enumerate(names)}
        frame: Any = dataframe.to_native_frame(columns, like=dataframe.into_frame(X))
        if frame.shape[1] != len(columns):  # their names are text
            raise ValueError(
                f"of the labels {names!r} two are one as names of columns; give a list of dicts"
            )
        return frame

    def predict_many(self, X: Any) -> Any:
        """The most probable label of each row, a series like X; an array for matrices."""
        batch = self._state.batch(X)
        with self._state.exclusive():
            best, _ = table_of(self._state, batch)
        return series_like(X, self._classes.array(best), self._y_name)

    # What has been learnt

    @property
    def classes_met(self) -> list[Hashable]:
        """The labels, in the order in which they came or were declared."""
        return self._classes.names[: self._met]

    @property
    def weights(self) -> dict[Hashable, dict[Hashable, float]]:  # type: ignore[override]
        """The weights that are not zero, by feature and label, pending shrinkage included."""
        names, rows = self._rows()
        labels = self._classes.names
        return {
            name: {labels[c]: float(row[c]) for c in np.flatnonzero(row).tolist()}
            for name, row in zip(names, rows, strict=True)
        }

    def _rows(self) -> tuple[list[Hashable], Any]:
        """Names of features that have weights, and their rows."""
        engine = self._state
        with engine.exclusive():
            slots, rows = self._held()
            return engine.vocabulary.names_at(slots), rows

    def _held(self) -> tuple[Any, Any]:
        """Slots of features that have weights, and their rows; for `alone`."""
        rule = self._state.rule
        slots = np.flatnonzero(rule.weights())
        return slots, rule.rows(slots)

    @property
    def intercept(self) -> dict[Hashable, float]:  # type: ignore[override]
        """The intercept of each label, which no penalty touches."""
        b = self._state.rule.b[: self._met].tolist()
        return dict(zip(self.classes_met, b, strict=True))

    @property
    def n_nonzero(self) -> int:
        """How many single weights are not zero, all pending shrinkage included."""
        with self._state.exclusive():
            return int(np.count_nonzero(self._held()[1]))

    @property
    def n_nonzero_rows(self) -> int:
        """How many features have a weight that is not zero."""
        return self._state.n_nonzero

    def top_weights(self, k: int = 10, label: Hashable = None) -> list[tuple[Hashable, float]]:
        """The `k` weights farthest from zero, the farthest first.

        Parameters
        ----------
        k
            How many at most.
        label
            Weights of this label, with the names of their features. None: of all labels, each
            with the pair (feature, label).

        Raises
        ------
        ValueError
            Where `k` is below 0, or the label has not been met.
        """
        require_count(k)
        names, rows = self._rows()
        labels = self.classes_met
        if label is not None:
            if label not in labels:
                raise ValueError(f"the label {label!r} has not been met; those met: {labels!r}")
            w = rows[:, labels.index(label)]
            order = [j for j in np.argsort(-np.abs(w), kind="stable")[:k].tolist() if w[j] != 0.0]
            return [(names[j], float(w[j])) for j in order]
        w = rows.ravel()
        order = [j for j in np.argsort(-np.abs(w), kind="stable")[:k].tolist() if w[j] != 0.0]
        return [((names[j // len(labels)], labels[j % len(labels)]), float(w[j])) for j in order]

    # Copies: another thread may learn meanwhile

    def __getstate__(self) -> dict[str, Any]:
        """The labels last: then they are those of the engine, and perhaps some that came since."""
        state = self.__dict__.copy()
        state["_classes"] = state.pop("_classes")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._classes.cut(self._met)

    def clone(self, *args: Any, **kwargs: Any) -> Self:
        """A model of the same parameters that has learnt nothing; see `river.base.Base.clone`."""
        with self._state.lock:
            return super().clone(*args, **kwargs)

    def freeze(self) -> FrozenClasses:
        """A small immutable predictor of what is known now, safe from any thread."""
        with self._state.exclusive():
            return FrozenClasses(self._state.frozen(), self.classes_met)

    def _file_state(self) -> Callable[[], dict[str, Any]]:
        with self._state.exclusive():
            state, labels = super()._file_state(), list(self.classes_met)
        return lambda: {**state(), "labels": labels}

    @classmethod
    def _from_file(cls, params: dict[str, Any], state: dict[str, Any]) -> Self:
        labels = state.pop("labels")
        model = super()._from_file(params, state)
        model._classes = Classes(labels, closed=model.classes is not None)
        if len(model._classes.places) != model._met:
            raise ValueError("other labels")
        return model


def _no_l2(l2: Any) -> ValueError:
    return ValueError(f"l2={l2!r} does not go with the ball, which bounds the weights: 0 does")
