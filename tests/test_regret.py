"""Regret: compared with manual sums, and with the best weights found by scipy.optimize."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from click.testing import CliRunner
from river import preprocessing
from river.linear_model import LogisticRegression
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

import streaml1
from streaml1.cli import cli
from streaml1.core.rows import numeric_features
from streaml1.datasets import RCV1, Drifting
from streaml1.features.interactions import Interactions
from streaml1.features.ngrams import NGrams
from streaml1.features.vocabulary.crossed_name import JOINT, display_order
from streaml1.solvers import fista, scd, sdca
from streaml1.training.regret import Point, Regret, RegretError, RegretObserver, bounds
from streaml1.training.regret.iterates import random_iterate
from streaml1.training.regret.observer import marks
from tests import reference as twins

N, D = 36, 3


def stream(classes: int = 2) -> tuple[Any, Any]:
    """Return sparse rows and noisy labels."""
    random = np.random.default_rng(3)
    X = random.normal(size=(N, D)) * (random.random((N, D)) < 0.7)
    a = X @ random.normal(size=(D, max(1, classes))) + random.normal(size=(N, max(1, classes)))
    if classes == 2:
        return X, a[:, 0] > 0.0
    return X, a[:, 0] if classes == 0 else np.argmax(a, axis=1)


# The dense reference: the cost of each step.


def loss_of(name: str, a: Any, y: Any) -> float:
    """Return the summed loss of margins."""
    if name == "softmax":
        return float(np.sum(np.log(np.exp(a).sum(axis=1)) - a[np.arange(len(y)), y]))
    if name == "squared":
        return float(np.sum((a - y) ** 2) / 2)
    m = np.where(y, a, -a)
    if name == "logistic":
        return float(np.sum(np.logaddexp(0.0, -m)))
    if name == "hinge":
        return float(np.sum(np.maximum(0.0, 1.0 - m)))
    z = np.maximum(0.0, 1.0 - m)
    return float(np.sum(np.where(z > 1.0, z - 0.5, z * z / 2.0)))


def split(best: Any, d: int, l1: float, l2: float) -> tuple[Any, Any]:
    """Return f(w, b) + l1 |w| + l2/2 |w|^2 as a smooth function of w = u - v, u, v >= 0."""

    def f(z: Any) -> float:
        u, v, b = z[:d], z[d : 2 * d], z[2 * d :]
        return best(u - v, b) + l1 * float((u + v).sum()) + l2 / 2 * float(((u - v) ** 2).sum())

    return f, [(0, None)] * (2 * d)


def scipy_minimum(loss: str, X: Any, y: Any, kind: str, intercept: bool, **s: float) -> float:
    """Return the minimum of the summed loss plus n times the penalty."""
    n = len(y)
    k = int(y.max()) + 1 if loss == "softmax" else 1
    d = D * k

    def f(w: Any, b: Any) -> float:
        a = X @ w.reshape(k, D).T + b if k > 1 else X @ w + (b[0] if len(b) else 0.0)
        return loss_of(loss, a, y) / n

    free = [(None, None)] * (k if intercept else 0)
    options = {"ftol": 1e-15, "maxiter": 5000, "gtol": 1e-10, "maxfun": 200_000}
    if kind in ("net", "l1"):
        g, bounded = split(f, d, s.get("l1", 0.0), s.get("l2", 0.0))
        start = np.full(2 * d + len(free), 0.01)
        result = minimize(g, start, method="L-BFGS-B", bounds=bounded + free, options=options)
        return float(n * result.fun)
    if kind in ("l2", "rows"):

        def h(z: Any) -> float:
            w = z[:d].reshape(k, D)
            norms = np.sqrt((w * w).sum() if kind == "l2" else (w * w).sum(axis=0))
            return f(z[:d], z[d:]) + s["strength"] * float(np.sum(norms))

        start = np.full(d + len(free), 0.1) + 0.01 * np.arange(d + len(free))
        return float(n * minimize(h, start, method="BFGS", options={"gtol": 1e-8}).fun)
    if kind == "hinge":  # slack variables z_i >= max(1 - y_i a_i, 0)
        signs = np.where(y, 1.0, -1.0)
        rows = np.hstack([signs[:, None] * X, signs[:, None] * np.ones((n, len(free))), np.eye(n)])
        m = D + len(free)
        start = np.concatenate([np.zeros(m), np.ones(n)])
        result = minimize(
            lambda z: z[m:].mean() + s["l2"] / 2 * (z[:D] @ z[:D]), start, method="SLSQP",
            jac=lambda z: np.concatenate([s["l2"] * z[:D], np.zeros(m - D), np.ones(n) / n]),
            bounds=[(None, None)] * m + [(0, None)] * n, options={"ftol": 1e-14, "maxiter": 500},
            constraints={"type": "ineq", "fun": lambda z: rows @ z - 1.0, "jac": lambda z: rows},
        )  # fmt: skip
        return float(n * result.fun)
    n_bounds = {"linf": 1, "rowsmax": D}.get(kind, 0)
    if n_bounds:  # t >= |w_i|, per row or for all weights

        def max_norm_slack(z: Any) -> Any:
            w, t = z[:d].reshape(k, D), z[-n_bounds:]
            return np.concatenate([(t - w).ravel(), (t + w).ravel()])

        result = minimize(
            lambda z: f(z[:d], z[d:-n_bounds]) + s["strength"] * z[-n_bounds:].sum(),
            np.full(d + len(free) + n_bounds, 0.1), method="SLSQP",
            constraints={"type": "ineq", "fun": max_norm_slack},
            options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        return float(n * result.fun)
    nonnegative = kind == "nonnegative"

    def radius_slack(z: Any) -> Any:
        return s["radius"] - z[: 2 * d].reshape(2, k, D).sum(axis=(0, 2))

    result = minimize(
        lambda z: f(z[:d] - z[d : 2 * d], z[2 * d :]),
        np.full(2 * d + len(free), 0.01), method="SLSQP",
        bounds=[(0, None)] * d + [(0, 0.0 if nonnegative else None)] * d + free,
        constraints={"type": "ineq", "fun": radius_slack}, options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    return float(n * result.fun)


def expected_costs(model: Any, X: Any, y: Any, kind: str, s: dict[str, float]) -> Any:
    """Return the cost of each step: the loss of the prediction and the penalty of its weights."""
    costs = []
    classes = hasattr(model, "classes_met")
    for row, label in zip(X, y, strict=True):
        x = {j: v for j, v in enumerate(row.tolist()) if v}
        k = max(1, len(model.classes_met)) if classes else 1
        w = np.zeros((D, k))
        for name, value in model.weights.items():
            if classes:
                w[name] = [value.get(class_label, 0.0) for class_label in model.classes_met]
            else:
                w[name] = value
        if classes:
            b = [model.intercept[class_label] for class_label in model.classes_met]
            margins = dict(zip(model.classes_met, row @ w + np.array(b), strict=True))
            margins.setdefault(int(label), 0.0)  # a new label has no weights yet
            cost = math.log(sum(math.exp(a) for a in margins.values())) - margins[int(label)]
        elif model.loss == "squared":
            cost = (model.predict_one(x) - label) ** 2 / 2
        elif model.loss == "logistic":
            cost = -math.log(model.predict_proba_one(x)[bool(label)])
        else:
            a = row @ w[:, 0] + model.intercept
            cost = loss_of(model.loss, np.array([a]), np.array([label]))
        magnitudes = np.abs(w)
        if kind == "net" or kind == "hinge":
            cost += s.get("l1", 0.0) * magnitudes.sum() + s.get("l2", 0.0) / 2 * (w * w).sum()
        elif kind == "l2":
            cost += s["strength"] * math.sqrt((w * w).sum())
        elif kind == "linf":
            cost += s["strength"] * magnitudes.max()
        elif kind == "l1":
            cost += s["l1"] * magnitudes.sum()
        elif kind == "rows":
            cost += s["strength"] * np.sqrt((w * w).sum(axis=1)).sum()
        elif kind == "rowsmax":
            cost += s["strength"] * magnitudes.max(axis=1).sum()
        costs.append(cost)
        model.learn_one(x, int(label) if classes else (bool(label) if y.dtype == bool else label))
    return np.cumsum(costs)


S = streaml1
LEARNERS: dict[str, tuple[Any, str, dict[str, float]]] = {
    "fobos": (S.ElasticNetClassifier(l1=0.02, l2=0.1, lr=0.5), "net", {"l1": 0.02, "l2": 0.1}),
    "sgd": (S.ElasticNetClassifier(l1=0.02, update="sgd", lr=0.5), "net", {"l1": 0.02}),
    "smoothed": (
        S.ElasticNetClassifier(lr=0.1, l1=0.02, loss="smoothed_hinge", intercept_lr=0.0), "net",
        {"l1": 0.02},
    ),
    "auto": (S.ElasticNetClassifier(l1=0.02, lr="auto"), "net", {"l1": 0.02}),
    "adaptive": (
        S.AdaptiveElasticNetClassifier(l1=0.02, l2=0.1), "net", {"l1": 0.02, "l2": 0.1}
    ),
    "squared": (S.ElasticNetRegressor(lr=0.1, l1=0.02, l2=0.1), "net", {"l1": 0.02, "l2": 0.1}),
    "hinge": (S.ElasticNetClassifier(lr=0.1, l2=0.2, loss="hinge"), "hinge", {"l2": 0.2}),
    "truncated": (S.TruncatedGradientClassifier(gravity=0.02, period=3), "net", {"l1": 0.02}),
    "smidas": (S.SMIDASClassifier(l1=0.02, n_features=D), "net", {"l1": 0.02}),
    "norm l2": (S.FOBOSClassifier(strength=0.05), "l2", {"strength": 0.05}),
    "norm linf": (S.FOBOSClassifier(strength=0.05, norm="linf"), "linf", {"strength": 0.05}),
    "ftrl": (S.FTRLClassifier(alpha=0.1, l1=0.5, l2=0.2), "once", {"l1": 0.5, "l2": 0.2}),
    "ball": (S.L1BallClassifier(radius=1.5), "ball", {"radius": 1.5}),
    "nonnegative": (
        S.L1BallClassifier(radius=1.5, nonnegative=True), "nonnegative", {"radius": 1.5}
    ),
    "eg": (S.EGClassifier(radius=1.5, n_features=9), "ball", {"radius": 1.5}),
    "eg plain": (
        S.EGRegressor(radius=1.5, n_features=9, nonnegative=True), "nonnegative", {"radius": 1.5}
    ),
    "pegasos": (S.PegasosClassifier(l2=0.2, intercept_lr=0.0), "hinge", {"l2": 0.2}),
    "softmax": (S.SoftmaxClassifier(lr=0.1, strength=0.02), "l1", {"l1": 0.02}),
    "rows l2": (
        S.SoftmaxClassifier(lr=0.1, strength=0.02, penalty="l1/l2"), "rows", {"strength": 0.02}
    ),
    "rows linf": (
        S.SoftmaxClassifier(lr=0.1, strength=0.02, penalty="l1/linf"), "rowsmax", {"strength": 0.02}
    ),
    "softmax ball": (S.SoftmaxClassifier(penalty="ball", radius=1.5), "ball", {"radius": 1.5}),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LEARNERS))
def test_matches_manual_sums_and_scipy(name: str) -> None:
    model, kind, s = LEARNERS[name]
    softmax = hasattr(model, "classes_met")
    loss = "softmax" if softmax else model.loss
    X, y = stream(3 if softmax else 0 if loss == "squared" else 2)
    result = streaml1.regret(model.clone(), (csr_matrix(X), y), first=18, per_decade=3, tol=1e-9)
    assert [point.examples for point in result.points] == [18, N]
    costs = expected_costs(model.clone(), X, y, kind, s)
    for point in result.points:
        t = point.examples
        assert point.cumulative == pytest.approx(costs[t - 1], rel=1e-9)
        assert point.regret == point.cumulative - point.best
        if t < N:
            continue
        strengths = {parameter: v / t for parameter, v in s.items()} if kind == "once" else s
        best = scipy_minimum(
            loss, X[:t], y[:t], "net" if kind == "once" else kind, model.intercept_lr > 0.0,
            **strengths,
        )  # fmt: skip
        true_regret = point.cumulative - best
        assert point.regret - 1e-4 <= true_regret <= point.regret + point.error + 1e-4
        assert point.error < (
            0.3 if name == "hinge" else 1e-5
        )  # the hinge is smoothed to find its best weights


def test_best_weights_by_name() -> None:
    X, y = stream()
    rows = [{f"f{j}": v for j, v in enumerate(row) if v} for row in X.tolist()]
    result = streaml1.regret(streaml1.ElasticNetClassifier(lr=0.1, l1=0.02), (rows, y), tol=1e-10)
    expected = fista(X, y, l1=0.02, fit_intercept=True, tol=1e-10)
    assert result.intercept == pytest.approx(expected.intercept, abs=1e-5)
    assert sorted(result.names) == ["f0", "f1", "f2"]
    np.testing.assert_allclose(sorted(result.weights), sorted(expected.weights), atol=1e-4)


def test_all_input_kinds_give_the_same_rows(tmp_path: Path) -> None:
    X, y = stream()
    X = np.round(X, 3)
    rows = [[(j, v) for j, v in enumerate(row) if v] for row in X.tolist()]
    names = [{f"f{j}": v for j, v in row} for row in rows]
    (tmp_path / "a.svm").write_text(
        "".join(
            f"{int(label)} {' '.join(f'{j}:{v}' for j, v in row)}\n"
            for label, row in zip(y, rows, strict=True)
        )
    )
    (tmp_path / "a.vw").write_text(
        "".join(
            f"{1 if label else -1} | {' '.join(f'f{j}:{v}' for j, v in row)}\n"
            for label, row in zip(y, rows, strict=True)
        )
    )
    pairs = [({j: v for j, v in row}, bool(label)) for label, row in zip(y, rows, strict=True)]
    sources: list[Any] = [
        (csr_matrix(X), y), (names, y), pairs, str(tmp_path / "a.svm"), str(tmp_path / "a.vw")
    ]  # fmt: skip
    for model in (
        streaml1.ElasticNetClassifier(lr=0.1, l1=0.02),
        streaml1.L1BallClassifier(radius=1.0),
    ):
        runs = [streaml1.regret(model.clone(), source, tol=1e-9) for source in sources]
        for k, run in enumerate(runs):
            named = k in (1, 4)
            assert sorted(run.names) == (["f0", "f1", "f2"] if named else [0, 1, 2])
        result = [run.points[0] for run in runs]
        for point in result:
            assert point.cumulative == pytest.approx(result[0].cumulative, abs=1e-9)
            assert point.best == pytest.approx(result[0].best, abs=1e-6)


def xor() -> tuple[list[dict[str, Any]], list[bool]]:
    """Return examples whose label depends on a pair of features, with a number and a text."""
    random = np.random.default_rng(5)
    draws = random.integers(0, 2, size=(120, 2)).tolist()
    texts = ("ham", "Spam spam", "eggs, spam", "h\u00e4m")
    rows = [
        {"s": "ab"[i], "d": "xy"[j], "t": texts[(i + 2 * k) % 4], "v": (k % 5) / 4}
        for k, (i, j) in enumerate(draws)
    ]
    return rows, [i != j for i, j in draws]


FEATURE_OPTIONS = {
    "crosses": {"cross": [("s", "d")]},
    "repeated prefix": {"cross": [("s", "d", "v"), ("t", "s"), ("t", "t")], "text": ["t"]},
    "ngrams": {"text": ["t"], "ngrams": 2},
    "hashed": {"cross": [("s", "d")], "text": ["t"], "hash_bits": 18},
}


@pytest.mark.parametrize("kind", ["dicts", "frame", "lines", "pairs"])
@pytest.mark.parametrize("name", FEATURE_OPTIONS)
def test_interactions_and_ngrams_are_features(name: str, kind: str, tmp_path: Path) -> None:
    """The regret equals that of a model which gets these features explicitly."""
    rows, y = xor()
    options = dict(FEATURE_OPTIONS[name])
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"x": x, "y": label}) + "\n" for x, label in zip(rows, y, strict=True))
    )
    source: Any = {
        "dicts": (rows, y), "frame": (pandas.DataFrame(rows), y),
        "lines": str(tmp_path / "a.jsonl"), "pairs": list(zip(rows, y, strict=True)),
    }[kind]  # fmt: skip
    model = streaml1.ElasticNetClassifier(lr=0.1, l1=0.02, **options)
    result = streaml1.regret(model, source, tol=1e-9)
    ngrams = NGrams(options.get("text", []), options.get("ngrams", 1))
    explicit = [dict(numeric_features(ngrams.expand(x))) for x in rows]
    for x in explicit if "cross" in options else ():
        crossed = Interactions(options["cross"]).crossed_features(x)
        for cross in crossed:
            name = JOINT.join(display_order(cross.factors))
            x[name] = x.get(name, 0.0) + cross.value
    reference = streaml1.ElasticNetClassifier(lr=0.1, l1=0.02)
    expected = streaml1.regret(reference, (explicit, y), tol=1e-9)
    for point, expected_point in zip(result.points, expected.points, strict=True):
        assert point.best == pytest.approx(expected_point.best, abs=1e-4)
        assert point.cumulative == pytest.approx(expected_point.cumulative, abs=1e-8)
        assert point.regret > 0.0
    assert set(result.names) == set(expected.names) >= set(reference.weights)
    best = dict(zip(result.names, result.weights.tolist(), strict=True))
    for feature, w in zip(expected.names, expected.weights.tolist(), strict=True):
        assert best[feature] == pytest.approx(w, abs=0.05), feature


def test_points_are_log_spaced() -> None:
    assert marks(50, 100, 4) == [50]
    assert marks(100, 100, 4) == [100]
    assert marks(1000, 100, 2) == [100, 316, 1000]
    assert marks(1001, 100, 1) == [100, 1000, 1001]


SLOPE_MODELS = {
    "fobos": S.ElasticNetClassifier(l1=1e-3, lr=1.0),
    "auto": S.ElasticNetClassifier(l1=1e-3, lr="auto"),
    "adaptive": S.AdaptiveElasticNetClassifier(l1=1e-3),
    "truncated": S.TruncatedGradientClassifier(gravity=1e-3, lr=1.0),
    "ftrl": S.FTRLClassifier(alpha=2.0, l1=0.1),
    "ball": S.L1BallClassifier(radius=20.0, lr=1.0),
    "eg": S.EGClassifier(radius=20.0, lr=0.2, n_features=50_000),
    "smidas": S.SMIDASClassifier(l1=1e-3, lr=1.0, n_features=50_000),
    "norm": S.FOBOSClassifier(strength=1e-2, lr=1.0),
    "pegasos": S.PegasosClassifier(l2=1e-3),
    "softmax": S.SoftmaxClassifier(strength=1e-3, lr=1.0),
}


@pytest.mark.parametrize("name", list(SLOPE_MODELS))
def test_regret_is_sublinear(name: str) -> None:
    X, y = Drifting(n=1000, d=60, nonzeros=12, relevant=15, change="none", noise=1.0).matrix()
    result = streaml1.regret(SLOPE_MODELS[name].clone(), (X / 3.0, y), per_decade=3, tol=1e-3)
    assert result.points[-1].regret > result.points[-1].error
    assert result.slope < 0.9
    means = [point.regret / point.examples for point in result.points]
    assert means[-1] < means[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SLOPE_MODELS))
def test_regret_is_sublinear_on_rcv1(name: str) -> None:
    folder = os.environ.get("STREAML1_DATA")
    if folder is None or not Path(folder, "rcv1").is_dir():
        pytest.skip("STREAML1_DATA has no RCV1")
    X, y = RCV1().matrix()
    order = np.random.default_rng(0).permutation(len(y))[:2000]
    model = SLOPE_MODELS[name].clone()
    if name == "eg":  # 100,000 weights start equal: only a large rate separates them in 2,000 steps
        model = streaml1.EGClassifier(radius=50.0, lr=60.0, n_features=50_000)
    result = streaml1.regret(model, (X[order], y[order]), per_decade=3, tol=1e-3)
    assert result.points[-1].regret > result.points[-1].error
    assert result.slope < 0.95


def test_regret_can_be_negative_under_drift() -> None:
    """If the weights change sign half-way, the learner may beat all fixed weights."""
    X, y = Drifting(n=1500, d=40, nonzeros=12, relevant=40, change="none", noise=0.5).matrix()
    y[750:] = ~y[750:]
    model = streaml1.ElasticNetClassifier(l1=1e-3, lr=0.1, schedule="constant")
    result = streaml1.regret(model, (X, y), per_decade=3, tol=1e-3)
    assert result.points[-1].regret < 0.0 and math.isnan(result.slope)


@functools.cache
def regret_of_letters() -> Any:
    return softmax_regret("abc")


def softmax_regret(labels: Sequence[Any]) -> Any:
    """Return the regret of softmax on a stream with three labels."""
    X, y = stream(3)
    examples = [
        (dict(enumerate(row)), labels[int(k)]) for row, k in zip(X.tolist(), y, strict=True)
    ]
    return streaml1.regret(streaml1.SoftmaxClassifier(strength=0.02), examples)


@pytest.mark.parametrize("labels", [[1, 2, "1"], [(1, 2), (3, 4), (5, 6)], [(1, 2), "a", 3]])
def test_softmax_labels_of_any_type(labels: list[Any]) -> None:
    reference, mixed = regret_of_letters(), softmax_regret(labels)
    assert mixed.points == reference.points
    assert mixed.classes == [labels["abc".index(label)] for label in reference.classes]
    assert len(mixed.weights) == len(mixed.classes) == 3
    np.testing.assert_array_equal(mixed.weights, reference.weights)


def test_without_a_penalty_the_error_equals_the_best_cost() -> None:
    X, y = stream()
    point = streaml1.regret(streaml1.ElasticNetClassifier(lr=0.1), (X, y)).points[-1]
    assert point.error == pytest.approx(point.best)


def test_undefined_regret_is_rejected() -> None:
    X, y = stream()
    net = streaml1.ElasticNetClassifier(lr=0.1)
    cases: list[tuple[str, Any, Any, dict[str, Any]]] = [
        (
            'loss="absolute"',
            streaml1.ElasticNetRegressor(lr=0.1, loss="absolute"),
            (X, y * 1.0),
            {},
        ),
        ("requires threshold=inf", streaml1.TruncatedGradientClassifier(threshold=1.0), (X, y), {}),
        (
            "intercept_init must be 0 with intercept_lr=0, got 0.5",
            streaml1.ElasticNetClassifier(lr=0.1, intercept_lr=0.0, intercept_init=0.5),
            (X, y),
            {},
        ),
        ("sample weights of 1, got others", net, (X, y, np.full(N, 2.0)), {}),
        ("keeps at most 50 non-zero entries", net, (X, y), {"max_nnz": 50}),
        ("first must be .*, got 0", net, (X, y), {"first": 0}),
        (
            "first must be an integer from 1 to 4,611,686,018,427,387,904, got 'x'",
            net,
            (X, y),
            {"first": "x"},
        ),
        (
            "per_decade must be an integer from 1 to 4,611,686,018,427,387,904, got 1.5",
            net,
            (X, y),
            {"per_decade": 1.5},
        ),
        (
            "max_nnz must be an integer from 1 to 4,611,686,018,427,387,904, got None",
            net,
            (X, y),
            {"max_nnz": None},
        ),
        ("tol must be .*, got 0", net, (X, y), {"tol": 0.0}),
        (r"tol must be a number above 0 and at most 1e\+100, got None", net, (X, y), {"tol": None}),
        ("learners of streaml1 only, got LogisticRegression", LogisticRegression(), (X, y), {}),
        ("remove passes", net, (X, y), {"passes": 2}),
        ("at least one example, got none", net, [], {}),
    ]
    for reason, model, source, options in cases:
        with pytest.raises(RegretError, match=reason) as error:
            streaml1.regret(model.clone(), source, **options)
        assert str(error.value).count("\n") == 0
    with pytest.raises(RegretError, match="pass its last step"):
        RegretObserver(preprocessing.StandardScaler() | net)


def test_command_line(tmp_path: Path) -> None:
    X, y = stream()
    text = "".join(
        f"{int(label)} {' '.join(f'{j}:{v}' for j, v in enumerate(row) if v)}\n"
        for label, row in zip(y, X.tolist(), strict=True)
    )
    result = CliRunner().invoke(
        cli, ["learn", "-", "--format", "svmlight", "--l1", "0.02", "--lr", "0.5", "--regret"],
        input=text,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    model = streaml1.ElasticNetClassifier(l1=0.02, lr=0.5)
    expected = streaml1.regret(model, (csr_matrix(X), y)).table()
    assert expected in result.output and f"{N:>10,} " in expected
    rejected = CliRunner().invoke(cli, ["learn", "stdlib", "--regret", "--passes", "2"])
    assert rejected.exit_code == 2
    assert "--regret cannot be combined with --passes" in rejected.output


def test_slope_of_a_single_point_is_nan() -> None:
    X, y = stream()
    result = streaml1.regret(
        streaml1.ElasticNetClassifier(lr=0.1, l1=0.02), (csr_matrix(X)[:5], y[:5])
    )
    assert math.isnan(result.slope)
    assert "nan" not in result.table() and "takes two points" in result.table()


@pytest.mark.parametrize(
    "model",
    [
        streaml1.ElasticNetClassifier(l1=0.2, lr=0.5),
        streaml1.L1BallClassifier(radius=0.7, lr=0.5),
        streaml1.SoftmaxClassifier(strength=0.02, lr=0.5),
        streaml1.FTRLRegressor(alpha=0.1, l1=0.3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_loss_and_nonzeros_match_the_report(model: Any) -> None:
    """Points need not coincide with the ends of batches."""
    X, y = stream(0 if isinstance(model, streaml1.FTRLRegressor) else 2)
    result = streaml1.regret(model.clone(), (X, y), first=1, per_decade=3)
    assert [point.examples for point in result.points] == marks(N, 1, 3) == [1, 2, 5, 10, 22, N]
    table = result.table().splitlines()
    for point, row in zip(result.points, table[2:], strict=False):
        report = streaml1.progressive(model.clone(), (X, y), limit=point.examples)
        line = report.lines[-1]
        assert point.loss == pytest.approx(line.loss, rel=1e-12)
        assert point.learner_nonzero == line.n_nonzero
        cells = row.replace(",", "").split()
        assert [float(cell) for cell in cells[:3]] == pytest.approx(
            [point.examples, point.loss, point.learner_nonzero], abs=6e-5
        )
        assert f" {report.loss_name} " in table[0]
    assert len({point.learner_nonzero for point in result.points}) > 1


def test_table_of_a_diverged_model_is_aligned() -> None:
    points = [
        Point(10, 12.5, 2.25, 10.25, 0.0, 3, 1.25, 4),
        Point(100, 1.5e39, 2.25e3, 1.5e39, 1e12, 3, 1.5e37, 4),
        Point(1000, math.inf, 9_999_999.99, math.inf, 0.5, 3, math.inf, 4),
    ]
    result = Regret("a run", "all weights", points, np.zeros(3), [0, 1, 2], 0.0, "squared loss")
    table = result.table().splitlines()[:-1]
    assert {len(line) for line in table} == {len(table[0])}
    assert table[2].split()[1:5] == ["1.2500", "4", "12.50", "2.25"]
    assert table[2].split()[5:] == ["3", "10.25", "0.00", "1.0250"]
    assert math.isnan(result.slope)
    assert table[3].split()[1:5] == ["1.5e+37", "4", "1.5e+39", "2,250.00"]
    assert table[4].split()[1:5] == ["inf", "4", "inf", "9,999,999.99"]


def test_unknown_arguments_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"^regret\(\) got an unexpected keyword argument 'foo'"):
        streaml1.regret(streaml1.ElasticNetClassifier(lr=0.1), [], foo=1)  # type: ignore[call-arg]


def test_plot(tmp_path: Path) -> None:
    X, y = stream()
    result = streaml1.regret(streaml1.L1BallClassifier(), (X, y), first=10)
    result.plot(tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    assert repr(result).startswith("<Regret of ")
    assert result.rows()[0]["examples"] == 10


# Warm start of FISTA


def test_fista_start() -> None:
    X, y = stream()
    for constraint in ({"l1": 0.02}, {"penalty": "ball", "radius": 1.0}):
        cold = fista(X, y, fit_intercept=True, tol=1e-9, **constraint)
        warm = fista(
            X, y, fit_intercept=True, tol=1e-9, start=(cold.weights, cold.intercept), **constraint
        )
        assert warm.objective == pytest.approx(cold.objective, abs=1e-8)
        assert len(warm.trace) < len(cold.trace) / 2
    projected = fista(X, y, tol=1e-9, penalty="ball", radius=1.0, start=(np.full(D, 9.0), 0.0))
    assert np.abs(projected.weights).sum() <= 1.0 + 1e-9 and projected.converged
    with pytest.raises(ValueError, match="start must have weights of shape"):
        fista(X, y, l1=0.1, start=(np.zeros(D + 1), 0.0))


# Bounds of the papers


def unit_rows(n: int = 400, d: int = 30) -> tuple[Any, Any]:
    """Return rows of unit norm."""
    random = np.random.default_rng(5)
    X = random.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X @ random.normal(size=d) + 0.3 * random.normal(size=n) > 0.0


def test_fobos_theorem_3() -> None:
    X, y = unit_rows()
    n, d = X.shape
    l1, c = 1e-2, 0.5
    model = streaml1.ElasticNetClassifier(l1=l1, lr=c, intercept_lr=0.0)
    result = streaml1.regret(model.clone(), (X, y), first=50, tol=1e-8)
    for point in result.points:
        t = point.examples
        best = fista(X[:t], y[:t], l1=l1, tol=1e-8).weights
        learner, D_ = model.clone(), float(np.linalg.norm(best))
        for i in range(t):
            learner.learn_many(X[i : i + 1], y[i : i + 1])
            w = np.zeros(d)
            w[list(learner.weights)] = list(learner.weights.values())
            D_ = max(D_, float(np.linalg.norm(w - best)))
        G = max(1.0, l1 * math.sqrt(d))
        assert 0.0 < point.regret + point.error <= bounds.fobos_regret(t, D_, G, c)


def test_fobos_corollary_2() -> None:
    X, y = unit_rows()
    n, d = X.shape
    l1 = 1e-2
    G = max(1.0, l1 * math.sqrt(d))
    best = fista(X, y, l1=l1, tol=1e-8)
    D_ = float(np.linalg.norm(best.weights))
    rate = D_ / (math.sqrt(7 * n) * G)
    model = streaml1.ElasticNetClassifier(l1=l1, lr=rate, schedule="constant", intercept_lr=0.0)
    result = streaml1.regret(model, (X, y), tol=1e-8).points[-1]
    a, b = bounds.fobos_excess(n, D_, G)
    assert b == 1.0 and result.regret + result.error <= n * a
    with pytest.raises(ValueError, match="too few steps"):
        bounds.fobos_excess(1, 10.0, 1.0, A=4.0)


def test_smidas_theorem_2() -> None:
    X, y = unit_rows()
    n, d = X.shape
    p = max(2.0, 2.0 * math.log(d))
    best = fista(X, y, l1=1e-3, tol=1e-8)
    w1 = float(np.abs(best.weights).sum())
    min_bound = bounds.smidas_regret(n, w1, p, d)
    for factor in (0.3, 1.0, 3.0):
        eta = factor * bounds.smidas_rate(n, w1, p, d)
        model = streaml1.SMIDASClassifier(
            l1=1e-3, lr=eta, schedule="constant", n_features=d, intercept_lr=0.0
        )
        result = streaml1.regret(model, (X, y), tol=1e-8).points[-1]
        bound = bounds.smidas_regret(n, w1, p, d, eta=eta)
        assert result.regret + result.error <= bound
        assert min_bound <= bound * (1 + 1e-12)


def test_zinkevich_theorem_1() -> None:
    X, y = unit_rows()
    for radius, c in ((1.0, 0.3), (5.0, 3.0), (5.0, 30.0)):
        model = streaml1.L1BallClassifier(radius=radius, lr=c, intercept_lr=0.0)
        result = streaml1.regret(model, (X, y), first=50, tol=1e-8)
        for point in result.points:
            bound = bounds.gradient_regret(point.examples, 2.0 * radius, 1.0, c)
            assert point.regret + point.error <= bound
    assert bounds.gradient_regret(100, 2.0, 3.0) == pytest.approx(2.0 * 10.0 + 9.0 * 9.5)


def test_bound_of_eg() -> None:
    X, y = unit_rows()
    n, d = X.shape
    G = float(np.abs(X).max())
    for factor in (0.3, 1.0, 3.0):
        eta = factor * bounds.eg_rate(n, d, G)
        model = streaml1.EGClassifier(
            radius=5.0, lr=eta, schedule="constant", n_features=d, intercept_lr=0.0
        )
        result = streaml1.regret(model, (X, y), tol=1e-8).points[-1]
        assert result.regret + result.error <= bounds.eg_regret(n, 5.0, d, G, eta)
        assert bounds.eg_regret(n, 5.0, d, G) <= bounds.eg_regret(n, 5.0, d, G, eta) * (1 + 1e-12)
    # Two experts: the best rate against the worst gradients of size 1 loses at most this.
    assert bounds.eg_regret(100, 1.0, 1, 1.0) == pytest.approx(math.sqrt(200.0 * math.log(2.0)))


def test_logarithmic_bound() -> None:
    X, y = unit_rows()
    for l2 in (0.01, 0.1):
        model = streaml1.PegasosClassifier(l2=l2, intercept_lr=0.0)
        result = streaml1.regret(model, (X, y), first=50, tol=1e-8)
        for point in result.points:
            bound = bounds.logarithmic_regret(point.examples, l2, 1.0 + math.sqrt(l2))
            assert point.regret + point.error <= bound


def test_bound_of_truncated_gradient() -> None:
    X, y = unit_rows()
    n = len(y)
    w2 = float(np.linalg.norm(fista(X, y, l1=1e-2, tol=1e-8).weights))
    for eta in (0.03, 0.3, 3.0):
        model = streaml1.TruncatedGradientClassifier(
            gravity=1e-2, lr=eta, schedule="constant", intercept_lr=0.0
        )
        result = streaml1.regret(model, (X, y), tol=1e-8).points[-1]
        a, b = bounds.truncated_gradient_excess(n, w2, eta, 1.0)
        assert b == 1.0 and result.regret + result.error <= n * a
    a, b = bounds.truncated_gradient_excess(100, 2.0, 0.1, 0.0, A=2.0)
    assert (a, b) == pytest.approx((4.0 / 20.0 / 0.9, 1.0 / 0.9))
    with pytest.raises(ValueError, match="eta=1 is too large"):
        bounds.truncated_gradient_excess(100, 2.0, 1.0, 0.0, A=2.0)


@pytest.mark.parametrize("name", ["SMIDAS", "l1 ball", "EG"])
def test_random_iterate(name: str) -> None:
    """Its mean objective is within the regret bound over T of the optimum."""
    X, y = unit_rows()
    n, d = X.shape
    l1, radius = (1e-3, 0.0) if name == "SMIDAS" else (0.0, 5.0)
    constraint = {"l1": l1} if l1 else {"penalty": "ball", "radius": radius}
    best = fista(X, y, tol=1e-8, **constraint)
    options = {"schedule": "constant", "intercept_lr": 0.0}
    if name == "SMIDAS":
        w1, p = float(np.abs(best.weights).sum()), 2.0 * math.log(d)
        eta = bounds.smidas_rate(n, w1, p, d)
        model: Any = streaml1.SMIDASClassifier(l1=l1, lr=eta, n_features=d, **options)
        bound = bounds.smidas_regret(n, w1, p, d)
    elif name == "EG":
        G = float(np.abs(X).max())
        eta = bounds.eg_rate(n, d, G)
        model = streaml1.EGClassifier(radius=radius, lr=eta, n_features=d, **options)
        bound = bounds.eg_regret(n, radius, d, G)
    else:
        model = streaml1.L1BallClassifier(radius=radius, lr=radius, intercept_lr=0.0)
        bound = bounds.gradient_regret(n, 2.0 * radius, 1.0, radius)
    excesses, steps = [], []
    for seed in range(10):
        drawn = np.random.default_rng(seed).integers(n, size=n)  # independent examples
        learner = model.clone()
        frozen, n_learnt = random_iterate(learner, X[drawn], y[drawn], seed)
        w = np.zeros(d)
        w[list(frozen.weights)] = list(frozen.weights.values())
        objective = np.logaddexp(0.0, np.where(y, -1.0, 1.0) * (X @ w)).mean()
        excesses.append(objective + l1 * np.abs(w).sum() - best.objective)
        steps.append(n_learnt)
        before, whole = model.clone(), model.clone()
        before.learn_many(X[drawn[:n_learnt]], y[drawn[:n_learnt]])
        whole.learn_many(X[drawn], y[drawn])
        assert frozen.weights == before.weights and learner.weights == whole.weights
    assert 0.0 <= np.mean(excesses) <= bound / n
    assert len(set(steps)) > 5 and max(steps) < n


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_random_iterate_of_fobos(norm: str) -> None:
    """The weights are the dense twin's; the mean objective is within the bound of Theorem 3."""
    X, y = unit_rows()
    n, d = X.shape
    strength, c = 1e-2, 0.3
    best = fista(X, y, penalty=norm, strength=strength, tol=1e-8)
    D, excesses = 0.0, []
    for seed in range(10):
        drawn = np.random.default_rng(seed).integers(n, size=n)
        shared: dict[str, Any] = {"strength": strength, "norm": norm, "lr": c, "intercept_lr": 0.0}
        model = streaml1.FOBOSClassifier(**shared)
        frozen, n_learnt = random_iterate(model, X[drawn], y[drawn], seed)
        twin = twins.FOBOS(d, **shared)
        for i in drawn[:n_learnt]:
            twin.learn(X[i], 1.0 if y[i] else -1.0)
            D = max(D, float(np.linalg.norm(twin.w - best.weights)))
        w = np.zeros(d)
        w[list(frozen.weights)] = list(frozen.weights.values())
        np.testing.assert_allclose(w, twin.w, rtol=1e-9, atol=1e-12)
        size = np.linalg.norm(w) if norm == "l2" else np.abs(w).max()
        objective = np.logaddexp(0.0, np.where(y, -1.0, 1.0) * (X @ w)).mean() + strength * size
        excesses.append(objective - best.objective)
    assert 0.0 <= np.mean(excesses) <= bounds.fobos_regret(n, D, 1.0, c) / n


@pytest.mark.parametrize("penalty", ["l1", "l1/l2", "l1/linf", "ball"])
def test_random_iterate_of_softmax_is_the_dense_twin(penalty: str) -> None:
    X, y = unit_rows()
    X, labels = X[:60], np.where(y[:60], X[:60, 0] > 0.0, 2)
    shared: dict[str, Any] = {"penalty": penalty, "strength": 1e-3}
    if penalty == "ball":
        shared["radius"] = 0.5
    model = streaml1.SoftmaxClassifier(classes=[0, 1, 2], lr=0.1, **shared)
    frozen, n_learnt = random_iterate(model, X, labels, seed=3)
    twin = twins.Softmax(X.shape[1], 3, **shared)
    for x, label in zip(X[:n_learnt], labels[:n_learnt], strict=True):
        twin.learn(x, int(label))
    w = np.zeros(twin.w.shape)
    for j, row in frozen.weights.items():
        w[j, list(row)] = list(row.values())
    assert n_learnt > 10
    np.testing.assert_allclose(w, twin.w, rtol=1e-9, atol=1e-12)
    assert ((w != 0.0) == (twin.w != 0.0)).all()


def test_random_iterate_of_no_rows_is_rejected() -> None:
    model = streaml1.EGClassifier()
    for X, y in (([], []), ([{"a": 1.0}], [True, False])):
        with pytest.raises(ValueError, match="a label for each of at least one row"):
            random_iterate(model, X, y)


def test_scd_and_sdca_bounds() -> None:
    X, y = unit_rows()
    n, d = X.shape
    best = fista(X, y, l1=1e-3, tol=1e-10)
    beta = 0.25 * (X**2).mean(axis=0)
    w2 = float((beta * best.weights**2).sum())
    runs = [
        scd(X, y, l1=1e-3, step="bound", order="random", tol=1e-7, seed=seed) for seed in range(5)
    ]
    for epoch in (1, 2, 3):
        mean_excess = np.mean([run.trace[epoch].objective - best.objective for run in runs])
        steps = np.mean([run.trace[epoch].epoch * d for run in runs])
        assert mean_excess <= bounds.scd_excess(int(steps), d, w2, math.log(2.0))
    l2 = 1e-3
    solved = sdca(X, y, "smoothed_hinge", l2=l2, tol=1e-12)
    result = sdca(X, y, "smoothed_hinge", l2=l2, order="random", tol=1e-9, callback=lambda *_: 0)
    start = solved.dual - result.trace[0].dual
    for record in result.trace[1:6]:
        bound = bounds.sdca_dual(record.epoch * n, n, l2, 1.0, 1.0, start)
        assert solved.dual - record.dual <= bound + 1e-9


def test_sdca_rates() -> None:
    assert bounds.sdca_steps(100, 0.01, 1e-3, gamma=1.0) == pytest.approx(200 * math.log(1000))
    assert bounds.sdca_steps(100, 0.01, 1e-3, L=2.0) == pytest.approx(100 + 2 / 1e-5)
    with pytest.raises(ValueError, match="give one"):
        bounds.sdca_steps(100, 0.01, 1e-3)
    assert bounds.sdca_gap(1000, 100, 0.01, 0.5, 4.0, 0.2) == pytest.approx(0.04 + 1.0)
