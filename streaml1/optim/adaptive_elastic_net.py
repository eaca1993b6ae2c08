r"""The elastic net with AdaGrad's learning rate for each coordinate, applied lazily.

Duchi, Hazan & Singer (2011), *Adaptive subgradient methods for online learning and stochastic
optimization*: composite mirror descent with a diagonal matrix. With $G_j = g x_j$, each row changes the
rates of its features, and each step moves all coordinates by the proximal step of their own rate:

$$n_j \leftarrow n_j + G_j^2, \qquad \eta_j = \frac{\alpha}{\delta + \sqrt{n_j}}, \qquad
v_j = w_j - \eta_j G_j, \qquad w_j = \mathrm{sgn}(v_j)\,\frac{[\,|v_j| - \eta_j\lambda_1]_+}{1 + \eta_j\lambda_2}$$

$\alpha$ is `lr`. A feature that is absent keeps its $\eta_j$, so the k steps until its next occurrence have a closed
form. With $P = (1 + \eta_j\lambda_2)^{-k}$,

$$w_j = \mathrm{sgn}(v_j)\,\Bigl[P\,|v_j| - \eta_j\lambda_1\,\frac{1 - P}{\eta_j\lambda_2}\Bigr]_+$$

where the fraction is k for $\lambda_2 = 0$. A step shrinks a weight and never changes its sign, so it does not matter
that the formula is cut off at 0 only once.

Stored for each slot are $v_j$ as of its last row, $n_j$, and the number of that step. The penalty of that step
itself is pending, too.

Differences from the paper:

a) $\lambda_2$. The paper has $\ell_1$, among others.
b) The intercept is not one of the coordinates.
c) The parameters may change. Then `renormalize` brings all weights up to date, a pass over all slots.

Cost of a step: O(non-zeros of the row), with two square roots each; with $\lambda_2$ also a logarithm and two
exponentials. Memory: 24 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Bools, Floats, Records
from streaml1.optim import losses
from streaml1.optim.rule_state import MAX_STEPS, Ledger, PerSlot, Scratch, ScratchRule, new_state
from streaml1.optim.structures.soft_threshold import soft_threshold
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["AdaptiveElasticNet"]

MARK = -0.0  # the v of a touched slot is never +0.0: see `rule_state`
SLOT = np.dtype([("v", "f8"), ("n", "f8"), ("t", "i8")], align=True)
PARAMETERS = ("lr", "delta", "l1", "l2")
CLOCK = np.dtype(
    [
        ("t", "i8"),  # steps
        ("g", "f8"),  # derivative of the loss of the current row, times its weight
        *((name, "f8") for name in PARAMETERS),  # from the next step on
        *((f"{name}_now", "f8") for name in PARAMETERS),  # of the pending steps
    ],
    align=True,
)
MIN_DECAY = 1e-100  # below it, eta l2 counts as 0
MAX_WEIGHT = 1e150
MAX_NUMBER = 1e250


@inlined
def _shrunk(v: float, k: Any, eta: float, l1: float, l2: float) -> float:
    """Return the weight `v` after `k` proximal steps at the rate `eta`."""
    decay, steps = eta * l2, float(k)
    if decay > MIN_DECAY and k > 0:
        log_p = -steps * math.log1p(decay)
        v *= math.exp(log_p)
        steps = -math.expm1(log_p) / decay if l1 > 0.0 else 0.0
    w: float = soft_threshold(v, steps * (eta * l1))
    return w


@inlined
def _current(slot: Any, c: Any) -> float:
    """Return the current weight of a slot."""
    if c.l1_now == 0.0 and c.l2_now == 0.0:
        v: float = slot.v
        return v
    eta = c.lr_now / (c.delta_now + math.sqrt(slot.n))
    return _shrunk(slot.v, c.t - slot.t, eta, c.l1_now, c.l2_now)


class AdaptiveElasticNetState(NamedTuple):
    """v, n and step of each slot, weights of the current row, and the ledger."""

    slots: Annotated[Records, PerSlot(SLOT, dropped=(MARK, None, None))]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class AdaptiveElasticNet(ScratchRule, AdaptiveElasticNetState):
    """The lazy elastic net with a rate for each coordinate."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        fits = hi - lo <= np.uint64(len(self.scratch))  # always to learn, not always to predict
        distance = prefetch_distance(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + distance]))
            w = _current(self.slots[ids[k]], c)
            if fits:
                self.scratch[k - lo] = w
            a += w * values[k]
        return a

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Return the prediction and the gradient, which it also stores; move the intercept."""
        o = online[0]
        p, g = losses.output_and_derivative(o.loss, a + o.b + o.offset, y, o.loss_parameter)
        g = max(-o.clip_gradient, min(o.clip_gradient, g)) * w
        o.b -= o.intercept_lr * g
        self.clock[0].g = g
        return p, g

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left the weights of this row in the scratch array.
        c = self.clock[0]
        for k in range(lo, hi):
            slot = self.slots[ids[k]]
            G = c.g * values[k]
            n = slot.n + G * G
            v = self.scratch[k - lo] - c.lr / (c.delta + math.sqrt(n)) * G
            slot.v = v if v != 0.0 else MARK
            slot.n = n
            slot.t = c.t

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if (
            c.lr != c.lr_now or c.delta != c.delta_now
            or c.l1 != c.l1_now or c.l2 != c.l2_now
        ):  # fmt: skip
            renormalize(self)
        c.t += 1

    def renormalize(self) -> None:
        c = self.clock[0]
        for j in range(np.uint64(len(self.slots))):
            slot = self.slots[j]
            if slot.v != 0.0:
                v = _current(slot, c)
                slot.v = v if v != 0.0 else MARK
                slot.t = c.t
        c.lr_now = c.lr
        c.delta_now = c.delta
        c.l1_now = c.l1
        c.l2_now = c.l2

    def weight(self, j: Any) -> float:
        return _current(self.slots[j], self.clock[0])

    def weights(self) -> Floats:
        w, slots = np.zeros(self.size), np.flatnonzero(self.slots["v"])
        _write_weights(self, slots, w)
        return w

    def live_mask(self) -> Bools:
        live: Bools = (self.slots["v"] != 0.0) | (self.slots["n"] > 0.0)
        return live

    def reset_rates(self) -> None:
        """Set all n to 0, once the pending steps are taken at the rates that they had."""
        w = self.weights()
        self.slots["v"] = np.where((w == 0.0) & self.seen_mask(), MARK, w)
        self.slots["n"] = 0.0
        self.slots["t"] = np.where(self.slots["v"] == 0.0, self.slots["t"], self.clock[0].t)

    def check(self) -> None:
        super().check()
        c, v, n, t = self.clock[0], *(self.slots[name] for name in ("v", "n", "t"))
        for name in PARAMETERS:
            for value in (c[name], c[f"{name}_now"]):
                ensure(0.0 <= value < math.inf, f"{name} is out of range")
        ensure(min(c.delta, c.delta_now) > 0.0, "delta is out of range")
        ensure(0 <= c.t < MAX_STEPS and abs(c.g) < MAX_WEIGHT, "t or g is out of range")
        ensure(np.all(np.abs(v) < MAX_WEIGHT), "a weight is out of range")
        ensure(np.all((n >= 0.0) & (n < MAX_NUMBER)), "an n is out of range")
        ensure(np.all((t >= 0) & (t <= c.t)), "the step of a slot is out of range")

    @staticmethod
    def start(d: int, lr: float, delta: float, l1: float, l2: float) -> AdaptiveElasticNet:
        """Return a rule with `d` zero weights."""
        rule = new_state(AdaptiveElasticNet, d)
        rule.clock[0] = (0, 0.0, lr, delta, l1, l2, lr, delta, l1, l2)
        return rule


@kernel
def _write_weights(rule: Any, slots: Any, w: Any) -> None:
    """Write the current weights of some slots to `w`."""
    for k in range(np.uint64(len(slots))):
        j = np.uint64(slots[k])
        w[j] = weight(rule, j)
