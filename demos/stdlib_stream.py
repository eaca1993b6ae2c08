"""Which functions of Python's standard library have a docstring? Learnt from their words alone.

One pass over a stream of real text, 12,000 examples and more than 100,000 features, that every
Python carries. The model is a logistic regression with an l1 penalty: after each example all
weights are those of the dense update, and most of them are zero.
"""

from __future__ import annotations

from pathlib import Path

import streaml1
from streaml1.datasets import stdlib
from streaml1.training.report import Line, Report

PICTURE = Path("out") / "stdlib_stream.png"


def main() -> None:
    print("Reading the functions of the standard library ...", flush=True)
    functions = stdlib(seed=0)
    print(f"{len(functions):,} functions; label: has it a docstring? Features: its words and")
    print("pairs of words, docstrings and comments taken out. Each is predicted, then learnt.\n")

    model = streaml1.ElasticNetClassifier(l1=5e-4, lr=0.03, schedule="constant")
    reports: list[Report] = []

    def show(line: Line) -> None:
        report = reports[0]
        if len(report) == 1:
            print(report.header())
        print(report.row(line), flush=True)

    report = streaml1.progressive(
        model, functions, every=1000, on_start=reports.append, on_line=show
    )

    print("\nThe most telling words:")
    print(f"  {'with a docstring':<32}without")
    ranked = model.top_weights(model.n_nonzero)
    speaks_for = [(word, w) for word, w in ranked if w > 0][:10]
    speaks_against = [(word, w) for word, w in ranked if w < 0][:10]
    for (word, w), (other, v) in zip(speaks_for, speaks_against, strict=True):
        print(f"  {w:+.2f}  {word:<25}{v:+.2f}  {other}")

    print(f"\n{report.summary()}\n")
    PICTURE.parent.mkdir(exist_ok=True)
    report.plot(PICTURE)
    print(PICTURE)


if __name__ == "__main__":
    main()
