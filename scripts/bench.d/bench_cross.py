"""Crossed features beside the same non-zeros given plainly, and beside `-q` of Vowpal Wabbit.

What is compared runs in turn, all of a table in each round, in one process; a ratio is formed
within each round, and its median over the rounds is printed, with the time of a row. Times are
those of the processor. Vowpal Wabbit is asked for in the Python that `VW_PYTHON` names, where it is
installed: it learns a file from memory with one core, and so do we.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streaml1
from streaml1.features.ngrams import NGrams

ROUNDS = 7
L1 = 1e-4
BITS = 22

VW = """
import sys, time
import vowpalwabbit
begin = time.process_time()
vowpalwabbit.Workspace(sys.argv[1]).finish()
print(time.process_time() - begin)
"""

Row = dict[str, Any]
Cross = list[tuple[str, ...]]
Learn = Callable[[Any, Any, list[bool]], None]


def clicks(n: int, columns: int, rng: Any) -> list[Row]:
    """Categories, most of them well known and some of them new."""
    data = np.minimum(rng.zipf(1.5, (n, columns)), 5000)
    return [{f"C{k}": f"{v:x}" for k, v in enumerate(row)} for row in data.tolist()]


def mails(n: int, rng: Any) -> list[Row]:
    """A site and 87 words with values."""
    rows = []
    for site in np.minimum(rng.zipf(1.5, n), 50).tolist():
        words = np.unique(np.minimum(rng.zipf(1.3, 120), 20000))[:87]
        row: Row = {"site": f"s{site}"}
        row |= {f"text^{word}": 1.5 for word in words.tolist()}
        rows.append(row)
    return rows


def given(rows: list[Row], cross: Cross) -> list[Row]:
    """The same non-zeros with a name each."""
    return [_given(row, cross) for row in rows]


def _given(row: Row, cross: Cross) -> Row:
    plain = {f"{k}={v}" if isinstance(v, str) else k: v for k, v in row.items()}
    values = {name: 1.0 if isinstance(v, str) else v for name, v in plain.items()}
    groups: dict[str, list[str]] = {}
    for name in values:
        groups.setdefault(name.split("=")[0].split("^")[0], []).append(name)
    crossed = {}
    for a, b in cross:
        for i, one in enumerate(groups[a]):
            for other in groups[b][i + 1 :] if a == b else groups[b]:
                crossed[_joined(one, other)] = values[one] * values[other]
    return {**row, **crossed}


def _joined(one: str, other: str) -> str:
    """Without `=`: names that have it and come whole are looked for as categories too."""
    return f"{one} x {other}".replace("=", "~")


def seconds(work: Callable[[], Any]) -> float:
    """Of a stream that goes on: memory that the run before has given back is at hand."""
    work()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def one_by_one(model: Any, rows: list[Row], y: list[bool]) -> None:
    for x, label in zip(rows, y, strict=True):
        model.predict_one(x)
        model.learn_one(x, label)


def together(model: Any, rows: list[Row], y: list[bool]) -> None:
    for k in range(0, len(rows), 1000):
        model.learn_many(rows[k : k + 1000], y[k : k + 1000])


def text(rows: list[Row], y: list[bool]) -> str:
    """The rows as lines of Vowpal Wabbit: what is before the first = or ^ is the namespace."""
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
        told = " ".join(f"|{space} {' '.join(words)}" for space, words in spaces.items())
        lines.append(f"{1 if label else -1} {told}\n")
    return "".join(lines)


def learnt(path: Path, cross: Cross | None, **params: Any) -> None:
    model = streaml1.ElasticNetClassifier(l1=L1, cross=cross, **params)
    streaml1.progressive(model, str(path), every=10**9)


class Pair(NamedTuple):
    """What is compared, and how many rows it is."""

    ours: Callable[[], Any]
    other: Callable[[], Any]
    n: int


def in_turn(rounds: int, pairs: Sequence[Pair]) -> list[str]:
    """Of each pair the median of the ratio of both times, and that of the time of a row of `ours`.

    Each round has all pairs: what else a machine does for a minute is in one round of all of them,
    not in all rounds of one.
    """
    took: list[list[tuple[float, float]]] = [[] for _ in pairs]
    for _ in range(rounds):
        for pair, times in zip(pairs, took, strict=True):
            times.append((seconds(pair.ours), seconds(pair.other)))
    told = []
    for pair, times in zip(pairs, took, strict=True):
        ratio = statistics.median(a / b for a, b in times)
        told.append(f"{ratio:.2f} ({1e6 * statistics.median(a for a, _ in times) / pair.n:.1f} us)")
    return told


def vw_seconds(path: Path, cross: Cross) -> float | None:
    python = os.environ.get("VW_PYTHON", sys.executable)
    pairs = " ".join(f"--interactions {a}{b}" for a, b in cross)
    asked = f"-d {path} -b 22 --loss_function logistic --l1 {L1} --quiet {pairs}"
    done = subprocess.run([python, "-c", VW, asked], capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def letters(rows: list[Row], cross: Cross) -> tuple[list[Row], Cross]:
    """With namespaces that differ in their first letter, which is all that -q looks at."""
    heads = list(dict.fromkeys(name.split("^")[0] for row in rows[:1] for name in row))
    names = {head: chr(97 + k) if k < 26 else chr(39 + k) for k, head in enumerate(heads)}
    renamed = [
        {name.replace(head, names[head], 1): v for name, v in row.items()
         for head in [name.split("^")[0]]}
        for row in rows
    ]  # fmt: skip
    return renamed, [(names[a], names[b]) for a, b in cross]


def run(learn: Learn, rows: Any, y: list[bool], **params: Any) -> Callable[[], None]:
    return lambda: learn(streaml1.ElasticNetClassifier(l1=L1, **params), rows, y)


def in_memory(rows: list[Row], cross: Cross, y: list[bool]) -> Iterator[Pair]:
    """Dicts, with their names and hashed, by either road."""
    plain = given(rows, cross)
    for learn in (one_by_one, together):
        for bits in (None, BITS):
            crossed = run(learn, rows, y, cross=cross, hash_bits=bits)
            yield Pair(crossed, run(learn, plain, y, hash_bits=bits), len(rows))


class Files(NamedTuple):
    """Text of Vowpal Wabbit: rows to be crossed, and the same non-zeros given plainly."""

    crossed: Path
    whole: Path
    cross: Cross
    n: int

    @staticmethod
    def of(folder: Path, rows: list[Row], cross: Cross, y: list[bool]) -> Files:
        """Write them."""
        folder.mkdir()
        rows, cross = letters(rows, cross)
        crossed, whole = folder / "crossed.vw", folder / "plain.vw"
        crossed.write_text(text(rows, y))
        whole.write_text(text(given(rows, cross), y))
        return Files(crossed, whole, cross, len(rows))

    def pairs(self) -> Iterator[Pair]:
        """With names, and hashed."""
        for bits in (None, BITS):
            ours = partial(learnt, self.crossed, self.cross, hash_bits=bits)
            yield Pair(ours, partial(learnt, self.whole, None, hash_bits=bits), self.n)

    def theirs(self, rounds: int) -> str:
        """What Vowpal Wabbit takes."""
        took = [vw_seconds(self.crossed, self.cross) for _ in range(rounds)]
        known = [one for one in took if one is not None]
        return f"{1e6 * statistics.median(known) / self.n:.1f} us" if known else "not here"


def framed(model: Any, rows: Any, y: list[bool]) -> None:
    for k in range(0, len(rows), 1000):
        model.learn_many(rows.iloc[k : k + 1000], y[k : k + 1000])


def filed(model: Any, path: Any, y: list[bool]) -> None:
    how = {"target": "y"} if path.suffix == ".csv" else {}
    streaml1.progressive(model, str(path), every=10**9, **how)


def lines_of(path: Path, rows: list[Row], y: list[bool]) -> Path:
    lines = [json.dumps({"x": x, "y": one}) for x, one in zip(rows, y, strict=True)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def words(folder: Path, n: int, rng: Any) -> Iterator[tuple[str, Pair, Pair]]:
    """Texts of 60 words to words and pairs of neighbours, beside the same given by name."""
    import pandas

    known = [f"w{k}" for k in range(5000)]
    picked = np.minimum(rng.zipf(1.3, (n, 60)), 4999).tolist()
    rows: list[Row] = [{"message": " ".join(known[k] for k in row)} for row in picked]
    y = (rng.random(n) < 0.3).tolist()
    reader = NGrams(["message"], 2)
    plain = [dict(reader.of(x)) for x in rows]
    raw, whole = lines_of(folder / "a.jsonl", rows, y), lines_of(folder / "b.jsonl", plain, y)
    table = folder / "a.csv"
    texts = [f"{int(one)},{x['message']}\n" for x, one in zip(rows, y, strict=True)]
    table.write_text("y,message\n" + "".join(texts))
    line, named = folder / "a.vw", folder / "b.vw"
    told = zip(y, rows, plain, strict=True)
    pairs = [
        (f"{int(one)} |message {x['message']}\n", f"{int(one)} | {_features(names)}\n")
        for one, x, names in told
    ]
    line.write_text("".join(a for a, _ in pairs))
    named.write_text("".join(b for _, b in pairs))
    asked: dict[str, Any] = {"text": ["message"], "ngrams": 2}
    for road, ours, given_raw, other, given_plain in (
        ("dicts one by one", one_by_one, rows, one_by_one, plain),
        ("dicts, a thousand together", together, rows, together, plain),
        ("a frame, beside dicts", framed, pandas.DataFrame(rows), together, plain),
        ("JSON lines", filed, raw, filed, whole),
        ("CSV, beside JSON lines", filed, table, filed, whole),
        ("lines of .vw", filed, line, filed, named),
    ):
        names, hashed = (
            Pair(run(ours, given_raw, y, hash_bits=bits, **asked),
                 run(other, given_plain, y, hash_bits=bits), n)
            for bits in (None, BITS)
        )  # fmt: skip
        yield road, names, hashed


def _features(x: Row) -> str:
    """As in a line of `.vw`, in which names have no blanks."""
    return " ".join(f"{name.replace(' ', '_')}:{v}" for name, v in x.items())


def bytes_of_a_cross(n: int) -> float:
    """Bytes that a model holds for each crossed feature: beside one that has none of them."""
    rows: list[Row] = [{"a": f"{k // 100}", "b": f"{k % 100}"} for k in range(n)]
    held = []
    for cross in (None, [("a", "b")]):
        model = streaml1.ElasticNetClassifier(l1=0.0, cross=cross)
        model.learn_many(rows, [True] * n)
        held.append(model._raw_memory_usage)
        assert len(model.weights) >= (n if cross else 0)
    return (held[1] - held[0]) / n


def bench(table: Any, say: Callable[[Any], Any], rounds: int = ROUNDS, size: int = 1) -> None:
    """Say all tables; `table` makes one of a title and the names of its columns."""
    rng = np.random.default_rng(7)
    ten, all_of = clicks(20_000 * size, 10, rng), clicks(600 * size, 39, rng)
    every = list(combinations([f"C{k}" for k in range(39)], 2))
    cases: list[tuple[str, list[Row], Cross]] = [
        ("10 categories, 3 pairs", ten, list(combinations(["C0", "C1", "C2"], 2))),
        ("10 categories, 15 pairs", ten, list(combinations([f"C{k}" for k in range(6)], 2))),
        ("39 categories, all 741 pairs", all_of, every),
        ("a site x 87 words", mails(2000 * size, rng), [("site", "text")]),
        ("87 words x one another", mails(100 * size, rng), [("text", "text")]),
    ]
    labelled = [(*case, (rng.random(len(case[1])) < 0.3).tolist()) for case in cases]
    heads = [f"{road}, {how}" for road in ("one by one", "many") for how in ("names", "hashed")]
    shown = table("Crossed dicts: time to that of the same non-zeros given plainly", "rows", *heads)
    told = in_turn(rounds, [pair for _, *case in labelled for pair in in_memory(*case)])
    for k, (name, *_) in enumerate(labelled):
        shown.add_row(name, *told[4 * k : 4 * k + 4])
    say(shown)
    shown = table(
        "Crossed lines of .vw: time to that of the same non-zeros as text",
        "rows", "names", "hashed", "vw -q",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        files = [Files.of(Path(folder) / f"{k}", *labelled[k][1:]) for k in range(4)]
        told = in_turn(rounds, [pair for one in files for pair in one.pairs()])
        for k, one in enumerate(files):
            shown.add_row(labelled[k][0], *told[2 * k : 2 * k + 2], one.theirs(rounds))
    say(shown)
    shown = table("Raw text: time to that of the same words and pairs as names",
                  "60 words", "names", "hashed")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        roads = list(words(Path(folder), 2000 * size, rng))
        told = in_turn(rounds, [pair for _, *both in roads for pair in both])
        for k, (road, *_) in enumerate(roads):
            shown.add_row(road, *told[2 * k : 2 * k + 2])
    say(shown)
    shown = table("Memory of crossed features", "features", "bytes each")
    for n in (50_000 * size, 200_000 * size):
        shown.add_row(f"{n:,}", f"{bytes_of_a_cross(n):.0f}")
    say(shown)
