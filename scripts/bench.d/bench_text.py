"""Reading and learning text files: parsers alone, with a model, and Vowpal Wabbit on the same rows.

Vowpal Wabbit is asked for in the Python that `VW_PYTHON` names, where it is installed. Times are
those of the processor, on one core; Vowpal Wabbit's are of its driver, files in memory both.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import streaml1
from streaml1.consumer.parts import chunk_of
from streaml1.streams import open_source
from streaml1.streams.formats import line_parser
from streaml1.streams.parsed import EachLine
from streaml1.streams.source import class_label
from streaml1.streams.table import Columns, Records, TextLines

ROUNDS = 5
BITS = 22

VW = """
import sys, time
import vowpalwabbit
begin = time.process_time()
vowpalwabbit.Workspace(sys.argv[1]).finish()
print(time.process_time() - begin)
"""

Write = Callable[[Any, Any], str]


def svmlight(X: Any, i: int) -> str:
    lo, hi = X.indptr[i], X.indptr[i + 1]
    pairs = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
    return " ".join(map("%d:%.6g".__mod__, pairs))


def files(folder: Path, w1: Callable[[int], Any], clicks: Callable[[int], Any]) -> list[Any]:
    """Write the files: what each is called, its path, and that of the same rows for VW."""
    X, y = w1()
    signs = np.where(y, 1, -1).tolist()
    rows = [svmlight(X, i) for i in range(X.shape[0])]
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (X.shape[1], 6), dtype=np.uint8)
    words = np.array([f"{bytes(row).decode()}{k % 97}" for k, row in enumerate(letters)])
    named = [
        " ".join(f"{words[int(j)]}:{v}" for j, v in (cell.split(":") for cell in row.split()))
        for row in rows
    ]
    categories, clicked = clicks(200_000)
    joined = [" ".join(f"C{k}={v:x}" for k, v in enumerate(row)) for row in categories.tolist()]
    clicked = np.where(clicked, 1, -1).tolist()
    columns = [f"C{k}" for k in range(categories.shape[1])]

    def json_of(row: str, mark: str, read: Callable[[str], Any]) -> str:
        cells = (cell.split(mark) for cell in row.split())
        return json.dumps({name: read(v) for name, v in cells})

    def written(name: str, form: str, labels: list[Any], rows: list[str]) -> Path:
        path = folder / name
        lines = (form.format(y, row) for y, row in zip(labels, rows, strict=True))
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    ids = written("w1.svm", "{} {}", signs, rows)
    same = written("w1-ids.vw", "{} | {}", signs, rows)
    text = written("w1.vw", "{} | {}", signs, named)
    ads = written("w2.vw", "{} | {}", clicked, joined)
    lines = '{{"y": {}, "x": {}}}'
    words_json = written("w1.jsonl", lines, signs, [json_of(row, ":", float) for row in named])
    ads_json = written("w2.jsonl", lines, clicked, [json_of(row, "=", str) for row in joined])
    cells = [",".join(f"{v:x}" for v in row) for row in categories.tolist()]
    head, rest = ",".join(columns), cells
    ads_csv = written("w2.csv", "{},{}", ["y", *clicked], [head, *rest])
    hashed = {"hash_bits": BITS}
    return [
        ("W1, svmlight", ids, same, {}),
        ("W1, words, names kept", text, text, {}),
        (f"W1, words, {BITS} bits", text, text, hashed),
        ("W2, categories, names kept", ads, ads, {}),
        (f"W2, categories, {BITS} bits", ads, ads, hashed),
        ("W1, JSON, names kept", words_json, text, {}),
        (f"W1, JSON, {BITS} bits", words_json, text, hashed),
        ("W2, JSON, names kept", ads_json, ads, {}),
        (f"W2, JSON, {BITS} bits", ads_json, ads, hashed),
        ("W2, CSV, names kept", ads_csv, ads, {}),
        (f"W2, CSV, {BITS} bits", ads_csv, ads, hashed),
    ]


def vowpal_wabbit(path: Path) -> float:
    """Seconds of its driver; NaN where it is not installed."""
    options = f"-d {path} --sgd --l1 1e-6 --l2 1e-6 --loss_function logistic -b {BITS} --quiet"
    python = os.environ.get("VW_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", VW, options], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else float("nan")


def refuse(place: str, reason: str, *_: Any) -> None:
    raise AssertionError(f"{place}: {reason}")


def opened(path: Path) -> Any:
    if path.suffix != ".csv":
        return open_source(path)
    with open(path) as file:
        names = file.readline().strip().split(",")
    return open_source(path, target=names[0], categorical=names[1:])


def blocks(path: Path) -> Any:
    """As `streaml1 learn` reads them."""
    source = opened(path)
    return source.blocks(source.block, refuse)


def parse(path: Path) -> None:
    for _ in blocks(path):
        pass


def polars_reads(path: Path) -> None:
    import polars

    names = _categories(path)
    polars.read_csv(path, schema_overrides={name: polars.String for name in names})


def pyarrow_reads(path: Path) -> None:
    from pyarrow import csv

    types = {name: "string" for name in _categories(path)}
    csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))


def _categories(path: Path) -> list[str]:
    with open(path) as file:
        return file.readline().strip().split(",")[1:]


def bare(path: Path) -> None:
    room = bytearray(2**18)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(room):
            pass


def plain(path: Path) -> float:
    """Seconds a row of the plain reader."""
    with open(path, "rb") as file:
        text = b"".join(file.readline() for _ in range(1000))
    if path.suffix == ".csv":
        names = text.partition(b"\n")[0].decode().split(",")
        columns = Columns(names, names[0], None, frozenset(names[1:]), True)
        begin = time.process_time()
        for _, record in Records(TextLines(text)):
            columns.example(record)
        return (time.process_time() - begin) / 1000
    reader = EachLine(line_parser({".svm": "svmlight"}.get(path.suffix, path.suffix[1:])).one)
    begin = time.process_time()
    reader.read(text)
    return (time.process_time() - begin) / 1000


def bench(w1: Any, clicks: Any, model: Callable[..., Any], table: Any, show: Any) -> None:
    """Print microseconds a row and ratios."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        cases = files(Path(folder), w1, clicks)
        made = table(
            "text to a model, l1 = l2 = 1e-6: us/row",
            *("file", "bytes/row", "read", "parse", "MB/s", "plain / parse"),
            *("parse + learn", "progressive", "VW", "VW / (parse + learn)"),
        )
        for name, path, rival, options in cases:
            made.add_row(name, *_case(path, rival, options, model))
        show(made)
        made = table("reading CSV: us/row, and ratio to ours", "reader", "us/row", "ratio")
        ads = cases[-1][1]
        n = ads.read_bytes().count(b"\n") - 1
        readers = {"parsed to rows here": parse, "polars": polars_reads, "pyarrow": pyarrow_reads}
        times = {
            name: [_seconds(lambda read=read: read(ads)) / n * 1e6 for _ in range(ROUNDS + 1)][1:]
            for name, read in readers.items()
        }
        ours = np.array(times["parsed to rows here"])
        for name, took in times.items():
            ratio = np.median(np.array(took) / ours)
            made.add_row(name, f"{np.median(took):.2f}", f"{ratio:.2f}")
        show(made)
        made = table("parsing packed files", "file", "us/row", "MB/s of text")
        for name, path, _, _ in (cases[0], cases[3]):
            packed = path.with_name(f"{path.name}.gz")
            packed.write_bytes(gzip.compress(path.read_bytes(), 6))
            n = path.read_bytes().count(b"\n")
            seconds = float(np.median([_seconds(lambda p=packed: parse(p)) for _ in range(3)]))
            mega = path.stat().st_size / 1e6
            made.add_row(f"{name}, .gz", f"{seconds / n * 1e6:.2f}", f"{mega / seconds:,.0f}")
        show(made)
        _second_core(cases, model, table, show)


def _second_core(cases: list[Any], model: Any, table: Any, show: Any) -> None:
    """Files learnt, with their report, on one core and on two: by the clock on the wall."""
    mine = os.sched_getaffinity(0)
    both = set(range(os.cpu_count() or 1))
    columns = ("file", "one core", "two cores", "one / two")
    made = table("learnt with a core that parses ahead: us/row on the wall", *columns)
    for name, path, _, options in cases if len(both) > 1 else []:
        n = path.read_bytes().count(b"\n")
        times: dict[int, list[float]] = {}
        for _ in range(ROUNDS):
            for cores in (mine, both):
                os.sched_setaffinity(0, cores)
                begin = time.perf_counter()
                streaml1.progressive(model(0.1, **options), opened(path), every=100_000)
                times.setdefault(len(cores), []).append((time.perf_counter() - begin) / n * 1e6)
        one, two = map(np.array, times.values())
        ratio = np.median(one / two)
        made.add_row(name, f"{np.median(one):.2f}", f"{np.median(two):.2f}", f"{ratio:.2f}")
    os.sched_setaffinity(0, mine)
    show(made)


def _case(path: Path, rival: Path, options: dict[str, Any], model: Any) -> list[str]:
    size, n = path.stat().st_size, path.read_bytes().count(b"\n")

    def learn() -> None:
        one = model(0.1, **options)
        for block in blocks(path):
            one.progressive_many(block.x, chunk_of(block, "logistic", class_label).y)

    def progressive() -> None:
        streaml1.progressive(model(0.1, **options), opened(path), every=100_000)

    runs = {"read": bare, "parse": parse}
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS + 1):
        for what, run in runs.items():
            times.setdefault(what, []).append(_seconds(lambda run=run: run(path)) / n)
        for what, act in (("learn", learn), ("progressive", progressive)):
            times.setdefault(what, []).append(_seconds(act) / n)
        times.setdefault("plain", []).append(plain(path))
        times.setdefault("vw", []).append(vowpal_wabbit(rival) / n)
    took = {what: np.array(all_of[1:]) * 1e6 for what, all_of in times.items()}
    median = {what: float(np.median(one)) for what, one in took.items()}
    return [
        f"{size / n:.0f}", f"{median['read']:.2f}", f"{median['parse']:.2f}",
        f"{size / n / median['parse']:,.0f}", f"{np.median(took['plain'] / took['parse']):.0f}",
        f"{median['learn']:.2f}", f"{median['progressive']:.2f}", f"{median['vw']:.2f}",
        f"{np.median(took['vw'] / took['learn']):.2f}",
    ]  # fmt: skip


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin
