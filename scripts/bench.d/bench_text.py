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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streaml1
from streaml1.sources import open_source
from streaml1.sources.readers.csv_schema import Columns, Records, TextLines
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.parsed_lines import BytesLineParser
from streaml1.sources.source import class_label
from streaml1.training.batches import label_block

ROUNDS = 5
FEW = 3  # rounds of what takes Vowpal Wabbit ten seconds
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


class Case(NamedTuple):
    """A file, and how it is learnt.

    Attributes
    ----------
    options : dict
        Those of the model.
    rival : Path
        The same rows as text of Vowpal Wabbit's.
    same : tuple
        What it is asked to do the same by: the same format, names kept where ours are; None where
        that is `rival`.
    """

    name: str
    path: Path
    options: dict[str, Any]
    rival: Path
    same: tuple[Path, str] | None


def words(w1: Callable[[int], Any]) -> tuple[list[int], list[str], list[str]]:
    """Labels of W1, and its rows as text, by numbers and by names."""
    X, y = w1()
    rows = [svmlight(X, i) for i in range(X.shape[0])]
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (X.shape[1], 6), dtype=np.uint8)
    spelt = np.array([f"{bytes(row).decode()}{k % 97}" for k, row in enumerate(letters)])
    named = [
        " ".join(f"{spelt[int(j)]}:{v}" for j, v in (cell.split(":") for cell in row.split()))
        for row in rows
    ]
    return np.where(y, 1, -1).tolist(), rows, named


def files(folder: Path, w1: Callable[[int], Any], clicks: Callable[[int], Any]) -> list[Case]:
    """Write the files."""
    signs, rows, named = words(w1)
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
    # Of JSON and CSV Vowpal Wabbit wants the label's own name, of CSV quotes where texts are meant.
    lines, theirs = '{{"y": {}, "x": {}}}', '{{"_label": {}, "x": {}}}'
    members = [json_of(row, ":", float) for row in named]
    words_json = written("w1.jsonl", lines, signs, members)
    their_words = written("w1-vw.jsonl", theirs, signs, members)
    texts = [json_of(row, "=", str) for row in joined]
    ads_json = written("w2.jsonl", lines, clicked, texts)
    their_ads = written("w2-vw.jsonl", theirs, clicked, texts)
    cells = [[f"{v:x}" for v in row] for row in categories.tolist()]
    head = ",".join(columns)
    ads_csv = written("w2.csv", "{},{}", ["y", *clicked], [head, *map(",".join, cells)])
    quoted = [",".join(f'"{cell}"' for cell in row) for row in cells]
    their_csv = written("w2-vw.csv", "{},{}", ["_label", *clicked], [head, *quoted])

    def both(name: str, path: Path, rival: Path, same: Path, flags: str) -> Iterator[Case]:
        kept = same, f"{flags} --invert_hash {folder / 'names.txt'}"
        yield Case(f"{name}, names kept", path, {}, rival, kept)
        hashed = (same, flags) if flags else None
        yield Case(f"{name}, {BITS} bits", path, {"hash_bits": BITS}, rival, hashed)

    return [
        Case("W1, svmlight", ids, {}, same, None),
        *both("W1, words", text, text, text, ""),
        *both("W2, categories", ads, ads, ads, ""),
        *both("W1, JSON", words_json, text, their_words, "--json"),
        *both("W2, JSON", ads_json, ads, their_ads, "--json"),
        *both("W2, CSV", ads_csv, ads, their_csv, "--csv"),
    ]


def vowpal_wabbit(path: Path, flags: str = "") -> float:
    """Seconds of its driver; NaN where it is not installed."""
    options = f"-d {path} --sgd --l1 1e-6 --l2 1e-6 --loss_function logistic -b {BITS} --quiet"
    options = f"{options} {flags}"
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
    reader = BytesLineParser(
        line_parser({".svm": "svmlight"}.get(path.suffix, path.suffix[1:])).one
    )
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
        times: list[dict[str, list[float]]] = [{} for _ in cases]
        for _ in range(ROUNDS + 1):  # what a neighbour does for a minute is in no more than one
            for case, took in zip(cases, times, strict=True):
                _time(case, model, took)
        for case, took in zip(cases, times, strict=True):
            made.add_row(case.name, *_told(case, took))
        show(made)
        _same_road(cases, model, table, show)
        made = table("reading CSV: us/row, and ratio to ours", "reader", "us/row", "ratio")
        ads = cases[-1].path
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
        for name, path in ((case.name, case.path) for case in (cases[0], cases[3])):
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
    cases = cases if len(both) > 1 else []
    times: list[dict[int, list[float]]] = [{} for _ in cases]
    for _ in range(ROUNDS):
        for case, took in zip(cases, times, strict=True):
            n = case.path.read_bytes().count(b"\n")
            for cores in (mine, both):
                os.sched_setaffinity(0, cores)
                begin = time.perf_counter()
                one_model = model(0.1, **case.options)
                streaml1.progressive(one_model, opened(case.path), every=100_000)
                took.setdefault(len(cores), []).append((time.perf_counter() - begin) / n * 1e6)
    for case, took in zip(cases, times, strict=True):
        one, two = map(np.array, took.values())
        ratio = np.median(one / two)
        made.add_row(case.name, f"{np.median(one):.2f}", f"{np.median(two):.2f}", f"{ratio:.2f}")
    os.sched_setaffinity(0, mine)
    show(made)


def learn(case: Case, model: Callable[..., Any]) -> None:
    one = model(0.1, **case.options)
    for block in blocks(case.path):
        one.progressive_many(block.x, label_block(block, "logistic", class_label).y)
        del block  # as `streaml1 learn` does, so that its memory may be taken for the next


def _same_road(cases: list[Case], model: Any, table: Any, show: Any) -> None:
    """Vowpal Wabbit where it reads the same format, and keeps names where ours are kept."""
    columns = ("file", "parse + learn", "VW asked by", "VW", "VW / (parse + learn)")
    made = table("Vowpal Wabbit asked for the same: us/row", *columns)
    asked = [(case, *case.same) for case in cases if case.same is not None]
    times: list[list[tuple[float, float]]] = [[] for _ in asked]
    for _ in range(FEW):
        for (case, path, flags), both in zip(asked, times, strict=True):
            n = case.path.read_bytes().count(b"\n")
            ours = _seconds(lambda case=case: learn(case, model))
            both.append((ours / n * 1e6, vowpal_wabbit(path, flags) / n * 1e6))
    for (case, _, flags), both in zip(asked, times, strict=True):
        ours, theirs = np.array(both).T
        ratio = np.median(theirs / ours)
        told = [flag for flag in flags.split() if flag.startswith("--")]
        took = f"{np.median(ours):.2f}", " ".join(told), f"{np.median(theirs):.1f}"
        made.add_row(case.name, *took, f"{ratio:.1f}")
    show(made)


def _time(case: Case, model: Any, times: dict[str, list[float]]) -> None:
    """Write down the seconds of a row of whatever is compared."""
    path = case.path
    n = path.read_bytes().count(b"\n")

    def progressive() -> None:
        streaml1.progressive(model(0.1, **case.options), opened(path), every=100_000)

    runs: dict[str, Callable[[], float]] = {
        "read": lambda: _seconds(lambda: bare(path)),
        "parse": lambda: _seconds(lambda: parse(path)),
        "learn": lambda: _seconds(lambda: learn(case, model)),
        "progressive": lambda: _seconds(progressive),
        "plain": lambda: n * plain(path),
        "vw": lambda: vowpal_wabbit(case.rival),
    }
    for what, run in runs.items():
        times.setdefault(what, []).append(run() / n)


def _told(case: Case, times: dict[str, list[float]]) -> list[str]:
    size, n = case.path.stat().st_size, case.path.read_bytes().count(b"\n")
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
