"""Writes a page of docs from a run: what is in a table of it was measured just now."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from bench_kit import TABLES, Kept, processor
from bench_rivals import Rivals

PAGE = Path(__file__).parent.parent.parent / "docs" / "BENCHMARKS.md"

PARTS = {
    "rows": ("Rows in memory and in files of rows", """\
A pass over the same rows, in turn, round after round, on one core; medians of the times and of
the ratios within a round. Vowpal Wabbit reads its own cache (`--sgd --l1 --l2`), scikit-learn
runs one epoch of `fit` over all rows at once, and river learns the first 2,000 rows as dicts of
ints; river refuses l1 and l2 together. The learners are not equal in work: only streaml1 and
Vowpal Wabbit have every weight pay its penalty at every example, and only streaml1's weights
are exact after each. `.rows` files are what [`streaml1 convert`](convert.md) writes."""),
    "roads": ("How far each road is from its limit", """\
The limit is a bare loop that gathers and scatters the same rows, without a penalty. The last
column says what the time goes to."""),
    "limits": ("What the others cannot do", """\
Tried, not quoted. scikit-learn's `partial_fit` forgets at the end of a call what a feature that
was not in it owes."""),
    "gzip": ("Packed text", """\
Parsed, not learnt. isal is the extra `fast`; without it the standard library unpacks the same
bytes."""),
    "text": ("Text", """\
Files in memory, one core but for the last table; Vowpal Wabbit is its driver on the same rows, as
text of its own, and hashed, which is how it is fastest. In the second table it does the same as
streaml1: it reads the same format, and keeps names where they are kept here."""),
    "cross": ("Crosses", ""),
    "dict": ("Dicts one by one", "Beside river's own models, in the same process."),
    "start": ("Start", """\
The cache is that of machine code; `streaml1 warm` fills it. Dicts one by one need no numba once
their kernels are in it."""),
    "command": ("Whole commands", """\
With what a new process needs, a table of the run and the features that weigh most; on one core,
by the clock. streaml1 learns eight rates at once where no rate is told."""),
}  # fmt: skip
"""The parts of the page, each with its heading and what is to be known of its tables."""


def write(parts: list[str], run: Callable[[str], None], page: Path = PAGE) -> None:
    """Run the parts, and write the page after each, so that a run may be stopped."""
    loads = [os.getloadavg()[0]]
    sections: list[str] = []
    for number, part in enumerate(parts, start=1):
        before = len(TABLES)
        run(part)
        loads.append(os.getloadavg()[0])
        title, about = PARTS.get(part, (part, ""))
        made = "\n\n".join(map(markdown, TABLES[before:]))
        sections.append("\n\n".join(one for one in (f"## {title}", about, made) if one))
        page.write_text("\n\n".join([head(parts[:number], loads, page), *sections]) + "\n")
    print(f"\n{page}")


def head(parts: list[str], loads: list[float], page: Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        rivals = Rivals(Path(name))
        theirs = rivals.ask("versions") or {}
        rivals.close()
    ours = ", ".join(f"{one} {version(one)}" for one in ("streaml1", "numba", "numpy"))
    others = ", ".join(f"{one} {number}" for one, number in theirs.items() if number)
    missing = [one for one, number in theirs.items() if not number]
    told = f" Not there, and left out: {', '.join(missing)}." if missing else ""
    load = max(loads)
    busy = "the machine had other work: times are too long, ratios hold roughly"
    quiet = "quiet" if load <= 1.5 else busy
    system = f"Python {platform.python_version()}, {platform.system()}"
    pages = sorted(page.parent.glob("BENCHMARKS*.md"))
    links = ", ".join(f"[{one.stem}]({one.name})" for one in pages if one.name != page.name)
    elsewhere = f"\n- the same on another machine: {links}" if links else ""
    return f"""# Benchmarks

`scripts/bench page` has written this page on {time.strftime("%-d %B %Y")}, from one run of
{", ".join(parts)}; `scripts/bench PART` prints one part. Ratios are formed within a round
and their median is told, so that they bear a shared machine better than times do.

- {processor()}, one of them at a time; {system}; {ours}
- the rivals, in `.venv-rivals`: {others or "none could be installed"}.{told}
- load average from {min(loads):.1f} to {load:.1f} during the run: {quiet}{elsewhere}

W1 is 100,000 rows of 87 words, drawn by Zipf's law over 260,941; W2 is 200,000 clicks of 39
categories, 453,000 names."""


def markdown(made: Kept) -> str:
    columns = [str(column.header) for column in made.columns]
    rules = ["---", *["---:"] * (len(columns) - 1)]
    rows = [columns, rules, *map(list, made.cells)]
    lines = "\n".join("| " + " | ".join(cell.strip() for cell in row) + " |" for row in rows)
    return f"**{made.name}**\n\n{lines}"
