"""Progressive loss against the limits on the number of weights, max_features and hash_bits.

    python demos/weight_limits.py [SOURCE] [--l1 L1] [--lr LR]

SOURCE is any source of `streaml1 learn`, `stdlib` by default. Writes out/weight_limits.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt


def learn(source: str, **params: Any) -> tuple[Any, Any]:
    """Return the last line of the report of a model with these parameters, and the model."""
    model = streaml1.ElasticNetClassifier(**params)
    report = streaml1.progressive(model, source, every=10**9)
    return report.lines[-1], model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="stdlib")
    parser.add_argument("--l1", type=float, default=1e-4)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--schedule", default="constant")
    params = vars(parser.parse_args())
    source = params.pop("source")

    try:
        base, model = learn(source, **params)
    except ValueError as error:
        parser.error(str(error))
    print(f"{source}, {base.examples:,} examples, l1 = {params['l1']:g}, lr = {params['lr']:g}")
    print(f"\n{'max_features':>14} {'loss':>8} {'change':>7} {'non-zeros':>10} {'dropped':>12}")
    print(f"{'none':>14} {base.loss:8.4f} {'':>7} {base.n_nonzero:10,} {0:12,}")
    limited = []
    for share in (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01):
        max_features = max(8, int(base.n_nonzero * share))
        line, model = learn(source, max_features=max_features, **params)
        limited.append((max_features, line.loss))
        increase = line.loss / base.loss - 1.0
        print(
            f"{max_features:14,} {line.loss:8.4f} {increase:+7.2%} {line.n_nonzero:10,} "
            f"{model.n_cut:12,}"
        )

    print(f"\n{'hash_bits':>14} {'loss':>8} {'change':>7} {'non-zeros':>10}")
    hashed = []
    for bits in range(20, 7, -2):
        line, model = learn(source, hash_bits=bits, **params)
        hashed.append((2**bits, line.loss))
        print(
            f"{bits:14} {line.loss:8.4f} {line.loss / base.loss - 1.0:+7.2%} {line.n_nonzero:10,}"
        )

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.semilogx(*zip(*limited, strict=True), "o-", label="max_features")
    axes.semilogx(*zip(*hashed, strict=True), "s-", label="slots, 2**hash_bits")
    axes.axhline(base.loss, color="0.5", lw=1, label=f"no limit: {base.n_nonzero:,} non-zeros")
    axes.axhline(base.constant_loss, color="0.5", lw=1, ls=":", label="baseline")
    axes.set(xlabel="limit on the number of weights", ylabel="progressive log-loss")
    axes.set_title(f"{Path(source).name}: loss with fewer weights", loc="left")
    axes.legend(frameon=False)
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "weight_limits.png", dpi=150)
    print(f"\n{out / 'weight_limits.png'}")


if __name__ == "__main__":
    main()
