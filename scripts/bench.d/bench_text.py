"""Text files: parsers alone, parsing and learning, and Vowpal Wabbit on the same rows.

Vowpal Wabbit runs in the interpreter that `VW_PYTHON` names, if installed there. Times are CPU
times on one core, with the files in the page cache; Vowpal Wabbit's are those of its driver.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bench_rivals
import numpy as np
from bench_kit import (
    CONSOLE,
    SEED,
    clicks,
    elastic_net,
    new_table,
    process_seconds,
    random_words,
    single_core,
    w1,
)

import streaml1
from streaml1.sources import open_source
from streaml1.sources.readers.csv_header import Roles
from streaml1.sources.readers.csv_schema import Columns, Records, TextLines
from streaml1.sources.readers.flat_json import flatten_members
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.parsed_lines import BytesLineParser
from streaml1.sources.source import class_label
from streaml1.training.batches import label_block

ROUNDS = 5
SLOW_ROUNDS = 3  # for the table in which a run of Vowpal Wabbit takes ten seconds
BITS = 22


def svmlight_row(X: Any, i: int) -> str:
    lo, hi = X.indptr[i], X.indptr[i + 1]
    pairs = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
    return " ".join(map("%d:%.6g".__mod__, pairs))


class Case(NamedTuple):
    """A file and how to learn it.

    Attributes
    ----------
    options : dict
        Options of the model.
    rival : Path
        The same rows in Vowpal Wabbit's text format.
    same : tuple
        A file in the same format and the flags with which Vowpal Wabbit does the same work, such as
        keeping names; None if that is `rival`.
    """

    name: str
    path: Path
    options: dict[str, Any]
    rival: Path
    same: tuple[Path, str] | None


def w1_texts() -> tuple[list[int], list[str], list[str]]:
    """Return the labels of W1 and its rows as text, with ids and with words as names."""
    X, y = w1()
    rows = [svmlight_row(X, i) for i in range(X.shape[0])]
    words = random_words(X.shape[1], seed=0)
    named = [
        " ".join(f"{words[int(j)]}:{v}" for j, v in (cell.split(":") for cell in row.split()))
        for row in rows
    ]
    return np.where(y, 1, -1).tolist(), rows, named


def write_cases(directory: Path) -> list[Case]:
    """Write the files of all cases."""
    signs, rows, named = w1_texts()
    categories, clicked = clicks(200_000)
    joined = [" ".join(f"C{k}={v:x}" for k, v in enumerate(row)) for row in categories.tolist()]
    clicked = np.where(clicked, 1, -1).tolist()
    columns = [f"C{k}" for k in range(categories.shape[1])]

    def json_of(row: str, mark: str, read: Callable[[str], Any]) -> str:
        cells = (cell.split(mark) for cell in row.split())
        return json.dumps({name: read(v) for name, v in cells})

    def written(name: str, form: str, labels: list[Any], rows: list[str]) -> Path:
        path = directory / name
        lines = (form.format(y, row) for y, row in zip(labels, rows, strict=True))
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    ids = written("w1.svm", "{} {}", signs, rows)
    same = written("w1-ids.vw", "{} | {}", signs, rows)
    text = written("w1.vw", "{} | {}", signs, named)
    ads = written("w2.vw", "{} | {}", clicked, joined)
    # Vowpal Wabbit reads the label of JSON and CSV from `_label`, and quoted CSV cells as strings.
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
        keep_names = same, f"{flags} --invert_hash {directory / 'names.txt'}"
        yield Case(f"{name}, names kept", path, {}, rival, keep_names)
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
    """Return the CPU seconds of Vowpal Wabbit's driver; NaN if it is not installed."""
    options = f"-d {path} --sgd --l1 1e-6 --l2 1e-6 --loss_function logistic -b {BITS}"
    return bench_rivals.vowpal_wabbit_seconds(f"{options} {flags}")


def reject(position: str, reason: str, *_: Any) -> None:
    raise AssertionError(f"{position}: {reason}")


def open_file(path: Path) -> Any:
    if path.name in ("nested.jsonl", "flat.jsonl"):
        return open_source(path, target="clicked")
    if path.suffix != ".csv":
        return open_source(path)
    with open(path) as file:
        names = file.readline().strip().split(",")
    return open_source(path, target=names[0], categorical=names[1:])


def read_blocks(path: Path) -> Any:
    """Yield the blocks of a file as `streaml1 learn` reads them."""
    source = open_file(path)
    return source.blocks(source.block, reject)


def parse_file(path: Path) -> None:
    for _ in read_blocks(path):
        pass


def read_with_polars(path: Path) -> None:
    import polars

    names = csv_categories(path)
    polars.read_csv(path, schema_overrides={name: polars.String for name in names})


def read_with_pyarrow(path: Path) -> None:
    from pyarrow import csv

    types = {name: "string" for name in csv_categories(path)}
    csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))


def csv_categories(path: Path) -> list[str]:
    with open(path) as file:
        return file.readline().strip().split(",")[1:]


def read_bytes(path: Path) -> None:
    buffer = bytearray(2**18)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def slow_parser_seconds(path: Path) -> float:
    """Return the seconds per row of the line-by-line parser, which reports errors."""
    with open(path, "rb") as file:
        text = b"".join(file.readline() for _ in range(1000))
    if path.suffix == ".csv":
        records = iter(Records(TextLines(text)))
        _, names = next(records)
        columns = Columns(names, Roles(0, None, frozenset(range(1, len(names)))))
        begin = time.process_time()
        for _, record in records:
            columns.example(record)
        return (time.process_time() - begin) / 1000
    reader = BytesLineParser(
        line_parser({".svm": "svmlight"}.get(path.suffix, path.suffix[1:])).parse_line
    )
    begin = time.process_time()
    reader.read(text)
    return (time.process_time() - begin) / 1000


def bench_text() -> None:
    """Measure parsing and learning of text files, and compare them with Vowpal Wabbit."""
    bench_rivals.python()
    with single_core(), tempfile.TemporaryDirectory() as directory:
        cases = write_cases(Path(directory))
        compare_learning(cases)
        compare_same_format(cases)
        compare_nested(Path(directory))
        compare_csv_readers(cases[-1].path)
        compare_compressed([cases[0], cases[3]])
        compare_two_cores(cases)


def compare_learning(cases: list[Case]) -> None:
    results = new_table(
        "text to a model, l1 = l2 = 1e-6: us/row",
        *("file", "bytes/row", "read", "parse", "MB/s", "line parser / parse"),
        *("parse + learn", "progressive", "VW", "VW / (parse + learn)"),
    )
    times: list[dict[str, list[float]]] = [{} for _ in cases]
    for _ in range(ROUNDS + 1):  # a temporary load of the machine affects one round of all cases
        for case, case_times in zip(cases, times, strict=True):
            time_case(case, case_times)
    for case, case_times in zip(cases, times, strict=True):
        results.add_row(case.name, *cells(case, case_times))
    CONSOLE.print(results)


def compare_nested(directory: Path) -> None:
    """Compare nested and flat JSON lines with the same features as members of an object x."""
    columns = ("lines", "features", "bytes/row", "parse", "flat / x", "nested / x")
    results = new_table(
        "nested JSON lines: us/row, and ratios to the same features in an object x",
        *columns, "parse + learn", "flat / x", "nested / x",
    )  # fmt: skip
    random = np.random.default_rng(SEED)
    for what, example in NESTED.items():
        examples = [(int(random.integers(2)), example(random)) for _ in range(NESTED_ROWS)]
        features = [flatten_members(members) for _, members in examples]
        pairs = [(y, members, x) for (y, members), x in zip(examples, features, strict=True)]
        forms = {
            "nested": [{"clicked": y, **members} for y, members, _ in pairs],
            "flat": [{"clicked": y, **x} for y, _, x in pairs],
            "x": [{"y": y, "x": x} for y, _, x in pairs],
        }
        seconds = _seconds_of_forms(directory, forms)
        us = np.median(seconds["nested"], axis=0) / NESTED_ROWS * 1e6
        flat, nested = (
            np.median(seconds[form] / seconds["x"], axis=0) for form in ("flat", "nested")
        )
        results.add_row(
            what, f"{np.mean([*map(len, features)]):.0f}",
            f"{(directory / 'nested.jsonl').stat().st_size / NESTED_ROWS:.0f}",
            *(cell for k in (0, 1) for cell in
              (f"{us[k]:.2f}", f"{flat[k]:.2f}", f"{nested[k]:.2f}")),
        )  # fmt: skip
    CONSOLE.print(results)


def _seconds_of_forms(directory: Path, forms: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the seconds to parse, and to parse and learn, of each form and round."""
    cases = {}
    for form, rows in forms.items():
        path = directory / f"{form}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        cases[form] = Case(form, path, {}, path, None)
    times: dict[str, list[tuple[float, float]]] = {form: [] for form in cases}
    for _ in range(NESTED_ROUNDS + 1):
        for form, case in cases.items():
            parse = process_seconds(partial(parse_file, case.path))
            times[form].append((parse, process_seconds(partial(learn, case))))
    return {form: np.array(rounds[1:]) for form, rounds in times.items()}


NESTED_ROWS, NESTED_ROUNDS = 20_000, 11


def event(random: np.random.Generator) -> dict[str, Any]:
    """Return an event as programs log them, with objects three levels deep and arrays."""

    def id_of(n: int) -> str:
        return f"{random.integers(n) * 7919:x}"

    campaign = {"id": id_of(300), "kind": str(random.choice(["cpc", "cpm"]))}
    return {
        "user": {
            "id": id_of(9999), "age": int(random.integers(90)), "premium": bool(random.integers(2)),
            "country": str(random.choice(["fr", "de", "us", "jp"])),
        },
        "ad": {
            "id": id_of(999), "size": str(random.choice(["300x250", "728x90"])),
            "price": round(float(random.random()) * 5, 2), "campaign": campaign,
        },
        "device": {
            "os": str(random.choice(["ios", "android", "mac"])),
            "version": int(random.integers(20)), "screen": [int(random.choice([1080, 1440])), 1920],
        },
        "tags": random.choice(["news", "sport", "food", "cars"], 2, replace=False).tolist(),
        "hour": int(random.integers(24)),
    }  # fmt: skip


def four_objects(random: np.random.Generator, letter: str, of: type) -> dict[str, Any]:
    """Return four objects with five numbers or strings each."""
    groups = ("user", "ad", "site", "device")
    return {
        group: {f"{letter}{k}": of(random.integers(10 ** (k + 1))) for k in range(5)}
        for group in groups
    }


NESTED: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "events": event,
    "numbers in four objects": partial(four_objects, letter="I", of=int),
    "strings in four objects": partial(four_objects, letter="C", of=str),
}


def compare_csv_readers(path: Path) -> None:
    results = new_table("reading CSV: us/row, and ratio to streaml1", "reader", "us/row", "ratio")
    n = path.read_bytes().count(b"\n") - 1
    readers: dict[str, Callable[[Path], None]] = {
        "streaml1, parsed to rows": parse_file,
        "polars": read_with_polars,
        "pyarrow": read_with_pyarrow,
    }
    times = {
        name: np.array([process_seconds(partial(read, path)) for _ in range(ROUNDS + 1)][1:])
        for name, read in readers.items()
    }
    ours = times["streaml1, parsed to rows"]
    for name, seconds in times.items():
        us = np.median(seconds) / n * 1e6
        results.add_row(name, f"{us:.2f}", f"{np.median(seconds / ours):.2f}")
    CONSOLE.print(results)


def compare_compressed(cases: list[Case]) -> None:
    results = new_table("parsing compressed files", "file", "us/row", "MB/s of text")
    for name, path in ((case.name, case.path) for case in cases):
        compressed = path.with_name(f"{path.name}.gz")
        compressed.write_bytes(gzip.compress(path.read_bytes(), 6))
        n = path.read_bytes().count(b"\n")
        run = partial(parse_file, compressed)
        seconds = float(np.median([process_seconds(run) for _ in range(3)]))
        megabytes = path.stat().st_size / 1e6
        results.add_row(f"{name}, .gz", f"{seconds / n * 1e6:.2f}", f"{megabytes / seconds:,.0f}")
    CONSOLE.print(results)


def compare_two_cores(cases: list[Case]) -> None:
    """Compare the wall time of learning with a report on one core and on two."""
    one_core = os.sched_getaffinity(0)
    all_cores = set(range(os.cpu_count() or 1))
    columns = ("file", "one core", "two cores", "one / two")
    results = new_table("learning while another core parses ahead: us/row, wall time", *columns)
    cases = cases if len(all_cores) > 1 else []
    times: list[dict[int, list[float]]] = [{} for _ in cases]
    for _ in range(ROUNDS):
        for case, by_cores in zip(cases, times, strict=True):
            n = case.path.read_bytes().count(b"\n")
            for cores in (one_core, all_cores):
                os.sched_setaffinity(0, cores)
                begin = time.perf_counter()
                learner = elastic_net(0.1, **case.options)
                streaml1.progressive(learner, open_file(case.path), every=100_000)
                by_cores.setdefault(len(cores), []).append((time.perf_counter() - begin) / n * 1e6)
    for case, by_cores in zip(cases, times, strict=True):
        one, two = map(np.array, by_cores.values())
        ratio = np.median(one / two)
        results.add_row(case.name, f"{np.median(one):.2f}", f"{np.median(two):.2f}", f"{ratio:.2f}")
    os.sched_setaffinity(0, one_core)
    CONSOLE.print(results)


def learn(case: Case) -> None:
    learner = elastic_net(0.1, **case.options)
    for block in read_blocks(case.path):
        learner.progressive_many(block.x, label_block(block, "logistic", class_label).y)
        del block  # as `streaml1 learn` does, so that the next block can reuse its memory


def compare_same_format(cases: list[Case]) -> None:
    """Compare with Vowpal Wabbit doing the same work: same format, names kept or hashed."""
    columns = ("file", "parse + learn", "VW flags", "VW", "VW / (parse + learn)")
    results = new_table("Vowpal Wabbit doing the same work: us/row", *columns)
    same = [(case, *case.same) for case in cases if case.same is not None]
    times: list[list[tuple[float, float]]] = [[] for _ in same]
    for _ in range(SLOW_ROUNDS):
        for (case, path, flags), pairs in zip(same, times, strict=True):
            n = case.path.read_bytes().count(b"\n")
            ours = process_seconds(partial(learn, case))
            pairs.append((ours / n * 1e6, vowpal_wabbit(path, flags) / n * 1e6))
    for (case, _, flags), pairs in zip(same, times, strict=True):
        ours, theirs = np.array(pairs).T
        shown_flags = " ".join(flag for flag in flags.split() if flag.startswith("--"))
        results.add_row(
            *(case.name, f"{np.median(ours):.2f}", shown_flags, f"{np.median(theirs):.1f}"),
            f"{np.median(theirs / ours):.1f}",
        )
    CONSOLE.print(results)


def time_case(case: Case, times: dict[str, list[float]]) -> None:
    """Append the seconds per row of each run to `times`."""
    path = case.path
    n = path.read_bytes().count(b"\n")

    def progressive() -> None:
        streaml1.progressive(elastic_net(0.1, **case.options), open_file(path), every=100_000)

    runs: dict[str, Callable[[], float]] = {
        "read": lambda: process_seconds(lambda: read_bytes(path)),
        "parse": lambda: process_seconds(lambda: parse_file(path)),
        "learn": lambda: process_seconds(lambda: learn(case)),
        "progressive": lambda: process_seconds(progressive),
        "line parser": lambda: n * slow_parser_seconds(path),
        "vw": lambda: vowpal_wabbit(case.rival),
    }
    for what, run in runs.items():
        times.setdefault(what, []).append(run() / n)


def cells(case: Case, times: dict[str, list[float]]) -> list[str]:
    size, n = case.path.stat().st_size, case.path.read_bytes().count(b"\n")
    us = {run: np.array(rounds[1:]) * 1e6 for run, rounds in times.items()}
    median = {run: float(np.median(rounds)) for run, rounds in us.items()}
    return [
        f"{size / n:.0f}", f"{median['read']:.2f}", f"{median['parse']:.2f}",
        f"{size / n / median['parse']:,.0f}", f"{np.median(us['line parser'] / us['parse']):.0f}",
        f"{median['learn']:.2f}", f"{median['progressive']:.2f}", f"{median['vw']:.2f}",
        f"{np.median(us['vw'] / us['learn']):.2f}",
    ]  # fmt: skip
