"""Worker process in the rivals' environment: answers each line of JSON on stdin with one on stdout.

`python rival_worker.py DIRECTORY`, where DIRECTORY has `NAME.npz` (a CSR matrix and its labels) and
`NAME.vw` (the same rows). Times are CPU times on one core; data is in memory or the page cache.
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

import rival_clicks

DIRECTORY = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
_CACHE: dict[str, Any] = {}


def rows(name: str) -> Any:
    if name not in _CACHE:
        import numpy as np
        from scipy.sparse import csr_matrix

        arrays = np.load(DIRECTORY / f"{name}.npz")
        X = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), arrays["shape"])
        _CACHE[name] = X, arrays["y"].astype(int)
    return _CACHE[name]


def process_seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def vw_cached(name: str, bits: int) -> float:
    """Time a pass of Vowpal Wabbit over its own cache file of the rows."""
    import vowpalwabbit

    cache = DIRECTORY / f"{name}.cache"
    options = (
        f"-d {DIRECTORY / name}.vw --cache_file {cache} --sgd --loss_function logistic -b {bits} "
        "--l1 1e-6 --l2 1e-6 --quiet"
    )
    if not cache.exists():  # the first pass reads the text and writes the cache
        vowpalwabbit.Workspace(options).finish()
    return process_seconds(lambda: vowpalwabbit.Workspace(options).finish())


def sklearn_fit(name: str) -> float:
    """Time one epoch of `fit`."""
    from sklearn.linear_model import SGDClassifier

    X, y = rows(name)
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=1e-6, l1_ratio=0.5, max_iter=1, tol=None,
        shuffle=False, learning_rate="constant", eta0=0.1,
    )  # fmt: skip
    warnings.simplefilter("ignore")
    return process_seconds(lambda: model.fit(X, y))


def sklearn_parts(name: str, size: int = 1000) -> float:
    """Time `partial_fit` of a thousand rows at a time."""
    from sklearn.linear_model import SGDClassifier

    X, y = rows(name)
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=1e-6, l1_ratio=0.5, shuffle=False,
        learning_rate="constant", eta0=0.1,
    )  # fmt: skip

    def run() -> None:
        for lo in range(0, X.shape[0], size):
            model.partial_fit(X[lo : lo + size], y[lo : lo + size], classes=[0, 1])

    return process_seconds(run)


def river_rows(name: str, n: int, l1: float) -> float:
    """Time prediction and `learn_one` of n dicts of ints; return the seconds for all rows."""
    from river import linear_model, optim

    X, y = rows(name)
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    xs = [dict(zip(ids[a:b], values[a:b])) for a, b in zip(ends[:n], ends[1 : n + 1])]  # noqa: B905
    model = linear_model.LogisticRegression(optim.SGD(0.1), l1=l1)
    labels = [bool(label) for label in y[:n].tolist()]

    def run() -> None:
        for x, label in zip(xs, labels):  # noqa: B905
            model.predict_proba_one(x)
            model.learn_one(x, label)

    return process_seconds(run) * X.shape[0] / n


def examples_until_nonzero(which: str, unrelated: int) -> int:
    """Count the examples of a new feature until its weight is non-zero, after unrelated ones.

    l1 = 1e-3.
    """
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


def both_penalties(which: str) -> str:
    """Return whether l1 and squared l2 are accepted together."""
    from river import linear_model

    try:
        linear_model.LogisticRegression(l1=1e-3, l2=1e-3).learn_one({"a": 1.0}, True)
    except Exception as error:
        return f"rejected: {type(error).__name__}"
    return "accepted"


def across_calls(which: str) -> list[float]:
    """Return a feature's weight after five examples of it, and after 1,000 calls without it.

    At l1 = 1e-3 and a rate of 0.1 these calls should shrink the weight by 0.1.
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
    """Return the version of each package, empty if it is not installed."""
    packages = ("river", "vowpalwabbit", "scikit-learn", "polars", "pyarrow", "numpy")
    installed = {}
    for package in packages:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            installed[package] = ""
    return installed


COMMANDS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (vw_cached, sklearn_fit, sklearn_parts, river_rows, examples_until_nonzero,
                     both_penalties, across_calls, versions, rival_clicks.clicks_vw,
                     rival_clicks.clicks_sklearn, rival_clicks.clicks_river)
}  # fmt: skip


def main() -> None:
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        try:
            answer = {"result": COMMANDS[command](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
