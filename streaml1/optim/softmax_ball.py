r"""Softmax with the weights of each label in an l1 ball of its own.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), *Efficient projections onto the l1-ball for learning
in high dimensions*, as in their experiment on MNIST. One step at rate $\eta$, for each label c:

$$v_c = w_c - \eta\,r_c\,x, \qquad r_c = w\,(p_c - [c = y]), \text{ clipped}; \qquad
w_c = \text{the projection of } v_c \text{ on } \{\textstyle\sum_j |w_{cj}| \le z\}$$

with p the softmax of the margins. Each label has a ball of its own, `l1_ball.py`, a part of the
arrays of this rule.

Differs from the paper: a) what `l1_ball.py` says of one ball. b) The paper's experiment takes means
over batches; this takes one example at a time.

Cost of a step: k times that of one ball, amortised, and k exponentials; 16 k bytes a slot.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import ensure
from streaml1.core.simd import array_at
from streaml1.optim.l1_ball import L1Ball
from streaml1.optim.structures import fixed_point_vector as raw_vector
from streaml1.optim.structures.multiclass import answer, fits, softmax
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.timing_wheel import CLOCK as BALL
from streaml1.optim.structures.timing_wheel import SLOT
from streaml1.optim.update_rule import (
    apply_gradient,
    apply_penalty,
    has_capacity,
    margin,
    renormalize,
    weight,
)

__all__ = ["SoftmaxBall"]

CLOCK = np.dtype(
    [
        ("radius", "f8"),
        ("b", "f8"),  # where the intercept of a new label starts
        ("nonnegative", "i8"),
        ("k", "i8"),  # labels met
        ("most", "i8"),  # labels that there is room for
    ],
    align=True,
)
WEIGHT_MOST = 1e90


class SoftmaxBall(NamedTuple):
    """State of the balls, one after the other; intercepts; one record."""

    slots: Annotated[Any, SLOT]
    ends: Annotated[Any, np.uint32]
    pool: Annotated[Any, np.uint32]
    todo: Annotated[Any, np.uint32]
    starts: Annotated[Any, np.int64]  # of each ball's ends, pool and todo, and where the last ends
    balls: Annotated[Any, BALL]
    b: Annotated[Any, np.float64]
    scratch: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Leave the margins in `scratch`."""
        for c in range(self.clock[0].k):
            self.scratch[c] = margin(_ball(self, c), ids, values, lo, hi)
        return 0.0

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Probabilities to `out`, residuals to `scratch`; a label that is new joins."""
        o, shared = self.clock[0], online[0]
        first = answer(self.scratch, self.b, o.k, 1.0, shared, y, w, out)
        o.k = max(o.k, np.int64(y) + 1)
        return first, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        for c in range(self.clock[0].k):
            apply_gradient(_ball(self, c), ids, values, lo, hi, step * self.scratch[c])

    def apply_penalty(self, eta: float) -> None:
        for c in range(self.clock[0].k):
            apply_penalty(_ball(self, c), eta)

    def renormalize(self) -> None:
        for c in range(self.clock[0].k):
            renormalize(_ball(self, c))

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """As that of `softmax.py`."""
        k = np.uint64(self.clock[0].k)
        if not fits(out, k):
            return -1.0
        a = array_at(out + np.uint64(8), k, np.float64)
        for c in range(k):
            a[c] = margin(_ball(self, np.int64(c)), ids, values, lo, hi) + self.b[c]
        return float(softmax(a, k))

    def has_capacity(self, nnz: Any) -> bool:
        # Also for the label that may join.
        for c in range(min(self.clock[0].k + 1, self.clock[0].most)):
            if not has_capacity(_ball(self, c), nnz):
                return False
        return True

    def weight(self, j: Any) -> float:
        """Distance from zero of the farthest of the k weights of a slot."""
        most = 0.0
        for c in range(self.clock[0].k):
            most = max(most, abs(weight(_ball(self, c), j)))
        return most

    def _all(self) -> list[L1Ball]:
        """The balls of the labels that are met; what is written to them is written here."""
        return [_ball_of(self, c) for c in range(int(self.clock[0].k))]

    def _also_spare(self) -> list[L1Ball]:
        return [_ball_of(self, c) for c in range(self.outputs)]

    def weights(self) -> Any:
        most = np.zeros(self.size)
        for ball in self._all():
            np.maximum(most, np.abs(ball.weights()), out=most)
        return most

    def rows(self, slots: Any) -> Any:
        """The current k weights of some slots."""
        listed = [ball.weights()[slots] for ball in self._all()]
        return np.stack(listed, axis=1) if listed else np.empty((len(slots), 0))

    def _any(self, told: list[Any]) -> Any:
        return np.any(told, axis=0) if told else np.zeros(self.size, bool)

    def seen_mask(self) -> Any:
        return self._any([ball.seen_mask() for ball in self._all()])

    def live_mask(self) -> Any:
        return self._any([ball.live_mask() for ball in self._all()])

    def drop(self, slots: Any) -> None:
        for ball in self._all():
            ball.drop(slots)

    def reserve(self, nnz: int) -> SoftmaxBall:
        have = self._also_spare()
        balls = [ball if ball.has_capacity(nnz) else ball.reserve(nnz) for ball in have]
        if all(ball is old for ball, old in zip(balls, have, strict=True)):
            return self
        return self._with(balls)

    def set_radius(self, radius: float) -> None:
        """From the next step on."""
        o = self.clock[0]
        o.radius = radius
        for c, ball in enumerate(self._also_spare()):
            if c < o.k:
                ball.set_radius(radius)
            else:  # as one that is made from now on: a copy has other spare ones
                raw_vector.begin(ball.clock, radius, bool(o.nonnegative))

    @property
    def size(self) -> int:
        return len(self.slots) // self.outputs

    @property
    def outputs(self) -> int:
        """How many labels there may be without another rule."""
        return len(self.balls)

    def _with(self, balls: list[L1Ball]) -> SoftmaxBall:
        """The same with other balls, at least as many."""
        joined = [np.concatenate([ball[i] for ball in balls]) for i in range(5)]
        slots, ends, pool, todo, clocks = joined
        lengths = [[len(ball[i]) for ball in balls] for i in (1, 2, 3)]
        starts = np.array([np.cumsum([0, *each]) for each in lengths], np.int64).reshape(-1)
        clock = self.clock.copy()
        clock.most[0] = len(balls)
        b = np.full(len(balls), clock[0].b)
        b[: len(self.b)] = self.b
        parts = slots.view(np.recarray), ends, pool, todo, starts, clocks.view(np.recarray)
        return SoftmaxBall(*parts, b, np.zeros(len(balls)), clock)

    def widen(self, k: int) -> SoftmaxBall:
        """The same rule with room for `k` labels."""
        if k <= self.outputs:
            return self
        o = self.clock[0]
        new = max(k, self.outputs * 5 // 4) - self.outputs
        spare = [L1Ball.start(self.size, o.radius, bool(o.nonnegative)) for _ in range(new)]
        return self._with([*self._also_spare(), *spare])

    def grow(self, d: int) -> SoftmaxBall:
        return self._with([ball.grow(d) for ball in self._also_spare()])

    def remap(self, new_slots: Any, d: int) -> SoftmaxBall:
        return self._with([ball.remap(new_slots, d) for ball in self._also_spare()])

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots, k = np.flatnonzero(self.live_mask()), int(self.clock[0].k)
        w = np.zeros((self.size, k), np.int64)
        kept = []
        for c, ball in enumerate(self._all()):
            alive, arrays = ball.state_dict()
            w[alive, c] = arrays["w"]
            kept.append(arrays["kept"])
        first = self._also_spare()[0].state_dict()[1]["kept"][:0]
        return slots, {
            **{"w": w[slots], "kept": np.concatenate([first, *kept])},
            **{"b": self.b[:k].copy(), "clock": self.clock.copy()},
        }

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> SoftmaxBall:
        ensure(set(arrays) == {"w", "kept", "b", "clock"}, "other arrays")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "no record")
        w, kept, b, o = arrays["w"], arrays["kept"], arrays["b"], arrays["clock"][0]
        k = int(o["k"])
        ensure(k >= 0 and w.shape == (len(slots), k) and kept.shape == (k,), "not so many labels")
        ensure(b.dtype == np.float64 and b.shape == (k,), "no intercepts")
        radius, nonnegative = float(o["radius"]), bool(o["nonnegative"])
        ensure(0.0 < radius < math.inf, "the radius is out of range")
        rule = SoftmaxBall.start(d, k, radius, nonnegative, float(o["b"]))
        restored = []
        for c in range(k):
            alive = w[:, c] != 0
            parts = {"w": w[alive, c], "kept": kept[c : c + 1]}
            restored.append(L1Ball.from_state_dict(d, slots[alive], parts))
        rule = rule._with([*restored, *rule._also_spare()[k:]])
        rule.b[:k] = b
        return rule

    def check(self) -> None:
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "there is no record")
        o = self.clock[0]
        ensure(0 <= o.k <= o.most == self.outputs, "labels are out of range")
        ensure(0.0 < o.radius < math.inf and o.nonnegative in (0, 1), "no ball")
        ensure(self.b.shape == self.scratch.shape == (o.most,), "b or scratch has another width")
        ensure(np.all(np.abs(self.b) < WEIGHT_MOST), "an intercept is out of range")
        ensure(len(self.starts) == 3 * (o.most + 1), "starts are none")
        for ball in self._also_spare():
            ball.check()
            ensure(ball.clock[0].radius == o.radius, "a ball has another radius")
            ensure((ball.clock[0].least == 0) == bool(o.nonnegative), "a ball has another sign")
        for ball in self._also_spare()[o.k :]:
            ensure(not ball.seen_mask().any(), "a weight has no label")

    @staticmethod
    def start(d: int, k: int, radius: float, nonnegative: bool, b: float) -> SoftmaxBall:
        """`d` zero weights for each of `k` labels that are met."""
        clock = records(1, CLOCK)
        clock[0] = (radius, b, nonnegative, k, 0)
        nothing = np.zeros(0)
        rule = SoftmaxBall(*(nothing,) * 8, clock)
        return rule._with([L1Ball.start(d, radius, nonnegative) for _ in range(max(k, 4))])


def _ball_of(rule: Any, c: Any) -> Any:
    """The part of the arrays that is the ball of a label."""
    n = len(rule.balls)
    d = len(rule.slots) // n
    at = rule.starts
    e, p, t = c, c + n + 1, c + 2 * (n + 1)
    return L1Ball(
        rule.slots[c * d : (c + 1) * d],
        rule.ends[at[e] : at[e + 1]],
        rule.pool[at[p] : at[p + 1]],
        rule.todo[at[t] : at[t + 1]],
        rule.balls[c : c + 1],
    )


_ball = inlined(_ball_of)  # Python calls the plain one, kernels this
