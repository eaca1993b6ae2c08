"""Weights and names as tables of plain lines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from streaml1.optim.tasks import REGRESSION

__all__ = ["entries_table", "shown", "telling", "text_table", "weight_text"]


def telling(model: Any, k: int) -> str:
    """The weights farthest above and below zero, in two columns; with many labels in one."""
    if hasattr(model, "classes_met"):
        entries = model.top_weights(k)
        return entries_table(model, entries) if entries else "All weights are zero."
    up, down = model._farthest(k, 1, -1)
    regression = model.loss in REGRESSION
    heads = ("raise the value", "lower the value") if regression else ("for True", "for False")
    if not up and not down:
        return "All weights are zero."
    rows = [
        (*(up[i] if i < len(up) else ("", None)), *(down[i] if i < len(down) else ("", None)))
        for i in range(max(len(up), len(down)))
    ]
    return text_table(
        ("weight", heads[0], "weight", heads[1]),
        [(weight_text(v), shown(name), weight_text(u), shown(other)) for name, v, other, u in rows],
    )


def entries_table(model: Any, entries: Sequence[tuple[Any, float]]) -> str:
    """What `top_weights` of a model tells, as a table."""
    if hasattr(model, "classes_met"):
        many = [(weight_text(w), shown(name), shown(label)) for (name, label), w in entries]
        return text_table(("weight", "feature", "label"), many)
    return text_table(("weight", "feature"), [(weight_text(w), shown(name)) for name, w in entries])


def weight_text(value: float | None) -> str:
    """A weight in a column of a table."""
    return "" if value is None else f"{value:+.4f}" if abs(value) < 1e3 else f"{value:+.3g}"


def shown(name: Hashable) -> str:
    """A name as it is; with its escapes where it would not print, or would print as nothing."""
    prints = isinstance(name, str) and name.strip() and name.isprintable()
    return str(name) if prints else repr(name)


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain lines."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in heads:
        justify, width = ("right", 10) if head == "weight" else ("left", 30)
        table.add_column(head, justify=justify, no_wrap=True, max_width=width)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    console = Console(width=200, color_system=None, markup=False, emoji=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
