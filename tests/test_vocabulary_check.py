"""One warning for interactions and text columns that match no feature of the stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from river import compose, preprocessing

import streaml1
from streaml1 import ElasticNetClassifier, progressive
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
    remedy = "; check the spelling of the column or namespace: the data have 'site', 'ad', 'mail'"
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
        "spelling of the column or namespace: the data have 'a'"
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


def test_offsets_that_do_not_occur_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.vw"
    path.write_text("1 |o base:0.5 |a x\n0 |o base:0.25 |a y\n" * 30)
    where = "in the first 60 examples no feature is named"
    for offset, remedy in [
        ("base", 'use offset="o^base"'),
        ("basis", "check the spelling of the column or namespace: the data have 'o', 'a'"),
        ("o^base", None),
    ]:
        progressive(ElasticNetClassifier(offset=offset), path)
        expected = [f"{where} {offset!r}, so the offset is 0; {remedy}"] if remedy else []
        assert take_warnings(caplog) == expected
    progressive(ElasticNetClassifier(offset=3), (scipy.sparse.eye(4).tocsr(), [True, False] * 2))
    assert take_warnings(caplog) == []


def test_pipelines_may_create_the_names(caplog: pytest.LogCaptureFixture) -> None:
    model = streaml1.ElasticNetClassifier(cross=[("site_x", "ad")])
    pipeline = compose.Prefixer("site_x^") | preprocessing.StandardScaler() | model
    streaml1.progressive(pipeline, [({"a": 1.0}, True)])
    assert take_warnings(caplog) == []


# Names that a model knows


def learnt(**options: Any) -> ElasticNetClassifier:
    model = ElasticNetClassifier(**options)
    model.learn_many(
        [{"site": f"s{k % 5}", "hour": k % 24} for k in range(100)], [True, False] * 50
    )
    return model


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if text.startswith("the model knows")]


@pytest.mark.parametrize("run", [progressive, evaluate])
@pytest.mark.parametrize(
    ("x", "n", "found"),
    [
        (lambda k: {"Site": f"s{k % 5}", "Hour": 1}, 40, "none of the 80 features of the first 40"),
        (lambda k: {"Site": f"s{k % 5}"}, 2500, "none of the 1,000 features of the first 1,000"),
        (lambda k: {"site": f"s{k % 5}", "hour": 1}, 40, None),
        (lambda k: {"site": f"new{k}", "hour": 1}, 40, None),
        (lambda k: {"site": f"s{k}"}, 300, "only 5 of the 300 features of the first 300"),
        (lambda k: {"Site": f"s{k % 5}"}, 19, None),
        (lambda k: {}, 40, None),
        (lambda k: {"site": "s1" if k > 150 else "new"}, 300, None),
    ],
)
def test_unknown_names_are_reported(
    caplog: pytest.LogCaptureFixture, run: Any, x: Any, n: int, found: str | None
) -> None:
    run(learnt(), [(x(k), k % 2 == 0) for k in range(n)])
    if found is None:
        assert warnings_of(caplog) == []
    else:
        [warning] = warnings_of(caplog)
        assert warning.startswith(f"the model knows {found} examples: check that the feature names")


def test_new_models_and_resumed_data_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    examples = [({"a": float(k)}, k % 2 == 0) for k in range(50)]
    model = ElasticNetClassifier()
    progressive(model, examples)
    progressive(model, examples)
    progressive(learnt(), examples, data_checks=False)
    assert warnings_of(caplog) == []


def test_names_of_matrices_frames_and_invalid_rows_are_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    examples = [({"Site": "a"} if k % 3 else {"Site": float("nan")}, True) for k in range(60)]
    progressive(learnt(), examples, bad="skip")
    frame = pd.DataFrame({"Hour": [1.0, 2.0] * 20})
    evaluate(learnt(), (frame, [True, False] * 20))
    model = ElasticNetClassifier()
    model.learn_many(scipy.sparse.csr_matrix(np.eye(3)), [True, False, True])
    evaluate(model, (scipy.sparse.csr_matrix(np.ones((30, 3))), [True] * 30))
    evaluate(model, (scipy.sparse.csr_matrix(([1.0] * 30, [7] * 30, range(31))), [True] * 30))
    assert [text[:48] for text in warnings_of(caplog)] == [
        "the model knows none of the 40 features of the f",
        "the model knows none of the 40 features of the f",
        "the model knows none of the 30 features of the f",
    ]


def test_the_check_does_not_change_what_is_learnt() -> None:
    examples = [({"site": f"x{k}", "hour": k % 3}, k % 2 == 0) for k in range(300)]
    checked, unchecked = learnt(), learnt()
    progressive(checked, examples)
    progressive(unchecked, examples, data_checks=False)
    assert checked.weights == unchecked.weights


def test_lists_in_the_place_of_text_have_a_remedy(caplog: pytest.LogCaptureFixture) -> None:
    """The data were said to lack the name that was listed as theirs."""
    rows = [{"tags": ["a b", "c"], "y": k % 2} for k in range(4)]
    model = streaml1.ElasticNetClassifier(text=["tags"])
    streaml1.progressive(model, rows, target="y")
    assert caplog.messages == [
        "in the first 4 examples no feature is named 'tags', so its text adds no features; the "
        "elements of its lists are categories: join them into one text"
    ]
