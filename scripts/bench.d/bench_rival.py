"""Runs beside the rivals: answers each line of standard input, JSON, by a line of its own.

`python bench_rival.py FOLDER` where FOLDER holds `NAME.npz` (a matrix in CSR and its labels) and
`NAME.vw` (the same rows). Times are those of the processor, of one core, data in memory or in the
system's cache of files.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
LOADED: dict[str, Any] = {}


def rows(name: str) -> Any:
    if name not in LOADED:
        import numpy as np
        from scipy.sparse import csr_matrix

        kept = np.load(FOLDER / f"{name}.npz")
        X = csr_matrix((kept["data"], kept["indices"], kept["indptr"]), kept["shape"])
        LOADED[name] = X, kept["y"].astype(int)
    return LOADED[name]


def seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def vw_cached(name: str, bits: int) -> float:
    """A pass of Vowpal Wabbit over its own cache file of the rows."""
    import vowpalwabbit

    cache = FOLDER / f"{name}.cache"
    options = (
        f"-d {FOLDER / name}.vw --cache_file {cache} --sgd --loss_function logistic -b {bits} "
        "--l1 1e-6 --l2 1e-6 --quiet"
    )
    if not cache.exists():  # it reads the text, and keeps it
        vowpalwabbit.Workspace(options).finish()
    return seconds(lambda: vowpalwabbit.Workspace(options).finish())


def sklearn_fit(name: str) -> float:
    """One epoch of `fit`."""
    from sklearn.linear_model import SGDClassifier

    X, y = rows(name)
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=1e-6, l1_ratio=0.5, max_iter=1, tol=None,
        shuffle=False, learning_rate="constant", eta0=0.1,
    )  # fmt: skip
    warnings.simplefilter("ignore")
    return seconds(lambda: model.fit(X, y))


def sklearn_parts(name: str, size: int = 1000) -> float:
    """`partial_fit` of a thousand rows at a time."""
    from sklearn.linear_model import SGDClassifier

    X, y = rows(name)
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=1e-6, l1_ratio=0.5, shuffle=False,
        learning_rate="constant", eta0=0.1,
    )  # fmt: skip

    def run() -> None:
        for lo in range(0, X.shape[0], size):
            model.partial_fit(X[lo : lo + size], y[lo : lo + size], classes=[0, 1])

    return seconds(run)


def river_rows(name: str, n: int, l1: float) -> float:
    """`learn_one` of n dicts of ints, made beforehand."""
    from river import linear_model, optim

    X, y = rows(name)
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    xs = [dict(zip(ids[a:b], values[a:b])) for a, b in zip(ends[:n], ends[1 : n + 1])]  # noqa: B905
    model = linear_model.LogisticRegression(optim.SGD(0.1), l1=l1)
    labels = [bool(one) for one in y[:n].tolist()]

    def run() -> None:
        for x, label in zip(xs, labels):  # noqa: B905
            model.predict_proba_one(x)
            model.learn_one(x, label)

    return seconds(run) * X.shape[0] / n


def late(which: str, unrelated: int) -> int:
    """Examples of a new feature until its weight leaves zero, after others; l1 = 1e-3."""
    if which == "river":
        from river import linear_model, optim

        model = linear_model.LogisticRegression(optim.SGD(0.1), l1=1e-3, intercept_lr=0.0)
        for t in range(unrelated):
            model.learn_one({f"old {t % 7}": 1.0}, t % 2 == 0)
        for n in range(1, 1000):
            model.learn_one({"new": 1.0}, True)
            if dict(model.weights).get("new", 0.0) != 0.0:
                return n
        return 1000
    import vowpalwabbit

    vw = vowpalwabbit.Workspace("--loss_function logistic --l1 1e-3 --quiet")
    for t in range(unrelated):
        vw.learn(f"{1 - 2 * (t % 2)} |f old{t % 7}")
    for n in range(1, 1000):
        vw.learn("1 |f new")
        if vw.predict("|f new") != vw.predict("|f never"):
            return n
    return 1000


def both(which: str) -> str:
    """What comes of asking for l1 and squared l2 together."""
    from river import linear_model

    try:
        linear_model.LogisticRegression(l1=1e-3, l2=1e-3).learn_one({"a": 1.0}, True)
    except Exception as error:
        return f"refused: {type(error).__name__}"
    return "taken"


def across_calls(which: str) -> list[float]:
    """Weight of a feature after five examples of it, and after 1,000 others in calls of their own.

    At l1 = 1e-3 and a rate of 0.1 they are worth 0.1 of shrinkage.
    """
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(
        loss="log_loss", penalty="l1", alpha=1e-3, learning_rate="constant", eta0=0.1,
        fit_intercept=False, shuffle=False,
    )  # fmt: skip
    seldom, often = csr_matrix([[5.0, 0.0]]), csr_matrix([[0.0, 1.0]])
    for _ in range(5):
        model.partial_fit(seldom, [1], classes=[0, 1])
    before = float(model.coef_[0, 0])
    for t in range(1000):
        model.partial_fit(often, [t % 2])
    return [before, float(model.coef_[0, 0])]


def versions() -> dict[str, str]:
    known = ("river", "vowpalwabbit", "scikit-learn", "polars", "pyarrow", "numpy")
    found = {}
    for name in known:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


ASKED: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (vw_cached, sklearn_fit, sklearn_parts, river_rows, late, both, across_calls,
                versions)
}  # fmt: skip


def main() -> None:
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            told = {"is": ASKED[what](*arguments)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
