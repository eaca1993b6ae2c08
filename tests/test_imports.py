"""Modules that a new process imports, and when."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streaml1.core.jit import COMPILED
from tests.conftest import WARM

HEAVY = ("river", "scipy", "kafka", "matplotlib", "pandas", "polars", "sklearn", "numba", "numpy",
         "click", "rich", "narwhals", "isal", "prometheus_client")  # fmt: skip

PRINT_MODULES = "; import json, sys; print(json.dumps(sorted(sys.modules)))"


def imported_modules(python: Callable[..., str], text: str, **environment: str) -> set[str]:
    modules: list[str] = json.loads(
        python("-c", text + PRINT_MODULES, **environment).splitlines()[-1]
    )
    return set(modules)


def test_import_loads_no_heavy_modules(python: Callable[..., str]) -> None:
    modules = imported_modules(python, "import streaml1")
    assert modules.isdisjoint(HEAVY)
    assert {name for name in modules if name.startswith("streaml1")} == {"streaml1"}


COUNT_COLLECTIONS = """
import gc
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
{before}
import streaml1
streaml1.ElasticNetClassifier()
print(len(full), gc.isenabled(), gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "0 True False"), ("gc.disable()", "0 False False"), ("gc.freeze()", "0 True True")],
)
def test_imports_trigger_no_full_collection(
    python: Callable[..., str], before: str, after: str
) -> None:
    """Imports also leave the settings of the garbage collector unchanged."""
    assert python("-c", COUNT_COLLECTIONS.format(before=before)) == f"{after}\n"


def test_model_imports_only_its_own_method(python: Callable[..., str]) -> None:
    modules = imported_modules(python, "import streaml1; streaml1.FTRLClassifier()")
    assert {"streaml1.models.ftrl", "streaml1.optim.ftrl", "river.base"} <= modules
    methods = {name for name in modules if name.startswith("streaml1.models.")}
    assert "streaml1.models.ftrl" in methods and "streaml1.models.eg" not in methods
    river = {name.split(".")[1] for name in modules if name.startswith("river.")}
    assert river <= {"base", "__version__"}
    for heavy in ("scipy.sparse", "scipy.stats", "scipy.linalg", "kafka", "matplotlib", "pandas",
                  "polars", "click", "rich", "narwhals"):  # fmt: skip
        assert heavy not in modules
    assert not any(name.startswith(("streaml1.sources", "streaml1.training")) for name in modules)


def test_first_prediction_does_not_import_numba(
    python: Callable[..., str],
) -> None:
    """Cached machine code of typed kernels runs without numba."""
    text = (
        "import streaml1; m = streaml1.ElasticNetClassifier(); m.predict_proba_one({'a': 1.0}); "
        "m.learn_one({'a': 1.0}, True); m.learn_one({'a': 1.0, 'b': 2.0}, False); "
        "print(m.predict_proba_one({'a': 1.0}))"
    )
    first_output = python("-c", text, **WARM)
    assert python("-c", text, **WARM) == first_output
    modules = imported_modules(python, text, **WARM)
    assert "streaml1.features.dict_reader" in modules and "scipy" not in modules
    assert ("numba" in modules) == (not COMPILED)
    # Learning in batches uses numba's cache, which loads without numba's type registries.
    batch = text + "; m.predict_many([{'a': 1.0}])"
    assert ("numba" in imported_modules(python, batch, **WARM)) == (not COMPILED)
    batch += "; m.learn_many([{'a': 1.0}], [True])"
    python("-c", batch, **WARM)
    modules = imported_modules(python, batch, **WARM)
    assert "numba" in modules
    assert "numba.np.arraymath" not in modules and "scipy.linalg" not in modules
    # Compiling a user's function afterwards loads the registries it needs.
    user_function = (
        "; import numba; print(numba.njit(lambda a: a @ a.T)(__import__('numpy').eye(2))[1, 1])"
    )
    assert python("-c", text + user_function, **WARM) == first_output + "1.0\n"


SERVE_MODELS = """
import streaml1

def serve(learns):
    x = {"site": "news", "ad": "shoes", "price": 1.5, "title": "free money now"}
    crossed, text = {"cross": [("site", "ad")]}, {"text": ["title"]}
    options = {"categories": {}, "crosses": crossed, "text": text}
    for name in options:
        for cls in (streaml1.ElasticNetClassifier, streaml1.FTRLClassifier):
            path = f"{directory}/{cls.__name__}-{name}"
            if learns:
                model = cls(**options[name])
                for k in range(20):
                    model.learn_one({**x, "site": f"s{k % 3}"}, k % 2 == 0)
                model.save(path)
            streaml1.load(path).predict_proba_one(x)
"""


def test_loaded_models_predict_without_numba(python: Callable[..., str], tmp_path: Path) -> None:
    """This holds with categories, crossed features and raw text, once machine code is cached."""
    code = f"directory = {str(tmp_path)!r}{SERVE_MODELS}"
    python("-c", f"{code}serve(learns=True)", timeout=600.0, **WARM)
    modules = imported_modules(python, f"{code}serve(learns=False)", **WARM)
    assert "streaml1.features.ngrams" in modules
    assert ("numba" in modules) == (not COMPILED)
    others = ("streaml1.sources", "streaml1.training.report", "streaml1.training.config", "ssl")
    assert not any(name.startswith(others) for name in modules)


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="numba is disabled")
def test_readers_do_not_import_the_kafka_client(python: Callable[..., str]) -> None:
    modules = imported_modules(python, "from streaml1.training import progressive")
    for heavy in ("kafka", "river.datasets", "matplotlib", "scipy.stats", "rich", "polars"):
        assert heavy not in modules
