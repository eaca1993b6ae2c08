"""The chart of the README: examples per second and model size of four packages on one file.

Every package reads the same CSV file of clicks and learns logistic regression with an l1 penalty in
one pass, at the same learning rate and strength, on one core. Times are CPU times of reading and
learning, without the start of the process.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_kit import CONSOLE, clicks, new_table, process_seconds, single_core, w2
from bench_rivals import Rivals

import streaml1
from streaml1.training.evaluation import evaluate

FIGURE = Path(__file__).parent.parent.parent / "docs" / "throughput.png"
RATE, L1 = 0.01, 1e-5
N_LEARNT, N_HELD_OUT = 200_000, 20_000
ROUNDS = 5
OURS = "#0b6e75"
OTHERS = "#a9b4bd"


class Bar(NamedTuple):
    """One row of the chart."""

    name: str
    per_second: float
    size: float
    nonzero: int
    loss: float


def bench_chart() -> None:
    """Print the table behind the chart of the README and draw the chart."""
    with single_core(), tempfile.TemporaryDirectory() as directory:
        columns = write_clicks(Path(directory))
        rivals = Rivals(Path(directory))
        contestants = {
            f"streaml1, lr={RATE}": lambda: ours(
                Path(directory), columns, lr=RATE, schedule="constant"
            ),
            'streaml1, lr="auto"': lambda: ours(Path(directory), columns),
            "Vowpal Wabbit, own format": lambda: rivals.ask("clicks_vw", directory, "vw", RATE, L1),
            "Vowpal Wabbit, CSV": lambda: rivals.ask("clicks_vw", directory, "csv", RATE, L1),
            "scikit-learn": lambda: rivals.ask("clicks_sklearn", directory, RATE, L1),
            "river": lambda: rivals.ask("clicks_river", directory, RATE, L1),
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, run in contestants.items():
                runs[name].append(run())
        rivals.close()
    bars = [summary(name, results) for name, results in runs.items() if all(results)]
    title = f"clicks.csv: {N_LEARNT:,} lines of {len(columns)} categories, l1 = {L1:g}"
    table = new_table(title, "", "examples/s", "model, KiB", "non-zero weights", "held-out loss")
    for bar in bars:
        table.add_row(bar.name, f"{bar.per_second:,.0f}", f"{bar.size / 1024:,.0f}",
                      f"{bar.nonzero:,}", f"{bar.loss:.4f}")  # fmt: skip
    CONSOLE.print(table)
    draw(bars, title, FIGURE)
    print(f"fastest of {ROUNDS} rounds; load average {os.getloadavg()[0]:.1f}\n{FIGURE}")


def write_clicks(directory: Path) -> list[str]:
    """Write the clicks as CSV and as Vowpal Wabbit text; return the names of the categories.

    `_label` is the name by which Vowpal Wabbit finds the label in CSV.
    """
    n = N_LEARNT + N_HELD_OUT
    categories, _ = clicks(n)
    _, y = w2(n)
    names = [f"C{k}" for k in range(categories.shape[1])]
    signs = np.where(y, 1, -1).tolist()
    cells = [[f"v{v:x}" for v in row] for row in categories.tolist()]
    for name, part in (("clicks", slice(N_LEARNT)), ("held-out", slice(N_LEARNT, n))):
        rows = list(zip(signs[part], cells[part], strict=True))
        csv = [",".join(["_label", *names]), *(f"{label},{','.join(row)}" for label, row in rows)]
        vw = [
            f"{label} | " + " ".join(map("=".join, zip(names, row, strict=True)))
            for label, row in rows
        ]
        Path(directory, f"{name}.csv").write_text("\n".join(csv) + "\n")
        Path(directory, f"{name}.vw").write_text("\n".join(vw) + "\n")
    return names


def ours(directory: Path, columns: list[str], **options: Any) -> dict[str, float]:
    """Learn the clicks with `streaml1.progressive`, which also predicts and reports."""
    model = streaml1.ElasticNetClassifier(l1=L1, **options)
    described: dict[str, Any] = {"target": "_label", "categorical": columns}
    file = directory / "clicks.csv"
    seconds = process_seconds(
        lambda: streaml1.progressive(model, file, every=N_LEARNT, **described)
    )
    model.save(directory / "ours.streaml1")
    report = evaluate(model, directory / "held-out.csv", **described)
    return {
        "seconds": seconds,
        "bytes": (directory / "ours.streaml1").stat().st_size,
        "non-zeros": model.n_nonzero,
        "log-loss": report.lines[-1].loss,
    }


def summary(name: str, results: list[dict[str, float]]) -> Bar:
    """Summarize the rounds of one package by the fastest, which other load disturbs least."""
    best = min(results, key=lambda result: result["seconds"])
    per_second = N_LEARNT / best["seconds"]
    return Bar(name, per_second, best["bytes"], int(best["non-zeros"]), best["log-loss"])


def draw(bars: list[Bar], title: str, path: Path) -> None:
    """Draw the bars in the order given."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 0.42 * len(bars) + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    colours = [OURS if bar.name.startswith("streaml1") else OTHERS for bar in bars]
    places = range(len(bars), 0, -1)
    speeds = [bar.per_second / 1000 for bar in bars]
    sizes = [bar.size / 1024 for bar in bars]
    for axes, widths, heading in (
        (left, speeds, "1,000 examples per second"),
        (right, sizes, "saved model, KiB (less is better)"),
    ):
        drawn = axes.barh(places, widths, color=colours, height=0.7)
        axes.bar_label(drawn, [f"{w:,.0f}" for w in widths], padding=4, fontsize=10)
        axes.set_title(heading, fontsize=10, loc="left")
        axes.set_xlim(0, 1.16 * max(widths))
        axes.xaxis.set_visible(False)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.tick_params(axis="y", length=0, labelsize=10)
    left.set_yticks(places, [bar.name for bar in bars])
    figure.supxlabel(f"{title}; one pass, one core", fontsize=9, color="#555555")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
