"""Options of commands that run tasks at the same time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from streaml1.cli.messages import is_json, log_in_worker
from streaml1.cli.options import positive, together
from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.distributed import Executor

__all__ = ["cluster_options", "new_executor", "require_one_engine", "worker_options"]

cluster_options = together(
    click.option(
        "--dask", metavar="tcp://HOST:PORT", help="Run on the workers of this Dask scheduler."
    ),
    click.option("--ray", metavar="ADDRESS", help="Run on this Ray cluster."),
)
"""Add --dask and --ray."""

worker_options = together(
    click.option(
        "--workers", type=positive, metavar="N",
        help="Number of processes.  [default: one per core]",
    ),
    cluster_options,
)  # fmt: skip
"""Add --workers, --dask and --ray."""


def require_one_engine(dask: str | None, ray: str | None) -> None:
    """Reject two clusters."""
    if dask is not None and ray is not None:
        raise CommandError("--dask cannot be combined with --ray")


def new_executor(workers: int | None, dask: str | None, ray: str | None) -> Executor:
    """Return the executor that the options name."""
    from streaml1.distributed import DaskExecutor, ProcessExecutor, RayExecutor

    try:
        if dask is not None:
            return DaskExecutor(dask)
        if ray is not None:
            return RayExecutor(ray)
        return ProcessExecutor(workers, partial(log_in_worker, is_json()))
    except (ModuleNotFoundError, ValueError) as error:
        raise CommandError(str(error)) from None
