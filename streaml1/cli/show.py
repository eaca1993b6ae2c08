"""``streaml1 show``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streaml1.cli.options import model_place
from streaml1.cli.program import cli
from streaml1.console import entries_table, shown, text_table, weight_text

__all__ = ["show"]


@cli.command(epilog="Example: streaml1 show clicks.model --top 30")
@click.argument("model", type=model_place)
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
    facts: list[tuple[str, object]] = [
        *((name, _plain(value)) for name, value in learner._get_params().items()),
        ("examples learnt", f"{learner.n_iterations:,}"),
        ("non-zero weights", f"{non_zeros:,}"),
        ("features seen", f"{about}{seen:,}"),
        ("sparsity", f"{about}{max(0.0, 1.0 - non_zeros / seen / every):.1%}" if seen else "-"),
    ]
    many = hasattr(learner, "classes_met")
    if many:
        facts.insert(-2, ("features used", f"{learner.n_nonzero_rows:,}"))
        facts += [(f"intercept {shown(name)}", f"{b:.6g}") for name, b in learner.intercept.items()]
    else:
        facts.append(("intercept", f"{learner.intercept:.6g}"))
    click.echo(type(learner).__name__)
    width = max(18, 2 + max(len(name) for name, _ in facts))  # labels may be long
    for name, value in facts:
        click.echo(f"  {name:<{width}}{value}")
    if top:
        entries = learner.top_weights(top)
        click.echo("\n" + entries_table(learner, entries) if entries else "\nno weights")


def _weights_of(learner: Any, features: tuple[str, ...]) -> str:
    """A table of some features; a name of digits is also looked for as the int it is."""
    weights = learner.weights
    if hasattr(learner, "classes_met"):
        return _rows_of(learner, features)
    if learner.hash_bits is None:
        found = [
            weights.get(name, weights.get(int(name), 0.0) if name.isdecimal() else 0.0)
            for name in features
        ]
        rows = [(weight_text(w), shown(name)) for w, name in zip(found, features, strict=True)]
        return _with_note(text_table(("weight", "feature"), rows), all(found))
    slots = [learner.slot(int(name) if name.isdecimal() else name) for name in features]
    hashed = [
        (weight_text(weights.get(slot, 0.0)), shown(name), f"{slot}")
        for slot, name in zip(slots, features, strict=True)
    ]
    return text_table(("weight", "feature", "slot"), hashed)


def _rows_of(learner: Any, features: tuple[str, ...]) -> str:
    """A table of the rows of some features."""
    weights = learner.weights
    rows = []
    known = True
    for name in features:
        if learner.hash_bits is None:
            row = weights.get(name) or (weights.get(int(name)) if name.isdecimal() else None)
        else:
            row = weights.get(learner.slot(int(name) if name.isdecimal() else name))
        told = [(weight_text(w), shown(name), shown(label)) for label, w in (row or {}).items()]
        rows += told or [(weight_text(0.0), shown(name), "any")]
        known &= bool(told)
    table = text_table(("weight", "feature", "label"), rows)
    return _with_note(table, known or learner.hash_bits is not None)


def _with_note(table: str, known: bool) -> str:
    """A table, and what it means that a feature is not known."""
    note = (
        "\n\nA weight of 0: the feature never came, or is shrunk to zero; is its name spelt right?"
    )
    return table if known else table + note


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
