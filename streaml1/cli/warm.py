"""``streaml1 warm``."""

from __future__ import annotations

import itertools
import tempfile
import time
import warnings
from typing import Any

import click

from streaml1.cli.options import MODELS
from streaml1.cli.program import cli

__all__ = ["warm"]

BESIDE: dict[str, dict[str, Any]] = {
    "crosses": {"cross": [("a", "b")]},
    "text": {"text": ["b"], "ngrams": 2},
}
"""What models are made with that have kernels of dicts for it."""

OFFLINE = "offline"


@cli.command(epilog="Example: RUN streaml1 warm (in a Dockerfile, after pip install)")
@click.option("--model", "chosen", type=click.Choice(list(MODELS)), multiple=True,
              help="Only this method; may be given again.  [default: all]")  # fmt: skip
@click.option("--with", "beside", type=click.Choice([*BESIDE, OFFLINE]), multiple=True,
              help="Dicts with crosses or with raw text too, or the solvers for data in memory, "
              "which regret takes; may be given again.")  # fmt: skip
def warm(chosen: tuple[str, ...], beside: tuple[str, ...]) -> None:
    """Compile everything now, so that the first run need not.

    What is compiled is kept on disk, for all programs that use this installation.
    """
    import streaml1
    from streaml1.core import jit
    from streaml1.optim import loop
    from streaml1.training.report import Report

    start = time.perf_counter()
    _parse()
    Report("logistic").add([0.5], [True])
    for method in chosen or MODELS:
        for name in MODELS[method].values():
            kind = getattr(streaml1, name)
            _exercise(kind)
            for one in BESIDE.keys() & beside:
                _exercise_dicts(kind, BESIDE[one])
    if OFFLINE in beside:
        _solve()
    seconds = time.perf_counter() - start
    kept = "" if jit.is_cached(loop.learn) else "; no folder can be written, so it is not kept"
    click.echo(f"compiled in {seconds:.1f} s{kept}")


def _parse() -> None:
    """Read a line of each format that has kernels, and convert some."""
    import streaml1
    from streaml1.sources.readers.csv import CsvParser
    from streaml1.sources.readers.formats import line_parser
    from streaml1.training import convert

    line_parser("svmlight").read(b"1 1:1\n")
    words = line_parser("vw").read(b"1 |a b\n").x
    line_parser("jsonl").read(b'{"x": {"a": 1, "b": "c"}, "y": 1, "w": 2.0, "id": 1, "z": [1]}\n')
    CsvParser("-", "y", ["b"]).read(b'y,a,b\n1,2,c\n0,1,"d"\n')
    for hash_bits in (None, 11):
        model = streaml1.ElasticNetClassifier(hash_bits=hash_bits)
        for _ in range(2):
            model.progressive_many(words, [True])
            model.predict_many(words)
        if hash_bits is None:
            _give_back(model)
    with tempfile.TemporaryDirectory() as folder:
        convert([({"a": 1.0, "b": 2.0}, True), ({1: 1.0}, False)], f"{folder}/a.rows")


def _give_back(model: Any) -> None:
    """What comes once names have run out of room."""
    engine = model._engine
    with engine.exclusive():
        engine._release_zeros(engine.rule.live_mask(), engine.rule.size)


def _exercise(kind: Any) -> None:
    """Call all that compiles: dicts of ints and of strings, and matrices, one of them unsorted."""
    import numpy as np
    from scipy.sparse import csr_array

    unsorted = csr_array((np.ones(2), [1, 0], [0, 2]), shape=(1, 2))
    wide = csr_array(np.eye(40, 2000))
    examples = (({1: 1.0, 0: 2.0}, wide), ({"a": 1.0, "b": "c"}, unsorted))
    own = list(kind._unit_test_params())
    auto = [{"lr": "auto"}] if any(one.get("lr") == "auto" for one in own) else []
    hashed = [{"hash_bits": 11, "max_features": 1, **rate} for rate in ({}, *auto)]
    for params, (x, X) in itertools.product([*own, *hashed], examples):
        model = kind(**params)
        for _ in range(2):  # the first dict of names makes the table that the second is walked with
            model.learn_one(x, 1)
            model.predict_one(x)
            model.top_weights()
            model.watch().changes()
        for batch, n in (([x], 1), (X, X.shape[0])):
            model.progressive_many(batch, np.arange(n) % 2)
            model.predict_many(batch)
        model._engine.rule.reserve(1)  # what comes once room has run out
        model._engine.rule.live_mask()


def _exercise_dicts(kind: Any, asked: dict[str, Any]) -> None:
    """Learn and predict dicts, one by one and together, with names and hashed."""
    own = list(kind._unit_test_params())
    auto = [{"lr": "auto"}] if any(one.get("lr") == "auto" for one in own) else []
    hashed = [{"hash_bits": 11, **rate} for rate in ({}, *auto)]
    x = {"a": 1.0, "b": "c d"}
    for params in (*own, *hashed):
        model = kind(**{**params, **asked})
        for _ in range(2):
            model.learn_one(x, 1)
            model.predict_one(x)
        model.progressive_many([x], [1])
        model.predict_many([x])


def _solve() -> None:
    """Call each solver for the few data that make all of it run."""
    import numpy as np

    from streaml1 import solvers

    few = np.array([[2.0, 0.5], [0.0, 1.0], [1.0, -1.0], [-1.0, 0.5]])
    X, y = np.tile(few, 5), [1, 0, 1, 0]  # of fewer than 8 columns the q-norm is the l2 norm
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
