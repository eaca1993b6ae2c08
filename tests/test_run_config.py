"""Options of runs and sources: each in one place, with its check and its sentence."""

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


def test_a_config_or_keywords_or_both() -> None:
    config = RunConfig(every=2, limit=5)
    assert len(progressive(model(), EXAMPLES, config).lines) == 3
    assert len(progressive(model(), EXAMPLES, every=2, limit=5).lines) == 3
    report = progressive(model(), EXAMPLES, config, limit=7)
    assert report.examples == 7 and len(report.lines) == 4
    assert config == RunConfig(every=2, limit=5)


def test_keywords_of_sources_are_routed() -> None:
    config = run_config("progressive", None, {"target": "y", "every": 3, "categorical": "c"})
    assert config.every == 3
    assert config.source_options == SourceOptions(target="y", categorical=("c",))
    more = run_config("progressive", config, {"weight": "w"})
    assert more.source_options.columns == ["y", "w", "c"]
    own = SourceOptions(format="csv")
    assert run_config("f", config, {"source_options": own}).source_options == own


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
def test_a_typo_names_the_closest_option(call: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'limt'; "
                       "did you mean 'limit'[?]$"):  # fmt: skip
        call(model(), EXAMPLES, limt=1)
    with pytest.raises(TypeError, match="'categorcal'; did you mean 'categorical'"):
        call(model(), EXAMPLES, categorcal=["a"])
    with pytest.raises(TypeError, match="'text'"):  # the model says what is text
        call(model(), EXAMPLES, text=["a"])


def test_a_typo_of_others() -> None:
    with pytest.raises(TypeError, match="open_source.. got .* 'taget'; did you mean 'target'"):
        open_source("a.csv", taget="y")
    with pytest.raises(TypeError, match="convert.. got .* 'bed'; did you mean 'bad'"):
        convert(EXAMPLES, "a.rows", bed="skip")
    with pytest.raises(TypeError, match="Group.. got .* 'evry'; did you mean 'every'"):
        Group(model(), "kafka://h/t", group="g", directory="kept", evry=1)
    with pytest.raises(TypeError, match="needs the name of a consumer group; give group="):
        Group(model(), "kafka://h/t", directory="kept")


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
def test_values_out_of_range(name: str, value: Any, message: str) -> None:
    for call in (RunConfig, lambda **options: Consumer(model(), EXAMPLES, **options)):
        with pytest.raises(ValueError) as error:
            call(**{name: value})
        assert str(error.value) == message


@pytest.mark.parametrize("name", ["on_line", "on_start", "stop"])
def test_what_cannot_be_called_is_refused_at_once(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        RunConfig(**{name: 7})


def test_options_that_need_or_exclude_others() -> None:
    with pytest.raises(ValueError, match="passes must be 1 with delayed labels, got 2"):
        RunConfig(label_within=1.0, passes=2)
    with pytest.raises(ValueError, match="labels='l' needs delayed labels; give label_within too"):
        progressive(model(), EXAMPLES, labels="l")


def test_a_config_must_be_used() -> None:
    with pytest.raises(TypeError, match=r"^evaluate\(\) does not use passes; leave it out"):
        evaluate(model(), EXAMPLES, RunConfig(passes=2))
    with pytest.raises(TypeError, match=r"^convert\(\) does not use every"):
        convert(EXAMPLES, "a.rows", RunConfig(every=2))
    assert evaluate(model(), EXAMPLES, RunConfig(limit=3)).examples == 3


def test_a_consumer_is_stopped_by_its_method() -> None:
    for options in ({"stop": lambda: True}, {"config": RunConfig(stop=lambda: True)}):
        with pytest.raises(TypeError, match="call its method stop"):
            Consumer(model(), EXAMPLES, **options)


def test_each_option_is_documented_where_it_is_taken() -> None:
    """Each sentence stands once, in its field, and in the docstring of all that take it."""
    of_run = [name for name in option_names(RunConfig) if name != "source_options"]
    for name in of_run:
        assert f"\n    {name} : " in (progressive.__doc__ or "")
        assert f"\n    {name} : " in (RunConfig.__doc__ or "")
    for name in option_names(SourceOptions):
        for taker in (progressive, evaluate, predictions, convert, open_source, SourceOptions):
            assert inspect.cleandoc(taker.__doc__ or "").count(f"\n{name} : ") == 1
    for taker in (progressive, evaluate, predictions, convert, open_source, Group, RunConfig):
        assert "{options}" not in (taker.__doc__ or "")
        assert max(map(len, (taker.__doc__ or "").split("\n"))) <= 100


def test_outs_are_observers() -> None:
    """The former name is still taken."""
    assert run_config("f", None, {"outs": [1]}).observers == [1]
