"""Training runs over streams: learning, report lines, rejected examples, limits and predictions."""

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
from streaml1.training import evaluate as evaluate_model
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


def trained(stream: Any, like: Any = None) -> Any:
    """Return a model that has learnt (x, y, w...) one by one: a new one, or `like`."""
    learner = model() if like is None else like
    for x, y, *w in stream:
        learner.learn_one(x, y, *w)
    return learner


def write_lines(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


# Learning and report lines


@pytest.mark.parametrize(
    ("every", "lines"), [(1000, [100]), (30, [30, 60, 90, 100]), (50, [50, 100]), (99, [99, 100])]
)
def test_lines_are_written_at_multiples_and_at_the_end(every: int, lines: list[int]) -> None:
    observed = []
    learner = model()
    report = progressive(learner, examples(), every=every, on_line=observed.append)
    assert [line.examples for line in report.lines] == lines
    assert observed == report.lines
    assert state(learner) == state(trained(examples()))
    assert report.lines[-1].n_nonzero == learner.n_nonzero
    assert report.lines[-1].n_features_seen == 30


def test_default_interval_of_lines_grows_with_the_run() -> None:
    stream = (({"a": 1.0}, k % 2 == 0) for k in range(31_500))
    report = progressive(model(), stream)
    thousands = [*range(1, 11), 20, 30]
    assert [line.examples for line in report.lines] == [*(1000 * k for k in thousands), 31_500]


def test_predictions_precede_learning() -> None:
    learner, reference, p = model(), model(), []
    for x, y in examples():
        p.append(reference.predict_proba_one(x)[True])
        reference.learn_one(x, y)
    expected = Report("logistic")
    expected.add(p, [y for _, y in examples()])
    assert progressive(learner, examples()).lines[-1].loss == expected.line().loss


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
def test_hinge_losses_are_computed_from_margins(loss: str) -> None:
    line = progressive(model(lr=0.1, loss=loss), examples(), every=1000).lines[0]
    reference, total = model(lr=0.1, loss=loss), 0.0
    for x, y in examples():
        margin = (1 if y else -1) * reference.freeze().margin(x)
        total += max(0, 1 - margin) if loss == "hinge" else _smoothed(margin)
        reference.learn_one(x, y)
    assert line.loss == pytest.approx(total / 100)
    assert line.loss_name == loss.replace("_", " ") + " loss"


def _smoothed(margin: float) -> float:
    z = 1 - margin
    return z - 0.5 if z >= 1 else 0.5 * max(0, z) ** 2


def test_equals_river_on_a_pipeline() -> None:
    def pipeline() -> Any:
        return preprocessing.StandardScaler() | ElasticNetClassifier(lr=0.1, l1=1e-4)

    model = pipeline()
    report = progressive(model, datasets.Phishing())
    metric = evaluate.progressive_val_score(datasets.Phishing(), pipeline(), metrics.LogLoss())
    assert report.lines[-1].loss == pytest.approx(metric.get(), rel=1e-9)
    assert report.lines[-1].n_nonzero == model["ElasticNetClassifier"].n_nonzero
    assert report.title == "Phishing: StandardScaler | ElasticNetClassifier"


def test_pipelines_report_the_loss_of_their_model() -> None:
    regression = preprocessing.StandardScaler() | ElasticNetRegressor(lr=0.1, loss="absolute")
    report = progressive(regression, datasets.TrumpApproval())
    assert report.loss == "absolute" and report.lines[-1].loss == report.lines[-1].error
    hinge_report = progressive(preprocessing.StandardScaler() | model(loss="hinge"), examples())
    assert hinge_report.loss_name == "hinge loss"
    river_report = progressive(linear_model.LogisticRegression(), datasets.Phishing(), limit=10)
    assert river_report.loss == "logistic" and river_report.lines[0].n_nonzero is None


def test_title_lists_non_default_parameters() -> None:
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
def test_matrix_source(kind: str, signed: bool) -> None:
    X, y, w = matrix()
    expected = trained(zip(rows_of(X), y.tolist(), w.tolist(), strict=True))
    X_given = {"csr": X, "coo": X.tocoo(), "dense": X.toarray(), "dicts": rows_of(X)}[kind]
    learner = model()
    labels = np.where(y, 1, -1) if signed else y
    report = progressive(learner, (X_given, labels, w), every=40)
    assert state(learner) == state(expected)
    assert [line.examples for line in report.lines] == [40, 80, 90]
    assert report.d == (None if kind == "dicts" else 40)


@pytest.mark.parametrize("library", ["pandas", "polars", "pandas-sparse"])
def test_data_frame_source(library: str) -> None:
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
    assert learner.weights == trained(zip(rows, y, strict=True)).weights


def test_bad_rows_of_a_matrix_are_skipped() -> None:
    X, y, _ = matrix()
    labels = y.astype(object)
    labels[[4, 50]] = [2, None]
    X.data[X.indptr[20]] = np.nan
    good_rows = [i for i in range(90) if i not in (4, 20, 50)]
    learner = model()
    report = progressive(learner, (X, labels), bad="skip")
    rows = rows_of(X)
    assert report.rejected == 3
    assert learner.weights == trained((rows[i], bool(y[i])) for i in good_rows).weights


def test_different_lengths_are_rejected() -> None:
    X, y, w = matrix()
    with pytest.raises(ValueError, match="got 89 labels for 90 rows"):
        progressive(model(), (X, y[1:]))
    with pytest.raises(ValueError, match="got 89 weights for 90 rows"):
        progressive(model(), (X, y, w[1:]))


def test_file_name_path_and_source_are_equivalent(tmp_path: Path) -> None:
    from streaml1.sources import open_source

    name = write_lines(tmp_path / "a.svm", ["+1 1:0.5 2:1", "", "-1 3:2", "0 1:1"])
    expected = trained([({1: 0.5, 2: 1.0}, True), ({3: 2.0}, False), ({1: 1.0}, False)])
    for source in (name, Path(name), open_source(name)):
        learner = model()
        report = progressive(learner, source)
        assert state(learner) == state(expected)
        assert report.title.startswith(name)


def test_csv_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("shop,price,sold,n\nfr,2,1,3\nde,1,0,1\n")
    learner = model()
    progressive(learner, tmp_path / "a.csv", target="sold", categorical=["shop"], weight="n")
    expected = trained([({"shop": "fr", "price": 2}, True, 3.0), ({"shop": "de", "price": 1}, 0)])
    assert learner.weights == expected.weights


def test_sample_weights_in_the_third_item() -> None:
    stream = [(x, y, {"w": 1.0 + i % 3}) for i, (x, y) in enumerate(examples())]
    learner = model()
    progressive(learner, stream)
    expected = trained((x, y, extra["w"]) for x, y, extra in stream)
    assert state(learner) == state(expected)


def test_stream_may_reuse_one_dict() -> None:
    def stream() -> Iterator[Example]:
        reused: dict[str, float] = {}
        for x, y in examples():
            reused.clear()
            reused.update(x)
            yield reused, y

    learner = model()
    progressive(learner, stream())
    assert state(learner) == state(trained(examples()))


def test_examples_before_a_stream_error_are_learnt() -> None:
    def stream() -> Iterator[Example]:
        yield from examples(42)
        raise ConnectionError("gone")

    learner = model()
    with pytest.raises(ConnectionError, match="gone"):
        progressive(learner, stream())
    assert state(learner) == state(trained(examples(42)))


def test_regression_converts_labels_to_numbers(tmp_path: Path) -> None:
    name = write_lines(tmp_path / "a.svm", ["2.5 1:1", "-1 1:1"])
    learner = ElasticNetRegressor(lr=0.1)
    report = progressive(learner, name)
    expected = trained([({1: 1.0}, 2.5), ({1: 1.0}, -1.0)], ElasticNetRegressor(lr=0.1))
    assert learner.weights == expected.weights
    assert report.loss_name == "squared loss"


@pytest.mark.parametrize("source", [7, None])
def test_invalid_source_is_rejected(source: Any) -> None:
    name = type(source).__name__
    with pytest.raises(TypeError, match=f"^source must be .* got an object of type {name}$"):
        progressive(model(), source)
    with pytest.raises(TypeError, match=f"must be a name, or an iterable of dicts .* {name}$"):
        progressive(model(), source, label_within=1.0)


def test_source_before_model_is_recognized() -> None:
    with pytest.raises(TypeError, match="ElasticNetClassifier; the model comes first, then the"):
        progressive([({"a": 1.0}, True)], ElasticNetClassifier())  # type: ignore[arg-type]


def test_invalid_model_is_rejected() -> None:
    with pytest.raises(TypeError, match="model must be a river classifier .* got StandardScaler"):
        progressive(preprocessing.StandardScaler(), examples())


def test_classes_in_place_of_models_are_rejected() -> None:
    for run in (progressive, evaluate_model, predictions):
        with pytest.raises(TypeError, match=r"ElasticNetClassifier\(\), got the class Elastic"):
            run(ElasticNetClassifier, examples())
    with pytest.raises(TypeError, match=r"^model must be .*\(\), got the class Elastic"):
        streaml1.regret(ElasticNetClassifier, examples())
    with pytest.raises(TypeError, match=r"^model must be .*\(\), got the class Elastic"):
        streaml1.save(ElasticNetClassifier, "model")
    with pytest.raises(TypeError, match=r"^the model must be .*\(\), got the class Elastic"):
        streaml1.merge([ElasticNetClassifier], probe=examples())


@pytest.mark.parametrize("name", ["every", "limit", "passes"])
def test_counts_below_one_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be >= 1, got 0$"):
        progressive(model(), examples(), **{name: 0})
    with pytest.raises(ValueError, match='bad must be "fail" or "skip", got .ignore.'):
        progressive(model(), examples(), bad="ignore")


# Rejected examples

INVALID: list[Any] = [
    ({"a": float("inf")}, True),
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


@given(st.lists(st.none() | st.sampled_from(range(len(INVALID))), max_size=80), st.integers(1, 90))
def test_only_valid_examples_are_learnt(faults: list[int | None], every: int) -> None:
    good = examples(len(faults))
    stream = [x if f is None else INVALID[f] for x, f in zip(good, faults, strict=True)]
    valid = [x for x, f in zip(good, faults, strict=True) if f is None]
    learner = model()
    report = progressive(learner, stream, every=every, bad="skip")
    assert state(learner) == state(trained(valid))
    assert (report.examples, report.rejected) == (len(valid), len(faults) - len(valid))
    lines = [n for n in range(1, len(valid) + 1) if n % every == 0 or n == len(valid)]
    assert [line.examples for line in report.lines] == lines


@pytest.mark.parametrize("invalid", INVALID)
def test_fail_names_the_position_and_keeps_earlier_examples(invalid: Any) -> None:
    stream = [*examples(12), invalid, *examples(5)]
    learner = model()
    with pytest.raises(BadExample, match=r"^examples:13: .{10}") as error:
        progressive(learner, stream)
    assert "\n" not in str(error.value)
    assert state(learner) == state(trained(examples(12)))


@pytest.mark.parametrize("line", ["1 2:nan", "1 2:1e60", "2 3:1", "1 2:x", "spam"])
def test_fail_names_the_file_and_the_line(line: str, tmp_path: Path) -> None:
    name = write_lines(tmp_path / "a.svm", ["1 1:1", "# a comment", "0 2:1", line, "0 1:1"])
    learner = model()
    with pytest.raises(BadExample) as error:
        progressive(learner, name)
    assert str(error.value).startswith(f"{name}:4: ")
    assert state(learner) == state(trained([({1: 1.0}, True), ({2: 1.0}, False)]))


class CountingClassifier(ElasticNetClassifier):
    """Count the rows passed to `progressive_many`."""

    rows = 0

    def progressive_many(self, X: Any, y: Any, w: Any = None) -> Any:
        type(self).rows += len(X)
        return super().progressive_many(X, y, w)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_each_row_is_passed_to_the_model_at_most_four_times(share: float) -> None:
    rng = random.Random(3)
    stream = [INVALID[0] if rng.random() < share else example for example in examples(3000)]
    CountingClassifier.rows = 0
    progressive(CountingClassifier(), stream, bad="skip")
    assert CountingClassifier.rows <= 4 * len(stream)


def test_first_rejected_examples_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streaml1"):
        progressive(model(), [*examples(3), *[INVALID[3]] * 9], bad="skip")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("skipped examples:4: invalid label 2")
    assert len(messages) == 6 and messages[-1] == "skipped 4 more, 9 in all"


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (({"a": 1.0}, 10**5000), "invalid label int(...)"),
        (10**6000, "int(...) is not an example: it must be (x, y)"),
        (
            ({"a": 1.0}, True, [10**5000]),
            'the third item of an example must be {"w": weight}, got list(...)',
        ),
        (({"a": 1.0}, True, {"w": 10**5000}), "weight must be a number >= 0, got int(...)"),
    ],
    ids=["label", "example", "third item", "weight"],
)
def test_ints_too_long_to_print_are_abbreviated(example: Any, message: str) -> None:
    with pytest.raises(BadExample, match=rf"^examples:1: {re.escape(message)}"):
        progressive(model(), [example])


# Passes, limits, stops


def test_passes_repeat_the_stream() -> None:
    learner = model()
    report = progressive(learner, examples(50), passes=3, holdout=0, every=60)
    assert state(learner) == state(trained(examples(50) * 3))
    assert [line.examples for line in report.lines] == [60, 120, 150]


def test_two_passes_over_an_iterator_are_rejected_before_learning() -> None:
    learner = model()
    with pytest.raises(SourceError, match="examples cannot be read twice"):
        progressive(learner, iter(examples()), passes=2)
    assert learner.n_iterations == 0


def test_limit_applies_to_each_pass() -> None:
    learner = model()
    report = progressive(learner, examples(50), passes=2, holdout=0, limit=35, every=20)
    assert state(learner) == state(trained(examples(50)[:35] * 2))
    assert [line.examples for line in report.lines] == [20, 40, 60, 70]


def test_limit_does_not_count_rejected_examples() -> None:
    learner = model()
    report = progressive(learner, [INVALID[0], *examples(50)], limit=35, bad="skip")
    assert (report.examples, report.rejected) == (35, 1)


def test_limit_ends_reading() -> None:
    def stream() -> Iterator[Example]:
        yield from examples(10)
        pytest.fail("read past the limit")

    assert progressive(model(), stream(), limit=10).examples == 10


def test_event_stops_the_run_after_the_block() -> None:
    event = threading.Event()
    learner = model()

    def on_line(line: Any) -> None:
        if line.examples == 200:
            event.set()

    report = progressive(learner, examples(500), every=100, stop=event, on_line=on_line)
    assert report.examples == 200 and state(learner) == state(trained(examples(500)[:200]))


def test_stop_function_ends_all_passes() -> None:
    report = progressive(model(), examples(50), passes=9, stop=lambda: True)
    assert report.examples == 50


def test_empty_stream_yields_an_empty_report() -> None:
    report = progressive(model(), [])
    assert report.lines == [] and report.examples == 0
    assert repr(report) == "<Report of no examples>"


def test_on_start_receives_the_report() -> None:
    reports: list[Report] = []
    report = progressive(model(), examples(3), on_start=reports.append)
    assert reports == [report]


# Predictions


def test_predictions_match_the_model() -> None:
    learner = trained(examples())
    before = state(learner)
    results = list(predictions(learner, examples(20, seed=1)))
    assert [result.p for result in results] == [
        learner.predict_proba_one(x)[True] for x, _ in examples(20, seed=1)
    ]
    assert [result.line for result in results] == list(range(1, 21))
    assert state(learner) == before


def test_predictions_of_a_regressor_and_a_hinge_model() -> None:
    regressor = trained([({"a": 1.0}, 2.0)], ElasticNetRegressor(lr=0.1))
    assert [p.p for p in predictions(regressor, [({"a": 1.0}, None)])] == [
        regressor.predict_one({"a": 1.0})
    ]
    hinge = trained(examples(), model(loss="hinge"))
    assert [p.p for p in predictions(hinge, examples(1))] == [
        hinge.predict_proba_one(examples(1)[0][0])[True]
    ]


def test_predictions_keep_the_positions_of_rejected_lines(tmp_path: Path) -> None:
    learner = trained([({1: 1.0}, True)])
    rows = ["1:1", "junk junk", "1 1:2", "", "1 1:1e60", "1 1:nan", "0 1:3", "junk junk"]
    name = write_lines(tmp_path / "a.svm", rows)
    results = list(predictions(learner, name, bad="skip"))
    assert [result.line for result in results] == [1, 2, 3, 5, 6, 7, 8]
    assert [result.p is None for result in results] == [False, True, False, True, True, False, True]
    with pytest.raises(BadExample, match="a.svm:2: "):
        list(predictions(learner, name))
    limited = predictions(learner, name, bad="skip", limit=2)
    assert [result.line for result in limited] == [1, 2, 3]


def test_consumer_runs_in_a_thread_until_stopped() -> None:
    lines: list[int] = []
    reports: list[Any] = []

    def on_line(line: Any) -> None:
        lines.append(line.examples)
        if line.examples == 200:
            consumer.stop()

    learner = model()
    consumer = streaml1.Consumer(
        learner, examples(500), every=100, on_line=on_line, on_start=reports.append
    )
    assert consumer.report is None
    thread = threading.Thread(target=consumer.run)
    thread.start()
    thread.join()
    assert lines == [100, 200] and learner.n_iterations == 200
    assert consumer.report is reports[0] and consumer.report.examples == 200


def test_consumer_rejects_unknown_arguments() -> None:
    with pytest.raises(TypeError, match="evry"):
        streaml1.Consumer(model(), examples(5), evry=3)
    with pytest.raises(TypeError, match=r"call its method stop\(\) instead"):
        streaml1.Consumer(model(), examples(5), stop=threading.Event())


@pytest.mark.parametrize("every", [1.5, "x", True])
def test_counts_must_be_integers(every: Any) -> None:
    with pytest.raises(ValueError, match=f"every must be an integer >= 1, got {every!r}"):
        progressive(model(), examples(5), every=every)
