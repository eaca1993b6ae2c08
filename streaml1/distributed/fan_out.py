"""Independent runs at the same time: settings of a sweep, or files.

Each task is one run of `streaml1.training` in one process, so its result is bit-identical to that
run alone, whatever the executor, the number of workers and the order in which tasks end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from streaml1 import training
from streaml1.core.rows import shown
from streaml1.core.types import Model
from streaml1.distributed.executors import Executor, executor_of
from streaml1.features.batch import is_frame, is_matrix
from streaml1.sources import SourceError
from streaml1.training.conversion import Converted
from streaml1.training.predict import Prediction
from streaml1.training.report import Report

__all__ = ["Progress", "Swept", "convert", "evaluate", "predict", "sweep"]

Progress = Callable[[int, int], object]
"""Called as `progress(done, total)` after each task, in order of submission."""


class Swept(NamedTuple):
    """Result of one setting of a sweep.

    Parameters
    ----------
    model
        The model after the run.
    report
        The report of its run.
    """

    model: Model
    report: Report


def sweep(
    models: Sequence[Model],
    source: Any,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Swept]:
    """Run several models over the same source by progressive validation.

    Parameters
    ----------
    models
        The models, which may differ in class and parameters. They stay as they are.
    source
        As for `streaml1.progressive`. Workers open a source that is given by name themselves, so
        the file must exist where they run; data in memory are sent to each of them.
    executor
        Where the runs take place; None: in this process, one after the other.
    progress
        Called with the number of finished runs and of all.
    **options
        Options of `streaml1.progressive` that are not functions, such as `every` and `passes`.

    Returns
    -------
    list of Swept
        A trained model and its report for each of `models`, in their order. Both are bit-identical
        to those of `streaml1.progressive` alone.

    Raises
    ------
    TaskFailed
        If the worker of a run died each time it was tried.
    BadExample, SourceError, TypeError, ValueError
        As `streaml1.progressive`.

    Examples
    --------
    >>> import streaml1
    >>> from streaml1.distributed import sweep
    >>> models = [streaml1.FTRLClassifier(l1=l1) for l1 in (0.1, 10.0)]
    >>> [round(swept.report.lines[-1].loss, 2) for swept in sweep(models, "river:Phishing")]
    [0.3, 0.32]
    """
    if isinstance(source, str) and source == "-":
        raise SourceError("standard input cannot be read by several runs; write it to a file")
    if isinstance(source, Iterator):
        raise SourceError(
            "source cannot be read by several runs, since it is an iterator; give a list, or an "
            "object whose __iter__ returns a new iterator"
        )
    models = _listed("models", models)
    config = options.get("config")
    checkpoint = options.get("checkpoint") or getattr(config, "checkpoint", None)
    if checkpoint is not None and len(models) > 1:  # a run would resume from that of another model
        raise ValueError(
            f"checkpoint={str(checkpoint)!r} would be shared by the runs of {len(models)} models; "
            "sweep without it, or call progressive with a directory for each model"
        )
    calls = [(_learn, model, source, options) for model in models]
    return [Swept(*result) for result in _run(calls, executor, progress)]


def evaluate(
    model: Model,
    sources: Sequence[Any],
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Report]:
    """Evaluate a model on each of several sources.

    Parameters
    ----------
    model
        The model; it does not learn.
    sources
        The sources, each as for `streaml1.progressive`.
    executor, progress
        As for `sweep`.
    **options
        Options of `streaml1.training.evaluate` that are not functions.

    Returns
    -------
    list of Report
        The report of each source, in their order.

    Raises
    ------
    TaskFailed
        If the worker of a task died each time it was tried.
    BadExample, SourceError, TypeError, ValueError
        As `streaml1.training.evaluate`.
    """
    calls = [(_evaluate, model, source, options) for source in _listed("sources", sources)]
    return list(_run(calls, executor, progress))


def predict(
    model: Model,
    sources: Sequence[Any],
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Iterator[list[Prediction]]:
    """Predict the examples of each of several sources.

    Parameters
    ----------
    model
        The model; it does not learn.
    sources
        The sources, each as for `streaml1.progressive`.
    executor, progress
        As for `sweep`.
    **options
        Options of `streaml1.training.predictions` that are not functions.

    Yields
    ------
    list of Prediction
        The predictions of each source, in their order.

    Raises
    ------
    TaskFailed
        If the worker of a task died each time it was tried.
    BadExample, SourceError, TypeError, ValueError
        As `streaml1.training.predictions`.
    """
    calls = [(_predict, model, source, options) for source in _listed("sources", sources)]
    return _run(calls, executor, progress)


def convert(
    sources: Sequence[str | Path],
    directory: str | Path,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Converted]:
    """Convert each of several files to a ``.rows`` file in a directory.

    Parameters
    ----------
    sources
        The files. Their names without the first suffix and what follows must be distinct.
    directory
        The directory of the ``.rows`` files; it is created if it does not exist. Workers write to
        it, so it must be reachable where they run.
    executor, progress
        As for `sweep`.
    **options
        Options of `streaml1.training.convert`.

    Returns
    -------
    list of Converted
        What was written for each file, in their order.

    Raises
    ------
    TaskFailed
        If the worker of a task died each time it was tried.
    ValueError
        If two files would be converted to the same file.
    BadExample, SourceError, TypeError, OSError
        As `streaml1.training.convert`.
    """
    targets: dict[str, str | Path] = {}
    for source in _listed("sources", sources):
        name = f"{Path(source).name.split('.')[0]}.rows"
        if name in targets:
            raise ValueError(
                f"{targets[name]} and {source} would both be converted to {name}; convert them "
                "into different directories"
            )
        targets[name] = source
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(
            f"{directory} is a file, or below one; give a directory for the .rows files"
        ) from None
    calls = [
        (_convert, str(source), str(Path(directory, name)), options)
        for name, source in targets.items()
    ]
    return list(_run(calls, executor, progress))


def _listed(name: str, given: object) -> list[Any]:
    """Return the items of an iterable.

    Raises
    ------
    TypeError
        If it is a single item. Each letter of a file name would be a source, and each column of a
        frame.
    """
    is_single = isinstance(given, str | bytes | Mapping) or is_frame(given) or is_matrix(given)
    if is_single or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list, got {shown(given)}; give a list of one")
    return list(given)


def _run(
    calls: Sequence[tuple[Any, ...]], executor: Executor | None, progress: Progress | None
) -> Iterator[Any]:
    """Run tasks, each a function and its arguments, and yield their results in order."""
    executor = executor_of(executor)
    handles = [executor.submit(*call) for call in calls]
    for done, result in enumerate(executor.gather(handles), start=1):
        if progress is not None:
            progress(done, len(calls))
        yield result


# Tasks. Each is a pure function: what it returns and writes follows from its arguments alone.


def _learn(model: Any, source: Any, options: dict[str, Any]) -> tuple[Model, Report]:
    # Run inline, the caller's model would learn, and observers would count the runs together.
    model, options = deepcopy(model), deepcopy(options)
    return model, training.progressive(model, source, **options)


def _evaluate(model: Model, source: Any, options: dict[str, Any]) -> Report:
    return training.evaluate(model, source, **options)


def _predict(model: Model, source: Any, options: dict[str, Any]) -> list[Prediction]:
    return list(training.predictions(model, source, **options))


def _convert(source: str, path: str, options: dict[str, Any]) -> Converted:
    return training.convert(source, path, **options)
