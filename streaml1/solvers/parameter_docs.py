"""Descriptions of the parameters that several solvers share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

__all__ = ["share_parameter_docs"]

Solver = TypeVar("Solver", bound=Callable[..., object])

DESCRIPTIONS = {
    "X": """
        X
            A scipy.sparse or numpy matrix, shape (n, d), with one example per row.""",
    "l1_must_be_zero": """
        l1
            Must be 0; use `prox_sdca` for an l1 penalty.""",
    "l2_positive": """
        l2
            Strength of the squared l2 penalty, > 0.""",
    "gamma": """
        gamma
            Width of the smoothed hinge, > 0.""",
    "order": """
        order
            Order of the steps within an epoch: "permutation" shuffles them for each epoch,
            "random" draws with replacement, "cyclic" keeps the order of the data.""",
    "fit_intercept": """
        fit_intercept
            Whether to fit an intercept, which is neither penalized nor constrained.""",
    "no_intercept": """
        fit_intercept
            Must be False. Add a column of ones instead, whose weight is penalized like others.""",
    "tol": """
        tol
            Duality gap to stop at: absolute, or relative to the objective if that is above 1.""",
    "max_epochs": """
        max_epochs
            Maximum number of passes over the data.""",
    "order_seed": """
        seed
            Seed of the order.""",
    "callback": """
        callback
            Called as `callback(record, weights)` after each epoch. A true result stops the run
            without a warning.""",
    "shards": """
        shards
            Number of parts of the examples that ascend side by side, added after each epoch
            (CoCoA+). 1: none. Requires l2 > 0; examples are not dropped.
        executor
            Where the shards run, one of `streaml1.distributed`; None: one after the other, here.
            The result is the same.""",
    "solution": """
        Solution
            Weights, intercept, objective and duality gap.""",
}

PLACEHOLDER = re.compile(r"^( *)\{(\w+)\}$", re.MULTILINE)


def share_parameter_docs(solver: Solver) -> Solver:
    """Replace each line ``{name}`` of a solver's docstring by the shared description `name`."""

    def describe(match: re.Match[str]) -> str:
        text = textwrap.dedent(DESCRIPTIONS[match[2]]).strip("\n")
        return textwrap.indent(text, match[1])

    if solver.__doc__ is not None:  # it is None under python -OO
        solver.__doc__ = PLACEHOLDER.sub(describe, solver.__doc__)
    return solver
