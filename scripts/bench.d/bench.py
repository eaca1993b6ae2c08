"""Run benchmarks and print ratios from interleaved runs.

`scripts/bench` runs all parts, `scripts/bench rows csr` some of them. `scripts/bench page` runs the
parts that compare with other packages and writes their tables to docs/BENCHMARKS.md, or to another
file: `scripts/bench page --file docs/BENCHMARKS-arm.md`. `scripts/bench chart`, which draws
docs/throughput.png, runs only by name. `scripts/bench shards --rows 160000 --model SMIDAS` takes
more rows than the default, and one of its models instead of all.
"""

from __future__ import annotations

import importlib
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_kit import CONSOLE, cpu_description

PARTS = {
    "rows": "bench_rows.bench_rows",
    "roads": "bench_inputs.bench_inputs",
    "limits": "bench_limits.bench_limits",
    "gzip": "bench_inputs.bench_gzip",
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
    "softmax": "bench_softmax.bench_softmax",
    "kafka": "bench_kafka.bench_kafka",
    "kafka-clients": "bench_kafka_clients.bench_kafka_clients",
    "serve": "bench_serve.bench_serve",
    "projection": "bench_projection.bench_projection",
    "solvers": "bench_solvers.bench_solvers",
    "checkpoint": "bench_checkpoint.bench_checkpoint",
    "text": "bench_text.bench_text",
    "frames": "bench_frames.bench_frames",
    "cross": "bench_cross.bench_cross",
    "chart": "bench_chart.bench_chart",
    "merge": "bench_merge.bench_merge",
    "mixing": "bench_mixing.bench_mixing",
    "shards": "bench_shards.bench_shards",
}
"""Module and function of each part; a module is imported only when its part runs."""


def run(part: str, **options: Any) -> None:
    """Run one part, which prints its tables."""
    module, _, function = PARTS[part].rpartition(".")
    getattr(importlib.import_module(module), function)(**options)


def shard_options(arguments: list[str]) -> dict[str, Any]:
    """Return the options of `shards` as keywords, and leave `shards` in their place."""
    options: dict[str, Any] = {}
    while arguments[:1] == ["shards"] and arguments[1:2] in (["--rows"], ["--model"]):
        name, values = arguments[1].removeprefix("--"), arguments[2:3]
        if not values or (name == "rows" and not values[0].isdecimal()):
            sys.exit(f"bench: --{name} needs a {'number' if name == 'rows' else 'name'}")
        options[name] = int(values[0]) if name == "rows" else values[0]
        del arguments[1:3]
    if options and arguments != ["shards"]:
        sys.exit(f"bench: options of shards cannot be combined with {' '.join(arguments[1:])}")
    return options


def main() -> None:
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(f"{__doc__}\nParts: {', '.join([*PARTS, 'page'])}")
        return
    options = shard_options(arguments)
    parts = [argument.removeprefix("--") for argument in arguments]
    page = None
    if parts[:1] == ["page"]:
        import bench_page

        page, parts = bench_page.PAGE, parts[1:]
        if parts[:1] == ["file"]:
            if len(parts) < 2 or not Path(parts[1]).parent.is_dir():
                sys.exit("bench: --file needs a path in an existing directory")
            page, parts = Path(parts[1]), parts[2:]
        parts = parts or list(bench_page.PARTS)
    unknown = set(parts) - set(PARTS)
    if unknown:
        known = ", ".join([*PARTS, "page"])
        sys.exit(f"bench: unknown part {unknown.pop()!r}; use any of {known}")
    versions = ", ".join(f"{p} {version(p)}" for p in ("streaml1", "numba", "numpy", "river"))
    CONSOLE.print(f"{versions}; Python {platform.python_version()}; {cpu_description()}")
    if page is not None:
        bench_page.write(parts, run, page)
        return
    for part in parts or [part for part in PARTS if part != "chart"]:
        run(part, **options)


if __name__ == "__main__":
    main()
