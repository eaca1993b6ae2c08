"""The option `positive`: a named label is 1 and any other one 0, in all formats with labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.features.label_texts import LabelTexts
from streaml1.features.positive_label import is_positive, positive_labels
from streaml1.sources import SourceError, SourceOptions, open_source
from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
from streaml1.sources.readers.flat_json_parser import FlatJsonParser
from streaml1.sources.readers.formats import line_parser
from tests.command import error_of, run

pytestmark = pytest.mark.usefixtures("cwd")


@pytest.mark.parametrize(
    ("label", "positive", "expected"),
    [
        ("spam", "spam", True),
        (" spam ", "spam ", True),
        ("Spam", "spam", False),
        (True, "true", True),
        (False, "False", True),
        (True, "1", True),
        (2.0, "2", True),
        (2, "2.0", True),
        (2.0, "two", False),
        ("2", "2.0", True),
        ("two", "2.0", False),
    ],
)
def test_spellings(label: Any, positive: str, expected: bool) -> None:
    assert is_positive(label, positive) is expected


LABELS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["a", "b", ""]))


@given(st.lists(LABELS, min_size=1), st.sampled_from(["a", "true", "2", "0"]))
def test_all_containers_agree(labels: list[Any], positive: str) -> None:
    expected = [None if y is None else float(is_positive(y, positive)) for y in labels]
    assert list(positive_labels(labels, positive)) == expected
    texts = [y if isinstance(y, str) else None for y in labels]
    coded = LabelTexts(np.array([[*"ab", "", None].index(y) for y in texts]), ["a", "b", "", None])
    of_texts = [None if y is None else float(is_positive(y, positive)) for y in texts]
    assert list(positive_labels(coded, positive)) == of_texts
    numbers = np.array([y for y in labels if type(y) is int], np.float64)
    assert positive_labels(numbers, positive).tolist() == [
        float(is_positive(y, positive)) for y in numbers.tolist()
    ]
    assert positive_labels(labels, None) is labels


@given(st.lists(st.tuples(LABELS, st.booleans()), min_size=1), st.sampled_from(["a", "true", "2"]))
def test_kernel_equals_its_twin_on_json_lines(rows: list[Any], positive: str) -> None:
    roles = JsonRoles("y", positive=positive)
    # A line with an escape is left to Python.
    lines = [json.dumps({"y": y, "s": "\n" if escaped else "s"}) for y, escaped in rows]
    text = "".join(line + "\n" for line in lines).encode()
    parsed = FlatJsonParser(roles, require_label=False).read(text)
    expected = [parse_flat(line, roles, require_label=False)[1] for line in lines]  # type: ignore[index]
    assert list(parsed.y) == expected
    assert expected == [None if y is None else float(is_positive(y, positive)) for y, _ in rows]


def labels_of(name: str, **options: Any) -> list[Any]:
    source = open_source(name, **options)
    return [y for block in source.blocks(100, lambda *place: None) for y in block.y]


ROWS = [("ham", 1), ("spam", 2), ("eggs", 3), ("spam", 4)]


def test_formats_agree() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    Path("a.csv").write_text("y,x\n" + "".join(f"{y},{x}\n" for y, x in ROWS))
    flat = "".join(json.dumps({"y": y, "x": x}) + "\n" for y, x in ROWS)
    Path("a.jsonl").write_text(flat)
    Path("b.jsonl").write_text("".join(json.dumps({"y": y, "x": {"x": x}}) + "\n" for y, x in ROWS))
    Path("c.jsonl").write_text("".join(f'{{"after": {line}}}\n' for line in flat.splitlines()))
    parquet.write_table(pyarrow.table({"y": [y for y, _ in ROWS], "x": [1, 2, 3, 4]}), "a.parquet")
    expected = [0.0, 1.0, 0.0, 1.0]
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        assert [float(y) for y in labels_of(name, target="y", positive="spam")] == expected
    assert labels_of("b.jsonl", positive="spam") == expected
    assert labels_of("c.jsonl", target="y", at="after", positive="spam") == expected
    record = line_parser("jsonl", True, "record", (), JsonRoles("y", positive="spam"))
    assert record.read(flat.encode()).y.tolist() == expected
    assert open_source("a.jsonl", target="y", positive="spam").identity()["positive"] == "spam"
    assert "positive" not in open_source("a.jsonl", target="y").identity()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a.svm", "positive= applies to CSV and JSON lines only, not to a.svm (svmlight)"),
        ("a.rows", "not to a.rows (rows): give it to streaml1.training.convert"),
        ("river:Phishing", "apply to files only, not to river:Phishing"),
    ],
)
def test_other_formats_reject_it(source: str, message: str) -> None:
    Path("a.svm").write_text("1 1:1\n")
    Path("a.rows").touch()
    with pytest.raises(SourceError) as caught:
        open_source(source, SourceOptions(positive="1"))
    assert message in str(caught.value)


def test_command() -> None:
    Path("a.jsonl").write_text(
        "".join(json.dumps({"kind": "bot" if k % 3 else "user", "n": k}) + "\n" for k in range(90))
    )
    assert (
        "log-loss"
        in run("learn", "a.jsonl", "--target", "kind", "--positive", "bot", "--save", "m").stdout
    )
    assert streaml1.load("m").n_iterations == 90
    message = error_of(
        "learn", "a.jsonl", "--target", "kind", "--positive", "x", "--label-within", "9"
    )
    assert "cannot be combined with delayed labels" in message
