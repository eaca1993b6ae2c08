"""Learn from the words of a function of the standard library whether it has a docstring.

One pass over a stream of real text that comes with every Python: 12,000 examples and more than
100,000 features. The model is a logistic regression with an l1 penalty. After each example all
weights equal those of the dense update, and most of them are zero.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import streaml1
from streaml1.datasets import stdlib
from streaml1.training.report import Line, Report

PICTURE = Path("out") / "stdlib_stream.png"


def main() -> None:
    print("Reading the functions of the standard library ...", flush=True)
    functions = stdlib(seed=0)
    print(f"{len(functions):,} functions. Label: whether it has a docstring. Features: the words")
    print("and word pairs of its code, without docstrings and comments. The model predicts each")
    print("function before it learns it.\n")

    model = streaml1.ElasticNetClassifier(l1=1e-4)
    reports: list[Report] = []

    def show(line: Line) -> None:
        report = reports[0]
        if len(report) == 1:
            print(report.header(columns=report.column_names(width=80)))
        print(report.row(line, columns=report.column_names(width=80)), flush=True)

    report = streaml1.progressive(
        model, functions, every=1000, on_start=reports.append, on_line=show
    )

    print("\nFeatures with the largest weights:")
    print(f"  {'for a docstring':<32}against")
    ranked = model.top_weights(model.n_nonzero)
    positive = [(word, w) for word, w in ranked if w > 0][:10]
    negative = [(word, w) for word, w in ranked if w < 0][:10]
    for (word, w), (negative_word, v) in zip(positive, negative, strict=True):
        print(f"  {w:+.2f}  {word:<25}{v:+.2f}  {negative_word}")

    print("\n" + "\n".join(report.summary_lines()))
    print("\nEach function was predicted before it was learnt, so this is a loss on unseen data.")
    print("The baseline knows only the share of functions with a docstring. Most weights are zero:")
    print("the model needs those of a few thousand words.")
    print("\nNext: scripts/tutorial learns to find spam, with Kafka, a server and a live page;")
    print("docs/get-started.md begins with your own file. The plot of this run:\n")
    PICTURE.parent.mkdir(exist_ok=True)
    report.plot(PICTURE)
    print(PICTURE)


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    main()
