"""What the regret of a learner is measured against: a class of fixed weights, as plain data.

`streaml1.training.regret` finds the best weights of the class with a batch solver. The models
describe the class only, because they cannot import the solvers.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

__all__ = ["ComparatorSpec", "elastic_net_weights", "weights_in_l1_ball"]


class ComparatorSpec(NamedTuple):
    """A class of fixed weights and their penalty.

    Attributes
    ----------
    description
        The class as a noun phrase.
    solver
        Keyword arguments of `streaml1.solvers.fista`: penalty, strength, radius and so on.
    pays
        When the learner pays the penalty: in each step, once for the whole stream, or never,
        because it is a constraint.
    """

    description: str
    solver: dict[str, Any]
    pays: Literal["each step", "once", "never"]


def elastic_net_weights(l1: float, l2: float) -> ComparatorSpec:
    """Return the class of all weights, penalized by `l1` and `l2` in each step."""
    pays = l1 > 0.0 or l2 > 0.0
    description = "all weights"
    if pays:
        description += f", with l1 = {l1:g} and l2 = {l2:g} in each step"
    return ComparatorSpec(description, {"l1": l1, "l2": l2}, "each step" if pays else "never")


def weights_in_l1_ball(radius: float, nonnegative: bool) -> ComparatorSpec:
    """Return the class of weights, of each label, in an l1 ball."""
    sign = "non-negative weights" if nonnegative else "weights"
    return ComparatorSpec(
        f"{sign} with an l1 norm of at most {radius:g}",
        {"penalty": "ball", "radius": radius, "nonnegative": nonnegative},
        "never",
    )
