"""Draw a learner next to the default: log-loss and non-zero weights over examples, one pass.

    python demos/method_pictures.py [SOURCE] [--only NAME] [--limit N]

SOURCE is any source of `streaml1 learn`, `stdlib` by default. Prints a line per run and writes
out/method-NAME.png, a picture for each page of a learner.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from streams import load_examples, log_loss, to_csr

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt

LINES = 12
DEFAULT = "elastic net, l1=1e-4 (lr='auto')"
Models = dict[str, Callable[[int], Any]]


def elastic_net(l1: float) -> Callable[[int], Any]:
    """Return a constructor of the default with a penalty."""
    return lambda d: streaml1.ElasticNetClassifier(l1=l1)


METHODS: dict[str, Models] = {
    "elastic-net": {
        "no penalty": elastic_net(0.0),
        "l1=1e-5": elastic_net(1e-5),
        "l1=1e-3": elastic_net(1e-3),
        "l1=1e-4, lr=0.3": lambda d: streaml1.ElasticNetClassifier(l1=1e-4, lr=0.3),
    },
    "adaptive-elastic-net": {
        "l1=1e-5": lambda d: streaml1.AdaptiveElasticNetClassifier(l1=1e-5),
        "l1=1e-4": lambda d: streaml1.AdaptiveElasticNetClassifier(l1=1e-4),
    },
    "truncated-gradient": {
        "gravity=1e-4, threshold=0.1": lambda d: streaml1.TruncatedGradientClassifier(
            gravity=1e-4, threshold=0.1, lr=0.3
        ),
        "gravity=1e-3, threshold=0.1": lambda d: streaml1.TruncatedGradientClassifier(
            gravity=1e-3, threshold=0.1, lr=0.3
        ),
    },
    "ftrl": {
        "l1=1": lambda d: streaml1.FTRLClassifier(l1=1.0),
        "l1=10": lambda d: streaml1.FTRLClassifier(l1=10.0),
    },
    "coin-betting": {
        "no penalty": lambda d: streaml1.CoinBettingClassifier(),
        "l1=3": lambda d: streaml1.CoinBettingClassifier(l1=3.0),
    },
    "smidas": {
        "l1=1e-4, lr=3": lambda d: streaml1.SMIDASClassifier(l1=1e-4, lr=3.0),
        "l1=1e-3, lr=3": lambda d: streaml1.SMIDASClassifier(l1=1e-3, lr=3.0),
    },
    "eg": {
        "EG+-, radius=30, lr=3": lambda d: streaml1.EGClassifier(radius=30.0, lr=3.0, n_features=d),
        "EG+-, radius=100, lr=3": lambda d: streaml1.EGClassifier(
            radius=100.0, lr=3.0, n_features=d
        ),
    },
    "fobos": {
        "norm='l2', strength=0.1, lr=0.3": lambda d: streaml1.FOBOSClassifier(
            strength=0.1, norm="l2", lr=0.3
        ),
        "norm='linf', strength=0.1, lr=0.3": lambda d: streaml1.FOBOSClassifier(
            strength=0.1, norm="linf", lr=0.3
        ),
    },
    "pegasos": {
        "loss='logistic', l2=1e-2": lambda d: streaml1.PegasosClassifier(loss="logistic", l2=1e-2),
        "loss='logistic', l2=3e-2": lambda d: streaml1.PegasosClassifier(loss="logistic", l2=3e-2),
    },
}
"""For each page, the models that it shows, by name; each takes the number of features."""


class Run:
    """One pass of a model: after each part, examples, mean log-loss so far and non-zeros."""

    def __init__(self, model: Any, X: Any, y: Any) -> None:
        ends = np.linspace(0, len(y), LINES + 1).astype(int)
        total = 0.0
        self.examples: list[int] = []
        self.losses: list[float] = []
        self.n_nonzero: list[int] = []
        for lo, hi in zip(ends[:-1], ends[1:], strict=True):
            total += (hi - lo) * log_loss(model.progressive_many(X[lo:hi], y[lo:hi]), y[lo:hi])
            self.examples.append(hi)
            self.losses.append(total / hi)
            self.n_nonzero.append(model.n_nonzero)


def draw(page: str, runs: dict[str, Run], source: str) -> Path:
    """Draw the runs of a page; the last one, the default, in grey."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained")
    for k, (name, run) in enumerate(runs.items()):
        color = "0.45" if name == DEFAULT else f"C{k}"
        style: dict[str, Any] = {"color": color, "label": name, "marker": "o", "ms": 3}
        style["ls"] = "--" if name == DEFAULT else "-"
        left.plot(run.examples, run.losses, **style)
        right.plot(run.examples, run.n_nonzero, **style)
    left.set(ylabel="mean log-loss so far", ylim=(None, min(0.72, left.get_ylim()[1])))
    right.set(ylabel="non-zero weights", yscale="log")
    left.set_title(f"{Path(source).name}, one pass", loc="left", fontsize="medium")
    for axes in (left, right):
        axes.set_xlabel("examples")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.92")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    path = Path("out") / f"method-{page}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    plt.close(figure)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", nargs="?", default="stdlib", metavar="SOURCE")
    parser.add_argument("--only", choices=METHODS, help="draw one picture")
    parser.add_argument("--limit", type=int, metavar="N", help="learn at most N examples")
    options = parser.parse_args()
    if options.limit is not None and options.limit < 1:
        parser.error(f"--limit must be >= 1, got {options.limit}")
    xs, ys = load_examples(options.source)
    X, y = to_csr(xs[: options.limit]), np.array(ys[: options.limit])
    default = Run(elastic_net(1e-4)(X.shape[1]), X, y)
    print(f"{'':22}{'':38}{'log-loss':>9}{'non-zeros':>11}")
    print(f"{'':22}{DEFAULT:38}{default.losses[-1]:9.4f}{default.n_nonzero[-1]:11,}", flush=True)
    for page, models in METHODS.items():
        if options.only not in (None, page):
            continue
        runs = {name: Run(make(X.shape[1]), X, y) for name, make in models.items()}
        for name, run in runs.items():
            print(f"{page:22}{name:38}{run.losses[-1]:9.4f}{run.n_nonzero[-1]:11,}", flush=True)
        print(draw(page, {**runs, DEFAULT: default}, options.source), flush=True)


if __name__ == "__main__":
    main()
