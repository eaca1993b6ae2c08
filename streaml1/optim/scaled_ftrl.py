r"""FTRL-Proximal on scaled features, with or without a learning rate to choose.

The update of `ftrl.py` with $z_j$, the value over the mean size of its feature, clipped to $\pm 3$ (see
`structures/feature_scales.py`), in place of $x_j$. To tell it from the sum z of that module, the sum is called
$\theta$ here. With $G = g z_j$:

$$\sigma = \frac{\sqrt{n + G^2} - \sqrt{n}}{\alpha}, \qquad \theta \leftarrow \theta + G - \sigma w, \qquad n \leftarrow n + G^2$$

$$w = \begin{cases}0 & \text{if } |\theta| \le \lambda_1\\
-\dfrac{\theta - \mathrm{sgn}(\theta)\lambda_1}{(\beta Y + \sqrt{n})/\alpha + \lambda_2} & \text{else}\end{cases}$$

Y is the mean of $|y|$, which is 1 for labels of $\pm 1$; for the Poisson loss, whose margins are logarithms,
Y is 1. Without a given rate, $\alpha = 3 Y / \sqrt{S}$, where S is the mean of $1 + \sum_j z_j^2$ over the rows so
far: the first steps of a row change its margin by a few units of the labels, whatever the number of features in a
row. The 3 was chosen on streams of 6 to 155 features per row. $\sigma$ takes the $\alpha$ that w was computed with.

The intercept is a coordinate with z = 1 and $\lambda_1 = \lambda_2 = 0$, added to its initial value.

A feature that is in each of the first 16 rows has an origin m: from then on, x stands for x - m above (see
`structures/feature_origins.py`), and what was learnt of x is forgotten. The targets of a regression have a centre, which
is added to each margin; y stands for their distance from it (see `structures/target_centre.py`). With the Poisson
loss, values and targets are read as they are.

Means count each number for at most ten times the mean of those before it. Nothing is pending for features
that are absent: a weight is a function of its slot and the ledger.

Cost of a step: O(non-zeros of the row), with two square roots and three divisions each. Memory: 56 bytes
per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Floats, Records
from streaml1.optim import losses
from streaml1.optim.centred_rule import USUAL_VALUES, CentredRule
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch, new_state
from streaml1.optim.structures.feature_origins import (
    FORGOTTEN,
    ORIGIN_WIDTH,
    count_value,
    from_origin,
)
from streaml1.optim.structures.feature_scales import add_size, scaled
from streaml1.optim.structures.joined_origins import with_common_origins
from streaml1.optim.structures.joined_sums import add_growth, joined_sums, last_moves
from streaml1.optim.structures.restarted_sums import restarted_sums
from streaml1.optim.structures.soft_threshold import clamped
from streaml1.optim.structures.target_centre import centred_derivative, join_centre
from streaml1.optim.update_rule import margin

__all__ = ["ScaledFTRL"]

SLOT = np.dtype(
    [
        ("count", "f8"),  # rows that had the feature
        ("total", "f8"),  # sum of |x| over them
        ("theta", "f8"),
        ("n", "f8"),
    ],
    align=True,
)
# Of the current row: x less its origin, the new `total`, z, the weight and the root of n.
SCRATCH = np.dtype([(name, "f8") for name in ("x", "total", "z", "w", "root")], align=True)
CLOCK = np.dtype(
    [
        # The parameters, from the next step on; an alpha of 0 is computed.
        *(("alpha", "f8"), ("beta", "f8"), ("l1", "f8"), ("l2", "f8")),
        # Those of the current weights, with Y multiplied into beta.
        *(("over_alpha", "f8"), ("beta_now", "f8"), ("l1_now", "f8"), ("l2_now", "f8")),
        *(("examples", "f8"), ("labels", "f8"), ("squares", "f8")),  # sums of |y| and 1 + |z|^2
        *(("theta", "f8"), ("n", "f8")),  # of the intercept
        *USUAL_VALUES,
    ],
    align=True,
)
SLOT_COUNTS, CLOCK_COUNTS = ("count", "total"), ("examples", "labels", "squares")
AUTO_ALPHA = 3.0
MIN_MEAN = 1e-150

MIN_SQUARES = 1e-290
"""Lower bound of a sum of squares in a model file, unless it is 0."""
MAX_NUMBER = 1e250


@inlined
def _weight(theta: float, root: float, c: Any, l1: float, l2: float) -> float:
    """Return the weight of theta and the square root of n."""
    w: float = (clamped(theta, l1) - theta) / ((c.beta_now + root) * c.over_alpha + l2)
    return w


@inlined
def _intercept(c: Any) -> float:
    """Return the weight of the coordinate of the intercept."""
    return _weight(c.theta, math.sqrt(c.n), c, 0.0, 0.0)


@inlined
def _over_alpha(c: Any) -> float:
    """Return 1 / alpha, from the examples so far if alpha is 0."""
    if c.alpha > 0.0:
        return 1.0 / c.alpha
    return math.sqrt(c.squares / c.examples) / (AUTO_ALPHA * _label_size(c))


@inlined
def _label_size(c: Any) -> float:
    """Return the mean size of the labels."""
    return max(c.labels / c.examples, MIN_MEAN) if c.examples > 0.0 else 1.0


class ScaledFTRLState(NamedTuple):
    """Scale, sums and origin of each slot, the values of the current row, and the ledger."""

    slots: Annotated[Records, PerSlot(SLOT, dropped=(None, None, 0.0, 0.0))]
    origins: Annotated[Floats, PerSlot(np.float64, width=ORIGIN_WIDTH, dropped=(None,))]
    scratch: Annotated[Records, Scratch(SCRATCH)]
    clock: Annotated[Records, Ledger(CLOCK)]


class ScaledFTRL(CentredRule, ScaledFTRLState):
    """FTRL-Proximal on scaled features."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        l1, l2 = c.l1_now, c.l2_now
        fits = hi - lo <= np.uint64(len(self.scratch))  # always to learn, not always to predict
        distance = prefetch_distance(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + distance]))
            slot, x = self.slots[ids[k]], values[k]
            if c.with_origin > 0:
                x = from_origin(self.origins, ids[k], x)
            total = add_size(slot.count, slot.total, abs(x))
            z = scaled(x, total / (slot.count + 1.0))
            root = math.sqrt(slot.n)
            w = _weight(slot.theta, root, c, l1, l2)
            if fits:
                saved = self.scratch[k - lo]
                saved.x = x
                saved.total = total
                saved.z = z
                saved.w = w
                saved.root = root
            a += w * z
        return a

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Return the prediction and the gradient; move the intercept."""
        c, o = self.clock[0], online[0]
        b = _intercept(c)
        a += (o.b + b) + o.offset
        p, g, size = centred_derivative(c, o, a, y, w, c.labels / max(c.examples, 1.0))
        g = max(-o.clip_gradient, min(o.clip_gradient, g)) * w
        c.labels = add_size(c.examples, c.labels, size)
        if o.intercept_lr > 0.0:
            n = c.n + g * g
            c.theta += g - (math.sqrt(n) - math.sqrt(c.n)) * c.over_alpha * b
            c.n = n
        return p, g

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left scales and weights in the scratch array. `step` is g: the rate is 1.
        c, square = self.clock[0], 1.0  # of the row, with the 1 of the intercept
        over_alpha = c.over_alpha
        for k in range(lo, hi):
            slot, saved = self.slots[ids[k]], self.scratch[k - lo]
            if saved.x == 0.0:  # at the origin, which is as good as absent
                continue
            G = step * saved.z
            n = slot.n + G * G
            slot.count += 1.0
            slot.total = saved.total
            slot.theta += G - (math.sqrt(n) - saved.root) * over_alpha * saved.w
            slot.n = n
            square += saved.z * saved.z
            if c.examples < c.origin_rows and count_value(
                self.origins, ids[k], slot.count - 1.0, c.examples, values[k]
            ):
                c.with_origin += 1
                slot.count = FORGOTTEN
                slot.total = slot.theta = slot.n = 0.0
        c.squares = add_size(c.examples, c.squares, square)
        c.examples += 1.0

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        c.over_alpha = _over_alpha(c)
        c.beta_now = c.beta * _label_size(c)
        c.l1_now = c.l1
        c.l2_now = c.l2

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the margin of a row, or its `losses.response` if `out` is not 0."""
        o = online[0]
        c = self.clock[0]
        a = margin(self, ids, values, lo, hi) + (o.b + _intercept(c)) + c.centre
        a = losses.full_stream_margin(o.loss, a, o.loss_parameter)
        return losses.response(o.loss, a) if out else a

    def weight(self, j: Any) -> float:
        """Return the weight of slot j per unit of x."""
        c, slot = self.clock[0], self.slots[j]
        if slot.count == 0.0:
            return 0.0
        mean = max(slot.total / slot.count, MIN_MEAN)
        return _weight(slot.theta, math.sqrt(slot.n), c, c.l1_now, c.l2_now) / mean

    def weights(self) -> Floats:
        c, w = self.clock[0], np.zeros(self.size)
        seen = np.flatnonzero(self.slots["count"])  # few, if features are hashed
        slots = self.slots[seen]
        means = np.maximum(slots["total"] / slots["count"], MIN_MEAN)
        outside = np.clip(slots["theta"], -c.l1_now, c.l1_now) - slots["theta"]
        rates = (c.beta_now + np.sqrt(slots["n"])) * c.over_alpha + c.l2_now
        w[seen] = outside / rates / means
        return w

    def intercept_at_origins(self, online: Records) -> float:
        """Return the initial intercept, the weight of its coordinate, and the centre."""
        c = self.clock[0]
        b = c.theta / ((c.beta_now + math.sqrt(c.n)) * c.over_alpha)
        return float(online[0].b - b + c.centre)

    def without_intercept(self) -> ScaledFTRL:
        """Return the rule with the weight 0 of the coordinate of the intercept, and no centre."""
        clock = self.clock.copy()
        clock[0].theta = clock[0].centre = 0.0
        return self._replace(clock=clock)

    def check(self) -> None:
        super().check()
        c, slots = self.clock[0], self.slots
        for name in ("over_alpha", "beta", "beta_now"):
            ensure(0.0 < c[name] < math.inf, f"{name} is out of range")
        names = ("alpha", "l1", "l1_now", "l2", "l2_now", "examples", "labels", "squares")
        for name in names:
            ensure(0.0 <= c[name] < math.inf, f"{name} is out of range")
        ensure(not 0.0 < c.squares < MIN_SQUARES, "the sum of squares would make rates infinite")
        for sums in (self.clock, slots):
            ensure(np.all(np.abs(sums["theta"]) < MAX_NUMBER), "a theta is out of range")
            ensure(np.all((sums["n"] >= 0.0) & (sums["n"] < MAX_NUMBER)), "an n is out of range")
        count, total = slots["count"], slots["total"]
        ensure(np.all((count >= 0.0) & (count <= c.examples)), "a count is out of range")
        ensure(np.all((total >= 0.0) & (total < MAX_NUMBER)), "a sum of sizes is out of range")
        ensure(np.array_equal(count > 0.0, total > 0.0), "a count and a sum of sizes disagree")
        ensure(np.all(total[total > 0.0] / count[total > 0.0] > 0.0), "a mean size is 0")

    def reset_rates(self) -> None:
        """Set all n to 0, and each theta such that its weight stays."""
        c, theta = self.clock[0], self.slots["theta"]
        rates = (c.beta_now + np.sqrt(self.slots["n"])) * c.over_alpha + c.l2_now
        w = (np.clip(theta, -c.l1_now, c.l1_now) - theta) / rates
        denominator = c.beta_now * c.over_alpha
        self.slots["theta"] = restarted_sums(theta, w, c.l1_now, denominator + c.l2_now, 0.0)
        self.slots["n"] = 0.0
        c.theta *= c.beta_now / (c.beta_now + math.sqrt(c.n))
        c.n = 0.0

    def candidates(
        self, parts: Sequence[ScaledFTRL], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, ScaledFTRL]]:
        """Yield the candidates of `structures.joined_sums` without momentum."""
        base, *others = with_common_origins([self, *parts])
        return base._joined(others, None)

    def candidates_with_momentum(
        self, parts: Sequence[ScaledFTRL], rates: Sequence[Iterable[Floats]], before: ScaledFTRL
    ) -> Iterator[tuple[str, ScaledFTRL]]:
        """Yield the candidates of `structures.joined_sums`."""
        base, *others = with_common_origins([self, *parts])
        return base._joined(others, last_moves(base._sums(), before._sums()))

    def _joined(
        self, parts: Sequence[ScaledFTRL], moves: Floats | None
    ) -> Iterator[tuple[str, ScaledFTRL]]:
        """Yield the candidates; the sums of scales are added."""
        slots, clock = self.slots.copy(), self.clock.copy()
        add_growth(slots, [part.slots for part in parts], SLOT_COUNTS)
        add_growth(clock, [part.clock for part in parts], CLOCK_COUNTS)
        c = clock[0]
        join_centre(clock, self.clock, [part.clock for part in parts])
        if c.examples > 0.0:
            size = max(c.labels / c.examples, MIN_MEAN)
            computed = math.sqrt(c.squares / c.examples) / (AUTO_ALPHA * size)
            c.over_alpha = 1.0 / c.alpha if c.alpha > 0.0 else computed
            c.beta_now = c.beta * size
        # The last coordinate is the intercept.
        sums = [part._sums() for part in parts]
        for name, theta, n in joined_sums(*self._sums(), sums, moves):
            joined, ledger = slots.copy(), clock.copy()
            joined["theta"], joined["n"] = theta[:-1], n[:-1]
            ledger["theta"], ledger["n"] = theta[-1], n[-1]
            yield name, self._replace(slots=joined, clock=ledger)

    def _sums(self) -> tuple[Floats, Floats]:
        """Return theta and n of each slot, then those of the intercept."""
        slots, clock = self.slots, self.clock
        return np.append(slots["theta"], clock["theta"]), np.append(slots["n"], clock["n"])

    @staticmethod
    def start(d: int, alpha: float, beta: float, l1: float, l2: float, loss: int) -> ScaledFTRL:
        """Return a rule with `d` zero weights; `alpha` 0 is computed from the rows."""
        rule = new_state(ScaledFTRL, d)
        c = rule.clock[0]
        c.alpha, c.beta, c.l1, c.l2 = alpha, beta, l1, l2
        c.over_alpha, c.beta_now, c.l1_now, c.l2_now = 1.0 / (alpha or 1.0), beta, l1, l2
        rule.begin(loss)
        return rule
