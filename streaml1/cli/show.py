"""``streaml1 show``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streaml1.cli.options import model_path
from streaml1.cli.program import cli
from streaml1.cli.text_tables import printable, text_table, top_weights_table, weight_text

__all__ = ["show"]

DIGITS = 20
"""An int that is a name has fewer."""


@cli.command(epilog="Example: streaml1 show clicks.model --top 30")
@click.argument("model", type=model_path)
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="How many features to show.")  # fmt: skip
@click.option("--feature", "features", multiple=True, metavar="NAME",
              help="Show the weight of this feature instead; with --hash-bits also its slot: "
              "features of one slot share the weight.")  # fmt: skip
def show(model: str | Path, top: int, features: tuple[str, ...]) -> None:
    """Show what MODEL knows.

    MODEL is a file that learn --save wrote, a folder of learn --checkpoint, or a topic of learn
    --publish.

    Its parameters, how much it has learnt, and the weights farthest from zero.
    """
    import streaml1

    learner = streaml1.load(model)
    if features:
        click.echo(_weights_of(learner, features))
        return
    non_zeros, seen = learner.n_nonzero, learner.n_features_seen
    # A file leaves zeros out and keeps an estimate of how many there were.
    about = "" if seen == len(learner.weights) else "about "
    every = max(1, len(getattr(learner, "classes_met", ())))  # weights of a feature
    params = learner._get_params()
    if params.get("lr") == "auto":
        del params["schedule"]  # auto falls in a way of its own
    facts: list[tuple[str, object]] = [
        *((name, _plain(value)) for name, value in params.items()),
        ("examples learnt", f"{learner.n_iterations:,}"),
        ("non-zero weights", f"{non_zeros:,}"),
        ("features seen", f"{about}{seen:,}"),
        ("sparsity", f"{about}{max(0.0, 1.0 - non_zeros / seen / every):.1%}" if seen else "-"),
    ]
    many = hasattr(learner, "classes_met")
    if many:
        facts.insert(-2, ("features used", f"{learner.n_nonzero_rows:,}"))
        facts += [
            (f"intercept {printable(name)}", f"{b:.6g}") for name, b in learner.intercept.items()
        ]
    else:
        facts.append(("intercept", f"{learner.intercept:.6g}"))
    click.echo(type(learner).__name__)
    width = max(18, 2 + max(len(name) for name, _ in facts))  # labels may be long
    for name, value in facts:
        click.echo(f"  {name:<{width}}{value}")
    if top:
        entries = learner.top_weights(top)
        click.echo("\n" + top_weights_table(learner, entries) if entries else "\nno weights")


def _weights_of(learner: Any, features: tuple[str, ...]) -> str:
    """A table of some features."""
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


def _key_of(learner: Any, weights: Any, name: str) -> Any:
    """What a feature's weight is found by: its name, or its slot where names are hashed.

    A name of digits is also looked for as the int it is.
    """
    known: list[Any] = [name]
    if name.isdecimal() and len(name) < DIGITS:
        known.append(int(name))
    if learner.hash_bits is not None:
        known = [learner.slot(one) for one in known]
    return next((key for key in known if weights.get(key)), known[0])


def _rows_of(learner: Any, weights: Any, features: tuple[str, ...]) -> str:
    """A table of the rows of some features."""
    hashed = learner.hash_bits is not None
    rows = []
    known = True
    for name in features:
        key = _key_of(learner, weights, name)
        row = weights.get(key)
        slot = (f"{key}",) if hashed else ()
        told = [
            (weight_text(w), printable(name), *slot, printable(label))
            for label, w in (row or {}).items()
        ]
        rows += told or [(weight_text(0.0), printable(name), *slot, "any")]
        known &= bool(told)
    columns = ("weight", "feature", *(("slot",) if hashed else ()), "label")
    return _with_note(text_table(columns, rows), known or hashed)


def _with_note(table: str, known: bool) -> str:
    """A table, and what it means that a feature is not known."""
    note = (
        "\n\nA weight of 0: the feature never came, or is shrunk to zero; is its name spelt right?"
    )
    return table if known else table + note


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
