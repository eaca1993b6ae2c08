"""Plain-text tables, laid out by rich."""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

__all__ = ["TableColumn", "printable", "render_table"]

WIDTH = 400
"""Characters that a line may have: wider than any table, so that rich wraps none."""


class TableColumn(NamedTuple):
    """The head and the layout of a column.

    Parameters
    ----------
    head
        The title; it may have several lines.
    justify
        "left" or "right".
    min_width
        Width in characters, at least; the lines of the head and the cells may need more.
    max_width
        Width in characters, at most; longer cells end in an ellipsis.
    """

    head: str
    justify: Literal["left", "right"] = "right"
    min_width: int | None = None
    max_width: int | None = None


def render_table(
    columns: Iterable[TableColumn],
    rows: Iterable[Sequence[str]],
    *,
    show_header: bool = True,
    gap: int = 1,
) -> str:
    """Lay out rows of text in columns.

    Parameters
    ----------
    columns
        Heads and layout.
    rows
        The cells, one for each column.
    show_header
        Whether to print the heads.
    gap
        Spaces between two columns.

    Returns
    -------
    str
        Lines without trailing spaces, and without a line break at the end.

    Examples
    --------
    >>> print(render_table([TableColumn("n"), TableColumn("name", "left")], [("10", "a")]))
     n name
    10 a
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=show_header, padding=(0, gap, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(
            column.head, justify=column.justify, no_wrap=True,
            min_width=column.min_width, max_width=column.max_width,
        )  # fmt: skip
    for row in rows:
        table.add_row(*row)
    # In a notebook rich would display the table as HTML of its own, next to the returned text.
    console = Console(
        file=io.StringIO(), width=WIDTH, color_system=None, markup=False, emoji=False,
        force_jupyter=False,
    )  # fmt: skip
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def printable(name: Hashable) -> str:
    """Return a name as text, or its repr if it is blank or has characters that do not print."""
    prints = isinstance(name, str) and name.strip() and name.isprintable()
    return str(name) if prints else repr(name)
