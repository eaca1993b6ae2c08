"""A model run over a stream: what is learnt, what is refused, and where lines fall."""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets, evaluate, linear_model, metrics, preprocessing
from scipy import sparse

import streaml1
from streaml1 import ElasticNetClassifier, ElasticNetRegressor
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError
from streaml1.training import predictions, progressive
from streaml1.training.report import Report

Example = tuple[dict[Any, Any], Any]


def examples(n: int = 100, seed: int = 0) -> list[Example]:
    rng = random.Random(seed)
    return [
        ({f"f{rng.randrange(30)}": rng.uniform(-1, 1) for _ in range(4)}, rng.random() < 0.4)
        for _ in range(n)
    ]


def model(**params: Any) -> ElasticNetClassifier:
    return ElasticNetClassifier(**{"l1": 1e-3, "l2": 1e-3, **params})


def state(model: Any) -> tuple[Any, ...]:
    return dict(model.weights), model.intercept, model.n_iterations, model.n_features_seen


def taught(stream: Any, like: Any = None) -> Any:
    """A model that has learnt (x, y, w...) one by one."""
    one = model() if like is None else like
    for x, y, *w in stream:
        one.learn_one(x, y, *w)
    return one


def svm(path: Path, rows: list[str]) -> str:
    path.write_text("\n".join(rows) + "\n")
    return str(path)


# What is learnt, and where lines fall


@pytest.mark.parametrize(
    ("every", "lines"), [(1000, [100]), (30, [30, 60, 90, 100]), (50, [50, 100]), (99, [99, 100])]
)
def test_lines_fall_at_multiples_and_at_the_end(every: int, lines: list[int]) -> None:
    seen = []
    learner = model()
    report = progressive(learner, examples(), every=every, on_line=seen.append)
    assert [line.examples for line in report.lines] == lines
    assert seen == report.lines
    assert state(learner) == state(taught(examples()))
    assert report.lines[-1].n_nonzero == learner.n_nonzero
    assert report.lines[-1].n_features_seen == 30


def test_lines_are_fewer_the_longer_a_run_is() -> None:
    stream = (({"a": 1.0}, k % 2 == 0) for k in range(31_500))
    report = progressive(model(), stream)
    thousands = [*range(1, 11), 20, 30]
    assert [line.examples for line in report.lines] == [*(1000 * k for k in thousands), 31_500]


def test_predictions_come_before_learning() -> None:
    learner, slow, p = model(), model(), []
    for x, y in examples():
        p.append(slow.predict_proba_one(x)[True])
        slow.learn_one(x, y)
    by_hand = Report("logistic")
    by_hand.add(p, [y for _, y in examples()])
    assert progressive(learner, examples()).lines[-1].loss == by_hand.line().loss


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
def test_hinges_are_reported_by_their_margins(loss: str) -> None:
    line = progressive(model(loss=loss), examples(), every=1000).lines[0]
    slow, total = model(loss=loss), 0.0
    for x, y in examples():
        margin = (1 if y else -1) * slow.freeze().margin(x)
        total += max(0, 1 - margin) if loss == "hinge" else _smoothed(margin)
        slow.learn_one(x, y)
    assert line.loss == pytest.approx(total / 100)
    assert line.loss_name == loss.replace("_", " ") + " loss"


def _smoothed(margin: float) -> float:
    z = 1 - margin
    return z - 0.5 if z >= 1 else 0.5 * max(0, z) ** 2


def test_equals_river_on_a_pipeline() -> None:
    def pipeline() -> Any:
        return preprocessing.StandardScaler() | ElasticNetClassifier(l1=1e-4)

    ours = pipeline()
    report = progressive(ours, datasets.Phishing())
    metric = evaluate.progressive_val_score(datasets.Phishing(), pipeline(), metrics.LogLoss())
    assert report.lines[-1].loss == pytest.approx(metric.get(), rel=1e-9)
    assert report.lines[-1].n_nonzero == ours["ElasticNetClassifier"].n_nonzero
    assert report.title == "Phishing: StandardScaler | ElasticNetClassifier"


def test_a_pipeline_of_a_regression_and_of_a_hinge() -> None:
    regression = preprocessing.StandardScaler() | ElasticNetRegressor(loss="absolute")
    report = progressive(regression, datasets.TrumpApproval())
    assert report.loss == "absolute" and report.lines[-1].loss == report.lines[-1].error
    hinge = progressive(preprocessing.StandardScaler() | model(loss="hinge"), examples())
    assert hinge.loss_name == "hinge loss"
    other = progressive(linear_model.LogisticRegression(), datasets.Phishing(), limit=10)
    assert other.loss == "logistic" and other.lines[0].n_nonzero is None


def test_the_title_tells_what_differs_from_the_defaults() -> None:
    report = progressive(ElasticNetClassifier(lr=0.5), examples(5))
    assert report.title == "examples: ElasticNetClassifier(lr=0.5)"


# Sources


def matrix() -> tuple[Any, Any, Any]:
    X = sparse.random_array((90, 40), density=0.1, rng=np.random.default_rng(1), format="csr")
    rng = np.random.default_rng(2)
    return X, rng.random(90) < 0.5, rng.choice([1.0, 3.0], 90)


def rows_of(X: Any) -> list[dict[int, float]]:
    return [
        dict(zip(X[[i]].indices.tolist(), X[[i]].data.tolist(), strict=True))
        for i in range(X.shape[0])
    ]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", ["csr", "coo", "dense", "dicts"])
def test_a_matrix_and_its_labels(kind: str, signed: bool) -> None:
    X, y, w = matrix()
    expected = taught(zip(rows_of(X), y.tolist(), w.tolist(), strict=True))
    given = {"csr": X, "coo": X.tocoo(), "dense": X.toarray(), "dicts": rows_of(X)}[kind]
    learner = model()
    labels = np.where(y, 1, -1) if signed else y
    report = progressive(learner, (given, labels, w), every=40)
    assert state(learner) == state(expected)
    assert [line.examples for line in report.lines] == [40, 80, 90]
    assert report.d == (None if kind == "dicts" else 40)


@pytest.mark.parametrize("library", ["pandas", "polars", "pandas-sparse"])
def test_a_frame_and_its_labels(library: str) -> None:
    columns = {"a": [1.0, 0.0, 2.0, 1.0], "b": [0.0, 3.0, 0.0, 1.0]}
    y = [True, False, True, False]
    if library == "polars":
        import polars

        frame: Any = polars.DataFrame(columns)
        labels: Any = polars.Series(y)
    else:
        import pandas

        dtype = "Sparse[float64]" if library == "pandas-sparse" else "float64"
        frame = pandas.DataFrame(columns, index=[9.5, 3.0, 1.0, 2.0]).astype(
            pandas.SparseDtype("float64", 0.0) if "sparse" in library.lower() else dtype
        )
        labels = pandas.Series(y, index=frame.index)
    learner = model()
    progressive(learner, (frame, labels), every=3)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert learner.weights == taught(zip(rows, y, strict=True)).weights


def test_a_matrix_with_bad_labels_and_values() -> None:
    X, y, _ = matrix()
    labels = y.astype(object)
    labels[[4, 50]] = [2, None]
    X.data[X.indptr[20]] = np.nan
    good = [i for i in range(90) if i not in (4, 20, 50)]
    learner = model()
    report = progressive(learner, (X, labels), bad="skip")
    rows = rows_of(X)
    assert report.rejected == 3
    assert learner.weights == taught((rows[i], bool(y[i])) for i in good).weights


def test_lengths_that_differ_are_refused() -> None:
    X, y, w = matrix()
    with pytest.raises(ValueError, match="got 89 labels for 90 rows"):
        progressive(model(), (X, y[1:]))
    with pytest.raises(ValueError, match="got 89 weights for 90 rows"):
        progressive(model(), (X, y, w[1:]))


def test_a_file_a_path_and_a_source(tmp_path: Path) -> None:
    from streaml1.sources import open_source

    name = svm(tmp_path / "a.svm", ["+1 1:0.5 2:1", "", "-1 3:2", "0 1:1"])
    expected = taught([({1: 0.5, 2: 1.0}, True), ({3: 2.0}, False), ({1: 1.0}, False)])
    for source in (name, Path(name), open_source(name)):
        learner = model()
        report = progressive(learner, source)
        assert state(learner) == state(expected)
        assert report.title.startswith(name)


def test_the_columns_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("shop,price,sold,n\nfr,2,1,3\nde,1,0,1\n")
    learner = model()
    progressive(learner, tmp_path / "a.csv", target="sold", categorical=["shop"], weight="n")
    expected = taught([({"shop": "fr", "price": 2}, True, 3.0), ({"shop": "de", "price": 1}, 0)])
    assert learner.weights == expected.weights


def test_weights_beside_the_examples() -> None:
    stream = [(x, y, {"w": 1.0 + i % 3}) for i, (x, y) in enumerate(examples())]
    learner = model()
    progressive(learner, stream)
    expected = taught((x, y, extra["w"]) for x, y, extra in stream)
    assert state(learner) == state(expected)


def test_a_stream_may_hand_out_one_dict_again_and_again() -> None:
    def stream() -> Iterator[Example]:
        one: dict[str, float] = {}
        for x, y in examples():
            one.clear()
            one.update(x)
            yield one, y

    learner = model()
    progressive(learner, stream())
    assert state(learner) == state(taught(examples()))


def test_a_stream_that_fails_has_taught_what_came_before() -> None:
    def stream() -> Iterator[Example]:
        yield from examples(42)
        raise ConnectionError("gone")

    learner = model()
    with pytest.raises(ConnectionError, match="gone"):
        progressive(learner, stream())
    assert state(learner) == state(taught(examples(42)))


def test_a_regression_maps_labels_to_numbers(tmp_path: Path) -> None:
    name = svm(tmp_path / "a.svm", ["2.5 1:1", "-1 1:1"])
    learner = ElasticNetRegressor()
    report = progressive(learner, name)
    expected = taught([({1: 1.0}, 2.5), ({1: 1.0}, -1.0)], ElasticNetRegressor())
    assert learner.weights == expected.weights
    assert report.loss_name == "squared loss"


@pytest.mark.parametrize("source", [7, None])
def test_what_is_no_source_is_refused(source: Any) -> None:
    name = type(source).__name__
    with pytest.raises(TypeError, match=f"^source must be .* got an object of type {name}$"):
        progressive(model(), source)
    with pytest.raises(TypeError, match=f"must be a name, or an iterable of dicts .* {name}$"):
        progressive(model(), source, label_within=1.0)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="model must be a river classifier .* got StandardScaler"):
        progressive(preprocessing.StandardScaler(), examples())


@pytest.mark.parametrize("name", ["every", "limit", "passes"])
def test_numbers_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be >= 1, got 0$"):
        progressive(model(), examples(), **{name: 0})
    with pytest.raises(ValueError, match='bad must be "fail" or "skip", got .ignore.'):
        progressive(model(), examples(), bad="ignore")


# Refused examples

WRONG: list[Any] = [
    ({"a": float("nan")}, True),
    ({"a": 1e60}, True),
    ({"a": object()}, True),
    ({"a": 1.0}, 2),
    ({"a": 1.0}, "spam"),
    ({"a": 1.0}, None),
    ({"a": 1.0}, [1, 2]),
    ({"a": 1.0}, True, {"w": -1}),
    ({"a": 1.0}, True, {"w": float("nan")}),
    ({"a": 1.0}, True, {"w": "many"}),
    ({"a": 1.0}, True, {"w": 1e30}),
    ({"a": 1.0}, True, {"weight": 1}),
    ({"a": 1.0}, True, 2.0),
    ({"a": 1.0},),
    ("text", True),
    7,
]


@given(st.lists(st.none() | st.sampled_from(range(len(WRONG))), max_size=80), st.integers(1, 90))
def test_what_is_refused_is_never_learnt_and_nothing_else_is_lost(
    faults: list[int | None], every: int
) -> None:
    good = examples(len(faults))
    stream = [g if f is None else WRONG[f] for g, f in zip(good, faults, strict=True)]
    kept = [g for g, f in zip(good, faults, strict=True) if f is None]
    learner = model()
    report = progressive(learner, stream, every=every, bad="skip")
    assert state(learner) == state(taught(kept))
    assert (report.examples, report.rejected) == (len(kept), len(faults) - len(kept))
    lines = [n for n in range(1, len(kept) + 1) if n % every == 0 or n == len(kept)]
    assert [line.examples for line in report.lines] == lines


@pytest.mark.parametrize("wrong", WRONG)
def test_fail_tells_the_place_and_has_learnt_what_came_before(wrong: Any) -> None:
    stream = [*examples(12), wrong, *examples(5)]
    learner = model()
    with pytest.raises(BadExample, match=r"^examples:13: .{10}") as told:
        progressive(learner, stream)
    assert "\n" not in str(told.value)
    assert state(learner) == state(taught(examples(12)))


@pytest.mark.parametrize("line", ["1 2:nan", "1 2:1e60", "2 3:1", "1 2:x", "spam"])
def test_fail_names_the_file_and_the_line(line: str, tmp_path: Path) -> None:
    name = svm(tmp_path / "a.svm", ["1 1:1", "# a comment", "0 2:1", line, "0 1:1"])
    learner = model()
    with pytest.raises(BadExample) as told:
        progressive(learner, name)
    assert str(told.value).startswith(f"{name}:4: ")
    assert state(learner) == state(taught([({1: 1.0}, True), ({2: 1.0}, False)]))


class Counting(ElasticNetClassifier):
    rows = 0

    def progressive_many(self, X: Any, y: Any, w: Any = None) -> Any:
        type(self).rows += len(X)
        return super().progressive_many(X, y, w)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_bad_rows_cost_a_few_looks_each(share: float) -> None:
    rng = random.Random(3)
    stream = [WRONG[0] if rng.random() < share else example for example in examples(3000)]
    Counting.rows = 0
    progressive(Counting(), stream, bad="skip")
    assert Counting.rows <= 4 * len(stream)


def test_the_first_refused_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streaml1"):
        progressive(model(), [*examples(3), *[WRONG[3]] * 9], bad="skip")
    told = [record.getMessage() for record in caplog.records]
    assert told[0].startswith("skipped examples:4: invalid label 2")
    assert len(told) == 6 and told[-1] == "skipped 4 more, 9 in all"


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (({"a": 1.0}, 10**5000), "invalid label int(...)"),
        (10**6000, "int(...) is not an example: it must be (x, y)"),
        (
            ({"a": 1.0}, True, [10**5000]),
            'the third item of an example must be {"w": weight}, got list(...)',
        ),
        (({"a": 1.0}, True, {"w": 10**5000}), "weight must be a number >= 0, got int(...)"),
    ],
    ids=["label", "example", "third part", "weight"],
)
def test_numbers_longer_than_python_tells(example: Any, told: str) -> None:
    with pytest.raises(BadExample, match=rf"^examples:1: {re.escape(told)}"):
        progressive(model(), [example])


# Passes, limits, stops


def test_passes() -> None:
    learner = model()
    report = progressive(learner, examples(50), passes=3, every=60)
    assert state(learner) == state(taught(examples(50) * 3))
    assert [line.examples for line in report.lines] == [60, 120, 150]


def test_what_can_be_read_once_is_refused_before_anything_is_learnt() -> None:
    learner = model()
    with pytest.raises(SourceError, match="examples cannot be read twice"):
        progressive(learner, iter(examples()), passes=2)
    assert learner.n_iterations == 0


def test_a_limit_is_of_each_pass() -> None:
    learner = model()
    report = progressive(learner, examples(50), passes=2, limit=35, every=20)
    assert state(learner) == state(taught(examples(50)[:35] * 2))
    assert [line.examples for line in report.lines] == [20, 40, 60, 70]


def test_a_limit_does_not_count_the_refused() -> None:
    learner = model()
    report = progressive(learner, [WRONG[0], *examples(50)], limit=35, bad="skip")
    assert (report.examples, report.rejected) == (35, 1)


def test_a_limit_reads_no_further() -> None:
    def stream() -> Iterator[Example]:
        yield from examples(10)
        pytest.fail("read on")

    assert progressive(model(), stream(), limit=10).examples == 10


def test_an_event_stops_after_the_block() -> None:
    event = threading.Event()
    learner = model()

    def on_line(line: Any) -> None:
        if line.examples == 200:
            event.set()

    report = progressive(learner, examples(500), every=100, stop=event, on_line=on_line)
    assert report.examples == 200 and state(learner) == state(taught(examples(500)[:200]))


def test_a_function_stops_all_passes() -> None:
    report = progressive(model(), examples(50), passes=9, stop=lambda: True)
    assert report.examples == 50


def test_no_examples() -> None:
    report = progressive(model(), [])
    assert report.lines == [] and report.examples == 0
    assert repr(report) == "<Report of no examples>"


def test_the_report_is_told_at_the_start() -> None:
    started: list[Report] = []
    report = progressive(model(), examples(3), on_start=started.append)
    assert started == [report]


# Predictions


def test_predictions_are_those_of_the_model() -> None:
    learner = taught(examples())
    before = state(learner)
    told = list(predictions(learner, examples(20, seed=1)))
    assert [one.p for one in told] == [
        learner.predict_proba_one(x)[True] for x, _ in examples(20, seed=1)
    ]
    assert [one.line for one in told] == list(range(1, 21))
    assert state(learner) == before


def test_predictions_of_a_regressor_and_of_a_hinge() -> None:
    regressor = taught([({"a": 1.0}, 2.0)], ElasticNetRegressor())
    assert [p.p for p in predictions(regressor, [({"a": 1.0}, None)])] == [
        regressor.predict_one({"a": 1.0})
    ]
    hinge = taught(examples(), model(loss="hinge"))
    assert [p.p for p in predictions(hinge, examples(1))] == [
        hinge.predict_proba_one(examples(1)[0][0])[True]
    ]


def test_predictions_keep_the_place_of_what_is_refused(tmp_path: Path) -> None:
    learner = taught([({1: 1.0}, True)])
    rows = ["1:1", "junk junk", "1 1:2", "", "1 1:1e60", "1 1:nan", "0 1:3", "junk junk"]
    name = svm(tmp_path / "a.svm", rows)
    told = list(predictions(learner, name, bad="skip"))
    assert [one.line for one in told] == [1, 2, 3, 5, 6, 7, 8]
    assert [one.p is None for one in told] == [False, True, False, True, True, False, True]
    with pytest.raises(BadExample, match="a.svm:2: "):
        list(predictions(learner, name))
    assert [one.line for one in predictions(learner, name, bad="skip", limit=2)] == [1, 2, 3]


def test_a_consumer_runs_once_asked_and_stops_once_asked() -> None:
    lines: list[int] = []
    started: list[Any] = []

    def on_line(line: Any) -> None:
        lines.append(line.examples)
        if line.examples == 200:
            consumer.stop()

    learner = model()
    consumer = streaml1.Consumer(
        learner, examples(500), every=100, on_line=on_line, on_start=started.append
    )
    assert consumer.report is None
    thread = threading.Thread(target=consumer.run)
    thread.start()
    thread.join()
    assert lines == [100, 200] and learner.n_iterations == 200
    assert consumer.report is started[0] and consumer.report.examples == 200


def test_a_consumer_refuses_what_progressive_does_not_take() -> None:
    with pytest.raises(TypeError, match="evry"):
        streaml1.Consumer(model(), examples(5), evry=3)
    with pytest.raises(TypeError, match=r"call its method stop\(\) instead"):
        streaml1.Consumer(model(), examples(5), stop=threading.Event())


@pytest.mark.parametrize("every", [1.5, "x", True])
def test_counts_are_whole_numbers(every: Any) -> None:
    with pytest.raises(ValueError, match=f"every must be an integer >= 1, got {every!r}"):
        progressive(model(), examples(5), every=every)
