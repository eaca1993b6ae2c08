"""Write a page of the documentation from the tables of one benchmark run."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from bench_kit import RECORDED_TABLES, RecordedTable, cpu_description
from bench_rivals import Rivals

PAGE = Path(__file__).parent.parent.parent / "docs" / "BENCHMARKS.md"

PARTS = {
    "rows": ("Rows in memory and in files of rows", """\
One pass over the same rows, interleaved round by round, on one core. The table has medians of the
times and of the ratios within a round. Vowpal Wabbit reads its own cache (`--sgd --l1 --l2`),
scikit-learn runs one epoch of `fit` over all rows at once, and river learns the first 2,000 rows as
dicts of ints; river rejects l1 and l2 together. The learners do different work: only streaml1 and
Vowpal Wabbit apply the penalty to every weight at every example, and only streaml1's weights are
exact after each example. [`streaml1 convert`](convert.md) writes `.rows` files."""),
    "roads": ("Input formats and their lower bound", """\
The lower bound is a bare loop that gathers and scatters the same rows, without a penalty. The last
column names what takes the remaining time."""),
    "limits": ("Limits of other packages", """\
Measured in this run. At the end of a call, scikit-learn's `partial_fit` drops the penalty that
features absent from the call have yet to pay."""),
    "gzip": ("Compressed text", """\
Parsed, not learnt. isal comes with the extra `fast`; without it the standard library decompresses
the same bytes."""),
    "text": ("Text", """\
Files in the page cache, one core except for the last table. Vowpal Wabbit is its command line
driver on the same rows, in its own text format and hashed, which is its fastest setting. In the
second table it does the same work as streaml1: it reads the same format, and keeps names wherever
streaml1 does."""),
    "cross": ("Crosses", ""),
    "dict": ("Dicts one by one", """\
Compared with river's models in the same process. A dict subclass is
copied to a dict. The pure-Python fallback is for platforms without the compiled dict readers."""),
    "start": ("Start", """\
The cache holds compiled kernels; `streaml1 warm` fills it. Once their kernels are cached, dicts one
by one do not import numba."""),
    "command": ("Whole commands", """\
Wall time on one core, including the start of the process, the table of the run and the top
features. By default streaml1 runs eight learners at once; `--lr` sets one learning rate."""),
}  # fmt: skip
"""The default parts of the page, each with its heading and an introduction to its tables."""


def write(parts: list[str], run: Callable[[str], None], page: Path = PAGE) -> None:
    """Run the parts and write the page after each one, so that a run can be interrupted."""
    loads = [os.getloadavg()[0]]
    sections: list[str] = []
    for number, part in enumerate(parts, start=1):
        before = len(RECORDED_TABLES)
        run(part)
        loads.append(os.getloadavg()[0])
        title, introduction = PARTS.get(part, (part, ""))
        tables = "\n\n".join(map(markdown, RECORDED_TABLES[before:]))
        blocks = (f"## {title}", introduction, tables)
        sections.append("\n\n".join(block for block in blocks if block))
        page.write_text("\n\n".join([head(parts[:number], loads, page), *sections]) + "\n")
    print(f"\n{page}")


def head(parts: list[str], loads: list[float], page: Path) -> str:
    with tempfile.TemporaryDirectory() as directory:
        rivals = Rivals(Path(directory))
        rival_versions = rivals.ask("versions") or {}
        rivals.close()
    ours = ", ".join(f"{package} {version(package)}" for package in ("streaml1", "numba", "numpy"))
    installed = ", ".join(
        f"{package} {number}" for package, number in rival_versions.items() if number
    )
    missing = [package for package, number in rival_versions.items() if not number]
    omitted = f" Omitted because not installed: {', '.join(missing)}." if missing else ""
    load = max(loads)
    busy = "the machine had other work, so times are too long and ratios are approximate"
    state = "quiet" if load <= 1.5 else busy
    system = f"Python {platform.python_version()}, {platform.system()}"
    pages = sorted(page.parent.glob("BENCHMARKS*.md"))
    links = ", ".join(f"[{path.stem}]({path.name})" for path in pages if path.name != page.name)
    other_pages = f"\n- the same run on another machine: {links}" if links else ""
    return f"""# Benchmarks

```sh
scripts/bench page
```

This command wrote this page on {time.strftime("%-d %B %Y")}, from one run of
{", ".join(parts)}; `scripts/bench PART` prints one part. A ratio is formed within each round, and
the tables have the medians, so ratios are less sensitive than times to other load on the machine.

- {cpu_description()}, one core in use at a time; {system}; {ours}
- rivals, in `.venv-rivals`: {installed or "none could be installed"}.{omitted}
- load average from {min(loads):.1f} to {load:.1f} during the run: {state}{other_pages}

W1 is 100,000 rows of 87 words, Zipf-distributed over 260,941; W2 is 200,000 clicks of 39
categories with 453,000 distinct names."""


def markdown(table: RecordedTable) -> str:
    columns = [str(column.header) for column in table.columns]
    rules = ["---", *["---:"] * (len(columns) - 1)]
    rows = [columns, rules, *map(list, table.cells)]
    lines = "\n".join("| " + " | ".join(cell.strip() for cell in row) + " |" for row in rows)
    return f"**{table.name}**\n\n{lines}"
