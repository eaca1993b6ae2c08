"""The clicks of `bench_chart.py` in the other packages, each as its documentation does it.

Runs in the rivals' environment. Each function learns `clicks.csv` once and returns the CPU seconds
of reading and learning, the bytes of the saved model, its non-zero weights and the log-loss on
`held-out.csv`.
"""

from __future__ import annotations

import csv
import itertools
import math
import pickle
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BITS = 22  # slots of Vowpal Wabbit; its model file holds the non-zero weights only
BATCH = 1000  # lines per call of partial_fit


def measured(seconds: float, size: int, nonzero: int, losses: list[float]) -> dict[str, float]:
    loss = sum(losses) / len(losses)
    return {"seconds": seconds, "bytes": size, "non-zeros": nonzero, "log-loss": loss}


def log_loss(y: bool, p: float) -> float:
    p = min(max(p, 1e-15), 1.0 - 1e-15)
    return -math.log(p if y else 1.0 - p)


def lines(path: Path) -> Iterator[tuple[bool, list[str]]]:
    """Yield the label of each line and its categories as `column=value`."""
    with open(path, newline="") as file:
        reader = csv.reader(file)
        prefixes = [f"{name}=" for name in next(reader)[1:]]
        for label, *cells in reader:
            yield label == "1", [a + b for a, b in zip(prefixes, cells)]  # noqa: B905


def clicks_vw(directory: str, suffix: str, rate: float, l1: float) -> dict[str, float]:
    """Learn the clicks with Vowpal Wabbit's driver, from CSV or from its own text format."""
    import vowpalwabbit

    model, predictions = Path(directory, "vw.model"), Path(directory, "vw.predictions")
    form = "--csv " if suffix == "csv" else ""
    learn = (
        f"-d {directory}/clicks.{suffix} {form}--sgd --loss_function logistic -l {rate} "
        f"--power_t 0 --l1 {l1} -b {BITS} --quiet"
    )
    begin = time.process_time()
    vowpalwabbit.Workspace(learn).finish()
    seconds = time.process_time() - begin
    vowpalwabbit.Workspace(f"{learn} -f {model}").finish()
    readable = Path(directory, "vw.readable")
    vowpalwabbit.Workspace(
        f"-t -i {model} -d {directory}/held-out.{suffix} {form}--link logistic -p {predictions} "
        f"--readable_model {readable} --quiet"
    ).finish()
    weights = re.findall(r"(?m)^\d+:.", readable.read_text())
    labels = [y for y, _ in lines(Path(directory, "held-out.csv"))]
    predicted = [float(line.split()[0]) for line in predictions.read_text().splitlines()]
    losses = [log_loss(y, p) for y, p in zip(labels, predicted)]  # noqa: B905
    return measured(seconds, model.stat().st_size, len(weights), losses)


def clicks_sklearn(directory: str, rate: float, l1: float) -> dict[str, float]:
    """Learn the clicks with `FeatureHasher` and `SGDClassifier.partial_fit`."""
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(input_type="string", alternate_sign=False)
    model = SGDClassifier(loss="log_loss", penalty="l1", alpha=l1, shuffle=False,
                          learning_rate="constant", eta0=rate)  # fmt: skip

    def batches(name: str) -> Iterator[tuple[Any, list[bool]]]:
        examples = lines(Path(directory, name))
        while batch := list(itertools.islice(examples, BATCH)):
            yield hasher.transform([names for _, names in batch]), [y for y, _ in batch]

    begin = time.process_time()
    for X, y in batches("clicks.csv"):
        model.partial_fit(X, y, classes=[False, True])
    seconds = time.process_time() - begin
    losses = [
        log_loss(label, p)
        for X, y in batches("held-out.csv")
        for label, p in zip(y, model.predict_proba(X)[:, 1].tolist())  # noqa: B905
    ]
    model.sparsify()
    return measured(seconds, len(pickle.dumps(model)), int(model.coef_.nnz), losses)


def clicks_river(directory: str, rate: float, l1: float) -> dict[str, float]:
    """Learn the clicks with `LogisticRegression` on dicts of `column=value`."""
    from river import linear_model, optim

    model = linear_model.LogisticRegression(optim.SGD(rate), l1=l1)
    begin = time.process_time()
    for y, names in lines(Path(directory, "clicks.csv")):
        model.learn_one(dict.fromkeys(names, 1.0), y)
    seconds = time.process_time() - begin
    losses = [
        log_loss(y, model.predict_proba_one(dict.fromkeys(names, 1.0))[True])
        for y, names in lines(Path(directory, "held-out.csv"))
    ]
    nonzero = sum(weight != 0.0 for weight in dict(model.weights).values())
    return measured(seconds, len(pickle.dumps(model)), nonzero, losses)
