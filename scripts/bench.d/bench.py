"""Timings, as ratios from interleaved runs; each part is a file beside this one.

`scripts/bench` runs all parts, `scripts/bench rows csr` some, and `scripts/bench page` a short run
of those that compare with others, and writes docs/BENCHMARKS.md from what it has measured, or the
file that is named: `scripts/bench page --file docs/BENCHMARKS-avx2.md`.
"""

from __future__ import annotations

import importlib
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import bench_rivals
from bench_kit import CONSOLE, clicks, in_turn, model, one_core, processor, table, w1


def bench_softmax() -> None:
    """Rows of 100 classes, beside river and Vowpal Wabbit; and as classes, d and t grow."""
    import bench_softmax as softmax

    bench_rivals.python()
    softmax.bench_rivals(w1, table, CONSOLE.print)
    softmax.bench_shapes(in_turn, table, CONSOLE.print)


def bench_kafka() -> None:
    """From a topic, beside polling alone."""
    import bench_kafka as topics

    topics.bench(w1, table, CONSOLE.print)


def bench_projection() -> None:
    """Projections of 10^6 entries, as ratios to a plain sum of them."""
    import bench_projection as projection

    columns = ("entries", "z", "left", "plain sum, ms", "numpy's sum /", "a new vector /")
    title = f"{projection.N:,} entries: a plain sum, and ratios to it"
    made = table(title, *columns, "ball /", "simplex /", "ball, sort /")
    for name, z, left, (ms, *ratios) in projection.rows():
        made.add_row(name, z, left, f"{ms:.2f}", *(f"{ratio:.1f}" for ratio in ratios))
    CONSOLE.print(made)


def bench_solvers() -> None:
    """Compare the coordinate solvers with scikit-learn's, to the same objective."""
    import bench_solvers as solvers

    solvers.bench(w1, table, CONSOLE.print)


def bench_checkpoint() -> None:
    """How long a checkpoint keeps a run from learning."""
    import bench_checkpoint as checkpoints

    checkpoints.bench(table, CONSOLE.print)


def bench_text() -> None:
    """Text files: parsed, learnt, and beside Vowpal Wabbit."""
    import bench_text as text

    bench_rivals.python()
    with one_core():
        text.bench(w1, clicks, model, table, CONSOLE.print)


def bench_cross() -> None:
    """Crossed features, beside `-q` of Vowpal Wabbit."""
    import bench_cross as crosses

    bench_rivals.python()
    with one_core():
        crosses.bench(table, CONSOLE.print)


PARTS = {
    "rows": "bench_rows.bench_rows",
    "roads": "bench_roads.bench_roads",
    "limits": "bench_limits.bench_limits",
    "gzip": "bench_roads.bench_gzip",
    "csr": "bench_passes.bench_csr",
    "models": "bench_passes.bench_models",
    "ball": "bench_passes.bench_ball",
    "mirror": "bench_mirror.bench_mirror",
    "dict": "bench_dicts.bench_dict",
    "flat": "bench_passes.bench_flat",
    "flatness": "bench_flatness.bench_flatness",
    "start": "bench_process.bench_start",
    "command": "bench_command.bench_command",
    "threads": "bench_dicts.bench_threads",
    "copies": "bench_process.bench_copies",
    "memory": "bench_process.bench_memory",
    "softmax": "bench.bench_softmax",
    "kafka": "bench.bench_kafka",
    "projection": "bench.bench_projection",
    "solvers": "bench.bench_solvers",
    "checkpoint": "bench.bench_checkpoint",
    "text": "bench.bench_text",
    "cross": "bench.bench_cross",
}


def run(part: str) -> None:
    """One part, printed as it is measured."""
    home, _, name = PARTS[part].rpartition(".")
    getattr(importlib.import_module(home), name)()


def main() -> None:
    asked = [one.removeprefix("--") for one in sys.argv[1:]]
    page = None
    if asked[:1] == ["page"]:
        import bench_page

        page, asked = bench_page.PAGE, asked[1:]
        if asked[:1] == ["file"]:
            if len(asked) < 2 or not Path(asked[1]).parent.is_dir():
                sys.exit("bench: after --file comes the page to write, in a folder that there is")
            page, asked = Path(asked[1]), asked[2:]
        asked = asked or list(bench_page.PARTS)
    unknown = set(asked) - set(PARTS)
    if unknown:
        known = ", ".join([*PARTS, "page"])
        sys.exit(f"bench: {unknown.pop()!r} is not known; give any of {known}")
    versions = ", ".join(f"{p} {version(p)}" for p in ("streaml1", "numba", "numpy", "river"))
    CONSOLE.print(f"{versions}; Python {platform.python_version()}; {processor()}")
    if page is not None:
        bench_page.write(asked, run, page)
        return
    for part in asked or PARTS:
        run(part)


if __name__ == "__main__":
    main()
