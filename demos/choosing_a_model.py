"""Loss against non-zero weights: models as they come, with nothing tuned but the l1 penalty.

    python demos/choosing_a_model.py [SOURCE ...]

Each source is one of `no_rate_to_tune.py`; the default is the stream stdlib and two data sets of
river. Each point is one pass over the stream: its progressive log-loss, and the non-zero weights at
its end. Writes out/choosing_a_model.png. Vowpal Wabbit with `--l1` is drawn, too, if `VW_PYTHON`
names an interpreter that has it. Takes a few minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from streams import (
    DEFAULT_SOURCES,
    Examples,
    Outcome,
    load_examples,
    progressive_outcome,
    to_csr,
    vw_outcome,
)

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

PER_STEP = (0.0, *np.geomspace(1e-7, 1e-2, 11))  # an l1 that is paid at each step
IN_TOTAL = (0.0, *np.geomspace(0.03, 300.0, 11))  # an l1 of a sum over all examples


class Entry(NamedTuple):
    """A model as it comes: its constructor, the values of l1 and the style of its line."""

    make: Callable[[float], Any]
    strengths: tuple[float, ...]
    style: dict[str, Any]


MODELS = {
    "elastic net (the default)": Entry(
        lambda l1: streaml1.ElasticNetClassifier(l1=l1), PER_STEP, {"color": "C3", "lw": 2.2}
    ),
    "elastic net, lr=0.1": Entry(
        lambda l1: streaml1.ElasticNetClassifier(l1=l1, lr=0.1), PER_STEP, {"color": "C0"}
    ),
    "adaptive elastic net": Entry(
        lambda l1: streaml1.AdaptiveElasticNetClassifier(l1=l1), PER_STEP, {"color": "C9"}
    ),
    "truncated gradient": Entry(
        lambda l1: streaml1.TruncatedGradientClassifier(gravity=l1),
        PER_STEP,
        {"color": "C1", "ls": (0, (4, 4))},
    ),
    "FTRL-Proximal": Entry(
        lambda l1: streaml1.FTRLClassifier(l1=l1), IN_TOTAL, {"color": "C2"}
    ),
    "FTRL-Proximal, alpha=0.1": Entry(
        lambda l1: streaml1.FTRLClassifier(alpha=0.1, l1=l1), IN_TOTAL, {"color": "C2", "ls": "--"}
    ),
    "coin betting": Entry(
        lambda l1: streaml1.CoinBettingClassifier(l1=l1), IN_TOTAL, {"color": "C4"}
    ),
}  # fmt: skip
VW_STYLE = {"color": "0.3", "ls": ":"}


def outcomes(xs: Examples, ys: list[bool]) -> dict[str, list[Outcome]]:
    """Return the outcomes of all models on a stream, one for each strength."""
    X = to_csr(xs)
    found = {
        name: [progressive_outcome(entry.make(float(l1)), X, ys) for l1 in entry.strengths]
        for name, entry in MODELS.items()
    }
    theirs = [vw_outcome(xs, ys, f"--l1 {l1!r}") for l1 in map(float, PER_STEP[::2])]
    if all(theirs):
        found["Vowpal Wabbit --l1"] = [outcome for outcome in theirs if outcome]
    return found


def draw(axes: Axes, found: dict[str, list[Outcome]], ys: list[bool]) -> None:
    """Draw loss against non-zeros; a model without non-zeros has the loss of the baseline."""
    share = float(np.mean(ys))
    baseline = -share * np.log(share) - (1.0 - share) * np.log(1.0 - share)
    for name, points in found.items():
        style = {"marker": "o", "ms": 3.5, "lw": 1.4}
        style |= MODELS[name].style if name in MODELS else VW_STYLE
        kept = sorted((p for p in points if p.n_nonzero), key=lambda p: p.n_nonzero)
        axes.plot([p.n_nonzero for p in kept], [p.loss for p in kept], label=name, **style)
    axes.axhline(baseline, color="0.6", lw=1, ls="--", label="baseline: the share of positives")
    lowest = min(p.loss for points in found.values() for p in points)
    axes.set(xscale="log", xlabel="non-zero weights at the end")
    axes.set_ylim(lowest - 0.03 * (baseline - lowest), baseline + 0.15 * (baseline - lowest))
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    sources = parser.parse_args().sources or DEFAULT_SOURCES
    figure, all_axes = plt.subplots(
        1,
        len(sources),
        figsize=(4.3 * len(sources) + 2.6, 4.6),
        layout="constrained",
        squeeze=False,
    )
    for axes, source in zip(all_axes[0], sources, strict=True):
        xs, ys = load_examples(source)
        name = Path(source).stem
        found = outcomes(xs, ys)
        print(f"{name}: {len(ys):,} examples\n{'model':28} {'log-loss':>8} {'non-zeros':>10}")
        for model, points in found.items():
            for point in points:
                print(f"{model:28} {point.loss:8.4f} {point.n_nonzero:10,}")
        print(flush=True)
        draw(axes, found, ys)
        axes.set_title(f"{name}, {len(ys):,} examples", loc="left", fontsize="medium")
    all_axes[0][0].set_ylabel("progressive log-loss")
    figure.legend(*all_axes[0][0].get_legend_handles_labels(), loc="outside right", frameon=False)
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "choosing_a_model.png", dpi=140)
    print(out / "choosing_a_model.png")


if __name__ == "__main__":
    main()
