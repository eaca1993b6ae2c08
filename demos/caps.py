"""What fewer weights cost: progressive loss as max_features and hash_bits get smaller.

    python demos/caps.py [SOURCE] [--l1 L1] [--lr LR]

SOURCE is anything that `streaml1 learn` takes, `stdlib` if none is given. Writes out/caps.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt


def run(source: str, **params: Any) -> tuple[Any, Any]:
    """The last line of the report of a model with these parameters, and the model."""
    model = streaml1.ElasticNetClassifier(**params)
    report = streaml1.progressive(model, source, every=10**9)
    return report.lines[-1], model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="stdlib")
    parser.add_argument("--l1", type=float, default=1e-4)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--schedule", default="constant")
    given = vars(parser.parse_args())
    source = given.pop("source")

    free, model = run(source, **given)
    print(f"{source}, {free.examples:,} examples, l1 = {given['l1']:g}, lr = {given['lr']:g}")
    print(f"\n{'max_features':>14} {'loss':>8} {'more':>7} {'non-zeros':>10} {'given up':>12}")
    print(f"{'any':>14} {free.loss:8.4f} {'':>7} {free.n_nonzero:10,} {0:12,}")
    capped = []
    for share in (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01):
        most = max(8, int(free.n_nonzero * share))
        line, model = run(source, max_features=most, **given)
        capped.append((most, line.loss))
        more = line.loss / free.loss - 1.0
        print(f"{most:14,} {line.loss:8.4f} {more:+7.2%} {line.n_nonzero:10,} {model.n_cut:12,}")

    print(f"\n{'hash_bits':>14} {'loss':>8} {'more':>7} {'non-zeros':>10}")
    hashed = []
    for bits in range(20, 7, -2):
        line, model = run(source, hash_bits=bits, **given)
        hashed.append((2**bits, line.loss))
        print(
            f"{bits:14} {line.loss:8.4f} {line.loss / free.loss - 1.0:+7.2%} {line.n_nonzero:10,}"
        )

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.semilogx(*zip(*capped, strict=True), "o-", label="max_features")
    axes.semilogx(*zip(*hashed, strict=True), "s-", label="slots, 2**hash_bits")
    axes.axhline(free.loss, color="0.5", lw=1, label=f"no cap: {free.n_nonzero:,} non-zeros")
    axes.axhline(free.constant_loss, color="0.5", lw=1, ls=":", label="baseline")
    axes.set(xlabel="weights that the model may have", ylabel="progressive log-loss")
    axes.set_title(f"{Path(source).name}: what fewer weights cost", loc="left")
    axes.legend(frameon=False)
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "caps.png", dpi=150)
    print(f"\n{out / 'caps.png'}")


if __name__ == "__main__":
    main()
