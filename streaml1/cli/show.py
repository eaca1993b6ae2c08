"""``streaml1 show``: print the parameters, statistics and largest weights of a model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.model_factory import loaded
from streaml1.cli.options import model_path
from streaml1.cli.program import cli
from streaml1.cli.weight_tables import text_table, top_weights_table, weight_text
from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel

__all__ = ["show"]

MIN_STRING_DIGITS = 20
"""Names of at least this many digits are strings, not ints."""


@cli.command(epilog="Example: streaml1 show clicks.model --top 30")
@click.argument("model", type=model_path)
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="Number of features to show.")  # fmt: skip
@click.option("--feature", "features", multiple=True, metavar="NAME",
              help="Show the weight of this feature instead, and its slot if names are hashed. "
              "Repeatable.")  # fmt: skip
def show(model: str | Path, top: int, features: tuple[str, ...]) -> None:
    """Show the parameters, statistics and largest weights of MODEL.

    MODEL is a file written by learn --save, a directory of learn --checkpoint, or a topic of learn
    --publish or --mixed.
    """
    from streaml1.models.pipelines import learner_of

    shown = loaded(model)
    learner = learner_of(shown)
    if features:
        click.echo(_weights_of(learner, features))
        return
    non_zeros, seen = learner.n_nonzero, learner.n_features_seen
    # A model file has no zero weights, only an estimate of their number.
    about = "" if seen == len(learner.weights) else "about "
    every = max(1, len(getattr(learner, "classes_met", ())))  # weights per feature
    params = learner._get_params()
    if params.get("lr") == "auto":
        del params["schedule"]  # has no effect with auto
    facts: list[tuple[str, object]] = [
        *([] if learner is shown else [("pipeline", printable(str(shown)))]),
        *((name, _plain(value)) for name, value in params.items()),
        ("examples learnt", f"{learner.n_iterations:,}"),
        ("non-zero weights", f"{non_zeros:,}"),
        ("features seen", f"{about}{seen:,}"),
        ("sparsity", f"{about}{max(0.0, 1.0 - non_zeros / seen / every):.1%}" if seen else "-"),
    ]
    if hasattr(learner, "classes_met"):
        facts.insert(-2, ("features used", f"{learner.n_nonzero_rows:,}"))
        facts += [
            (f"intercept {printable(name)}", f"{b:.6g}") for name, b in learner.intercept.items()
        ]
    else:
        facts.append(("intercept", f"{learner.intercept:.6g}"))
    click.echo(type(learner).__name__)
    width = max(18, 2 + max(len(name) for name, _ in facts))  # labels can be long
    for name, value in facts:
        click.echo(f"  {name:<{width}}{value}")
    if top:
        entries = learner.top_weights(top)
        click.echo("\n" + top_weights_table(learner, entries) if entries else "\nno weights")


def _weights_of(learner: OnlineModel, features: tuple[str, ...]) -> str:
    """Return a table of the weights of the given features."""
    weights = learner.weights
    if hasattr(learner, "classes_met"):
        return _rows_of(learner, weights, features)
    if learner.hash_bits is None:
        found = [weights.get(_key_of(learner, weights, name), 0.0) for name in features]
        rows = [(weight_text(w), printable(name)) for w, name in zip(found, features, strict=True)]
        return _with_note(text_table(("weight", "feature"), rows), all(found))
    slots = [_key_of(learner, weights, name) for name in features]
    hashed = [
        (weight_text(weights.get(slot, 0.0)), printable(name), f"{slot}")
        for slot, name in zip(slots, features, strict=True)
    ]
    return text_table(("weight", "feature", "slot"), hashed)


def _key_of(learner: OnlineModel, weights: Mapping[Hashable, Any], name: str) -> Any:
    """Return the key of a feature's weight: its name, or its slot if names are hashed.

    A name of digits may be a string or an int in the model.
    """
    keys: list[Any] = [name]
    if name.isdecimal() and len(name) < MIN_STRING_DIGITS:
        keys.append(int(name))
    if learner.hash_bits is not None:
        keys = [learner.slot(key) for key in keys]
    return next((key for key in keys if weights.get(key)), keys[0])


def _rows_of(
    learner: OnlineModel, weights: Mapping[Hashable, Any], features: tuple[str, ...]
) -> str:
    """Return a table of the weights of the given features for each label."""
    hashed = learner.hash_bits is not None
    rows = []
    known = True
    for name in features:
        key = _key_of(learner, weights, name)
        row = weights.get(key)
        slot = (f"{key}",) if hashed else ()
        cells = [
            (weight_text(w), printable(name), *slot, printable(label))
            for label, w in (row or {}).items()
        ]
        rows += cells or [(weight_text(0.0), printable(name), *slot, "any")]
        known &= bool(cells)
    columns = ("weight", "feature", *(("slot",) if hashed else ()), "label")
    return _with_note(text_table(columns, rows), known or hashed)


def _with_note(table: str, known: bool) -> str:
    """Return a table, followed by a note if a feature is unknown."""
    note = (
        "\n\nA weight of 0 means that the feature was never seen or is shrunk to zero. Check the "
        "spelling."
    )
    return table if known else table + note


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
