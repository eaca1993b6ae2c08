"""River pipelines that end in a model of streaml1: saved without pickle, resumed exactly."""

from __future__ import annotations

import hashlib
import io
import json
import math
import numbers
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from river import base, compose, feature_extraction, preprocessing, stats

import streaml1
from streaml1 import BadExample, ModelFileError
from streaml1.cli import cli
from streaml1.models.pipelines import have_same_parameters, learner_of, snapshot
from streaml1.models.pipelines.transformers import STATISTICS, TRANSFORMERS
from streaml1.models.serialization import _HEAD as HEAD
from streaml1.training import evaluate, predictions, progressive
from streaml1.training.checkpoint import CheckpointError
from tests.test_crafted_files import assert_one_sentence, mutated_json

MUTATIONS = int(os.environ.get("STREAML1_MUTATIONS", "600")) // 3


def model(**params: Any) -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3, **params)


def numeric(random: Random) -> dict[str, Any]:
    """Return numbers of several types; a feature comes late, others are missing at times."""
    x: dict[str, Any] = {"a": random.gauss(1e3, 10.0), "b": random.randrange(5), "c": 1.5}
    if random.random() < 0.3:
        x["d"] = random.random() < 0.5
    if random.random() < 0.2:
        x["e"] = random.gauss(0.0, 1e-9)
    return x


def mixed(random: Random) -> dict[str, Any]:
    site = random.choice(["news", "mail", "é ", "s"])
    return {"site": site, "ad": random.randrange(4), **numeric(random)}


def typed(random: Random) -> dict[Any, Any]:
    """Return numpy numbers, whose arithmetic differs from Python's, and names of other types."""
    return {
        7: np.float32(random.random()),
        ("a", 1): np.float64(random.random()),
        None: np.int16(random.randrange(9)),
        2.5: random.random(),
    }


def holes(random: Random) -> dict[str, Any]:
    x: dict[str, Any] = {name: random.randrange(1, 9) / 7 for name in "abcdefgh"}
    for name in random.sample("adefgh", 3):  # no example so far has no minimum
        x[name] = None
    return x


def words(random: Random) -> dict[str, Any]:
    return {
        "t": " ".join(
            random.choices(["The", "cheap", "PILLS", "à", "la", "river-bank", "now"], k=5)
        ),
        "n": 3,
    }


def imputer() -> Any:
    filled: list[Any] = [stats.Mean(), stats.Min(), stats.Max(), stats.AbsMax(), stats.Sum()]
    filled += [stats.Count(), stats.Mode(k=3), 2.5]
    return preprocessing.StatImputer(*zip("abcdefgh", filled, strict=True))


def of_types() -> Any:
    numbers_ = compose.SelectType(numbers.Number) | preprocessing.StandardScaler()
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return (numbers_ + texts) | model()


def of_text() -> Any:
    text = compose.Select("t") | (
        feature_extraction.TFIDF(on="t", ngram_range=(1, 2), stop_words={"la"})
        + (feature_extraction.BagOfWords(on="t") | compose.Prefixer("n_"))
    )
    return (text + compose.Discard("t")) | preprocessing.Normalizer() | model()


def nested() -> Any:
    inner = compose.Pipeline(("scale", preprocessing.MinMaxScaler()), ("learn", model()))
    return compose.Pipeline(("name", compose.Suffixer("!")), ("inner", inner))


def known_categories() -> Any:
    categories: Any = {"site": {"news", "mail", "x"}, "ad": {0, 3}}
    codes: Any = {"site": {"news": 4, "mail": 2}, "ad": {1: 1}}
    columns = ("site", "ad")
    return (
        (compose.Select(*columns) | preprocessing.OneHotEncoder(categories, drop_first=True))
        + (compose.Select(*columns) | preprocessing.OrdinalEncoder(codes, unknown_value=None))
    ) | model()


PIPELINES: dict[str, tuple[Callable[[], Any], Callable[[Random], Any]]] = {
    "standard": (lambda: preprocessing.StandardScaler() | model(), numeric),
    "mean": (lambda: preprocessing.StandardScaler(with_std=False) | model(), numeric),
    "numpy": (lambda: preprocessing.StandardScaler() | model(), typed),
    "largest": (
        lambda: preprocessing.MaxAbsScaler() | compose.Renamer({"a": "z"}) | model(),
        numeric,
    ),
    "types": (of_types, mixed),
    "text": (of_text, words),
    "nested": (nested, numeric),
    "hashed": (lambda: preprocessing.FeatureHasher(50) | model(), mixed),
    "codes": (
        lambda: preprocessing.OrdinalEncoder() | preprocessing.MinMaxScaler() | model(),
        mixed,
    ),
    "categories": (known_categories, mixed),
    "binary": (lambda: preprocessing.Binarizer(3.0, np.float32) | model(), numeric),
    "imputed": (lambda: imputer() | model(), holes),
    "imputed-part": (lambda: (imputer() + compose.Select("a")) | model(), holes),
    "previous": (lambda: preprocessing.PreviousImputer() | model(), holes),
    "product": (
        lambda: (
            compose.Select("a", "b") * compose.SelectType(numbers.Number)
            | preprocessing.StandardScaler()
            | streaml1.ElasticNetRegressor()
        ),
        numeric,
    ),
    "classes": (lambda: preprocessing.StandardScaler() | streaml1.SoftmaxClassifier(), numeric),
}


def label_of(pipeline: Any, random: Random) -> Any:
    learner = learner_of(pipeline)
    if isinstance(learner, base.Regressor):
        return random.gauss(0.0, 1.0)
    is_multiclass = isinstance(learner, streaml1.SoftmaxClassifier)
    return random.choice("xyz") if is_multiclass else random.random() < 0.5


def learn(pipeline: Any, example: Callable[[Random], Any], random: Random, n: int) -> list[Any]:
    """Predict and learn examples; return the predictions."""
    found = []
    for _ in range(n):
        x, y = example(random), label_of(pipeline, random)
        with np.errstate(all="ignore"):
            is_classifier = isinstance(pipeline, base.Classifier)
            found.append(
                pipeline.predict_proba_one(x) if is_classifier else pipeline.predict_one(x)
            )
            pipeline.learn_one(x, y)
    return found


@pytest.mark.parametrize("name", PIPELINES)
def test_loaded_pipelines_continue_bit_identically(name: str, tmp_path: Path) -> None:
    make, example = PIPELINES[name]
    pipeline, path = make(), tmp_path / "p.model"
    for n in (0, 25):
        learn(pipeline, example, Random(n), n)
        streaml1.save(pipeline, path)
        loaded = streaml1.load(path)
        assert str(loaded) == str(pipeline) and list(loaded.steps) == list(pipeline.steps)
        assert snapshot(loaded)() == path.read_bytes() == snapshot(pipeline)()
        assert have_same_parameters(loaded, make()) or name == "hashed"  # its seed is random
    expected = learn(pipeline, example, Random(1), 25)
    assert learn(loaded, example, Random(1), 25) == expected
    assert snapshot(loaded)() == snapshot(pipeline)()


def test_every_transformer_is_covered() -> None:
    covered: set[str] = set()

    def visit(step: Any) -> None:
        covered.add(type(step).__name__)
        for attribute in ("steps", "transformers", "stats"):
            for part in getattr(step, attribute, {}).values():
                visit(part)

    for make, _ in PIPELINES.values():
        visit(make())
    assert covered >= {*TRANSFORMERS, *STATISTICS, "TransformerUnion", "TransformerProduct"}


def test_order_of_selected_features_is_kept(tmp_path: Path) -> None:
    """A set of strings has another order in another process."""
    names = [f"feature {k}" for k in range(50)]
    pipeline = compose.Select(*names) | model()
    pipeline["Select"].keys = dict.fromkeys(names)  # as a set of another process may iterate
    streaml1.save(pipeline, tmp_path / "p")
    x = dict.fromkeys(reversed(names), 1.0)
    assert list(streaml1.load(tmp_path / "p").transform_one(x)) == names


def test_models_are_saved_as_by_their_method(tmp_path: Path) -> None:
    learner = model()
    learner.learn_one({"a": 1.0}, True)
    streaml1.save(learner, tmp_path / "a")
    learner.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class Scaler(preprocessing.StandardScaler):  # type: ignore[misc]
    """A class of a user, whose state nobody knows."""


def with_attribute() -> Any:
    scaler = preprocessing.StandardScaler()
    scaler.news = 1
    return scaler | model()


def shared() -> Any:
    scaler = preprocessing.StandardScaler()
    return compose.Pipeline(("a", scaler), ("b", scaler), ("c", model()))


REJECTED: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (
        lambda: compose.FuncTransformer(dict) | model(),
        r"step 'type' is a FuncTransformer, which a model file cannot hold; apply it before",
    ),
    "part": (
        lambda: (preprocessing.RobustScaler() + preprocessing.MinMaxScaler()) | model(),
        "step 'RobustScaler' of step 'TransformerUnion' is a RobustScaler",
    ),
    "vowel": (
        lambda: feature_extraction.Agg(on="a", by="b", how=stats.Mean()) | model(),
        "step 'Agg' is an Agg, which a model file cannot hold",
    ),
    "subclass": (lambda: Scaler() | model(), "step 'Scaler' is a Scaler"),
    "window": (
        lambda: preprocessing.StandardScaler(window_size=9) | model(),
        "window_size of step 'StandardScaler', a StandardScaler, has the value 9",
    ),
    "tokenizer": (
        lambda: feature_extraction.BagOfWords(tokenizer=str.split) | model(),
        "tokenizer of step 'BagOfWords', a BagOfWords, has the value <method",
    ),
    "attribute": (with_attribute, "news of step 'StandardScaler'"),
    "shared": (shared, "step 'b' is also another step of the pipeline"),
    "transformers": (
        lambda: preprocessing.MinMaxScaler() | preprocessing.Normalizer(),
        "got a pipeline that ends in Normalizer",
    ),
    "no pipeline": (lambda: preprocessing.MinMaxScaler(), "got MinMaxScaler"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_cannot_be_stored_is_named(name: str, tmp_path: Path) -> None:
    make, message = REJECTED[name]
    with pytest.raises(ModelFileError, match=message) as caught:
        streaml1.save(make(), tmp_path / "p")
    assert not (tmp_path / "p").exists() and "\n" not in str(caught.value)


def test_categories_that_no_file_can_find_again_are_rejected() -> None:
    pipeline = preprocessing.OrdinalEncoder() | model()
    pipeline.learn_one({"a": math.nan}, True)
    with pytest.raises(ModelFileError, match="values of step 'OrdinalEncoder'.* nan"):
        snapshot(pipeline)


# Crafted files


def arrays_of(pipeline: Any) -> dict[str, Any]:
    with np.load(io.BytesIO(snapshot(pipeline)()[HEAD.size :])) as archive:
        return dict(archive)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    file = io.BytesIO()
    np.savez(file, **arrays)
    body = file.getvalue()
    digest = hashlib.sha256(struct.pack("<IQ", 1, len(body)) + body).digest()
    path.write_bytes(HEAD.pack(b"streaml1", 1, len(body), digest) + body)


def write_steps(path: Path, arrays: dict[str, Any], steps: Any) -> None:
    text = json.dumps(steps).encode("utf-8", "surrogatepass")
    write_arrays(path, {**arrays, "steps": np.frombuffer(text, np.uint8)})


def test_mutated_steps_are_rejected_or_used(tmp_path: Path) -> None:
    """Whatever the JSON says, it is rejected with one sentence or is what the pipeline holds."""
    random, outcomes, path = Random(3), {"rejected": 0, "used": 0}, tmp_path / "p"
    originals = []
    for name, (make, example) in PIPELINES.items():
        pipeline = make()
        learn(pipeline, example, Random(0), 8)
        arrays = arrays_of(pipeline)
        steps = json.loads(arrays["steps"].tobytes())
        write_steps(path, arrays, steps)
        assert snapshot(streaml1.load(path))() == snapshot(pipeline)(), name
        originals.append((arrays, steps))
    for _ in range(MUTATIONS):
        arrays, steps = random.choice(originals)
        changed = mutated_json(random, steps)
        write_steps(path, arrays, changed)
        try:
            loaded = streaml1.load(path)
        except ModelFileError as error:
            assert str(error) == f"{path} was not written by streaml1"
            outcomes["rejected"] += 1
        else:
            assert json.loads(arrays_of(loaded)["steps"].tobytes()) == changed
            outcomes["used"] += 1
    assert min(outcomes.values()) > MUTATIONS / 50, outcomes


@pytest.mark.parametrize(
    "step",
    [
        {"class": "FuncTransformer", "params": {"func": "os.system"}, "state": {}},
        {"class": "Entry", "params": {}, "state": {}},
        {"class": "__import__", "params": {}, "state": {}},
        {"class": "Pipeline", "steps": []},
        {"class": "TargetTransformRegressor", "steps": [["a", None]]},
        None,
    ],
)
def test_unknown_classes_are_rejected(step: Any, tmp_path: Path) -> None:
    path, arrays = tmp_path / "p", arrays_of(preprocessing.StandardScaler() | model())
    for steps in (step, {"class": "Pipeline", "steps": [["a", step], ["b", None]]}):
        write_steps(path, arrays, steps)
        with pytest.raises(ModelFileError) as caught:
            streaml1.load(path)
        assert_one_sentence(caught.value)


# Runs


@pytest.fixture
def clicks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a CSV file with a number, a category and text; the directory is the current one."""
    monkeypatch.chdir(tmp_path)
    random = Random(4)
    lines = ["y,a,b,t"]
    for _ in range(60):
        a, cheap = random.gauss(500.0, 90.0), random.random() < 0.5
        text = "cheap pills" if cheap else "see you later"
        lines.append(f"{int(cheap == (a > 500.0))},{a:.3f},{random.randrange(3)},{text}")
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def of_clicks() -> Any:
    scaled = compose.Select("a", "b") | preprocessing.StandardScaler()
    return (scaled + feature_extraction.TFIDF(on="t")) | model()


def test_checkpoints_of_pipelines_resume_bit_identically(clicks: Path) -> None:
    whole = of_clicks()
    expected = progressive(whole, clicks, target="y")
    for limit in (25, None):
        resumed = of_clicks()
        learner = learner_of(resumed)
        report = progressive(resumed, clicks, target="y", checkpoint="kept", limit=limit)
    assert learner_of(resumed) is learner  # callers may hold references
    assert report.lines[-1].loss == expected.lines[-1].loss and report.examples == 60
    assert snapshot(resumed)() == snapshot(whole)() == snapshot(streaml1.load("kept"))()
    other = (compose.Select("a") | preprocessing.StandardScaler()) | model()
    with pytest.raises(CheckpointError, match=r"kept holds \['a', 'b'\] \| .*; resume with a"):
        progressive(other, clicks, target="y", checkpoint="kept")
    with pytest.raises(CheckpointError, match="resume with a model of these parameters"):
        progressive(model(), clicks, target="y", checkpoint="kept")
    with pytest.raises(CheckpointError, match="is a RobustScaler.*; leave the checkpoint out"):
        progressive(preprocessing.RobustScaler() | model(), clicks, target="y", checkpoint="new")


def test_best_pass_of_a_pipeline_is_in_its_checkpoints(clicks: Path) -> None:
    kept, whole = of_clicks(), of_clicks()
    expected = progressive(whole, clicks, target="y", passes=3, holdout=5)
    progressive(kept, clicks, target="y", passes=2, holdout=5, checkpoint="kept")
    kept = of_clicks()
    report = progressive(kept, clicks, target="y", passes=3, holdout=5, checkpoint="kept")
    assert report.kept == expected.kept
    assert snapshot(kept)() == snapshot(whole)()


def run(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_commands_take_pipelines(clicks: Path) -> None:
    pipeline = of_clicks()
    streaml1.save(pipeline, "start")
    progressive(pipeline, clicks, target="y")
    source = ("clicks.csv", "--target", "y")
    output = run("learn", *source, "--load", "start", "--save", "end", "--checkpoint", "kept")
    assert "examples" in output and "cheap" in output
    assert Path("end").read_bytes() == snapshot(pipeline)()
    # Another option of the model, on its last step.
    run("learn", *source, "--load", "end", "--save", "next", "--clip-gradient", "2")
    assert learner_of(streaml1.load("next")).clip_gradient == 2.0

    expected = [found.p for found in predictions(pipeline, clicks, target="y")]
    assert [float(p) for p in run("predict", "kept", *source).split()] == expected
    loss = evaluate(pipeline, clicks, target="y").lines[-1].loss
    assert f"{loss:.4f}" in run("evaluate", "end", *source)
    shown = run("show", "end")
    assert "pipeline" in shown and "StandardScaler" in shown and "cheap" in shown

    message = "end holds a river pipeline, which only learn, predict, evaluate and show support"
    for command in (("export", "end", "--csv"), ("diff", "end", "next")):
        assert message in run(*command, code=2)
    assert "--explain requires a model" in run("predict", "end", *source, "--explain", "3", code=2)


def scaled(*columns: str) -> Any:
    select = compose.Select(*columns) if columns else compose.Discard("id")
    return select | preprocessing.StandardScaler() | model()


MISSING = (
    "a step of the pipeline fails on the missing value of 'a': fill in such values before it, as "
    "with preprocessing.StatImputer of river"
)


def test_steps_that_fail_are_errors_of_the_example(tmp_path: Path) -> None:
    """Scalers do not take None, and Select needs what it selects; both were tracebacks."""
    path = tmp_path / "c.csv"
    path.write_text("y,a,b\n" + "".join(f"{k % 2},{k},{k % 3}\n" for k in range(9)) + "1,,2\n")
    with pytest.raises(BadExample, match=re.escape(f"c.csv:11: {MISSING}")):
        progressive(scaled(), path, target="y")
    pipeline = scaled("a", "b")
    report = progressive(pipeline, path, target="y", bad="skip")
    assert report.examples == 9
    found = list(predictions(pipeline, path, target="y", bad="skip"))
    assert [one.p is None for one in found] == [False] * 9 + [True]
    streaml1.save(pipeline, tmp_path / "m")
    command = [str(tmp_path / "m"), str(path), "--target", "y"]
    assert f"c.csv:11: {MISSING}\n" in run("predict", *command, code=65)
    assert f"c.csv:11: {MISSING}\n" in run("evaluate", *command, code=65)
    rows = [{"a": 1.0, "b": 2.0, "y": 1}, {"b": 1.0, "y": 0}]
    with pytest.raises(BadExample, match="examples:2: a step of the pipeline needs 'a'"):
        progressive(scaled("a", "b"), rows, target="y")


def test_missing_values_of_dicts_reach_imputers_and_not_scalers() -> None:
    """NaN in a dict turned all later values of a scaler into NaN, which models leave out."""
    rows = [{"a": math.nan if k % 4 == 3 else float(k % 5), "y": k % 2} for k in range(40)]
    with pytest.raises(BadExample, match=f"examples:4: {MISSING}"):
        progressive(scaled(), rows, target="y")
    filled, expected = (
        preprocessing.StatImputer(("a", stats.Mean())) | preprocessing.StandardScaler() | model()
        for _ in range(2)
    )
    progressive(filled, rows, target="y")
    for row in rows:
        expected.learn_one({"a": None if math.isnan(row["a"]) else row["a"]}, row["y"] == 1)
    assert learner_of(filled).weights == learner_of(expected).weights != {}


def test_texts_are_examples_of_a_pipeline(caplog: pytest.LogCaptureFixture) -> None:
    """A run read every example as a dict, before the step that turns a text into one."""
    docs = [("cheap pills", True), ("cats and dogs", False)] * 20
    pipeline, twin = (feature_extraction.BagOfWords() | model() for _ in range(2))
    report = progressive(pipeline, docs, every=10)
    for text, label in docs:
        twin.learn_one(text, label)
    weights = learner_of(twin).weights
    assert report.examples == len(docs)
    assert learner_of(pipeline).weights == weights != {}
    assert evaluate(pipeline, docs).examples == len(docs)
    assert [one.p for one in predictions(pipeline, docs[:2])] == [
        twin.predict_proba_one(text)[True] for text, _ in docs[:2]
    ]
    assert "is detached" not in caplog.text
    with pytest.raises(BadExample, match="examples:2: a step of the pipeline fails"):
        progressive(pipeline, [*docs[:1], (None, True)])


def test_errors_of_own_steps_keep_their_tracebacks() -> None:
    def fail(x: Any) -> Any:
        raise TypeError("my own mistake")

    pipeline = compose.FuncTransformer(fail) | model()
    with pytest.raises(TypeError, match="my own mistake"):
        progressive(pipeline, [{"a": None, "y": 1}], target="y")


def test_json_examples_reach_the_pipeline(tmp_path: Path) -> None:
    lines = [{"y": k % 2, "a": k, "site": "news" if k % 3 else "mail"} for k in range(20)]
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pipeline, expected = of_types(), of_types()
    progressive(pipeline, path, target="y")
    for line in lines:
        expected.learn_one({"a": line["a"], "site": line["site"]}, line["y"] == 1)
    weights = learner_of(pipeline).weights
    assert weights == learner_of(expected).weights and "site_news" in weights
