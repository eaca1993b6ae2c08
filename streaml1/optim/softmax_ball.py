r"""Multiclass logistic regression with the weights of each label in an l1 ball of its own.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), *Efficient projections onto the l1-ball for learning
in high dimensions*, as in their experiment on MNIST. One step at rate $\eta$, for each label c:

$$v_c = w_c - \eta\,r_c\,x, \qquad r_c = w\,(p_c - [c = y]), \text{ clipped}; \qquad
w_c = \text{the projection of } v_c \text{ onto } \{\textstyle\sum_j |w_{cj}| \le z\}$$

with p the softmax of the margins. Each label has an `L1Ball`, a view of a part of the arrays of
this rule: the balls are stored one after the other, and `starts` says where each begins.

Differences from the paper: a) those of `l1_ball.py`. b) The experiment of the paper averages over
batches; this takes one example at a time.

Cost of a step: k times that of one ball, amortized, and k exponentials. Memory: 16 k bytes per
slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import ensure
from streaml1.core.simd import array_at
from streaml1.core.types import Bools, Floats, Ids, Ints, Records
from streaml1.optim.l1_ball import L1Ball
from streaml1.optim.rule_state import (
    Ledger,
    PerRow,
    RuleState,
    Scratch,
    ensure_array,
    ensure_keys,
)
from streaml1.optim.structures.multiclass import (
    begin_outputs,
    finish_outputs,
    move_intercepts,
    softmax_residuals,
    wants_margins,
)
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
        ("b", "f8"),  # intercept of a new label
        ("nonnegative", "i8"),
        ("k", "i8"),  # number of labels seen
        ("most", "i8"),  # number of labels that there is room for
    ],
    align=True,
)
MAX_WEIGHT = 1e90
MIN_LABELS = 4


class SoftmaxBallState(NamedTuple):
    """The balls, one after the other; intercepts; one record.

    `starts` has three parts of `outputs + 1` positions: where `ends`, `pool` and `todo` of each
    ball begin, and where the last ends. `slots` has `size` elements for each ball.
    """

    slots: Annotated[Records, PerRow(SLOT)]
    ends: Annotated[Ids, Scratch(np.uint32)]
    pool: Annotated[Ids, Scratch(np.uint32)]
    todo: Annotated[Ids, Scratch(np.uint32)]
    starts: Annotated[Ints, Scratch(np.int64)]
    balls: Annotated[Records, Scratch(BALL)]
    b: Annotated[Floats, Scratch(np.float64)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class SoftmaxBall(RuleState, SoftmaxBallState):
    """Multiclass logistic regression with an l1 ball for each label."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Store the margins in `scratch`; return 0."""
        for c in range(self.clock[0].k):
            self.scratch[c] = margin(_ball(self, c), ids, values, lo, hi)
        return 0.0

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Write probabilities to `out` and residuals to `scratch`; add the label if it is new."""
        o, shared = self.clock[0], online[0]
        first = softmax_residuals(self.scratch, self.b, o.k, 1.0, shared, y, w, out)
        o.k = max(o.k, np.int64(y) + 1)
        move_intercepts(self.b, self.scratch, o.k, shared.intercept_lr)
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
        """Return the index of the largest probability; `out` as in `Softmax.predict`."""
        k = np.uint64(self.clock[0].k)
        only_margins = wants_margins(out)
        if not begin_outputs(out, k):
            return -1.0
        a = array_at(out + u64(8), k, np.float64)
        for c in range(k):
            a[c] = margin(_ball(self, np.int64(c)), ids, values, lo, hi)
        return finish_outputs(a, self.b, 1.0, k, only_margins)

    def has_capacity(self, nnz: Any) -> bool:
        # One more, for a label that may join.
        for c in range(min(self.clock[0].k + 1, self.clock[0].most)):
            if not has_capacity(_ball(self, c), nnz):
                return False
        return True

    def weight(self, j: Any) -> float:
        """Return the largest absolute value of the k weights of a slot."""
        largest = 0.0
        for c in range(self.clock[0].k):
            largest = max(largest, abs(weight(_ball(self, c), j)))
        return largest

    def _seen_balls(self) -> list[L1Ball]:
        """Return the balls of the labels seen, as views."""
        return [_ball_of(self, c) for c in range(int(self.clock[0].k))]

    def _balls(self) -> list[L1Ball]:
        """Return all balls, as views."""
        return [_ball_of(self, c) for c in range(self.outputs)]

    def intercepts(self) -> Floats:
        """Return the intercept of each label."""
        return self.b[: self.clock[0].k].copy()

    def weights(self) -> Floats:
        largest = np.zeros(self.size)
        for ball in self._seen_balls():
            np.maximum(largest, np.abs(ball.weights()), out=largest)
        return largest

    def rows(self, slots: Ints) -> Floats:
        """Return the current weights of some slots, shape (slots, k)."""
        columns = [ball.weights()[slots] for ball in self._seen_balls()]
        return np.stack(columns, axis=1) if columns else np.empty((len(slots), 0))

    def _any(self, masks: Sequence[Bools]) -> Bools:
        return np.any(masks, axis=0) if masks else np.zeros(self.size, bool)

    def seen_mask(self) -> Bools:
        return self._any([ball.seen_mask() for ball in self._seen_balls()])

    def live_mask(self) -> Bools:
        return self._any([ball.live_mask() for ball in self._seen_balls()])

    def drop(self, slots: Ints) -> None:
        for ball in self._seen_balls():
            ball.drop(slots)

    def reserve(self, nnz: int) -> SoftmaxBall:
        old = self._balls()
        balls = [ball if ball.has_capacity(nnz) else ball.reserve(nnz) for ball in old]
        if all(ball is before for ball, before in zip(balls, old, strict=True)):
            return self
        return self._with_balls(balls)

    def set_radius(self, radius: float) -> None:
        """Set the radius of all balls from the next step on."""
        o = self.clock[0]
        o.radius = radius
        for c, ball in enumerate(self._balls()):
            if c < o.k:
                ball.set_radius(radius)
            else:  # like a new ball: copies and loaded rules have new spare balls
                ball.begin(radius, bool(o.nonnegative))

    @property
    def outputs(self) -> int:
        """Number of labels that there is room for."""
        return len(self.balls)

    @property
    def row_width(self) -> int:
        return self.outputs

    def _with_balls(self, balls: list[L1Ball]) -> SoftmaxBall:
        """Return the same rule with other balls, at least as many."""
        joined = [np.concatenate([ball[i] for ball in balls]) for i in range(5)]
        slots, ends, pool, todo, clocks = joined
        lengths = [[len(ball[i]) for ball in balls] for i in (1, 2, 3)]
        starts = np.array([np.cumsum([0, *each]) for each in lengths], np.int64).reshape(-1)
        clock = self.clock.copy()
        clock.most[0] = len(balls)
        b = np.full(len(balls), clock[0].b)
        b[: len(self.b)] = self.b
        return SoftmaxBall(
            *(slots.view(np.recarray), ends, pool, todo, starts, clocks.view(np.recarray)),
            *(b, np.zeros(len(balls)), clock),
        )

    def widen(self, k: int) -> SoftmaxBall:
        """Return the same rule with room for `k` labels."""
        if k <= self.outputs:
            return self
        o = self.clock[0]
        new = max(k, self.outputs * 5 // 4) - self.outputs
        spare = [L1Ball.start(self.size, o.radius, bool(o.nonnegative)) for _ in range(new)]
        return self._with_balls([*self._balls(), *spare])

    def grow(self, d: int) -> SoftmaxBall:
        return self._with_balls([ball.grow(d) for ball in self._balls()])

    def remap(self, new_slots: Ints, d: int) -> SoftmaxBall:
        return self._with_balls([ball.remap(new_slots, d) for ball in self._balls()])

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        slots, k = np.flatnonzero(self.live_mask()), int(self.clock[0].k)
        w = np.zeros((self.size, k), np.int64)
        scalars = []
        for c, ball in enumerate(self._seen_balls()):
            alive, arrays = ball.state_dict()
            w[alive, c] = arrays["w"]
            scalars.append(arrays["kept"])
        none = self._balls()[0].state_dict()[1]["kept"][:0]  # for the dtype, if no label was seen
        return slots, {
            **{"w": w[slots], "kept": np.concatenate([none, *scalars])},
            **{"b": self.b[:k].copy(), "clock": self.clock.copy()},
        }

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> SoftmaxBall:
        ensure_keys(arrays, ("w", "kept", "b", "clock"))
        ensure_array(arrays["clock"], "clock", CLOCK, (1,))
        w, kept, b, o = arrays["w"], arrays["kept"], arrays["b"], arrays["clock"][0]
        k = int(o["k"])
        ensure(
            k >= 0 and w.shape == (len(slots), k) and kept.shape == (k,),
            f"w and kept must have {k} labels",
        )
        ensure_array(b, "b", np.float64, (k,))
        radius, nonnegative = float(o["radius"]), bool(o["nonnegative"])
        ensure(0.0 < radius < math.inf, "the radius is out of range")
        rule = SoftmaxBall.start(d, k, radius, nonnegative, float(o["b"]))
        balls = []
        for c in range(k):
            alive = w[:, c] != 0
            part = {"w": w[alive, c], "kept": kept[c : c + 1]}
            balls.append(L1Ball.from_state_dict(d, slots[alive], part))
        rule = rule._with_balls([*balls, *rule._balls()[k:]])
        rule.b[:k] = b
        return rule

    def check(self) -> None:
        super().check()
        o = self.clock[0]
        ensure(0 <= o.k <= o.most == self.outputs, "k or the number of balls is out of range")
        ensure(
            0.0 < o.radius < math.inf and o.nonnegative in (0, 1),
            "radius or nonnegative is out of range",
        )
        ensure(self.b.shape == self.scratch.shape == (o.most,), "b or scratch has a wrong length")
        ensure(np.all(np.abs(self.b) < MAX_WEIGHT), "an intercept is out of range")
        ensure(len(self.starts) == 3 * (o.most + 1), "starts has a wrong length")
        for ball in self._balls():
            ball.check()
            ensure(ball.clock[0].radius == o.radius, f"a ball does not have the radius {o.radius}")
            ensure(
                (ball.clock[0].least == 0) == bool(o.nonnegative), "a ball differs in nonnegative"
            )
        for ball in self._balls()[o.k :]:
            ensure(not ball.seen_mask().any(), "a ball without a label was touched")

    @staticmethod
    def start(d: int, k: int, radius: float, nonnegative: bool, b: float) -> SoftmaxBall:
        """Return a rule with `d` zero weights for each of `k` labels that were seen."""
        clock = records(1, CLOCK)
        clock[0] = (radius, b, nonnegative, k, 0)
        empty: Any = np.zeros(0)
        rule = SoftmaxBall(*(empty,) * 8, clock)
        return rule._with_balls(
            [L1Ball.start(d, radius, nonnegative) for _ in range(max(k, MIN_LABELS))]
        )


def _ball_of(rule: Any, c: Any) -> Any:
    """Return the ball of a label, as a view of the arrays of the rule."""
    n = len(rule.balls)
    d = len(rule.slots) // n
    starts = rule.starts
    e, p, t = c, c + n + 1, c + 2 * (n + 1)
    return L1Ball(
        rule.slots[c * d : (c + 1) * d],
        rule.ends[starts[e] : starts[e + 1]],
        rule.pool[starts[p] : starts[p + 1]],
        rule.todo[starts[t] : starts[t + 1]],
        rule.balls[c : c + 1],
    )


_ball = inlined(_ball_of)  # for kernels; Python calls the function itself
