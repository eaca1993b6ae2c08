"""The same rows by every road, and how far each is from a bare kernel; packed text."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from bench_kit import CONSOLE, bare_run, model, one_core, table, w1
from bench_rows import HUGE, ROUNDS, Memory, learn, processor_seconds, refuse, vw_lines

import streaml1
from streaml1.sources import open_source
from streaml1.sources.readers import decompression as gzips
from streaml1.training import convert


def bench_roads(rounds: int = ROUNDS) -> None:
    """The same rows of W1 by each road, and how far each is from the bare kernel."""
    X, y = w1(20_000)
    n = X.shape[0]
    letters = np.random.default_rng(0).integers(97, 123, (X.shape[1], 6), dtype=np.uint8)
    words = [f"{bytes(row).decode()}{k % 97}" for k, row in enumerate(letters)]
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    dicts = [
        {words[j]: v for j, v in zip(ids[a:b], values[a:b], strict=True)}
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
    labels = y.tolist()
    with one_core(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {kind: folder / f"w1.{kind}" for kind in ("rows", "svm", "vw", "jsonl")}
        convert(Memory(X, y), paths["rows"], format="svmlight")
        _texts(paths, dicts, ids, values, ends, labels)
        convert(paths["vw"], folder / "named.rows")

        def one_by_one() -> None:
            one = model(3.0)
            for x, label in zip(dicts, labels, strict=True):
                one.predict_proba_one(x)
                one.learn_one(x, label)

        def of(path: Path, **options: Any) -> Callable[[], Any]:
            return lambda: learn(open_source(path), model(3.0, **options))

        roads: dict[str, tuple[Callable[[], Any], str]] = {
            "bare gather and scatter": (bare_run(X, y, 3.0), "memory: weights spread over 2 MB"),
            "matrix": (lambda: model(3.0).progressive_many(X, y), "the penalty's part of a step"),
            ".rows of ids": (of(paths["rows"]), "reading 1 kB a row, its sum, the step"),
            ".rows of ids, with its report": (
                lambda: streaml1.progressive(model(3.0), paths["rows"], every=HUGE),
                "sums of the losses, the last line",
            ),
            "svmlight": (of(paths["svm"]), "digits to floats"),
            ".rows of words, names kept": (
                of(folder / "named.rows"),
                "new names, a look at a table a name",
            ),
            ".vw of words, 22 bits": (of(paths["vw"], hash_bits=22), "hashing, digits to floats"),
            ".vw of words, names kept": (of(paths["vw"]), "new names, a look at a table a name"),
            "JSON lines of words": (of(paths["jsonl"]), "reading JSON, then as .vw"),
            "dicts, one by one": (one_by_one, "hashes of Python strings, two walks of each dict"),
        }
        took: dict[str, list[float]] = {}
        for _ in range(rounds + 1):
            for what, (run, _) in roads.items():
                took.setdefault(what, []).append(processor_seconds(run))
    base = np.array(took["bare gather and scatter"][1:])
    made = table(
        f"{n:,} rows of W1, {X.nnz / n:.1f} non-zeros, from an empty model",
        *("road", "us/row", "x bare", "what holds it there"),
    )
    for what, each in took.items():
        times = np.array(each[1:])
        made.add_row(
            what, f"{np.median(times) / n * 1e6:.2f}", f"{np.median(times / base):.1f}",
            roads[what][1],
        )  # fmt: skip
    CONSOLE.print(made)


def _texts(
    paths: dict[str, Path], dicts: Any, ids: Any, values: Any, ends: Any, labels: Any
) -> None:
    with open(paths["svm"], "w") as svm, open(paths["vw"], "w") as vw:
        for i, (x, y) in enumerate(zip(dicts, labels, strict=True)):
            pairs = zip(ids[ends[i] : ends[i + 1]], values[ends[i] : ends[i + 1]], strict=True)
            svm.write(f"{2 * y - 1} " + " ".join(map("%d:%.6g".__mod__, pairs)) + "\n")
            vw.write(f"{2 * y - 1} | " + " ".join(f"{k}:{v:.6g}" for k, v in x.items()) + "\n")
    with open(paths["jsonl"], "wb") as lines:
        for x, y in zip(dicts, labels, strict=True):
            lines.write(orjson.dumps({"x": x, "y": y}) + b"\n")


def bench_gzip(rounds: int = ROUNDS) -> None:
    """Packed text read by the standard library and by isal."""
    made = table("W1 as svmlight, .gz: us/row", "", "read", "x plain text")
    X, y = w1(20_000)
    with one_core(), tempfile.TemporaryDirectory() as name:
        path = Path(name) / "w1.svm"
        vw_lines(X, y, path)
        path.write_text(path.read_text().replace(" | ", " "))
        packed = path.with_name("w1.svm.gz")
        packed.write_bytes(gzip.compress(path.read_bytes(), 6))
        took: dict[str, list[float]] = {}
        for _ in range(rounds + 1):
            for what, source, fast in (
                ("plain text", path, False),
                ("gzip", packed, False),
                ("isal", packed, True),
            ):
                if fast and not gzips.FAST:
                    continue
                have, gzips.FAST = gzips.FAST, fast and gzips.FAST
                run = lambda source=source: _through(source)  # noqa: E731
                took.setdefault(what, []).append(processor_seconds(run))
                gzips.FAST = have
    for what, each in took.items():
        ratio = np.median(np.array(each[1:]) / np.array(took["plain text"][1:]))
        made.add_row(what, f"{np.median(each[1:]) / X.shape[0] * 1e6:.2f}", f"{ratio:.2f}")
    CONSOLE.print(made)


def _through(path: Path) -> None:
    source = open_source(path)
    for _ in source.blocks(source.block, refuse):
        pass
