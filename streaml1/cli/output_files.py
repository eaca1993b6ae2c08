"""The output files of a command."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaml1.cli.program import CommandError
from streaml1.core import exit_codes as exits

if TYPE_CHECKING:
    from streaml1.training.page import FinishedPage, LivePage
    from streaml1.training.report import Report

__all__ = ["require_outputs", "unwritable", "write_all", "write_page"]


def require_outputs(
    source: str | list[str],
    outputs: dict[str, Path | None],
    model: str | Path | None = None,
    directory: Path | None = None,
    source_name: str = "SOURCE",
) -> None:
    """Check, before anything is learnt, that the output files can be written.

    Parameters
    ----------
    source
        The input, such as the argument SOURCE, which must not be overwritten.
    outputs
        The path of each option, or None.
    model
        The model that is read. Only `--save` may overwrite it.
    directory
        The directory of checkpoints.
    source_name
        Name of the argument or option that gives `source`.

    Raises
    ------
    CommandError
        If a file cannot be written, or two files are the same.
    """
    own = model.resolve() if isinstance(model, Path) else None
    from streaml1.sources import is_many, list_files

    names = list_files(source) if is_many(source) else [source]
    taken = {Path(str(name)).resolve(): source_name for name in names if name != "-"}
    if directory is not None:
        taken[directory.resolve()] = "--checkpoint"
    for option, path in outputs.items():
        if path is None:
            continue
        place = path.resolve()
        if place in taken:
            raise CommandError(f"{option} {path} is also {taken[place]}; choose another name")
        if place == own and option != "--save":
            raise CommandError(f"{option} {path} is the model that is read; choose another name")
        taken[place] = option
        if path.exists() and not path.is_file():
            raise CommandError(f"{option} {path} is not a regular file; choose another name")
        if path.exists() and not os.access(path, os.W_OK):
            raise CommandError(f"{option} {path} cannot be written: it is read-only")
        try:
            with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{path.name}."):
                pass
        except OSError as error:
            raise unwritable(f"{option} {path}", error) from None
    if (plot := outputs.get("--plot")) is not None:
        from streaml1.training.report import require_plotting

        try:
            require_plotting(plot)
        except (RuntimeError, ValueError) as error:
            raise CommandError(f"--plot {error}") from None


def unwritable(what: str, error: OSError) -> CommandError:
    """Return the error for a file that cannot be written."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return CommandError(
            f"{what} cannot be written: there is no such directory; create it first"
        )
    return CommandError(
        f"{what} cannot be written: {exits.os_reason(error)}", exits.write_failure_code(error)
    )


def write_all(
    learner: Any,
    done: Report,
    save: Path | None,
    report: Path | None,
    plot: Path | None,
    reliability: Path | None = None,
) -> None:
    """Write the output files that are given; raise CommandError if a file cannot be written."""
    from streaml1 import models

    writers: list[tuple[Path | None, Callable[[Path], object]]] = [
        (save, partial(models.save, learner)),
        (report, done.write),
        (plot, done.plot),
        (reliability, done.write_reliability),
    ]
    for path, write in writers:
        if path is None:
            continue
        try:
            write(path)
        except OSError as error:
            raise unwritable(str(path), error) from None


def write_page(page: LivePage | FinishedPage, path: Path) -> None:
    """Write a page as one HTML file; raise CommandError if the file cannot be written."""
    try:
        page.write(path)
    except OSError as error:
        raise unwritable(str(path), error) from None
