"""The recipe for Spark; it needs pyspark and Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from streaml1.sources import SourceOptions, open_source

pytest.importorskip("pyspark")

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "demos" / "on_spark.py"


def test_page_shows_the_code_of_the_demo() -> None:
    text, code = (ROOT / "docs" / "on-spark.md").read_text(), DEMO.read_text()
    code = re.sub(r'^ *""".*?"""\n\n?', "", code, flags=re.MULTILINE | re.DOTALL)
    code = re.sub(r"(\w+): [\w.]+(?=[,)])|( -> )[^:]+(?=:\n)", r"\1", code)
    shown = re.findall(r"^def \w+\(.*?(?=^\S|^```)", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for function in shown:
        assert function.strip() in code


def test_demo() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--days", "3", "--rows", "20000"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    output = done.stdout
    rows = re.findall(r"^ +(\d) +(0\.\d+) +(0\.\d+) +([\d,]+)$", output, re.MULTILINE)
    assert [row[3] for row in rows] == ["20,000", "40,000"]
    for _, merged, single, _ in rows:
        assert float(merged) < 1.01 * float(single) < 0.5
    probabilities = re.findall(r"(true|false)\| *(0\.\d+)\|$", output, re.MULTILINE)
    assert len(probabilities) == 5 and all(float(p) > 0.5 for _, p in probabilities)


VECTORS = """
import sys
from pyspark.ml.feature import HashingTF, Tokenizer
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(k % 2, f"spam {k % 5} pills") for k in range(30)]
words = Tokenizer(inputCol="text", outputCol="words").transform(
    spark.createDataFrame(rows, ["clicked", "text"])
)
hashed = HashingTF(numFeatures=50, inputCol="words", outputCol="v").transform(words)
hashed = hashed.select("clicked", "v").coalesce(1)
dense = [(1, Vectors.dense([0.5, 0.0, 2.0])), (0, None)]
both = hashed.union(spark.createDataFrame(dense, hashed.schema)).coalesce(1)
for format in ("parquet", "json"):
    both.write.format(format).save(f"{sys.argv[1]}/{format}")
for row in both.collect():
    values = [] if row.v is None else row.v.toArray().tolist()
    print({f"v.{k}": value for k, value in enumerate(values) if value})
"""


def test_vectors_of_spark_ml_are_read_by_their_elements(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VECTORS, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = [literal_eval(line) for line in done.stdout.splitlines()]
    assert len(expected) == 32 and expected[-2:] == [{"v.0": 0.5, "v.2": 2.0}, {}]
    for format in ("parquet", "json"):
        [block] = open_source(str(tmp_path / format), SourceOptions(target="clicked")).blocks(
            100, pytest.fail
        )
        _, values, indptr = block.x.csr()
        names = block.x.feature_names(slice(None))
        for lo, hi, x in zip(indptr[:-1], indptr[1:], expected, strict=True):
            assert dict(zip(names[lo:hi], values[lo:hi].tolist(), strict=True)) == x
