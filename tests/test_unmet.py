"""What is to be crossed, or made words of, and does not come: it is said, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import scipy.sparse
from river import compose, preprocessing

import streaml1
from streaml1.training import evaluate

CROSSED = (
    "no name is 'stie' or starts with 'stie=' or 'stie^', so the cross stie,ad adds no features"
)
TEXT = "no feature is named 'mesage', so its text adds no features"


def vw(folder: Path, n: int) -> str:
    path = folder / "a.vw"
    path.write_text("".join(f"{k % 2} |site s{k % 7} |ad a{k % 5} |mail hello\n" for k in range(n)))
    return str(path)


def jsonl(folder: Path, n: int) -> str:
    path = folder / "a.jsonl"
    xs = [{"site": f"s{k % 7}", "ad=x": 1, "mail": "hello you"} for k in range(n)]
    path.write_text("".join(json.dumps({"x": x, "y": k % 2}) + "\n" for k, x in enumerate(xs)))
    return str(path)


def frames(folder: Path, n: int) -> Any:
    X = pd.DataFrame({"site": ["news", "mail"], "ad": [1.0, 2.0], "mail": ["hello", "you"]})
    return pd.concat([X] * (n // 2)), [True, False] * (n // 2)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == "streaml1"]
    caplog.clear()
    return found


@pytest.mark.parametrize("source", [vw, jsonl, frames])
@pytest.mark.parametrize("n", [2, 200, 4000])
def test_what_is_spelt_wrong_is_told_once(
    source: Callable[[Path, int], Any], n: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    examples = source(tmp_path, n)
    seen = f"in the first {min(n, 1000):,} examples "
    remedy = "; check the spelling of the column or namespace"
    model = streaml1.ElasticNetClassifier(cross=[("stie", "ad"), ("site", "ad")])
    streaml1.progressive(model, examples, every=100)
    assert said(caplog) == [f"{seen}{CROSSED}{remedy}"]
    model = streaml1.ElasticNetClassifier(text=["mail", "mesage"], hash_bits=10)
    streaml1.progressive(model, examples, every=100, passes=1)
    assert said(caplog) == [f"{seen}{TEXT}{remedy}"]
    model = streaml1.ElasticNetClassifier(cross=[("site", "ad")], text=["mail"])
    streaml1.progressive(model, examples)
    assert said(caplog) == []


def test_what_comes_late_but_comes_is_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    xs: list[Any] = [({"a": 1}, True)] * 998 + [({"site=b": 1}, False), ({"ad^c": 1}, True)]
    model = streaml1.ElasticNetClassifier(cross=[("site", "ad")])
    streaml1.progressive(model, xs, every=10)
    assert said(caplog) == []
    streaml1.progressive(model.clone(), xs[:1])
    assert sorted(said(caplog)) == [
        f"in the only example no name is {p!r} or starts with {p + '='!r} or {p + '^'!r}, so the "
        "cross site,ad adds no features; check the spelling of the column or namespace"
        for p in ("ad", "site")
    ]


@pytest.mark.parametrize("hash_bits", [None, 10])
def test_labels_that_come_late(
    hash_bits: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[dict[str, Any]] = []
    for k in range(60):
        x = {f"site=s{k % 3}": 1, "ad": 2, "mail": "hello you"}
        events += [{"id": k, "x": x, "time": k}, {"id": k, "y": k % 2, "time": k + 0.5}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    for source in (events, str(path)):
        model = streaml1.ElasticNetClassifier(
            cross=[("site", "ad"), ("stie", "ad")], text=["mail", "mesage"], hash_bits=hash_bits
        )
        report = streaml1.progressive(model, source, label_within=5.0)
        assert report.examples == 60
        told = said(caplog)
        assert len(told) == 2 and CROSSED in told[0] and TEXT in told[1]


def test_a_model_that_goes_on_has_met_what_it_met(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = [({"site": "s"}, True)]
    kept = [({"site": "s", "ad": "a"}, True)] * 3
    model = streaml1.ElasticNetClassifier(cross=[("site", "ad")])
    streaml1.progressive(model, kept)
    streaml1.progressive(model, new)
    evaluate(model, new)
    assert said(caplog) == []
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": {"site": "s", "ad": "b"}, "y": 1}\n')
    for _ in range(2):
        one = streaml1.ElasticNetClassifier(cross=[("site", "ad")])
        streaml1.progressive(one, path, checkpoint=tmp_path / "kept")
        with path.open("a") as file:
            file.write('{"x": {"site": "s"}, "y": 1}\n')
    assert one.n_iterations == 2 and said(caplog) == []


def test_numbered_columns_are_no_texts(caplog: pytest.LogCaptureFixture) -> None:
    model = streaml1.ElasticNetClassifier(text=["mesage"])
    streaml1.progressive(model, (scipy.sparse.eye(4).tocsr(), [True, False] * 2))
    told = said(caplog)
    assert len(told) == 1 and TEXT in told[0]


def test_a_pipeline_may_make_the_names(caplog: pytest.LogCaptureFixture) -> None:
    model = streaml1.ElasticNetClassifier(cross=[("site_x", "ad")])
    pipeline = compose.Prefixer("site_x^") | preprocessing.StandardScaler() | model
    streaml1.progressive(pipeline, [({"a": 1.0}, True)])
    assert said(caplog) == []
