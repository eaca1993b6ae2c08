"""One model from a Spark data frame: learnt in parts on the workers, merged on the driver.

    pip install 'streaml1[arrow]' pyspark       # and Java 17 or newer
    python demos/on_spark.py                    # a minute, on two cores of this machine
    spark-submit --master spark://... demos/on_spark.py

Each day is learnt by `PARTS` tasks, each from a copy of the model of the day before. The first
rows of the next day, which none of them has learnt, decide how their models are merged. The table
compares the loss on each next day with that of one process that learns all rows in their order.
"""

from __future__ import annotations

import argparse
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import pyarrow as pa
    import pyarrow.parquet
    from pyspark.sql import DataFrame, SparkSession
except ModuleNotFoundError as error:
    raise SystemExit(
        f"{error.name} is not installed: pip install 'streaml1[arrow]' pyspark"
    ) from None

import streaml1
from streaml1.training import evaluate

PARTS = 4
PROBE = 2000

Batches = Iterator[pa.RecordBatch]


def learn_part(model: Any, target: str) -> Callable[[Batches], Batches]:
    """Return a task that learns the rows of one partition from a copy of the model."""

    def task(batches: Batches) -> Batches:
        part = pickle.loads(pickle.dumps(model))  # a worker may run several tasks
        for batch in batches:
            part.learn_many(batch, target=target)
        yield pa.RecordBatch.from_pydict({"model": [pickle.dumps(part)]})

    return task


def learn(model: Any, rows: DataFrame, probe: pa.Table, target: str) -> Any:
    """Return the merged models of all partitions of `rows`."""
    found = rows.mapInArrow(learn_part(model, target), "model binary").collect()
    parts = [pickle.loads(row.model) for row in found]
    base = model if model.n_iterations else None
    return streaml1.merge(parts, base, probe=probe, target=target)


def predict(model: Any, rows: DataFrame) -> DataFrame:
    """Return the rows with the probability of the label True."""
    frozen = model.freeze()

    def task(batches: Batches) -> Batches:
        for batch in batches:
            probabilities = frozen.predict_proba_many(batch)[:, 1]
            yield batch.append_column("probability", pa.array(probabilities))

    return rows.mapInArrow(task, f"{rows.schema.simpleString()[7:-1]}, probability double")


# Clicks to try it with


def write_clicks(folder: Path, days: int, rows: int) -> None:
    """Write a Parquet file of clicks for each day."""
    rng = random.Random(1)
    tastes = [rng.gauss(0.0, 0.6) for _ in range(5000)]
    for day in range(days):
        sites = [int(500 * rng.random() ** 2) for _ in range(rows)]
        ads = [int(4500 * rng.random() ** 3) for _ in range(rows)]
        margins = [tastes[s] + tastes[500 + a] - 1.0 for s, a in zip(sites, ads, strict=True)]
        columns = {
            "site": [f"site{k}" for k in sites],
            "ad": [f"ad{k}" for k in ads],
            "hour": [f"{24 * k // rows}" for k in range(rows)],
            "clicked": [rng.gauss(0.0, 1.0) < margin for margin in margins],
        }
        pa.parquet.write_table(pa.table(columns), folder / f"day-{day}.parquet")


def loss_on(model: Any, day: Path) -> float:
    """Return the log-loss of a model on the rows of a day, which it does not learn."""
    return float(evaluate(model, str(day), target="clicked").lines[-1].loss)


def main() -> None:
    """Learn some days, and print the losses."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, default=4, help="days, of which the last is predicted")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of a day")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("streaml1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    merged, single = streaml1.FTRLClassifier(), streaml1.FTRLClassifier()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_clicks(folder, options.days, options.rows)
        print("day  log-loss of the merged model  of one process  rows learnt")
        for day in range(options.days - 1):
            today, next_day = (folder / f"day-{k}.parquet" for k in (day, day + 1))
            probe = pa.parquet.read_table(next_day)[:PROBE]
            rows = spark.read.parquet(str(today)).repartition(PARTS)
            merged = learn(merged, rows, probe, "clicked")
            single.learn_many(pa.parquet.read_table(today), target="clicked")
            losses = loss_on(merged, next_day), loss_on(single, next_day)
            print(f"{day + 1:3}{losses[0]:30.4f}{losses[1]:16.4f}{merged.n_iterations:13,}")
        scored = predict(merged, spark.read.parquet(str(next_day)))
        scored.orderBy("probability", ascending=False).show(5)
    spark.stop()


if __name__ == "__main__":
    main()
