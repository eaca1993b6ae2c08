"""``streaml1 diff``: compare the weights of two models."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streaml1.cli.model_factory import published, without_steps
from streaml1.cli.options import model_path
from streaml1.cli.program import cli
from streaml1.cli.weight_tables import text_table, weight_text
from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel

__all__ = ["diff"]


class _Moved(NamedTuple):
    """A weight in both models; the label is None without labels."""

    name: Hashable
    label: Hashable
    a: float
    b: float


class _Changes(NamedTuple):
    """How the weights of a model B differ from those of a model A, the largest changes first."""

    appeared: list[_Moved]
    vanished: list[_Moved]
    moved: list[_Moved]
    n_equal: int


@cli.command(epilog="Example: streaml1 diff monday.model tuesday.model --top 20")
@click.argument("a", type=model_path)
@click.argument("b", type=model_path)
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="Number of weights in each list.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def diff(a: str | Path, b: str | Path, top: int, as_json: bool) -> None:
    """Compare the weights of two models, A and B.

    Each is a file written by learn --save, a directory of learn --checkpoint, or a topic of learn
    --publish or --mixed.

    The lists are the weights that only B has (appeared), those that only A has (vanished), and
    those in both that changed most.
    """
    models = [without_steps(published(path), path) for path in (a, b)]
    _require_comparable(models, [a, b])
    changes = _compare(*models)
    if as_json:
        click.echo(json.dumps(_json(models, [a, b], changes, top)))
        return
    click.echo(_facts(models, [a, b]))
    click.echo(
        f"\n{len(changes.appeared):,} appeared, {len(changes.vanished):,} vanished, "
        f"{len(changes.moved):,} changed, {changes.n_equal:,} are the same"
    )
    has_labels = hasattr(models[0], "classes_met")
    lists = (
        ("appeared", changes.appeared, ("b",)),
        ("vanished", changes.vanished, ("a",)),
        ("changed most", changes.moved, ("change", "a", "b")),
    )
    for title, moved, columns in lists:
        if moved[:top]:
            click.echo(f"\n{title}\n{_table(moved[:top], columns, has_labels)}")


def _require_comparable(models: list[OnlineModel], paths: list[str | Path]) -> None:
    """Raise UsageError unless the keys of the weights of two models mean the same."""
    kinds = ["softmax" if hasattr(model, "classes_met") else "single" for model in models]
    if kinds[0] != kinds[1]:
        softmax, other = paths if kinds[0] == "softmax" else paths[::-1]
        raise click.UsageError(
            f"{softmax} has weights for each label and {other} does not; compare models of one kind"
        )
    bits = [model.hash_bits for model in models]
    if bits[0] != bits[1]:
        raise click.UsageError(
            f"the features of {paths[0]} and {paths[1]} have no common names: hash_bits is "
            f"{bits[0]} and {bits[1]}; compare models with the same hash_bits"
        )


def _compare(a: OnlineModel, b: OnlineModel) -> _Changes:
    before, after = _flat(a), _flat(b)
    found = [
        _Moved(name, label, before.get((name, label), 0.0), after.get((name, label), 0.0))
        for name, label in {**before, **after}
    ]
    found.sort(key=lambda moved: -abs(moved.b - moved.a))
    return _Changes(
        [moved for moved in found if not moved.a],
        [moved for moved in found if not moved.b],
        [moved for moved in found if moved.a and moved.b and moved.a != moved.b],
        sum(moved.a == moved.b for moved in found),
    )


def _flat(model: Any) -> dict[tuple[Hashable, Hashable], float]:
    """Return the non-zero weights by feature and label; the label is None without labels."""
    if not hasattr(model, "classes_met"):
        return {(name, None): w for name, w in model.weights.items()}
    return {(name, label): w for name, row in model.weights.items() for label, w in row.items()}


def _intercepts(model: Any) -> dict[Hashable, float]:
    return model.intercept if hasattr(model, "classes_met") else {None: model.intercept}


def _facts(models: list[Any], paths: list[str | Path]) -> str:
    """Return a table of the two models."""
    rows = [
        ("model", *(type(model).__name__ for model in models)),
        ("examples learnt", *(f"{model.n_iterations:,}" for model in models)),
        ("non-zero weights", *(f"{model.n_nonzero:,}" for model in models)),
    ]
    intercepts = [*map(_intercepts, models)]
    for label in {**intercepts[0], **intercepts[1]}:
        head = "intercept" if label is None else f"intercept {printable(label)}"
        cells = (f"{b[label]:.6g}" if label in b else "-" for b in intercepts)
        rows.append((head, *cells))
    return text_table(
        ("", *(f"{name}: {path}" for name, path in zip("AB", paths, strict=True))), rows
    )


def _table(moved: list[_Moved], columns: tuple[str, ...], has_labels: bool) -> str:
    """Lay out weights; `columns` are some of change, a and b."""
    heads = {"change": "change", "a": "weight in A", "b": "weight in B"}
    rows = []
    for one in moved:
        cells = {"change": one.b - one.a, "a": one.a, "b": one.b}
        numbers = (weight_text(cells[column]) for column in columns)
        label = (printable(one.label),) if has_labels else ()
        rows.append((*numbers, printable(one.name), *label))
    heads_of = tuple(heads[column] for column in columns)
    return text_table(
        (*heads_of, "feature", *(("label",) if has_labels else ())), rows, numbers=heads_of
    )


def _json(
    models: list[Any], paths: list[str | Path], changes: _Changes, top: int
) -> dict[str, Any]:
    from streaml1.training.prediction_records import to_json_label

    def weights(moved: list[_Moved]) -> dict[str, Any]:
        records = []
        for one in moved[:top]:
            record: dict[str, Any] = {"name": to_json_label(one.name)}
            if has_labels:
                record["label"] = to_json_label(one.label)
            records.append({**record, "a": one.a, "b": one.b})
        return {"count": len(moved), "largest": records}

    has_labels = hasattr(models[0], "classes_met")
    described: dict[str, Any] = {}
    for key, model, path in zip("ab", models, paths, strict=True):
        pairs = [[to_json_label(label), b] for label, b in _intercepts(model).items()]
        described[key] = {
            "model": str(path),
            "class": type(model).__name__,
            "examples": model.n_iterations,
            "nonzeros": model.n_nonzero,
            **({"intercepts": pairs} if has_labels else {"intercept": model.intercept}),
        }
    return {
        **described,
        "appeared": weights(changes.appeared),
        "vanished": weights(changes.vanished),
        "changed": weights(changes.moved),
        "same": changes.n_equal,
    }
