"""``streaml1 warm``: compile all kernels ahead of the first run."""

from __future__ import annotations

import copy
import itertools
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from streaml1.cli.program import cli
from streaml1.models.parameter_checks import AUTO, Rate
from streaml1.models.parameters import parameters_of
from streaml1.models.registry import LEARNERS

__all__ = ["warm"]

EXTRAS: dict[str, dict[str, Any]] = {
    "crosses": {"cross": [("a", "b")]},
    "text": {"text": ["b"], "ngrams": 2},
}
"""Parameters that select further dict kernels."""

SOLVERS = "solvers"

COMMON: list[tuple[str, dict[str, Any]]] = [
    ("ElasticNetClassifier", {}),
    ("ElasticNetClassifier", {"lr": 0.1}),
    ("FTRLClassifier", {}),
]
"""Models whose kernels wheels contain; those of regressors are the same."""


@cli.command(epilog="Example: RUN streaml1 warm (in a Dockerfile, after pip install)")
@click.option("--model", "chosen", type=click.Choice(list(LEARNERS)), multiple=True,
              metavar="LEARNER",
              help=f"Compile this learner only: {', '.join(LEARNERS)}. Repeatable.  "
              "[default: all]")  # fmt: skip
@click.option("--with", "extras", type=click.Choice([*EXTRAS, SOLVERS]), multiple=True,
              help="Also compile dict kernels for interactions (crosses) or raw text (text), or "
              "the batch solvers that --regret uses (solvers). Repeatable.")  # fmt: skip
def warm(chosen: tuple[str, ...], extras: tuple[str, ...]) -> None:
    """Compile all kernels ahead of the first run.

    The compiled code is cached on disk for all programs that use this installation.
    """
    import streaml1
    from streaml1.core import jit
    from streaml1.core.jit.prebuilt import compile_for_this_processor
    from streaml1.optim import loop
    from streaml1.training.report import Report

    start = time.perf_counter()
    compile_for_this_processor()
    _parse()
    for loss in ("logistic", "quantile"):
        Report(loss).add([0.5], [True])
    for learner in chosen or LEARNERS:
        for name in LEARNERS[learner].classes.values():
            kind = getattr(streaml1, name)
            _exercise(kind, [*kind._unit_test_params(), *_hashed(kind, max_features=1)])
            for extra in EXTRAS.keys() & extras:
                _exercise_dicts(kind, EXTRAS[extra])
    if SOLVERS in extras:
        _solve()
    seconds = time.perf_counter() - start
    note = "" if jit.is_cached(loop.learn) else "; not cached, because no directory is writable"
    click.echo(f"compiled in {seconds:.1f} s{note}")


def compile_common(directory: Path) -> None:
    """Compile the kernels that wheels contain, and copy them into a directory to be created.

    `hatch_build.py` calls this in a process with an empty cache.
    """
    import streaml1
    from streaml1.core.jit.prebuilt import pack
    from streaml1.training.report import Report

    _parse()
    for loss in ("logistic", "quantile"):
        Report(loss).add([0.5], [True])
    for name, params in COMMON:
        _exercise(getattr(streaml1, name), [params])
    pack(directory)


def _parse() -> None:
    """Parse a line of each format that has kernels, learn from it and convert it."""
    import streaml1
    from streaml1.features.arrow_frames import table_rows
    from streaml1.sources.readers.csv import CsvParser
    from streaml1.sources.readers.flat_json import JsonRoles
    from streaml1.sources.readers.flat_json_parser import FlatJsonParser
    from streaml1.sources.readers.formats import line_parser
    from streaml1.text.parsed_rows import with_constants
    from streaml1.training import convert

    line_parser("svmlight").read(b"1 1:1\n")
    rows = line_parser("vw").read(b"1 |a b\n").x
    with_constants(rows, {"c": "d"})
    line_parser("jsonl").read(b'{"x": {"a": 1, "b": "c"}, "y": 1, "w": 2.0, "id": 1, "z": [1]}\n')
    FlatJsonParser(JsonRoles("y")).read(b'{"a": {"b": 1}, "y": 1}\n')
    CsvParser("-", "y", ["b"]).read(b'y,a,b\n1,2,c\n0,1,"d"\n')
    with suppress(ImportError):
        import pyarrow

        table_rows(pyarrow.table({"a": ["b"], "c": [1.0]}))
    for hash_bits in (None, 11):
        model = streaml1.ElasticNetClassifier(hash_bits=hash_bits)
        for _ in range(2):
            model.progressive_many(rows, [True])
            model.predict_many(rows)
        copy.deepcopy(model).predict_many(rows)  # indexes all names, as a loaded model does
        if hash_bits is None:
            _reclaim_slots(model)
    with tempfile.TemporaryDirectory() as directory:
        convert([({"a": 1.0, "b": 2.0}, True), ({1: 1.0}, False)], f"{directory}/a.rows")


def _reclaim_slots(model: Any) -> None:
    """Run what happens when the vocabulary is full."""
    engine = model._state
    with engine.exclusive():
        engine._release_zeros(engine.rule.live_mask(), engine.rule.size)


def _exercise(kind: Any, settings: list[dict[str, Any]]) -> None:
    """Call every kernel of a learner with each of these parameters.

    The data are dicts with int and string names, and a sorted and an unsorted matrix.
    """
    import numpy as np
    from scipy.sparse import csr_array

    unsorted = csr_array((np.ones(2), [1, 0], [0, 2]), shape=(1, 2))
    wide = csr_array(np.eye(40, 2000))
    examples = (({1: 1.0, 0: 2.0}, wide), ({"a": 1.0, "b": "c"}, unsorted))
    for params, (x, X) in itertools.product(settings, examples):
        model = kind(**params)
        for _ in range(2):  # the first dict creates the vocabulary that the second is read with
            model.learn_one(x, 1)
            model.predict_one(x)
            model.top_weights()
            model.explain_one(x)
            model.watch().changes()
        for batch, n in (([x], 1), (X, X.shape[0])):
            model.progressive_many(batch, np.arange(n) % 2)
            model.predict_many(batch)
        model._state.rule.reserve(1)  # as when memory grows
        model._state.rule.live_mask()


def _hashed(kind: type, **params: Any) -> list[dict[str, Any]]:
    """Return parameters of a model of hashed names, for each rate that has kernels of its own."""
    lr = parameters_of(kind).get("lr")
    has_auto = lr is not None and isinstance(lr.check, Rate) and lr.check.auto
    rates: list[dict[str, Any]] = [{}, {"lr": AUTO}] if has_auto else [{}]
    return [{"hash_bits": 11, **params, **rate} for rate in rates]


def _exercise_dicts(kind: Any, extra: dict[str, Any]) -> None:
    """Learn and predict dicts, singly and in batches, with stored and with hashed names."""
    x = {"a": 1.0, "b": "c d"}
    for params in (*kind._unit_test_params(), *_hashed(kind)):
        model = kind(**{**params, **extra})
        for _ in range(2):
            model.learn_one(x, 1)
            model.predict_one(x)
        model.progressive_many([x], [1])
        model.predict_many([x])


def _solve() -> None:
    """Call each solver on the smallest data that run all of its kernels."""
    import numpy as np

    from streaml1 import solvers

    few = np.array([[2.0, 0.5], [0.0, 1.0], [1.0, -1.0], [-1.0, 0.5]])
    X, y = np.tile(few, 5), [1, 0, 1, 0]  # with fewer than 8 columns the q-norm is the l2 norm
    runs: list[tuple[Any, dict[str, Any]]] = [
        (solvers.fista, {"l1": 0.01}),
        (solvers.fista, {"loss": "softmax", "penalty": "l1/linf", "strength": 0.01}),
        (solvers.scd, {"l1": 0.01}),
        (solvers.scd, {"l1": 0.01, "step": "bound"}),
        (solvers.detcd, {"l1": 0.01}),
        (solvers.sdca, {"l2": 0.01}),
        (solvers.sdca, {"loss": "multiclass_hinge", "l2": 0.01}),
        (solvers.prox_sdca, {"l1": 0.01}),
        (solvers.prox_sdca, {"l1": 0.01, "norm": "q"}),
        (solvers.accelerated_sdca, {"l2": 0.01}),
        (solvers.projected_gradient, {"radius": 1.0}),
        (solvers.projected_gradient, {"radius": 1.0, "batch": 1, "step": "invsqrt"}),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", solvers.NotConverged)
        for solver, options in runs:
            solver(X, y, max_epochs=100, **options)
