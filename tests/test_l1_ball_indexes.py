"""The two indexes of the l1 ball, timing wheel and rank tree: equal integers in every operation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.sparse import csr_matrix

from streaml1.optim import loop
from streaml1.optim.l1_ball import L1Ball
from streaml1.optim.l1_ball_tree import L1BallTree
from streaml1.optim.losses import ABSOLUTE

KINDS = (L1Ball, L1BallTree)

# The tests take arbitrary steps through the training loop: with a label far away, the absolute loss
# has the derivative -1 or +1, so that the step is the rate with a sign.


class Rows(NamedTuple):
    ids: Any
    values: Any
    indptr: Any
    steps: Any


def rows_of(rows: list[tuple[dict[int, float], float]]) -> Rows:
    ids = [j for x, _ in rows for j in x]
    values = [v for x, _ in rows for v in x.values()]
    ends = np.cumsum([0] + [len(x) for x, _ in rows])
    steps = np.array([step for _, step in rows])
    return Rows(np.array(ids, np.uint32), np.array(values, float), ends.astype(np.uint64), steps)


def learn_rows(rule: Any, rows: Rows) -> Any:
    """Return the rule after w + step x and a projection for each row."""
    record = np.zeros(1, loop.ONLINE).view(np.recarray)
    record.clip_gradient, record.loss, record.positive_weight = 1e12, ABSOLUTE, 1.0
    n = len(rows.steps)
    y = np.where(rows.steps < 0.0, -1e40, 1e40)
    p, w, eta, i = np.empty(n), np.ones(n), np.abs(rows.steps), 0
    while True:
        why, i = loop.learn(
            rule, record, rows.ids, rows.values, rows.indptr, y, w, np.zeros(1), eta, p, i, 0
        )
        if why == loop.DONE:
            return rule
        assert why == loop.NO_CAPACITY
        rule = rule.reserve(int(rows.indptr[i + 1] - rows.indptr[i]))


def integer_weights(rule: Any) -> dict[int, int]:
    """Return the weights as integers."""
    slots, arrays = rule.state_dict()
    return dict(zip(slots.tolist(), arrays["w"].tolist(), strict=True))


def sorted_integers(rule: Any) -> Any:
    """Return the slots in ascending order, and their weights as integers."""
    slots, arrays = rule.state_dict()
    order = np.argsort(slots)
    return np.array([slots[order], arrays["w"][order]])


# The same in exact integers


class ExactBall:
    """The projection of the paper, by sorting, on integer multiples of a fixed unit."""

    def __init__(self, z: int, unit: float, nonnegative: bool) -> None:
        self.w: dict[int, int] = {}
        self.z, self.unit, self.nonnegative = z, unit, nonnegative

    def learn(self, x: dict[int, float], step: float) -> None:
        for j, v in x.items():
            w = self.w.pop(j, 0) + int(np.rint(step / self.unit * v))
            w = max(w, 0) if self.nonnegative else w
            if w:
                self.w[j] = w
        sizes = sorted(map(abs, self.w.values()), reverse=True)
        if sum(sizes) <= self.z:
            return
        z, theta, prefix_sum = self.z - len(sizes), 0, 0
        for rho, size in enumerate(sizes, 1):
            prefix_sum += size
            if size * rho > prefix_sum - z:
                theta = (prefix_sum - z) // rho
        shrunk = {j: (abs(w) - theta) * (1 if w > 0 else -1) for j, w in self.w.items()}
        self.w = {j: w for j, w in shrunk.items() if abs(self.w[j]) > theta}


VALUES = [1.0, -1.0, 0.5, -0.5, 0.25, 1e-3, 2.0**-48, -(2.0**-49), 3 * 2.0**-50, 1e-300, 5e-324]
rows = st.dictionaries(st.integers(0, 15), st.sampled_from(VALUES), max_size=6)
steps = st.sampled_from([0.5, -0.5, 0.125, -0.03, 2.0**-49, -(2.0**-50), 0.0])
radii = st.sampled_from([1.0, 1.7, 4.0])
operations = st.one_of(
    st.tuples(st.just("learn"), st.lists(st.tuples(rows, steps), min_size=1, max_size=12)),
    st.tuples(st.just("drop"), st.sets(st.integers(0, 15), max_size=5)),
    st.tuples(st.just("radius"), radii),
    st.tuples(st.sampled_from(["grow", "remap", "reserve", "renormalize", "load"]), st.none()),
)


@given(st.lists(operations, max_size=24), st.booleans(), st.sampled_from(KINDS))
def test_integer_weights_match_projection_by_sorting(
    operation_list: list[Any], nonnegative: bool, kind: Any
) -> None:
    rule = kind.start(16, 1.0, nonnegative)
    unit = float(rule.clock[0].unit)
    exact = ExactBall(int(rule.clock[0].z), unit, nonnegative)
    for operation, argument in operation_list:
        if operation == "learn":
            rule = learn_rows(rule, rows_of(argument))
            for x, step in argument:
                exact.learn(x, step)
        elif operation == "drop":
            rule.drop(np.array(sorted(argument), np.int64))
            exact.w = {j: w for j, w in exact.w.items() if j not in argument}
        elif operation == "radius":
            rule.set_radius(argument)
            exact.z = int(argument / unit)
        elif operation == "grow":
            rule = rule.grow(rule.size + 1)
        elif operation == "remap":
            reversed_slots = np.arange(rule.size)[::-1].copy()
            rule = rule.remap(reversed_slots, rule.size).remap(reversed_slots, rule.size)
        elif operation == "reserve":
            rule = rule.reserve(7)
            assert rule.has_capacity(np.uint64(7))
        elif operation == "renormalize":
            rule.renormalize()
        else:
            rule = kind.from_state_dict(rule.size, *rule.state_dict())
        rule.check()
        assert integer_weights(rule) == exact.w
        assert [rule.weight(j) / unit for j in range(16)] == [exact.w.get(j, 0) for j in range(16)]
    assert rule.clock[0].unit == unit


class State(NamedTuple):
    """Many weights far below the radius, in groups (size, count) of equal weights; a few large."""

    groups: list[tuple[int, int]]
    large: list[int]


states = st.builds(
    State,
    st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 90)), min_size=1, max_size=6),
    st.lists(st.integers(-40, 40), min_size=1, max_size=3),
)


@given(states, st.sampled_from([1, 2**20, 2**41]), st.integers(-3, 3), st.sampled_from(KINDS))
def test_arbitrary_states_project_as_by_sorting(
    state: State, scale: int, more: int, kind: Any
) -> None:
    """Include thetas equal or next to a weight that ties with others."""
    unit = 2.0**-49
    z = 2**49
    small = [size * scale for size, count in state.groups for _ in range(count) if size]
    n = len(small) + len(state.large)
    # The survivors of a theta of about x * scale share z.
    large = [(z - n) // len(state.large) + x * scale + more for x in state.large]
    w = np.array(small + large, np.int64)
    clock_record = kind.start(1, 1.0, False).state_dict()[1]["kept"]
    clock_record["unit"] = unit
    rule = kind.from_state_dict(
        n, np.random.default_rng(n).permutation(n), {"w": w, "kept": clock_record}
    )
    exact = ExactBall(z, unit, False)
    exact.w = integer_weights(rule)
    for _ in range(2):
        rule = learn_rows(rule, rows_of([({}, 0.0)]))
        rule.check()
        exact.learn({}, 0.0)
        assert integer_weights(rule) == exact.w
        rule = learn_rows(rule, rows_of([({n - 1: 1.0, 0: -1.0}, float(scale) * unit)]))
        exact.learn({n - 1: 1.0, 0: -1.0}, float(scale) * unit)
        assert integer_weights(rule) == exact.w


# A million operations


@njit(error_model="numpy")
def _dense(w, ids, values, indptr, steps, radius, nonnegative):  # type: ignore[no-untyped-def]
    """Take the same steps in floats, eagerly; project by Michelot's iteration over all weights."""
    for i in range(len(steps)):
        for k in range(indptr[i], indptr[i + 1]):
            w[ids[k]] += steps[i] * values[k]
            if nonnegative:
                w[ids[k]] = max(0.0, w[ids[k]])
        if np.abs(w).sum() <= radius:
            continue
        # A weight that is smaller than the largest by the radius becomes zero.
        base = max(0.0, np.abs(w).max() - radius)
        for j in range(len(w)):
            w[j] = np.sign(w[j]) * max(0.0, abs(w[j]) - base)
        theta, count = 0.0, 0
        while True:
            s, n = 0.0, 0
            for j in range(len(w)):
                if abs(w[j]) > theta:
                    s += abs(w[j])
                    n += 1
            if n == count or s - radius <= n * theta:
                break
            theta, count = (s - radius) / n, n
        for j in range(len(w)):
            w[j] = np.sign(w[j]) * max(0.0, abs(w[j]) - theta)


# Parameters of a random batch: values, size of the steps in radii, maximum length of the rows.
VALUE_KINDS: dict[str, Any] = {
    "normal": lambda random, n: random.normal(size=n),
    "ties": lambda random, n: random.choice([-1.0, 1.0], size=n),
    "one tie": lambda random, n: np.ones(n),
    "denormals": lambda random, n: random.choice([5e-324, -1e-310, 1e-300, 1.0], size=n),
    "far apart": lambda random, n: 10.0 ** random.uniform(-12, 0, size=n),
}
STEP_SIZES = [1e-9, 1e-4, 1e-2, 0.3, 5.0, 300.0]
MAX_LENGTHS = [0, 1, 4, 30]


def batch_of(random: Any, n: int, d: int, radius: float) -> Rows:
    max_length = random.choice(MAX_LENGTHS)
    lengths = random.integers(0, max_length + 1, size=n)
    ends = np.zeros(n + 1, np.uint64)
    np.cumsum(lengths, out=ends[1:])
    # The slots of a row are consecutive in one permutation of all slots, hence distinct.
    order = random.permutation(d)
    starts = random.integers(0, d - max_length, size=n)
    within = np.arange(int(ends[-1])) - np.repeat(ends[:-1].astype(np.int64), lengths)
    ids = order[np.repeat(starts, lengths) + within].astype(np.uint32)
    values = VALUE_KINDS[random.choice(list(VALUE_KINDS))](random, len(ids))
    size = random.choice(STEP_SIZES) * radius
    return Rows(ids, values, ends, random.choice([-size, size, size / 3.0], size=n))


@pytest.mark.slow
@pytest.mark.parametrize("nonnegative", [False, True])
def test_a_million_operations(nonnegative: bool) -> None:
    """Ties, denormals, huge steps, long phases inside the ball, new radii, growth and drops."""
    random = np.random.default_rng(21)
    n, batches, d = 250, 4_000, 60
    radius = 1.0
    rules = [kind.start(d, radius, nonnegative) for kind in KINDS]
    rebased = shrunk = inside = tuned = 0
    for k in range(batches):
        if random.random() < 0.02:
            radius = float(random.choice([1.0, 0.01, 30.0, 1e5, 1e-7]))
            for rule in rules:
                rule.set_radius(radius)
        if random.random() < 0.02 and d < 1_500:
            d += 40
            rules = [rule.grow(d) for rule in rules]
        if random.random() < 0.05:
            dropped = random.choice(d, size=5, replace=False)
            for rule in rules:
                rule.drop(dropped)
        w = np.array(rules[0].weights())
        before = [(int(r.clock[0].Theta), float(r.clock[0].unit)) for r in rules]
        patience = int(rules[0].clock[0].patience)
        rows = batch_of(random, n, d, radius)
        rules = [learn_rows(rule, rows) for rule in rules]
        after = [(int(r.clock[0].Theta), float(r.clock[0].unit)) for r in rules]
        rebased += after[0][0] < before[0][0] and after[0][1] == before[0][1]
        shrunk += after[0][1] < before[0][1]
        inside += after[0][0] == before[0][0]
        tuned += int(rules[0].clock[0].patience) > patience
        np.testing.assert_array_equal(*map(sorted_integers, rules))
        if k % 10 == 0 or k < 100:
            for rule in rules:
                rule.check()
        # The rounding error of floats of this size, over all steps.
        size = np.abs(w).max() + np.abs(rows.steps).max() * np.abs(rows.values).max(initial=1.0)
        error = 1e-10 * radius + n * 1e-15 * size
        _dense(w, *rows, radius, nonnegative)
        found = rules[0].weights()
        np.testing.assert_allclose(found, w, rtol=0.0, atol=error)
        assert np.abs(found).sum() <= radius * (1.0 + 1e-13)
    assert batches * n == 1_000_000
    # Rare events occurred often.
    assert min(rebased, shrunk, inside, tuned) > 20, (rebased, shrunk, inside, tuned)


def test_tens_of_thousands_of_weights_become_zero() -> None:
    """A tree of three levels and thousands of buckets; then nearly all weights become zero."""
    random = np.random.default_rng(5)
    d, radius = 60_000, 50.0
    rules = [kind.start(d, radius, False) for kind in KINDS]
    sizes, heights = [], []
    for n, k, step in [(3_000, 60, 1e-3), (3_000, 60, 3e-4), (2, d, 1e-3), (40, 60, 1.0)]:
        X = csr_matrix(
            (random.normal(size=n * k), random.integers(0, d, size=n * k), np.arange(n + 1) * k),
            (n, d),
        )
        X.sum_duplicates()
        if k == d:
            X.data[:] = 1.0
        ids, ends = X.indices.astype(np.uint32), X.indptr.astype(np.uint64)
        rows = Rows(ids, X.data, ends, random.choice([-step, step], size=n))
        split = max(0, n - 40)  # the dense twin, which is slow, learns the last 40 rows
        last_rows = Rows(ids, X.data, ends[split:], rows.steps[split:])
        rules = [learn_rows(rule, rows._replace(indptr=ends[: split + 1], steps=rows.steps[:split]))
                 for rule in rules]  # fmt: skip
        w = np.array(rules[0].weights())
        rules = [learn_rows(rule, last_rows) for rule in rules]
        _dense(w, *last_rows, radius, False)
        np.testing.assert_allclose(rules[0].weights(), w, rtol=0.0, atol=1e-9)
        assert integer_weights(rules[0]) == integer_weights(rules[1])
        for rule in rules:
            rule.check()
        sizes.append(int(rules[0].clock[0].n))
        heights.append(int(rules[1].clock[0].height))
    assert max(sizes) > 30_000 and sizes[-1] < 1_000
    assert max(heights) == 3 and heights[-1] < 3


COUNT_ACCESSES = """
import numpy as np
from streaml1.optim.l1_ball_tree import L1BallTree

class Counted(np.ndarray):
    count = 0
    def __getitem__(self, k):
        Counted.count += 1
        return super().__getitem__(k)
    def __setitem__(self, k, value):
        Counted.count += 1
        super().__setitem__(k, value)

random = np.random.default_rng(1)
for n in (200, 2_000, 20_000):
    w = random.integers(1, 2**49 // n, size=n)
    kept = L1BallTree.start(1, float(w.sum() * 2.0**-49), False).state_dict()[1]["kept"]
    kept["unit"] = 2.0**-49
    rule = L1BallTree.from_state_dict(2 * n, np.arange(n), {"w": w, "kept": kept}).reserve(2_000)
    for i in range(32):
        ids = random.choice(2 * n, size=20, replace=False).astype(np.uint32)
        rule.apply_gradient(ids, random.normal(size=20), np.uint64(0), np.uint64(20), 0.1 / n)
        rule.apply_penalty(0.1)
        if i == 19:  # the tree has been built
            assert rule.clock[0].awake
            rule = rule._replace(leaves=rule.leaves.view(Counted), nodes=rule.nodes.view(Counted))
            Counted.count = 0
    c = rule.clock[0]
    print(c.n, c.height + 1, Counted.count / (12 * 20))
"""


@pytest.mark.slow
def test_tree_takes_logarithmic_time(python: Callable[..., str]) -> None:
    """Count all reads and writes of nodes and leaves in interpreted kernels."""
    output = python(
        "-c", COUNT_ACCESSES, NUMBA_DISABLE_JIT="1", PYTHONWARNINGS="ignore"
    ).splitlines()
    sizes, levels, counts = zip(*(map(float, line.split()) for line in output), strict=True)
    assert sizes[0] < 500 and sizes[2] > 10_000
    assert levels == (2, 3, 4)
    # Each deletion and insertion compares 32 bounds per level, independent of n.
    assert max(counts) < 200 * max(levels)
    for small, large in itertools.pairwise(range(3)):
        assert counts[large] < counts[small] * levels[large] / levels[small] * 1.3, output
