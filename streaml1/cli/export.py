"""``streaml1 export``: write the weights of a model as CSV, JSON or SQL."""

from __future__ import annotations

from pathlib import Path

import click

from streaml1.cli.messages import report_problem
from streaml1.cli.model_factory import published, without_steps
from streaml1.cli.options import model_path
from streaml1.cli.program import cli

__all__ = ["export"]


@cli.command(epilog="Example: streaml1 export clicks.model --sql | duckdb clicks.db")
@click.argument("model", type=model_path)
@click.option("--csv", "chosen", flag_value="csv", help="Write a CSV table of the weights.")
@click.option("--json", "chosen", flag_value="json", help="Write one JSON object.")
@click.option("--sql", "chosen", flag_value="sql",
              help="Write SQL: a table of the weights, and a query that scores a table of "
              "examples.")  # fmt: skip
def export(model: str | Path, chosen: str | None) -> None:
    """Write the weights of MODEL as a table.

    MODEL is a file written by learn --save, a directory of learn --checkpoint, or a topic of learn
    --publish or --mixed.

    The weights are those that predict would use, in full precision, largest first. Features whose
    weight is zero are left out.
    """
    from streaml1.cli.export_formats import csv_lines, json_lines, sql_lines, weight_table

    if chosen is None:
        raise click.UsageError("use --csv, --json or --sql to choose the format")
    table = weight_table(without_steps(published(model), model))
    if chosen == "sql" and table.hashed:
        raise click.UsageError(
            "--sql requires the names of features, but the model was made with --hash-bits"
        )
    if chosen != "json":
        for note in table.notes:
            report_problem(note)
    lines = {"csv": csv_lines, "json": json_lines, "sql": sql_lines}[chosen]
    for line in lines(table):
        click.echo(line)
