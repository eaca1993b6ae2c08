"""Multiclass logistic regression with a penalty on the rows of features (Duchi & Singer 2009)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from streaml1.core.named_options import named_option, option_name
from streaml1.core.types import Floats, Ints, RowsLike
from streaml1.features.batch import is_frame
from streaml1.features.labels import require_mapping, to_weights
from streaml1.models.base import ModelType, OnlineModel
from streaml1.models.class_labels import Classes, as_label
from streaml1.models.comparator import ComparatorSpec, weights_in_l1_ball
from streaml1.models.explain import explain_label_rows, explain_labels
from streaml1.models.explanation import Explanation
from streaml1.models.frame_outputs import frame_like, series_like
from streaml1.models.frozen import FrozenClasses
from streaml1.models.hyperparameters import SoftmaxParameters
from streaml1.models.inspection import require_count
from streaml1.models.output_buffer import predict_outputs, predict_outputs_of
from streaml1.models.parameter_checks import AUTO
from streaml1.models.schedules import rates_of_steps
from streaml1.models.targets import LabelledRows
from streaml1.optim.scaled_softmax import ScaledSoftmax
from streaml1.optim.softmax import PENALTIES, Softmax
from streaml1.optim.softmax_ball import SoftmaxBall

__all__ = ["SoftmaxClassifier"]

RATE_OF_BALL = 0.1
"""What lr="auto" is with the l1 ball."""


class SoftmaxClassifier(
    SoftmaxParameters, OnlineModel, base.MiniBatchClassifier, metaclass=ModelType
):
    """Online multiclass logistic regression with a penalty that drops whole features.

    Each feature has a row of k weights, one for each label. With `penalty="l1/l2"` or `"l1/linf"`
    the rows of uninformative features are zero: a feature has all its weights in the model or none.
    After each example, all rows equal those of the dense update. A step nevertheless costs time in
    k times the number of non-zeros of the example only. By default no learning rate
    has to be chosen, and no column has to be scaled.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.SoftmaxClassifier(penalty="l1/l2", strength=1e-3)
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 88.05%

    References
    ----------
    [^1]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22: Eq. (8), Eq. (9), Proposition 4.
    """

    loss = "logistic"  # not a parameter

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
    def _is_scaled(self) -> bool:
        return isinstance(self._state.rule, ScaledSoftmax)

    @property
    def _mutable_attributes(self) -> set[str]:
        mutable = super()._mutable_attributes
        return mutable - {"lr"} if self.lr == AUTO else mutable

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        if self._is_scaled != (self.lr == AUTO):
            raise ValueError('lr cannot change to or from "auto"; clone the model instead')
        rule = self._state.rule
        if self.penalty == "ball":
            self._require_no_l2()
            rule.set_radius(float(self.radius))
        else:
            rule.clock[0].strength, rule.clock[0].l2 = float(self.strength), float(self.l2)

    def _require_no_l2(self) -> None:
        if self.l2:
            l2, self.__dict__["l2"] = self.l2, 0.0
            raise ValueError(
                f"{option_name('l2')} must be 0 with {named_option('penalty', 'ball')}, got {l2!r}"
            )

    def _begin(self) -> None:
        if self.lr == AUTO and self.penalty == "ball":
            self.__dict__["lr"] = RATE_OF_BALL
        self._classes: Classes = Classes(self.classes or (), closed=self.classes is not None)
        super()._begin()

    def _unused_parameters(self) -> Iterator[tuple[str, str]]:
        yield from super()._unused_parameters()
        if self.penalty != "ball":
            yield "radius", 'penalty="ball"'
            yield "nonnegative", 'penalty="ball"'

    def _rule(self) -> Any:
        if self.penalty == "ball":
            self._require_no_l2()
            return SoftmaxBall.start(
                *(0, len(self._classes), float(self.radius)),
                *(bool(self.nonnegative), float(self.intercept_init)),
            )
        rule = ScaledSoftmax if self.lr == AUTO else Softmax
        return rule.start(
            *(0, len(self._classes), PENALTIES[self.penalty]),
            *(float(self.strength), float(self.l2), float(self.intercept_init)),
        )

    def _comparator(self) -> ComparatorSpec:
        if self.penalty == "ball":
            return weights_in_l1_ball(self.radius, self.nonnegative)
        strength, l2 = float(self.strength), float(self.l2)
        if self._is_scaled:  # they apply to weights of scaled values
            strength = l2 = 0.0
        return ComparatorSpec(
            f"all weights, with {strength:g} times their {self.penalty} norm and l2 = {l2:g} in "
            "each step",
            {"penalty": self.penalty, "strength": strength, "l2": l2},
            "each step" if strength > 0.0 or l2 > 0.0 else "never",
        )

    # Labels: the first k belong to the rule, the others were never learnt

    @property
    def _n_learnt(self) -> int:
        return int(self._state.rule.clock[0].k)

    @contextmanager
    def _adding_labels(self) -> Iterator[None]:
        """Keep the labels that are added in this context, unless it raises.

        The lock prevents other threads from adding labels at the same positions.
        """
        with self._state.lock:
            try:
                yield
            except BaseException:
                self._classes.cut(self._n_learnt)
                raise
            self._classes.n_learnt = self._n_learnt

    def _label(self, y: Any) -> float:
        try:
            return float(self.__dict__["_classes"].positions[y])
        except (KeyError, TypeError):
            return float(self._new_label(y))

    def _new_label(self, y: object) -> int:
        position = self._classes.position(y)
        self._state.reserve_outputs(len(self._classes))
        return position

    def _labels(self, y: object, n: int) -> Floats:
        positions = self._classes.column(y, n)
        self._state.reserve_outputs(len(self._classes))
        return positions

    # Learning

    def learn_one(self, x: dict[Hashable, Any], y: object, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            Features by name. Values are numbers; a string value `v` of the name `n` is the feature
            `n=v` with value 1; None and NaN mean absent.
        y
            The label: a string, a number, or any other hashable object.
        w
            Sample weight: multiplies the gradient, not the penalty.

        Raises
        ------
        BadExample
            If x, y or w is invalid. The model is unchanged.
        """
        classes: Classes = self.__dict__["_classes"]
        try:
            is_final = classes.positions[y] < classes.n_learnt
        except (KeyError, TypeError):
            is_final = False
        if is_final:  # the position of the label cannot change: no lock is needed
            return super().learn_one(x, y, w)
        with self._adding_labels():
            super().learn_one(x, y, w)

    @property
    def _read_label(self) -> None:
        return None

    def _learn_rows(self, rows: LabelledRows) -> None:
        self._learn_batch(rows.X, rows.y, rows.w, predict=False)

    def progressive_many(self, X: RowsLike, y: object, w: ArrayLike | None = None) -> Any:
        """Predict each row just before learning it.

        Returns
        -------
        numpy.ndarray
            Shape (n, k), float64: the probability of each label that is known after the last row,
            in the order of `classes_met`; 0 for labels that were not known yet.

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row; the model is unchanged.
        """
        return self._learn_batch(X, y, w, predict=True)

    def _learn_batch(self, X: RowsLike, y: object, w: ArrayLike | None, predict: bool) -> Any:
        batch = self._state.batch(X, learns=True)
        n = batch.n
        with self._adding_labels():
            labels, sample_weights = self._labels(y, n), to_weights(w, n)
            state, k = self._state, len(self._classes) if predict else 1
            eta = rates_of_steps(self.lr, self.schedule, state.rate_step, n)
            return state.progressive(batch, labels, sample_weights, eta, k).reshape(n, k)

    # Predicting

    def predict_proba_one(  # type: ignore[override]
        self, x: dict[Hashable, Any]
    ) -> dict[Hashable, float]:
        """Return the probability of each label known so far; {} before the first."""
        return dict(zip(self._classes.labels, self._outputs(x)[1], strict=False))

    def predict_one(self, x: dict[Hashable, Any]) -> Hashable | None:  # type: ignore[override]
        """Return the most probable label, the earliest of ties; None before the first label."""
        best = self._outputs(x)[0]
        return self._classes.labels[best] if best >= 0 else None

    def _outputs(self, x: Mapping[Hashable, Any]) -> tuple[int, Any]:
        try:
            return predict_outputs(self._state, x)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def predict_proba_many(self, X: RowsLike) -> Any:
        """Return the probability of each label known so far.

        Returns
        -------
        A frame of the library of X with a column for each label, or an array of shape (n, k) if X
        is not a frame.

        Raises
        ------
        ValueError
            If two labels have the same text and would be one column.
        """
        _, p = predict_outputs_of(self._state, X)
        if not is_frame(X):
            return p
        names = self._classes.labels[: p.shape[1]]
        columns = {name: p[:, k].copy() for k, name in enumerate(names)}
        frame = frame_like(X, columns)
        if frame.shape[1] != len(columns):  # column names are strings
            raise ValueError(
                f"two of the labels {names!r} are the same as column names; pass a list of dicts"
            )
        return frame

    def predict_many(self, X: RowsLike) -> Any:
        """Return the most probable label of each row.

        Returns
        -------
        A series of the library of X, or an array of shape (n,) if X is not a frame.
        """
        best, _ = predict_outputs_of(self._state, X)
        return series_like(X, self._classes.array(best), self._y_name)

    # Explanations

    def explain_one(self, x: dict[Hashable, Any]) -> dict[Hashable, Explanation]:
        """Return what each feature contributes to the margin of each label known so far.

        The probabilities are the softmax of the margins.

        Parameters
        ----------
        x
            Features by name, as for `learn_one`.

        Returns
        -------
        dict
            An `Explanation` for each label; see `streaml1.models.explanation`.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        return explain_labels(self._state, self._classes.labels, x)

    def explain_many(self, X: RowsLike) -> list[dict[Hashable, Explanation]]:
        """Return what `explain_one` returns for each row.

        Parameters
        ----------
        X
            A data frame, a matrix or a list of dicts, as for `learn_many`.

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row.
        """
        return explain_label_rows(self._state, self._classes.labels, X)

    # Inspection

    @property
    def classes_met(self) -> list[Hashable]:
        """The known labels, in the order of their first example or declaration."""
        return self._classes.labels[: self._n_learnt]

    @property
    def weights(self) -> dict[Hashable, dict[Hashable, float]]:  # type: ignore[override]
        """The non-zero weights by feature and label, with all pending shrinkage applied."""
        names, weight_rows = self._weight_rows()
        labels = self._classes.labels
        return {
            name: {labels[c]: float(row[c]) for c in np.flatnonzero(row).tolist()}
            for name, row in zip(names, weight_rows, strict=True)
        }

    def _weight_rows(self) -> tuple[list[Hashable], NDArray[np.float64]]:
        """Return the names of the features with weights, and these, shape (n_features, k)."""
        state = self._state
        with state.exclusive():
            slots, weight_rows = self._weight_rows_by_slot()
            return state.vocabulary.names_at(slots), weight_rows

    def _weight_rows_by_slot(self) -> tuple[Ints, NDArray[np.float64]]:
        """Return the slots of the features with weights, and these, shape (n_features, k).

        The caller must be in the context `exclusive` of the state.
        """
        rule = self._state.rule
        slots = np.flatnonzero(rule.weights())
        return slots, rule.rows(slots)

    @property
    def intercept(self) -> dict[Hashable, float]:  # type: ignore[override]
        """The intercept of each label, which is not penalized."""
        with self._state.exclusive():
            b = self._state.rule.intercepts().tolist()
        return dict(zip(self.classes_met, b, strict=True))

    @property
    def n_nonzero(self) -> int:
        """Number of non-zero weights, with all pending shrinkage applied."""
        with self._state.exclusive():
            return int(np.count_nonzero(self._weight_rows_by_slot()[1]))

    @property
    def n_nonzero_rows(self) -> int:
        """Number of features with a non-zero weight."""
        return self._state.n_nonzero

    def top_weights(self, k: int = 10, label: Hashable = None) -> list[tuple[Hashable, float]]:
        """Return the `k` weights of largest absolute value, largest first.

        Parameters
        ----------
        k
            Maximum number of weights.
        label
            Consider the weights of this label only, and return them with feature names. None
            considers all labels, and returns the weights with pairs (feature, label).

        Raises
        ------
        ValueError
            If `k` is negative or not an integer, or the label is unknown.
        """
        require_count(k)
        names, weight_rows = self._weight_rows()
        labels = self.classes_met
        if label is not None:
            if label not in labels:
                raise ValueError(f"label must be one of {labels!r}, got {label!r}")
            w = weight_rows[:, labels.index(label)]
            order = [j for j in np.argsort(-np.abs(w), kind="stable")[:k].tolist() if w[j] != 0.0]
            return [(names[j], float(w[j])) for j in order]
        w = weight_rows.ravel()
        order = [j for j in np.argsort(-np.abs(w), kind="stable")[:k].tolist() if w[j] != 0.0]
        return [((names[j // len(labels)], labels[j % len(labels)]), float(w[j])) for j in order]

    # Copies, while another thread may learn

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes with the labels last.

        They are copied after the state, so that they include all of its labels. `__setstate__`
        drops those that another thread added in between.
        """
        state = self.__dict__.copy()
        state["_classes"] = state.pop("_classes")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._classes.cut(self._n_learnt)

    def clone(self, *args: Any, **kwargs: Any) -> Self:
        """Return an untrained model with the same parameters; see `river.base.Base.clone`."""
        with self._state.lock:
            return super().clone(*args, **kwargs)

    def freeze(self) -> FrozenClasses:
        """Return a small immutable predictor with the current weights, safe for any thread."""
        with self._state.exclusive():
            return FrozenClasses(self._state.frozen(), self.classes_met)

    def _file_state(self) -> Callable[[], dict[str, Any]]:
        with self._state.exclusive():
            state, labels = super()._file_state(), list(self.classes_met)
        return lambda: {**state(), "labels": labels}

    @classmethod
    def _from_file(cls, params: dict[str, Any], state: dict[str, Any]) -> Self:
        labels = [as_label(label) for label in state.pop("labels")]
        model = super()._from_file(params, state)
        model._classes = Classes(labels, closed=model.classes is not None)
        if not len(labels) == len(model._classes.positions) == model._n_learnt:
            raise ValueError("the number of distinct labels does not match the rule")
        if model.classes is not None and labels != [*model.classes][: len(labels)]:
            raise ValueError("the labels are not the declared classes")
        return model
