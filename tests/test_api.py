"""What the package offers, and what it costs to import."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import streaml1
from streaml1.models.hyperparameters import AveragingParameters, LearningRateParameters
from streaml1.models.parameters import SHARED_ORDER, parameter_table, parameters_of
from streaml1.models.registry import LEARNERS, modules_of_classes
from tests.conftest import WARM

SHARED = [
    *("lr", "schedule", "intercept_lr", "intercept_init", "clip_gradient"),
    *("max_features", "hash_bits", "cross", "text", "ngrams"),
]
METHODS = [
    *("learn_one", "learn_many", "predict_one", "predict_many", "progressive_many"),
    *(
        "weights",
        "intercept",
        "n_nonzero",
        "n_nonzero_rows",
        "n_features_seen",
        "n_iterations",
        "top_weights",
    ),
    *("n_cut", "watch", "slot", "collisions"),
    *("freeze", "save", "mutate"),
]
PROBABILITIES = ["predict_proba_one", "predict_proba_many"]


CONTRACT = [
    "EGClassifier",
    "EGRegressor",
    "ElasticNetClassifier",
    "ElasticNetRegressor",
    "FOBOSClassifier",
    "FOBOSRegressor",
    "FTRLClassifier",
    "FTRLRegressor",
    "L1BallClassifier",
    "L1BallRegressor",
    "PegasosClassifier",
    "SMIDASClassifier",
    "SMIDASRegressor",
    "SoftmaxClassifier",
    "TruncatedGradientClassifier",
    "TruncatedGradientRegressor",
]


def test_names() -> None:
    others = ["BadExample", "Consumer", "ModelFileError", "load", "progressive", "regret"]
    assert set(CONTRACT) <= set(MODELS)
    assert streaml1.__all__ == sorted([*others, *MODELS])
    assert all(hasattr(streaml1, name) for name in streaml1.__all__)
    with pytest.raises(AttributeError, match="module 'streaml1' has no attribute 'nothing'"):
        streaml1.nothing  # noqa: B018


def test_what_is_for_data_in_memory(python: Callable[..., str]) -> None:
    """It has a name of its own, and is loaded when that is asked for."""
    code = (
        "import streaml1; print(streaml1.solvers.projection.__all__);"
        "print({'fista', 'project_simplex'} <= set(streaml1.solvers.__all__))"
    )
    assert python("-c", code, **WARM) == "['project_l1_ball', 'project_simplex']\nTrue\n"
    assert {"solvers"} <= set(dir(streaml1))


def test_version() -> None:
    from importlib import metadata

    try:
        installed = metadata.version("streaml1")
    except metadata.PackageNotFoundError:
        pytest.skip("the package is run from its folder, not installed")
    assert installed == streaml1.__version__


# What each model has of its own, and its default.
OWN: dict[str, dict[str, Any]] = {
    "EG": {"radius": 10.0, "n_features": 2**18, "nonnegative": False},
    "ElasticNet": {"l1": 0.0, "l2": 0.0, "update": "fobos", "stamps": "folded", "budget": 2**20},
    "FOBOS": {"strength": 1e-4, "norm": "l2"},
    "FTRL": {"alpha": 0.1, "beta": 1.0, "l1": 1.0, "l2": 0.0},
    "L1Ball": {"radius": 10.0, "nonnegative": False, "index": "wheel"},
    "Pegasos": {"l2": 1e-4, "project": True},
    "SMIDAS": {"l1": 1e-4, "p": None, "n_features": 2**20},
    "Softmax": {
        "strength": 1e-4,
        "penalty": "l1",
        "l2": 0.0,
        **{"radius": 10.0, "nonnegative": False, "classes": None},
    },
    "TruncatedGradient": {"gravity": 1e-4, "period": 1, "threshold": math.inf},
}
RATELESS = ("FTRL", "Pegasos")
AVERAGED = ("ElasticNet", "Pegasos", "TruncatedGradient")  # have `average`
MODELS = list(modules_of_classes())
PARAMETERS = {
    name: learner.parameters for learner in LEARNERS.values() for name in learner.classes.values()
}


def own_of(name: str) -> dict[str, Any]:
    """What the contract says; of learners that it does not list, what is declared."""
    family = name.removesuffix("Classifier").removesuffix("Regressor")
    declared = parameters_of(PARAMETERS[name])
    own = {key: param.default for key, param in declared.items() if key not in SHARED_ORDER}
    return OWN.get(family, own)


@pytest.mark.parametrize("name", MODELS)
def test_parameters(name: str) -> None:
    cls = getattr(streaml1, name)
    found = list(inspect.signature(cls).parameters.values())
    has_rate = issubclass(PARAMETERS[name], LearningRateParameters)
    averages = issubclass(PARAMETERS[name], AveragingParameters)
    if name in CONTRACT:
        assert has_rate == (not name.startswith(RATELESS))
        assert averages == name.startswith(AVERAGED)
    rates = {"lr": 0.1, "schedule": "invsqrt"} if has_rate else {}
    loss = "logistic" if name.endswith("Classifier") else "squared"
    loss = "hinge" if name == "PegasosClassifier" else loss
    expected = {
        **own_of(name),
        **({} if name == "SoftmaxClassifier" else {"loss": loss}),
        **rates,
        **{"intercept_lr": 0.01, "intercept_init": 0.0, "clip_gradient": 1e12},
        **({"average": False} if averages else {}),
        **{"max_features": None, "hash_bits": None, "cross": None, "text": None, "ngrams": 1},
    }
    assert {p.name: p.default for p in found} == expected
    assert [p.name for p in found] == list(expected)
    assert all(p.kind is p.KEYWORD_ONLY for p in found)


@pytest.mark.parametrize("name", MODELS)
def test_methods(name: str) -> None:
    cls = getattr(streaml1, name)
    methods = METHODS + PROBABILITIES * name.endswith("Classifier")
    assert all(hasattr(cls, method) for method in methods)
    assert list(inspect.signature(cls.learn_one).parameters) == ["self", "x", "y", "w"]
    assert list(inspect.signature(cls.learn_many).parameters) == ["self", "X", "y", "w"]
    assert list(inspect.signature(cls.progressive_many).parameters) == ["self", "X", "y", "w"]
    assert list(inspect.signature(cls.predict_one).parameters) == ["self", "x"]
    assert list(inspect.signature(cls.predict_many).parameters) == ["self", "X"]
    own = {m for m in dir(cls) if not m.startswith("_")} - {m for m in dir(cls.__mro__[-3])}
    river = {"clone", "predict_proba_one", "predict_proba_many"}
    many = {"classes_met"} if name == "SoftmaxClassifier" else set()
    assert own <= {*methods, *SHARED, *own_of(name), "loss", "average"} | river | many


def public() -> Iterator[Any]:
    for name in streaml1.__all__:
        thing = getattr(streaml1, name)
        yield pytest.param(thing, id=name)
        if inspect.isclass(thing):
            for part in sorted(vars(thing)):
                value = getattr(thing, part)
                if not part.startswith("_") and (callable(value) or isinstance(value, property)):
                    yield pytest.param(value, id=f"{name}.{part}")
            for method in METHODS:
                if hasattr(thing, method):
                    yield pytest.param(getattr(thing, method), id=f"{name}.{method}")


@pytest.mark.parametrize("thing", list(public()))
def test_everything_public_is_described(thing: Any) -> None:
    text = inspect.getdoc(thing)
    assert text
    assert text.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_described(name: str) -> None:
    cls = getattr(streaml1, name)
    section = inspect.getdoc(cls).partition("Parameters\n")[2].partition("Examples\n")[0]
    described = [line for line in section.splitlines() if not line.startswith(" ")]
    for parameter in inspect.signature(cls).parameters:
        assert parameter in described
    assert "References" in cls.__doc__


def default_of(text: str) -> Any:
    return eval(text, {"__builtins__": {}}, {"inf": math.inf})


@pytest.mark.parametrize("name", MODELS)
def test_documented_defaults_are_those_of_the_signature(name: str) -> None:
    cls = getattr(streaml1, name)
    expected = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    rows = [line.split(" | ") for line in parameter_table(cls).splitlines()[2:]]
    table = {row[0].strip("| `"): default_of(row[-3].strip("`")) for row in rows}
    assert table == expected
    section = inspect.getdoc(cls).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    names = re.findall(r"^(\w+)$", section, re.MULTILINE)
    defaults = re.findall(r"default:\s+(\S+)\.$", section, re.MULTILINE)
    assert dict(zip(names, map(default_of, defaults), strict=True)) == expected


HEAVY = ["pandas", "polars", "scipy", "matplotlib", "sklearn", "rich", "click", "kafka"]
LIGHT = """
import json, sys
{}
print(json.dumps(sorted(sys.modules)))
"""


def loaded(python: Callable[..., str], code: str) -> set[str]:
    return set(json.loads(python("-W", "error", "-c", LIGHT.format(code), **WARM)))


def test_importing_is_light(python: Callable[..., str]) -> None:
    modules = loaded(python, "import streaml1")
    assert not modules & {*HEAVY, "river", "numba", "numpy"}
    assert not [name for name in modules if name.startswith("streaml1.")]


def test_learning_is_light(python: Callable[..., str]) -> None:
    modules = loaded(
        python,
        """
import streaml1
m = streaml1.ElasticNetClassifier()
m.learn_one({"a": 1.0}, True)
m.predict_one({"a": 1.0})
m.learn_many([{"a": 1.0}], [True])
m.predict_many([{"a": 1.0}])
m.top_weights(3)
m.freeze().predict_one({"a": 1.0})
""",
    )
    assert not modules & {f"streaml1.{n}" for n in ("cli", "console", "report", "streams")}
    assert "streaml1.models" in modules
    theirs = loaded(python, "import numba, river.base")
    assert modules & set(HEAVY) <= theirs


def test_no_text_is_printed(python: Callable[..., str]) -> None:
    assert python("-c", "import streaml1", **WARM) == ""


def test_errors_are_value_errors() -> None:
    assert issubclass(streaml1.BadExample, ValueError)
    assert issubclass(streaml1.ModelFileError, ValueError)
    error = streaml1.BadExample("a sentence", 3)
    assert (str(error), error.reason, error.row) == ("a sentence", "a sentence", 3)
    assert streaml1.BadExample("a sentence").row == 0
