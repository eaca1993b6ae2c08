"""Crossed features, compared with the same non-zeros as plain features and Vowpal Wabbit's `-q`.

Each round runs all pairs of a table in one process. A ratio is formed within each round; its median
over the rounds is printed with the time per row. Times are CPU times. Vowpal Wabbit runs in the
interpreter that `VW_PYTHON` names, if installed there. Both learn a file from the page cache on one
core.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import bench_rivals
import numpy as np
from bench_kit import CONSOLE, new_table, process_seconds, single_core

import streaml1
from streaml1.features.ngrams import NGrams

ROUNDS = 7
L1 = 1e-4
BITS = 22


Row = dict[str, Any]
Cross = list[tuple[str, ...]]
LearnDicts = Callable[[Any, Any, list[bool]], None]


def click_rows(n: int, columns: int, rng: Any) -> list[Row]:
    """Draw rows of categories, most of them frequent and some of them new."""
    data = np.minimum(rng.zipf(1.5, (n, columns)), 5000)
    return [{f"C{k}": f"{v:x}" for k, v in enumerate(row)} for row in data.tolist()]


def mail_rows(n: int, rng: Any) -> list[Row]:
    """Draw rows of a site and 87 words with values."""
    rows = []
    for site in np.minimum(rng.zipf(1.5, n), 50).tolist():
        tokens = np.unique(np.minimum(rng.zipf(1.3, 120), 20000))[:87]
        row: Row = {"site": f"s{site}"}
        row |= {f"text^{token}": 1.5 for token in tokens.tolist()}
        rows.append(row)
    return rows


def plain_rows(rows: list[Row], cross: Cross) -> list[Row]:
    """Convert crossed rows to plain ones with the same non-zeros, each with a name."""
    return [plain_row(row, cross) for row in rows]


def plain_row(row: Row, cross: Cross) -> Row:
    plain = {f"{k}={v}" if isinstance(v, str) else k: v for k, v in row.items()}
    values = {name: 1.0 if isinstance(v, str) else v for name, v in plain.items()}
    groups: dict[str, list[str]] = {}
    for name in values:
        groups.setdefault(name.split("=")[0].split("^")[0], []).append(name)
    crossed = {}
    for a, b in cross:
        for i, first in enumerate(groups[a]):
            for second in groups[b][i + 1 :] if a == b else groups[b]:
                crossed[crossed_name(first, second)] = values[first] * values[second]
    return {**row, **crossed}


def crossed_name(first: str, second: str) -> str:
    """Join two names without `=`, because a name with `=` is also looked up as a category."""
    return f"{first} x {second}".replace("=", "~")


def steady_seconds(work: Callable[[], Any]) -> float:
    """Time the second of two runs, in which freed memory of the first is available."""
    work()
    return process_seconds(work)


def one_by_one(model: Any, rows: list[Row], y: list[bool]) -> None:
    for x, label in zip(rows, y, strict=True):
        model.predict_one(x)
        model.learn_one(x, label)


def in_batches(model: Any, rows: list[Row], y: list[bool]) -> None:
    for k in range(0, len(rows), 1000):
        model.learn_many(rows[k : k + 1000], y[k : k + 1000])


def vw_text(rows: list[Row], y: list[bool]) -> str:
    """Format rows as Vowpal Wabbit text; the part before the first = or ^ is the namespace."""
    lines = []
    for row, label in zip(rows, y, strict=True):
        spaces: dict[str, list[str]] = {}
        for name, v in row.items():
            if " x " in name:
                spaces.setdefault("", []).append(f"{name.replace(' x ', '*')}:{v}")
            elif isinstance(v, str):
                spaces.setdefault(name, []).append(v)
            else:
                space, word = name.split("^")
                spaces.setdefault(space, []).append(f"{word}:{v}")
        namespaces = " ".join(f"|{space} {' '.join(tokens)}" for space, tokens in spaces.items())
        lines.append(f"{1 if label else -1} {namespaces}\n")
    return "".join(lines)


def learn_file(path: Path, cross: Cross | None, **params: Any) -> None:
    model = streaml1.ElasticNetClassifier(l1=L1, cross=cross, **params)
    streaml1.progressive(model, str(path), every=10**9)


class Pair(NamedTuple):
    """A run, the run to compare it with, and their number of rows."""

    run: Callable[[], Any]
    base: Callable[[], Any]
    n: int


def compare(rounds: int, pairs: Sequence[Pair]) -> list[str]:
    """Format, for each pair, the median ratio of both times and the median time per row of `run`.

    Each round has all pairs, so that a temporary load of the machine affects one round of all pairs
    and not all rounds of one pair.
    """
    seconds: list[list[tuple[float, float]]] = [[] for _ in pairs]
    for _ in range(rounds):
        for pair, times in zip(pairs, seconds, strict=True):
            times.append((steady_seconds(pair.run), steady_seconds(pair.base)))
    cells = []
    for pair, times in zip(pairs, seconds, strict=True):
        ratio = statistics.median(a / b for a, b in times)
        us = 1e6 * statistics.median(a for a, _ in times) / pair.n
        cells.append(f"{ratio:.2f} ({us:.1f} us)")
    return cells


def vw_seconds(path: Path, cross: Cross) -> float:
    pairs = " ".join(f"--interactions {a}{b}" for a, b in cross)
    return bench_rivals.vowpal_wabbit_seconds(
        f"-d {path} -b {BITS} --loss_function logistic --l1 {L1} {pairs}"
    )


def with_letter_namespaces(rows: list[Row], cross: Cross) -> tuple[list[Row], Cross]:
    """Rename namespaces to single letters, because `-q` compares only the first letter."""
    namespaces = list(dict.fromkeys(name.split("^")[0] for row in rows[:1] for name in row))
    letters = {space: chr(97 + k) if k < 26 else chr(39 + k) for k, space in enumerate(namespaces)}
    renamed = [
        {name.replace(space, letters[space], 1): v for name, v in row.items()
         for space in [name.split("^")[0]]}
        for row in rows
    ]  # fmt: skip
    return renamed, [(letters[a], letters[b]) for a, b in cross]


def learner_run(learn: LearnDicts, rows: Any, y: list[bool], **params: Any) -> Callable[[], None]:
    return lambda: learn(streaml1.ElasticNetClassifier(l1=L1, **params), rows, y)


def dict_pairs(rows: list[Row], cross: Cross, y: list[bool]) -> Iterator[Pair]:
    """Yield pairs of dicts: one by one and in batches, with names kept and hashed."""
    plain = plain_rows(rows, cross)
    for learn in (one_by_one, in_batches):
        for bits in (None, BITS):
            crossed = learner_run(learn, rows, y, cross=cross, hash_bits=bits)
            yield Pair(crossed, learner_run(learn, plain, y, hash_bits=bits), len(rows))


class CrossFiles(NamedTuple):
    """Vowpal Wabbit text files: rows to be crossed, and plain rows with the same non-zeros."""

    crossed: Path
    plain: Path
    cross: Cross
    n: int

    @staticmethod
    def write(directory: Path, rows: list[Row], cross: Cross, y: list[bool]) -> CrossFiles:
        """Write the files to a new directory."""
        directory.mkdir()
        rows, cross = with_letter_namespaces(rows, cross)
        crossed, plain = directory / "crossed.vw", directory / "plain.vw"
        crossed.write_text(vw_text(rows, y))
        plain.write_text(vw_text(plain_rows(rows, cross), y))
        return CrossFiles(crossed, plain, cross, len(rows))

    def pairs(self) -> Iterator[Pair]:
        """Yield pairs of files: with names kept, and hashed."""
        for bits in (None, BITS):
            ours = partial(learn_file, self.crossed, self.cross, hash_bits=bits)
            yield Pair(ours, partial(learn_file, self.plain, None, hash_bits=bits), self.n)

    def vowpal_wabbit(self, rounds: int) -> str:
        """Format the median time per row of Vowpal Wabbit."""
        seconds = statistics.median(vw_seconds(self.crossed, self.cross) for _ in range(rounds))
        return "not installed" if math.isnan(seconds) else f"{1e6 * seconds / self.n:.1f} us"


def learn_frame(model: Any, rows: Any, y: list[bool]) -> None:
    for k in range(0, len(rows), 1000):
        model.learn_many(rows.iloc[k : k + 1000], y[k : k + 1000])


def learn_path(model: Any, path: Any, y: list[bool]) -> None:
    options = {"target": "y"} if path.suffix == ".csv" else {}
    streaml1.progressive(model, str(path), every=10**9, **options)


def write_jsonl(path: Path, rows: list[Row], y: list[bool]) -> Path:
    lines = [json.dumps({"x": x, "y": label}) for x, label in zip(rows, y, strict=True)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def text_cases(directory: Path, n: int, rng: Any) -> Iterator[tuple[str, Pair, Pair]]:
    """Yield texts of 60 words, paired with the same rows as named word n-grams up to length 2."""
    import pandas

    words = [f"w{k}" for k in range(5000)]
    ranks = np.minimum(rng.zipf(1.3, (n, 60)), 4999).tolist()
    rows: list[Row] = [{"message": " ".join(words[k] for k in row)} for row in ranks]
    y = (rng.random(n) < 0.3).tolist()
    ngrams = NGrams(["message"], 2)
    named = [dict(ngrams.expand(x)) for x in rows]
    jsonl = write_jsonl(directory / "raw.jsonl", rows, y)
    named_jsonl = write_jsonl(directory / "named.jsonl", named, y)
    csv = directory / "raw.csv"
    lines = [f"{int(label)},{x['message']}\n" for x, label in zip(rows, y, strict=True)]
    csv.write_text("y,message\n" + "".join(lines))
    vw, named_vw = directory / "raw.vw", directory / "named.vw"
    vw.write_text(
        "".join(f"{int(label)} |message {x['message']}\n" for x, label in zip(rows, y, strict=True))
    )
    named_vw.write_text(
        "".join(f"{int(label)} | {vw_features(x)}\n" for x, label in zip(named, y, strict=True))
    )
    options: dict[str, Any] = {"text": ["message"], "ngrams": 2}
    for name, learn, raw, learn_base, base in (
        ("dicts one by one", one_by_one, rows, one_by_one, named),
        ("dicts in batches of 1,000", in_batches, rows, in_batches, named),
        ("data frame / dicts", learn_frame, pandas.DataFrame(rows), in_batches, named),
        ("JSON lines", learn_path, jsonl, learn_path, named_jsonl),
        ("CSV / JSON lines", learn_path, csv, learn_path, named_jsonl),
        (".vw lines", learn_path, vw, learn_path, named_vw),
    ):
        kept, hashed = (
            Pair(learner_run(learn, raw, y, hash_bits=bits, **options),
                 learner_run(learn_base, base, y, hash_bits=bits), n)
            for bits in (None, BITS)
        )  # fmt: skip
        yield name, kept, hashed


def vw_features(x: Row) -> str:
    """Format features for a `.vw` line, in which names have no blanks."""
    return " ".join(f"{name.replace(' ', '_')}:{v}" for name, v in x.items())


def bytes_per_cross(n: int) -> float:
    """Return the bytes per crossed feature: memory of a model with crosses less one without."""
    rows: list[Row] = [{"a": f"{k // 100}", "b": f"{k % 100}"} for k in range(n)]
    sizes = []
    for cross in (None, [("a", "b")]):
        model = streaml1.ElasticNetClassifier(l1=0.0, cross=cross)
        model.learn_many(rows, [True] * n)
        sizes.append(model._raw_memory_usage)
        assert len(model.weights) >= (n if cross else 0)
    return (sizes[1] - sizes[0]) / n


def bench_cross() -> None:
    """Measure crossed features, and compare them with `-q` of Vowpal Wabbit."""
    bench_rivals.python()
    with single_core():
        compare_all(ROUNDS)


def compare_all(rounds: int, size: int = 1) -> None:
    """Print all tables; `size` multiplies the number of rows."""
    rng = np.random.default_rng(7)
    ten, all_columns = click_rows(20_000 * size, 10, rng), click_rows(600 * size, 39, rng)
    all_pairs = list(combinations([f"C{k}" for k in range(39)], 2))
    cases: list[tuple[str, list[Row], Cross]] = [
        ("10 categories, 3 pairs", ten, list(combinations(["C0", "C1", "C2"], 2))),
        ("10 categories, 15 pairs", ten, list(combinations([f"C{k}" for k in range(6)], 2))),
        ("39 categories, all 741 pairs", all_columns, all_pairs),
        ("a site x 87 words", mail_rows(2000 * size, rng), [("site", "text")]),
        ("87 words x one another", mail_rows(100 * size, rng), [("text", "text")]),
    ]
    labelled = [(*case, (rng.random(len(case[1])) < 0.3).tolist()) for case in cases]
    columns = [f"{api}, {names}" for api in ("one", "many") for names in ("names", "hashed")]
    table = new_table(
        "Crossed dicts: time relative to plain features with the same non-zeros", "rows", *columns
    )
    cells = compare(rounds, [pair for _, *case in labelled for pair in dict_pairs(*case)])
    for k, (name, *_) in enumerate(labelled):
        table.add_row(name, *cells[4 * k : 4 * k + 4])
    CONSOLE.print(table)
    table = new_table(
        "Crossed .vw lines: time relative to plain text with the same non-zeros",
        "rows", "names", "hashed", "vw -q",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        files = [CrossFiles.write(Path(directory) / f"{k}", *labelled[k][1:]) for k in range(4)]
        cells = compare(rounds, [pair for case in files for pair in case.pairs()])
        for k, case in enumerate(files):
            table.add_row(labelled[k][0], *cells[2 * k : 2 * k + 2], case.vowpal_wabbit(rounds))
    CONSOLE.print(table)
    table = new_table(
        "Raw text: time relative to the same word n-grams as named features",
        "60 words", "names", "hashed",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        texts = list(text_cases(Path(directory), 2000 * size, rng))
        cells = compare(rounds, [pair for _, *pairs in texts for pair in pairs])
        for k, (name, *_) in enumerate(texts):
            table.add_row(name, *cells[2 * k : 2 * k + 2])
    CONSOLE.print(table)
    table = new_table("Memory of crossed features", "features", "bytes each")
    for n in (50_000 * size, 200_000 * size):
        table.add_row(f"{n:,}", f"{bytes_per_cross(n):.0f}")
    CONSOLE.print(table)
