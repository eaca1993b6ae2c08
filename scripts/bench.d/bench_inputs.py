"""The same rows in every input format, compared with a bare kernel; compressed text."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from bench_kit import (
    CONSOLE,
    bare_run,
    csr_dicts,
    elastic_net,
    interleave,
    new_table,
    process_seconds,
    random_words,
    single_core,
    w1,
)
from bench_rows import ONE_REPORT, ROUNDS, MatrixSource, learn, reject, write_vw

import streaml1
from streaml1.sources import open_source
from streaml1.sources.readers import decompression
from streaml1.training import convert


def bench_inputs(rounds: int = ROUNDS) -> None:
    """Compare passes over the same rows of W1, in each input format, with the bare kernel."""
    X, y = w1(20_000)
    n = X.shape[0]
    dicts = csr_dicts(X, random_words(X.shape[1], seed=0))
    labels = y.tolist()
    with single_core(), tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        paths = {kind: directory / f"w1.{kind}" for kind in ("rows", "svm", "vw", "jsonl")}
        convert(MatrixSource(X, y), paths["rows"], format="svmlight")
        write_texts(paths, dicts, csr_dicts(X), labels)
        convert(paths["vw"], directory / "named.rows")

        def one_by_one() -> None:
            learner = elastic_net(3.0)
            for x, label in zip(dicts, labels, strict=True):
                learner.predict_proba_one(x)
                learner.learn_one(x, label)

        def file(path: Path, **options: Any) -> Callable[[], Any]:
            return lambda: learn(open_source(path), elastic_net(3.0, **options))

        inputs: dict[str, tuple[Callable[[], Any], str]] = {
            "bare gather and scatter": (bare_run(X, y, 3.0), "memory: weights spread over 2 MB"),
            "matrix": (
                lambda: elastic_net(3.0).progressive_many(X, y),
                "the penalty's part of a step",
            ),
            ".rows of ids": (file(paths["rows"]), "reading 1 kB a row, its checksum, the step"),
            ".rows of ids, with a report": (
                lambda: streaml1.progressive(elastic_net(3.0), paths["rows"], every=ONE_REPORT),
                "sums of the losses, the last line",
            ),
            "svmlight": (file(paths["svm"]), "parsing floats"),
            ".rows of words, names kept": (
                file(directory / "named.rows"),
                "new names, one vocabulary lookup per name",
            ),
            ".vw of words, 22 bits": (file(paths["vw"], hash_bits=22), "hashing, parsing floats"),
            ".vw of words, names kept": (
                file(paths["vw"]),
                "new names, one vocabulary lookup per name",
            ),
            "JSON lines of words": (file(paths["jsonl"]), "parsing JSON, then as .vw"),
            "dicts, one by one": (one_by_one, "hashes of Python strings, reading each dict twice"),
        }
        seconds = interleave(
            {name: run for name, (run, _) in inputs.items()}, rounds, process_seconds
        )
    base = seconds["bare gather and scatter"]
    results = new_table(
        f"{n:,} rows of W1, {X.nnz / n:.1f} non-zeros, from an empty model",
        *("input", "us/row", "x bare", "dominated by"),
    )
    for what, times in seconds.items():
        results.add_row(
            what, f"{np.median(times) / n * 1e6:.2f}", f"{np.median(times / base):.1f}",
            inputs[what][1],
        )  # fmt: skip
    CONSOLE.print(results)


def write_texts(paths: dict[str, Path], dicts: Any, id_dicts: Any, labels: Any) -> None:
    with open(paths["svm"], "w") as svm, open(paths["vw"], "w") as vw:
        for x, by_id, y in zip(dicts, id_dicts, labels, strict=True):
            svm.write(f"{2 * y - 1} " + " ".join(map("%d:%.6g".__mod__, by_id.items())) + "\n")
            vw.write(f"{2 * y - 1} | " + " ".join(f"{k}:{v:.6g}" for k, v in x.items()) + "\n")
    with open(paths["jsonl"], "wb") as lines:
        for x, y in zip(dicts, labels, strict=True):
            lines.write(orjson.dumps({"x": x, "y": y}) + b"\n")


def bench_gzip(rounds: int = ROUNDS) -> None:
    """Compare decompression by the standard library and by isal."""
    results = new_table("W1 as svmlight, .gz: us/row", "", "read", "x plain text")
    X, y = w1(20_000)
    with single_core(), tempfile.TemporaryDirectory() as name:
        path = Path(name) / "w1.svm"
        write_vw(X, y, path)
        path.write_text(path.read_text().replace(" | ", " "))
        compressed = path.with_name("w1.svm.gz")
        compressed.write_bytes(gzip.compress(path.read_bytes(), 6))

        def parser(source: Path, fast: bool) -> Callable[[], None]:
            def run() -> None:
                available, decompression.FAST = decompression.FAST, fast and decompression.FAST
                parse(source)
                decompression.FAST = available

            return run

        runs = {"plain text": parser(path, False), "gzip": parser(compressed, False)}
        if decompression.FAST:
            runs["isal"] = parser(compressed, True)
        seconds = interleave(runs, rounds, process_seconds)
    for what, times in seconds.items():
        ratio = np.median(times / seconds["plain text"])
        results.add_row(what, f"{np.median(times) / X.shape[0] * 1e6:.2f}", f"{ratio:.2f}")
    CONSOLE.print(results)


def parse(path: Path) -> None:
    source = open_source(path)
    for _ in source.blocks(source.block, reject):
        pass
