"""The names of several models as one list, in which each name occurs once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.types import Hashes, Ints
from streaml1.features.vocabulary.crossed_name import CrossedName, cross_hash
from streaml1.text.keyed_names import keyed_hashes_of

__all__ = ["JoinedNames", "join_names"]


class JoinedNames(NamedTuple):
    """Names of several models.

    Parameters
    ----------
    state
        The names as a vocabulary's `state_dict` returns them, in the order in which they occur
        first.
    positions
        For each model, the positions of its names in `state`.
    """

    state: dict[str, Any]
    positions: list[Ints]

    @property
    def size(self) -> int:
        """Number of names."""
        return _count(self.state)

    def subset(self, positions: Ints) -> dict[str, Any]:
        """Return the names at some positions, in the form of `state`."""
        state = dict(self.state)
        for key in {"slots", "joints"} & set(state):
            state[key] = state[key][positions]
        if state["kind"] == "table":
            state["names"] = [state["names"][k] for k in positions.tolist()]
        return state


def join_names(states: Sequence[dict[str, Any]]) -> JoinedNames:
    """Unite the names of several models by their hashes.

    Those of strings are keyed, so that names cannot be chosen such that two of them collide.

    Parameters
    ----------
    states
        The names of each model, as the `state_dict` of its vocabulary returns them. All are of
        kind ``hashed`` with the same bits, or none is.

    Returns
    -------
    JoinedNames
        The order of the names depends on the order of `states` alone. The text of a name is that of
        the first model that has it.
    """
    kinds = {state["kind"] for state in states}
    if "table" in kinds:
        listed = [_listed(state) for state in states]
        names = list(chain.from_iterable(names for names, _ in listed))
        joints = np.concatenate([joints for _, joints in listed])
        firsts, positions = _first_positions(_hashes(names))
        state = {
            "kind": "table",
            "names": [names[k] for k in firsts.tolist()],
            "joints": joints[firsts],
        }
    else:
        slots = np.concatenate([state["slots"] for state in states])
        firsts, positions = _first_positions(slots)
        state = {**states[0], "slots": slots[firsts]}
    ends = np.cumsum([_count(state) for state in states])[:-1]
    return JoinedNames(state, np.split(positions, ends))


def _count(state: dict[str, Any]) -> int:
    return len(state["names"] if state["kind"] == "table" else state["slots"])


def _listed(state: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return names and joints; those of ints that are their own slots, too."""
    if state["kind"] == "table":
        return state["names"], state["joints"]
    return state["slots"].tolist(), np.full(len(state["slots"]), -1, np.int32)


def _hashes(names: list[Any]) -> Hashes:
    hashes = np.empty(len(names), np.uint64)
    crossed = np.fromiter((type(name) is CrossedName for name in names), bool, len(names))
    plain = np.flatnonzero(~crossed)
    texts = np.fromiter((isinstance(names[k], str) for k in plain), bool, len(plain))
    others = [names[k] for k in plain[~texts].tolist()]
    hashes[plain[texts]] = keyed_hashes_of([names[k] for k in plain[texts].tolist()])
    hashes[plain[~texts]] = name_hashes(others)
    for k in np.flatnonzero(crossed).tolist():
        hashes[k] = cross_hash(names[k])
    return hashes


def _first_positions(keys: Any) -> tuple[Ints, Ints]:
    """Return where each distinct key occurs first, ascending, and each key's index therein."""
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty(len(firsts), np.int64)
    ranks[order] = np.arange(len(firsts))
    return firsts[order], ranks[inverse.reshape(-1)]
