"""Four sparse online learners side by side, each in the form its paper describes.

    python demos/four_methods.py [SOURCE | --topic kafka://HOST:PORT/TOPIC] [--limit N]

Lazy elastic net with a time stamp per weight (Lipton & Elkan 2015), truncated gradient (Langford,
Li & Zhang 2009), SMIDAS (Shalev-Shwartz & Tewari 2009), and the projection onto the l1 ball by a
balanced tree (Duchi et al. 2008). All learn one stream, which is by default the source code of the
standard library; a topic is read to its end. Prints the cumulative log-loss and the sparsity, and
draws both into out/four_methods.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

import streaml1
from streaml1.training.report import Report

matplotlib.use("agg")
import matplotlib.pyplot as plt

PICTURE = Path("out") / "four_methods.png"
EVERY = 500


def methods() -> dict[str, Any]:
    """Return the models by name."""
    return {
        "elastic net, explicit stamps": streaml1.ElasticNetClassifier(
            l1=1e-3, l2=1e-6, update="sgd", stamps="explicit", lr=0.3
        ),
        "truncated gradient": streaml1.TruncatedGradientClassifier(
            gravity=1e-3, period=10, threshold=0.1, lr=0.3
        ),
        "SMIDAS": streaml1.SMIDASClassifier(l1=1e-3, lr=1.0),
        "l1 ball, by tree": streaml1.L1BallClassifier(radius=30.0, index="tree", lr=0.3),
    }


def learn(model: Any, source: str, limit: int | None) -> Report:
    """Predict and learn each example of the stream in one pass."""
    options = {"until_end": True} if source.startswith("kafka:") else {}
    return streaml1.progressive(model, source, every=EVERY, limit=limit, **options)


def draw(reports: dict[str, Report]) -> None:
    """Draw cumulative log-loss and non-zero weights over examples."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for k, (name, report) in enumerate(reports.items()):
        x = [line.examples for line in report.lines]
        left.plot(x, [line.cumulative_loss for line in report.lines], f"C{k}", label=name)
        right.plot(x, [line.n_nonzero for line in report.lines], f"C{k}", label=name)
    lines = next(iter(reports.values())).lines
    baseline = [line.cumulative_constant_loss for line in lines]
    left.plot([line.examples for line in lines], baseline, "--", color="0.55", label="baseline")
    left.set_ylabel("cumulative log-loss")
    left.legend(frameon=False)
    right.set_ylabel("non-zero weights")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("examples")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.92")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", nargs="?", default="stdlib", metavar="SOURCE")
    parser.add_argument("--topic", metavar="kafka://HOST:PORT/TOPIC")
    parser.add_argument("--limit", type=int, metavar="N", help="learn at most N examples")
    options = parser.parse_args()
    print(f"{'':30}{'cumulative':>12}{'mean':>10}{'non-':>10}{'features':>10}")
    print(f"{'':30}{'log-loss':>12}{'log-loss':>10}{'zeros':>10}{'seen':>10}  sparsity")
    reports: dict[str, Report] = {}
    for name, model in methods().items():
        try:
            report = learn(model, options.topic or options.source, options.limit)
        except ValueError as error:
            parser.error(str(error))
        reports[name] = report
        last = report.lines[-1]
        print(
            f"{name:30}{report.cumulative_loss:12,.1f}{last.loss:10.4f}{last.n_nonzero:10,}"
            f"{last.n_features_seen:10,}{last.sparsity:10.1%}",
            flush=True,
        )
    weight, _, baseline = report.sums
    print(f"{'baseline':30}{baseline:12,.1f}{baseline / weight:10.4f}\n{PICTURE}")
    draw(reports)


if __name__ == "__main__":
    main()
