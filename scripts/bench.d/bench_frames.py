"""Learn data frames, Parquet and Arrow files, compared with the same rows as CSV.

The rows of nested columns have the same features, in a struct or in a list.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
from bench_kit import CONSOLE, clicks, elastic_net, interleave, new_table, process_seconds
from pyarrow import feather, parquet

import streaml1

ROWS, ROUNDS = 60_000, 7


def bench_frames() -> None:
    """Measure 60,000 rows of 39 columns of strings, W2, as ratios to the CSV file."""
    categories, clicked = clicks(ROWS)
    columns = {
        f"C{k}": [f"{v:x}" for v in column] for k, column in enumerate(categories.T.tolist())
    }
    table = pa.table(columns)
    labelled = table.append_column("click", pa.array(clicked.astype(np.int64)))
    frame = table.to_pandas()
    frames = {
        "pandas, str": frame.astype("str"),
        "pandas, object": frame.astype(object),
        "pandas, category": frame.astype("category"),
        "polars, String": pl.DataFrame(columns),
        "polars, Categorical": pl.DataFrame(columns).cast(pl.Categorical),
        "pyarrow, string": table,
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        pyarrow.csv.write_csv(labelled, path / "w2.csv")
        parquet.write_table(labelled, path / "w2.parquet", row_group_size=20_000)
        feather.write_feather(labelled, str(path / "w2.arrow"), compression="uncompressed")
        for kind, column in _nested(table).items():
            nested = pa.table({"C": column, "click": labelled["click"]})
            parquet.write_table(nested, path / f"{kind}.parquet", row_group_size=20_000)
        runs: dict[str, Callable[[], Any]] = {
            name: partial(_learn_file, path / f"w2.{suffix}", list(columns))
            for name, suffix in (("CSV", "csv"), ("Parquet", "parquet"), ("Arrow IPC", "arrow"))
        }
        runs |= {
            f"Parquet, {kind}": partial(_learn_file, path / f"{kind}.parquet", [])
            for kind in _nested(table.slice(0, 1))
        }
        runs |= {name: partial(_learn_frame, X, clicked) for name, X in frames.items()}
        seconds = interleave(runs, ROUNDS, process_seconds)
    results = new_table(f"{ROWS:,} rows of 39 categories", "input", "us per row", "time / CSV")
    for name, each in seconds.items():
        ratio = np.median(each / seconds["CSV"])
        results.add_row(name, f"{np.median(each) / ROWS * 1e6:.2f}", f"{ratio:.2f}")
    CONSOLE.print(results)


def _nested(table: pa.Table) -> dict[str, Any]:
    """Return the values of each row as one struct, as a list of text, and as a map."""
    names = table.column_names
    columns = [column.combine_chunks() for column in table.columns]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    pairs = [list(zip(names, row, strict=True)) for row in rows]
    return {
        "struct": pa.StructArray.from_arrays(columns, names=names),
        "list of text": pa.array([[f"{name}:{value}" for name, value in row] for row in pairs]),
        "map": pa.array(pairs, pa.map_(pa.string(), pa.string())),
    }


def _learn_file(path: Path, categories: list[str]) -> None:
    streaml1.progressive(
        elastic_net(0.02), path, target="click", categorical=categories, data_checks=False
    )


def _learn_frame(X: pd.DataFrame, clicked: Any) -> None:
    elastic_net(0.02).learn_many(X, clicked)
