r"""Candidates for the weights of several models that have learnt parts of a stream by gradient steps.

There are the weights w of a base and $w_k$ of K parts that have continued learning from it. A part has *moved* a
weight unless it is what the penalty of its steps alone has made of w. With $n_k$ the examples of part k,
sums over the parts that have moved the weight, and $v_k = n_k / \sum_i n_i$:

$$M = \sum_k v_k (w_k - w), \qquad \frac1m = \sum_k v_k^2$$

m is their number if they have equal numbers of examples. Together, the parts have moved the weight by
$m M$: M is 1/m of that. A candidate takes the step f M:

| candidate | f |
|---|---|
| `mean` | m / K |
| `average` | 1 |
| `rho` | $\sqrt m$ |
| `sum` | m |

**Sparsity.** A mean is zero only where all parts agree. And a weight that one of K parts has moved was
shrunk by the penalty of its own steps only. Let $\tau_k$ be the sum of the rates of part k, which its penalty is
proportional to, and $\tau$ their sum over all parts. The share f/m of all gradients should come with that share of all
penalties, $f \tau / m$. M contains $\sum_k v_k \tau_k$ of them. So what is missing is a penalty of

$$f \,\Bigl(\frac\tau m - \sum_k v_k \tau_k\Bigr)$$

which is 0 where all parts have moved the weight, and for K = 1. A weight that no part has moved becomes the mean
of the $w_k$ and is due the rest of $f\tau$, with m = 1.

Mirror descent takes these steps in $\theta$, of which its weights are a function: `smidas.py` and `eg.py` join $\theta$
in place of w.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.types import Bools, Floats, Ints

__all__ = ["JoinedWeights", "joined_elastic_nets", "joined_weights", "moved_from", "shrunk"]

MIN_P = 1e-200
ROUNDING = 1e-9
"""Relative difference up to which weights count as equal."""


class JoinedWeights(NamedTuple):
    """A candidate.

    Parameters
    ----------
    name
        Its name.
    w
        The weights before the penalty.
    penalty
        The sum of rates whose penalty they are due.
    """

    name: str
    w: Floats
    penalty: Floats


def moved_from(still: Floats, w: Floats) -> Bools:
    """Return which weights differ from those that no example has moved."""
    moved: Bools = np.abs(w - still) > ROUNDING * np.abs(still)
    return moved


def joined_weights(
    w: Floats,
    parts: Sequence[Floats],
    visits: Sequence[Floats | Ints],
    examples: Sequence[float],
    penalties: Sequence[float],
) -> Iterator[JoinedWeights]:
    """Yield the candidates.

    Parameters
    ----------
    w
        The weights of the base.
    parts
        The weights of each part.
    visits
        For each part and weight, the number of examples that moved it; or those of the part where
        it was moved, if it is not known how often. 0 where it was not moved.
    examples
        The number of examples of each part.
    penalties
        The sum of the rates of the steps of each part.
    """
    total, squares, moved, contained = (np.zeros(len(w)) for _ in range(4))
    for part, count, penalty in zip(parts, visits, penalties, strict=True):
        total += count
        squares += count * count
        moved += count * (part - w)
        contained += count * penalty
    nowhere, n = total == 0.0, sum(examples) or 1.0
    for part, examples_of_part, penalty in zip(parts, examples, penalties, strict=True):
        share = examples_of_part / n
        moved[nowhere] += share * (part - w)[nowhere]
        contained[nowhere] += share * penalty
    total[nowhere] = squares[nowhere] = 1.0
    moved /= total
    contained /= total
    m = total * total / squares
    due = sum(penalties) / m
    ones = np.ones(len(w))
    for name, f in (("mean", m / len(parts)), ("average", ones), ("rho", np.sqrt(m)), ("sum", m)):
        step = np.where(nowhere, 1.0, f)
        missing = np.maximum(f * due - step * contained, 0.0)
        yield JoinedWeights(name, w + step * moved, missing)


def joined_elastic_nets(
    w: Floats,
    parts: Sequence[Floats],
    rates: Sequence[Iterable[Floats]],
    l1: float,
    l2: float,
    sgd: bool,
) -> Iterator[tuple[str, Floats]]:
    """Yield the names and the weights of the candidates for elastic nets.

    Parameters
    ----------
    w
        The weights of the base.
    parts
        The weights of each part.
    rates
        For each part, the rates of its steps, in blocks.
    l1, l2, sgd
        The penalties, and whether steps are those of SGD instead of FoBoS.
    """
    examples, penalties, visits = [], [], []
    for part, blocks in zip(parts, rates, strict=True):
        steps = _steps_of(blocks, l1, l2, sgd)
        still = np.copysign(steps.P * np.maximum(np.abs(w) - steps.A, 0.0), w)
        examples.append(steps.n)
        penalties.append(steps.sum_of_rates)
        visits.append(steps.n * moved_from(still, part))
    for joined in joined_weights(w, parts, visits, examples, penalties):
        yield joined.name, shrunk(joined.w, joined.penalty, l1, l2)


class _Steps(NamedTuple):
    """Number of steps and sum of their rates; they make P [|w| - A]_+ of a weight."""

    n: int
    sum_of_rates: float
    P: float
    A: float


def _steps_of(blocks: Iterable[Floats], l1: float, l2: float, sgd: bool) -> _Steps:
    """Return what steps of the given rates do to a weight that no example moves."""
    n, total, P, A = 0, 0.0, 1.0, 0.0
    for etas in blocks:
        n += len(etas)
        total += float(etas.sum())
        factors = np.maximum(1.0 - etas * l2, 0.0) if sgd else 1.0 / (1.0 + etas * l2)
        after = P * np.cumprod(factors)
        divisors = after if sgd else np.append(P, after[:-1])
        P = float(after[-1])
        if P < MIN_P:  # nothing is left of any weight
            P, A = 0.0, 0.0
        elif l1 > 0.0:
            A += l1 * float((etas / divisors).sum())
    return _Steps(n, total, P, A)


def shrunk(w: Floats, penalty: Any, l1: float, l2: float) -> Floats:
    """Return weights after the penalty of steps whose rates sum up to `penalty`.

    It is that of many small steps, a shrinkage by exp(-l2 penalty): where steps of one candidate
    stop and those of another begin, only their sum is known.
    """
    factor = np.exp(-l2 * penalty)
    pull = l1 * penalty if l2 == 0.0 else l1 * -np.expm1(-l2 * penalty) / l2
    result: Floats = np.copysign(np.maximum(np.abs(w) * factor - pull, 0.0), w)
    return result
