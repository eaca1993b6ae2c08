"""Options of runs and sources: routing, validation and documentation."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

import streaml1
from streaml1.core.option_fields import option_names
from streaml1.sources import SourceOptions, open_source
from streaml1.training import Consumer, RunConfig, convert, evaluate, predictions, progressive
from streaml1.training.config import run_config
from streaml1.training.consumer_group import Group
from streaml1.training.regret import regret

EXAMPLES: list[Any] = [({"a": 1.0}, k % 2 == 0) for k in range(10)]


def model() -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier()


def test_config_keywords_or_both() -> None:
    config = RunConfig(every=2, limit=5)
    assert len(progressive(model(), EXAMPLES, config).lines) == 3
    assert len(progressive(model(), EXAMPLES, every=2, limit=5).lines) == 3
    report = progressive(model(), EXAMPLES, config, limit=7)
    assert report.examples == 7 and len(report.lines) == 4
    assert config == RunConfig(every=2, limit=5)


def test_source_keywords_are_routed() -> None:
    config = run_config("progressive", None, {"target": "y", "every": 3, "categorical": "c"})
    assert config.every == 3
    assert config.source_options == SourceOptions(target="y", categorical=("c",))
    extended = run_config("progressive", config, {"weight": "w"})
    assert extended.source_options.columns == ["y", "w", "c"]
    csv_options = SourceOptions(format="csv")
    assert run_config("f", config, {"source_options": csv_options}).source_options == csv_options


def test_options_are_frozen() -> None:
    for options, name in ((RunConfig(), "every"), (SourceOptions(), "format")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(options, name, 1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (progressive, "progressive"),
        (evaluate, "evaluate"),
        (predictions, "predictions"),
        (Consumer, "Consumer"),
        (regret, "regret"),
    ],
)
def test_typo_suggests_the_closest_option(call: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'limt'; "
                       "did you mean 'limit'[?]$"):  # fmt: skip
        call(model(), EXAMPLES, limt=1)
    with pytest.raises(TypeError, match="'categorcal'; did you mean 'categorical'"):
        call(model(), EXAMPLES, categorcal=["a"])
    with pytest.raises(TypeError, match="'nrows'; did you mean 'limit'"):
        call(model(), EXAMPLES, nrows=3)
    with pytest.raises(TypeError, match="'metric'; omit it: the report has all metrics"):
        call(model(), EXAMPLES, metric="auc")
    with pytest.raises(TypeError, match="'text'"):  # the model defines the text columns
        call(model(), EXAMPLES, text=["a"])


def test_labels_in_the_place_of_the_config_are_answered() -> None:
    with pytest.raises(TypeError, match="must be a RunConfig, got .* type list; .*: [(]X, y[)]$"):
        progressive(model(), EXAMPLES, [True, False])  # type: ignore[arg-type]


def test_typos_in_other_functions() -> None:
    with pytest.raises(TypeError, match="open_source.. got .* 'taget'; did you mean 'target'"):
        open_source("a.csv", taget="y")
    with pytest.raises(TypeError, match="convert.. got .* 'bed'; did you mean 'bad'"):
        convert(EXAMPLES, "a.rows", bed="skip")
    with pytest.raises(TypeError, match="Group.. got .* 'evry'; did you mean 'every'"):
        Group(model(), "kafka://h/t", group="g", directory="models", evry=1)
    with pytest.raises(TypeError, match="needs the name of a consumer group; give group="):
        Group(model(), "kafka://h/t", directory="models")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("every", 0, "every must be >= 1, got 0"),
        ("limit", -3, "limit must be >= 1, got -3"),
        ("passes", 1.5, "passes must be an integer >= 1, got 1.5"),
        ("passes", None, "passes must be an integer >= 1, got None"),
        ("waiting", True, "waiting must be an integer >= 1, got True"),
        ("bad", "ignore", 'bad must be "fail" or "skip", got \'ignore\''),
        ("unanswered", None, 'unanswered must be "drop" or "negative", got None'),
        ("label_within", 0.0, "label_within must be a finite number of seconds > 0, got 0.0"),
    ],
)
def test_values_out_of_range_are_rejected(name: str, value: Any, message: str) -> None:
    for call in (RunConfig, lambda **options: Consumer(model(), EXAMPLES, **options)):
        with pytest.raises(ValueError) as error:
            call(**{name: value})
        assert str(error.value) == message


@pytest.mark.parametrize("name", ["on_line", "on_start", "stop"])
def test_non_callables_are_rejected(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        RunConfig(**{name: 7})


def test_conflicting_options_are_rejected() -> None:
    with pytest.raises(ValueError, match="passes must be 1 with delayed labels, got 2"):
        RunConfig(label_within=1.0, passes=2)
    with pytest.raises(ValueError, match="labels='l' needs delayed labels; give label_within too"):
        progressive(model(), EXAMPLES, labels="l")


def test_unused_config_fields_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"^evaluate\(\) does not use passes; leave it out"):
        evaluate(model(), EXAMPLES, RunConfig(passes=2))
    with pytest.raises(TypeError, match=r"^convert\(\) does not use every"):
        convert(EXAMPLES, "a.rows", RunConfig(every=2))
    assert evaluate(model(), EXAMPLES, RunConfig(limit=3)).examples == 3


def test_consumer_rejects_the_stop_option() -> None:
    for options in ({"stop": lambda: True}, {"config": RunConfig(stop=lambda: True)}):
        with pytest.raises(TypeError, match="call its method stop"):
            Consumer(model(), EXAMPLES, **options)


def test_every_option_is_documented() -> None:
    """Each option is described once, in its field, and shown by every function that takes it."""
    run_options = [name for name in option_names(RunConfig) if name != "source_options"]
    for name in run_options:
        assert f"\n    {name} : " in (progressive.__doc__ or "")
        assert f"\n    {name} : " in (RunConfig.__doc__ or "")
    for name in option_names(SourceOptions):
        for function in (progressive, evaluate, predictions, convert, open_source, SourceOptions):
            assert inspect.cleandoc(function.__doc__ or "").count(f"\n{name} : ") == 1
    for function in (progressive, evaluate, predictions, convert, open_source, Group, RunConfig):
        assert "{options}" not in (function.__doc__ or "")
        assert max(map(len, (function.__doc__ or "").split("\n"))) <= 100


def test_outs_is_an_alias_of_observers() -> None:
    """The former name `outs` is still accepted."""
    assert run_config("f", None, {"outs": [1]}).observers == [1]
