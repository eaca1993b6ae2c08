"""One warning for interactions and text columns that match no feature of the stream."""

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

NO_CROSS_FEATURE = (
    "no name is 'stie' or starts with 'stie=' or 'stie^', so the cross stie,ad adds no features"
)
NO_TEXT_FEATURE = "no feature is named 'mesage', so its text adds no features"


def write_vw(folder: Path, n: int) -> str:
    path = folder / "a.vw"
    path.write_text("".join(f"{k % 2} |site s{k % 7} |ad a{k % 5} |mail hello\n" for k in range(n)))
    return str(path)


def write_jsonl(folder: Path, n: int) -> str:
    path = folder / "a.jsonl"
    xs = [{"site": f"s{k % 7}", "ad=x": 1, "mail": "hello you"} for k in range(n)]
    path.write_text("".join(json.dumps({"x": x, "y": k % 2}) + "\n" for k, x in enumerate(xs)))
    return str(path)


def make_frame(folder: Path, n: int) -> Any:
    X = pd.DataFrame({"site": ["news", "mail"], "ad": [1.0, 2.0], "mail": ["hello", "you"]})
    return pd.concat([X] * (n // 2)), [True, False] * (n // 2)


def take_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.name == "streaml1"]
    caplog.clear()
    return messages


@pytest.mark.parametrize("source", [write_vw, write_jsonl, make_frame])
@pytest.mark.parametrize("n", [2, 200, 4000])
def test_misspelled_names_are_reported_once(
    source: Callable[[Path, int], Any], n: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    examples = source(tmp_path, n)
    prefix = f"in the first {min(n, 1000):,} examples "
    remedy = "; check the spelling of the column or namespace"
    model = streaml1.ElasticNetClassifier(cross=[("stie", "ad"), ("site", "ad")])
    streaml1.progressive(model, examples, every=100)
    assert take_warnings(caplog) == [f"{prefix}{NO_CROSS_FEATURE}{remedy}"]
    model = streaml1.ElasticNetClassifier(text=["mail", "mesage"], hash_bits=10)
    streaml1.progressive(model, examples, every=100, passes=1)
    assert take_warnings(caplog) == [f"{prefix}{NO_TEXT_FEATURE}{remedy}"]
    model = streaml1.ElasticNetClassifier(cross=[("site", "ad")], text=["mail"])
    streaml1.progressive(model, examples)
    assert take_warnings(caplog) == []


def test_names_that_appear_late_are_not_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    examples: list[Any] = [({"a": 1}, True)] * 998 + [({"site=b": 1}, False), ({"ad^c": 1}, True)]
    model = streaml1.ElasticNetClassifier(cross=[("site", "ad")])
    streaml1.progressive(model, examples, every=10)
    assert take_warnings(caplog) == []
    streaml1.progressive(model.clone(), examples[:1])
    assert sorted(take_warnings(caplog)) == [
        f"in the only example no name is {name!r} or starts with {name + '='!r} or "
        f"{name + '^'!r}, so the cross site,ad adds no features; check the "
        "spelling of the column or namespace"
        for name in ("ad", "site")
    ]


@pytest.mark.parametrize("hash_bits", [None, 10])
def test_delayed_labels(
    hash_bits: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[dict[str, Any]] = []
    for k in range(60):
        x = {f"site=s{k % 3}": 1, "ad": 2, "mail": "hello you"}
        events += [{"id": k, "x": x, "time": k}, {"id": k, "y": k % 2, "time": k + 0.5}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    for source in (events, str(path)):
        model = streaml1.ElasticNetClassifier(
            cross=[("site", "ad"), ("stie", "ad")], text=["mail", "mesage"], hash_bits=hash_bits
        )
        report = streaml1.progressive(model, source, label_within=5.0)
        assert report.examples == 60
        warnings = take_warnings(caplog)
        assert (
            len(warnings) == 2
            and NO_CROSS_FEATURE in warnings[0]
            and NO_TEXT_FEATURE in warnings[1]
        )


def test_continued_training_remembers_seen_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    without_ad = [({"site": "s"}, True)]
    with_ad = [({"site": "s", "ad": "a"}, True)] * 3
    model = streaml1.ElasticNetClassifier(cross=[("site", "ad")])
    streaml1.progressive(model, with_ad)
    streaml1.progressive(model, without_ad)
    evaluate(model, without_ad)
    assert take_warnings(caplog) == []
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": {"site": "s", "ad": "b"}, "y": 1}\n')
    for _ in range(2):
        resumed = streaml1.ElasticNetClassifier(cross=[("site", "ad")])
        streaml1.progressive(resumed, path, checkpoint=tmp_path / "checkpoint")
        with path.open("a") as file:
            file.write('{"x": {"site": "s"}, "y": 1}\n')
    assert resumed.n_iterations == 2 and take_warnings(caplog) == []


def test_numbered_columns_do_not_match_text_names(caplog: pytest.LogCaptureFixture) -> None:
    model = streaml1.ElasticNetClassifier(text=["mesage"])
    streaml1.progressive(model, (scipy.sparse.eye(4).tocsr(), [True, False] * 2))
    warnings = take_warnings(caplog)
    assert len(warnings) == 1 and NO_TEXT_FEATURE in warnings[0]


def test_pipelines_may_create_the_names(caplog: pytest.LogCaptureFixture) -> None:
    model = streaml1.ElasticNetClassifier(cross=[("site_x", "ad")])
    pipeline = compose.Prefixer("site_x^") | preprocessing.StandardScaler() | model
    streaml1.progressive(pipeline, [({"a": 1.0}, True)])
    assert take_warnings(caplog) == []
