"""The public names, signatures and docstrings of the package, and its import cost."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import pytest

import streaml1
from streaml1.core.other_names import OTHER_CLASSES
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
    *("explain_one", "explain_many", "debug_one"),
    *("freeze", "save", "mutate", "reset_rates", "has_decaying_rates"),
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


def test_public_names() -> None:
    functions = ["BadExample", "Consumer", "ModelFileError", "load", "merge", "progressive"]
    functions += ["regret", "save"]
    assert set(CONTRACT) <= set(MODELS)
    assert streaml1.__all__ == sorted([*functions, *MODELS])
    assert all(hasattr(streaml1, name) for name in streaml1.__all__)
    with pytest.raises(AttributeError, match="module 'streaml1' has no attribute 'nothing'"):
        streaml1.nothing  # noqa: B018


def test_names_of_other_libraries_lead_to_existing_ones() -> None:
    for other, ours in OTHER_CLASSES.items():
        with pytest.raises(AttributeError, match=rf"'{other}'; did you mean {ours}[?]$"):
            getattr(streaml1, other)
        assert attrgetter(ours)(streaml1) is not None
    with pytest.raises(AttributeError, match="'FtrlClasifier'; did you mean FTRLClassifier[?]$"):
        streaml1.FtrlClasifier  # noqa: B018


def test_solvers_are_imported_on_access(python: Callable[..., str]) -> None:
    """`streaml1.solvers` is a lazily imported attribute."""
    code = (
        "import streaml1; print(streaml1.solvers.projection.__all__);"
        "print({'fista', 'project_simplex'} <= set(streaml1.solvers.__all__))"
    )
    assert python("-c", code, **WARM) == "['project_l1_ball', 'project_simplex']\nTrue\n"
    assert {"solvers"} <= set(dir(streaml1))


def test_version_matches_metadata() -> None:
    from importlib import metadata

    try:
        installed = metadata.version("streaml1")
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")
    assert installed == streaml1.__version__


# Parameters that are specific to a family of models, with their defaults.
SPECIFIC: dict[str, dict[str, Any]] = {
    "EG": {"radius": 10.0, "n_features": 2**18, "nonnegative": False},
    "ElasticNet": {"l1": 0.0, "l2": 0.0, "update": "fobos", "stamps": "folded", "budget": 2**20},
    "FOBOS": {"strength": 1e-4, "norm": "l2"},
    "FTRL": {"alpha": "auto", "beta": 1.0, "scaled": None, "l1": 1.0, "l2": 0.0},
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
LOSS_PARAMETERS = {"quantile": 0.5, "huber_delta": 1.0}  # of regressors
SAMPLING = {"negative_rate": 1.0, "positive_weight": 1.0}  # of classifiers for two classes
OFFSET = {"offset": None}
RATELESS = ("FTRL", "Pegasos")  # families without `lr`
AVERAGED = ("ElasticNet", "Pegasos", "TruncatedGradient")  # families with `average`
MODELS = list(modules_of_classes())
PARAMETERS = {
    name: learner.parameters for learner in LEARNERS.values() for name in learner.classes.values()
}


def specific_parameters(name: str) -> dict[str, Any]:
    """Return the parameters in the contract, or the declared ones of learners not in it."""
    family = name.removesuffix("Classifier").removesuffix("Regressor")
    declared = parameters_of(PARAMETERS[name])
    specific = {key: param.default for key, param in declared.items() if key not in SHARED_ORDER}
    return SPECIFIC.get(family, specific)


def task_parameters(name: str) -> dict[str, Any]:
    """Return the parameters that all regressors, or all classifiers for two classes have."""
    if name.endswith("Regressor"):
        return {**OFFSET, **LOSS_PARAMETERS}
    return {} if name == "SoftmaxClassifier" else {**SAMPLING, **OFFSET}


@pytest.mark.parametrize("name", MODELS)
def test_signature_of_models(name: str) -> None:
    cls = getattr(streaml1, name)
    signature = list(inspect.signature(cls).parameters.values())
    has_rate = issubclass(PARAMETERS[name], LearningRateParameters)
    averages = issubclass(PARAMETERS[name], AveragingParameters)
    if name in CONTRACT:
        assert has_rate == (not name.startswith(RATELESS))
        assert averages == name.startswith(AVERAGED)
    rates = {"lr": 0.1, "schedule": "invsqrt"} if has_rate else {}
    if name.startswith(("ElasticNet", "Softmax")):
        rates["lr"] = "auto"
    if name.startswith("AdaptiveElasticNet"):
        assert not has_rate
        rates = {"lr": 0.3}  # a number, without a schedule
    loss = "logistic" if name.endswith("Classifier") else "squared"
    loss = "hinge" if name == "PegasosClassifier" else loss
    expected = {
        **specific_parameters(name),
        **({} if name == "SoftmaxClassifier" else {"loss": loss}),
        **task_parameters(name),
        **rates,
        **{"intercept_lr": 0.01, "intercept_init": 0.0, "clip_gradient": 1e12},
        **({"average": False} if averages else {}),
        **{"max_features": None, "hash_bits": None, "cross": None, "text": None, "ngrams": 1},
    }
    assert {p.name: p.default for p in signature} == expected
    assert [p.name for p in signature] == list(expected)
    assert all(p.kind is p.KEYWORD_ONLY for p in signature)


@pytest.mark.parametrize("name", MODELS)
def test_methods_of_models(name: str) -> None:
    cls = getattr(streaml1, name)
    methods = METHODS + PROBABILITIES * name.endswith("Classifier")
    assert all(hasattr(cls, method) for method in methods)
    assert list(inspect.signature(cls.learn_one).parameters) == ["self", "x", "y", "w"]
    parameters = inspect.signature(cls.learn_many).parameters
    options = ["target", "weight", "ignore", "categorical", "positive", "numeric"]
    assert list(parameters) == ["self", "X", "y", "w", *options]
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in options)
    assert list(inspect.signature(cls.progressive_many).parameters) == ["self", "X", "y", "w"]
    assert list(inspect.signature(cls.predict_one).parameters) == ["self", "x"]
    assert list(inspect.signature(cls.predict_many).parameters) == ["self", "X"]
    public_objects = {m for m in dir(cls) if not m.startswith("_")} - {
        m for m in dir(cls.__mro__[-3])
    }
    river = {"clone", "predict_proba_one", "predict_proba_many"}
    multiclass = {"classes_met"} if name == "SoftmaxClassifier" else set()
    assert public_objects <= (
        {*methods, *SHARED, *specific_parameters(name), "loss", "average"}
        | task_parameters(name).keys()
        | river
        | multiclass
    )


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield each public name and its object, and those of the members of classes."""
    for name in streaml1.__all__:
        obj = getattr(streaml1, name)
        yield name, obj
        if inspect.isclass(obj):
            for attribute in sorted(vars(obj)):
                member = getattr(obj, attribute)
                if not attribute.startswith("_") and (
                    callable(member) or isinstance(member, property)
                ):
                    yield f"{name}.{attribute}", member
            for method in METHODS:
                if hasattr(obj, method):
                    yield f"{name}.{method}", getattr(obj, method)


def test_public_objects_have_docstrings() -> None:
    objects = dict(public_objects())
    assert len(objects) > 500
    for name, obj in objects.items():
        text = inspect.getdoc(obj)
        assert text, name
        assert text.splitlines()[0].endswith("."), name


@pytest.mark.parametrize("name", MODELS)
def test_docstrings_list_every_parameter(name: str) -> None:
    cls = getattr(streaml1, name)
    section = inspect.getdoc(cls).partition("Parameters\n")[2].partition("Examples\n")[0]
    described = [line for line in section.splitlines() if not line.startswith(" ")]
    for parameter in inspect.signature(cls).parameters:
        assert parameter in described
    assert "References" in cls.__doc__


def default_of(text: str) -> Any:
    return eval(text, {"__builtins__": {}}, {"inf": math.inf})


@pytest.mark.parametrize("name", MODELS)
def test_documented_defaults_match_the_signature(name: str) -> None:
    cls = getattr(streaml1, name)
    expected = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    rows = [line.split(" | ") for line in parameter_table(cls).splitlines()[2:]]
    documented = {row[0].strip("| `"): default_of(row[-3].strip("`")) for row in rows}
    assert documented == expected
    section = inspect.getdoc(cls).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    names = re.findall(r"^(\w+)$", section, re.MULTILINE)
    defaults = re.findall(r"default:\s+(\S+)\.$", section, re.MULTILINE)
    assert dict(zip(names, map(default_of, defaults), strict=True)) == expected


HEAVY_MODULES = ["pandas", "polars", "scipy", "matplotlib", "sklearn", "rich", "click", "kafka"]
PRINT_MODULES = """
import json, sys
{}
print(json.dumps(sorted(sys.modules)))
"""


def modules_after(python: Callable[..., str], code: str) -> set[str]:
    return set(json.loads(python("-W", "error", "-c", PRINT_MODULES.format(code), **WARM)))


def test_import_loads_no_dependencies(python: Callable[..., str]) -> None:
    modules = modules_after(python, "import streaml1")
    assert not modules & {*HEAVY_MODULES, "river", "numba", "numpy"}
    assert not [name for name in modules if name.startswith("streaml1.")]


def test_learning_loads_only_required_modules(python: Callable[..., str]) -> None:
    modules = modules_after(
        python,
        """
import streaml1
m = streaml1.ElasticNetClassifier(lr=0.1)
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
    dependencies = modules_after(python, "import numba, river.base")
    assert modules & set(HEAVY_MODULES) <= dependencies


def test_import_prints_nothing(python: Callable[..., str]) -> None:
    assert python("-c", "import streaml1", **WARM) == ""


def test_public_errors_are_value_errors() -> None:
    assert issubclass(streaml1.BadExample, ValueError)
    assert issubclass(streaml1.ModelFileError, ValueError)
    error = streaml1.BadExample("a sentence", 3)
    assert (str(error), error.reason, error.row) == ("a sentence", "a sentence", 3)
    assert streaml1.BadExample("a sentence").row == 0
