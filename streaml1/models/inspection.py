"""What can be read from a model: explanations, weights, counts and slots."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from streaml1.core.rows import shown
from streaml1.core.types import RowsLike
from streaml1.features.vocabulary import HashedVocabulary
from streaml1.features.vocabulary.crossed_name import cross_hash
from streaml1.models.explain import debug_text, explain_row, explain_rows
from streaml1.models.parameters import StateSlot
from streaml1.models.state import ModelState
from streaml1.models.state.change_tracking import ChangeTracker

__all__ = ["InspectableModel", "require_count"]


class InspectableModel:
    """The methods of all models that read weights and counts, and change nothing."""

    _state: ModelState = StateSlot()  # type: ignore[assignment]

    # Explanations

    def explain_one(self, x: dict[Hashable, Any]) -> Any:
        """Return what each feature contributes to the margin of an example.

        With `lr="auto"`, whose predictions of the next example are not linear, the explanation is
        that of the published model: of what `freeze()` predicts.

        Parameters
        ----------
        x
            Features by name, as for `learn_one`.

        Returns
        -------
        Explanation
            The contributions by name, those of interactions and n-grams included, the largest
            first and the intercept last; see `streaml1.models.explanation`.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        return explain_row(self._state, x)

    def explain_many(self, X: RowsLike) -> list[Any]:
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
        return list(explain_rows(self._state, X))

    def debug_one(self, x: dict[Hashable, Any], decimals: int = 5) -> str:
        """Return the explanation of a prediction as a table, for river's `Pipeline.debug_one`.

        Parameters
        ----------
        x
            Features by name, as for `learn_one`.
        decimals
            Number of significant digits.
        """
        return debug_text(self.explain_one(x), decimals)

    # Inspection

    @property
    def weights(self) -> dict[Hashable, float]:
        """The non-zero weights by feature name, with all pending shrinkage applied."""
        names, w = self._state.weights()
        return dict(zip(names, w.tolist(), strict=True))

    @property
    def intercept(self) -> float:
        """The intercept, which is not penalized."""
        return self._state.intercept

    @property
    def n_nonzero(self) -> int:
        """Number of non-zero weights, with all pending shrinkage applied."""
        return self._state.n_nonzero

    @property
    def n_nonzero_rows(self) -> int:
        """Number of features with a non-zero weight; equals `n_nonzero` except for softmax."""
        return self.n_nonzero

    @property
    def n_features_seen(self) -> int:
        """Number of distinct features in the examples so far.

        Exact until slots of zero weights are reclaimed (when memory grows, or by saving and
        loading); from then on an estimate with a standard error of 1.6%. With `hash_bits` an
        estimate from the number of occupied slots, which is unreliable once nearly all are.
        """
        return self._state.n_features_seen

    @property
    def n_cut(self) -> int:
        """Number of weights that were dropped because of `max_features`."""
        return int(self._state.online[0].cut)

    @property
    def n_iterations(self) -> int:
        """Number of examples learnt."""
        return self._state.t

    def top_weights(self, k: int = 10) -> list[tuple[Hashable, float]]:
        """Return the `k` weights of largest absolute value with their names, largest first.

        Raises
        ------
        ValueError
            If `k` is negative, or not an integer.
        """
        require_count(k)
        return self._farthest(k, 0)[0]

    def _farthest(self, k: int, *signs: int) -> list[list[tuple[Hashable, float]]]:
        """Return `top_weights` for each sign: 1 selects positive weights, -1 negative, 0 all."""
        return self._state.top_weights(k, *signs)

    def watch(self) -> ChangeTracker:
        """Return a tracker of the features that enter and leave the model from now on."""
        return self._state.watch()

    def slot(self, name: Hashable) -> int:
        """Return the slot, from 0, that a feature name hashes to; interactions included.

        Raises
        ------
        AttributeError
            If the model has `hash_bits=None`, so that no names share a weight.
        BadExample
            If the name is of a type whose hash differs between processes.
        """
        vocabulary = self._state.vocabulary
        if not isinstance(vocabulary, HashedVocabulary):
            raise AttributeError("the model has hash_bits=None, so features have no slots")
        interactions = self._state.interactions
        factors = None if interactions is None else interactions.factors_of(name)
        return vocabulary.slot(name) if factors is None else cross_hash(factors) & vocabulary.mask

    def collisions(self, name: Hashable, among: Iterable[Hashable]) -> list[Hashable]:
        """Return the names in `among` that share the weight of `name`, without `name` itself.

        Raises
        ------
        AttributeError, BadExample
            See `slot`.

        Examples
        --------
        >>> import streaml1
        >>> model = streaml1.ElasticNetClassifier(hash_bits=8)
        >>> model.collisions("site=news", (f"ad={k}" for k in range(1000)))
        ['ad=16', 'ad=238', 'ad=374', 'ad=842', 'ad=900']
        """
        slot = self.slot(name)
        return [found for found in among if found != name and self.slot(found) == slot]


def require_count(k: int) -> None:
    """Raise ValueError unless a number of weights is an integer of at least 0."""
    if not hasattr(k, "__index__"):
        raise ValueError(f"k must be an integer >= 0, got {shown(k)}")
    if k < 0:
        raise ValueError(f"k must be >= 0, got {k}")
