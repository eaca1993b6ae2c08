"""The page of a finished run, from a file of `--report` or `--log json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import orjson

from streaml1.core import exit_codes as exits
from streaml1.core.atomic_write import open_atomic
from streaml1.training.page.assets import single_file
from streaml1.training.page.history import Mark, columns_of_lines, nonzeros_of_lines
from streaml1.training.page.rejections import RejectionCounts
from streaml1.training.page.routes import join_sections
from streaml1.training.page.sections import (
    Section,
    explanation_section,
    improvement,
    loss_section,
)
from streaml1.training.page.weights import WeightHistory, copy_weights

__all__ = ["FinishedPage", "RunFileError", "read_run"]


class RunFileError(ValueError):
    """A file that holds no run; the message is one sentence."""

    exit_code = exits.DATA_ERROR


class FinishedRun:
    """What a file says about a run."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.lines: list[dict[str, Any]] = []
        self.marks: list[Mark] = []
        self.rejections = RejectionCounts()

    def add(self, record: dict[str, Any]) -> None:
        """Add a line of a report, or an event of a log."""
        event = record.get("event")
        if event is None or event == "line":
            self.lines.append(record)
            for drift in record.get("drifts") or []:
                self._mark("drift", {"examples": drift.get("since")})
        elif event == "run_begins":
            self.title = str(record.get("message", "")).partition(": ")[2] or self.title
            if record.get("resumed"):
                self._mark("restart", record)
        elif event == "checkpoint_saved":
            self._mark("checkpoint", record)
        elif event == "example_refused":
            self.rejections.add(str(record.get("place")), str(record.get("reason")))

    def _mark(self, kind: str, record: dict[str, Any]) -> None:
        examples = record.get("examples")
        if _is_count(examples):
            self.marks.append(Mark(kind, examples))


NUMBERS = (
    "recent_loss", "loss", "constant_loss", "n_nonzero", "born", "died", "refused", "seconds",
    "calibration", "recent_calibration",
)  # fmt: skip
"""Fields of a line that the page shows, besides the number of examples."""


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _is_readable(record: Any) -> bool:
    """Return whether a value is a line of a report, or an event of a log."""
    if not isinstance(record, dict):
        return False
    if record.get("event") not in (None, "line"):
        return True
    numbers = (record.get(name) for name in NUMBERS)
    return _is_count(record.get("examples")) and all(
        number is None or type(number) in (int, float) for number in numbers
    )


def read_run(path: str | Path) -> FinishedRun:
    """Read a file of `--report`, or standard error of a run with `--log json`.

    Raises
    ------
    OSError
        If the file cannot be read.
    RunFileError
        If it holds no line of a report.
    """
    run = FinishedRun(Path(path).name)
    remedy = "give a file of learn --report, or the output of learn --log json"
    with open(path, "rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                record = orjson.loads(text)
            except orjson.JSONDecodeError:
                raise RunFileError(f"{path}:{number}: not JSON; {remedy}") from None
            if not _is_readable(record):
                raise RunFileError(f"{path}:{number}: not a line of a report; {remedy}")
            run.add(record)
    if not run.lines:
        raise RunFileError(f"{path} has no line of a report; {remedy}")
    return run


class FinishedPage:
    """What the page of a finished run shows.

    Parameters
    ----------
    run
        The run.
    model
        Its model, for the weights and for explanations; None without.
    """

    def __init__(self, run: FinishedRun, model: Any = None) -> None:
        self._model = model
        self._copy = None if model is None else copy_weights(model)
        history = WeightHistory()
        if self._copy is not None:
            history.add(self._copy)
        self._sections = {
            name: orjson.dumps(section) for name, section in _sections(run, history).items()
        }

    def sections(self) -> Mapping[str, bytes]:
        """Return the sections as JSON, by name."""
        return self._sections

    def is_final(self) -> bool:
        """Return True: they do not change."""
        return True

    def wait(self, seconds: float) -> None:
        """Return at once."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Do nothing."""
        yield

    def search(self, prefix: str, k: int) -> list[dict[str, Any]]:
        """Return the largest weights of the names with a prefix."""
        return [] if self._copy is None else self._copy.search(prefix, k)

    def explain(self, x: dict[Any, Any]) -> Section:
        """Return the contributions of the features of an example."""
        if self._model is None:
            raise ValueError("explanations need the model: use streaml1 page RUN --model MODEL")
        return explanation_section(self._model, x)

    def write(self, path: str | Path) -> None:
        """Write the page as one HTML file, atomically."""
        with open_atomic(path) as file:
            file.write(single_file(join_sections(self._sections)))


def _sections(run: FinishedRun, weights: WeightHistory) -> dict[str, Section]:
    last = run.lines[-1]
    loss, name = last.get("loss"), str(last.get("loss_name", "loss"))
    rejected = run.rejections.section()
    rejected["total"] = max(rejected["total"], last.get("refused") or 0)
    is_finite = loss is not None and np.isfinite(loss)
    return {
        "run": {
            "title": run.title, "live": False, "loss_name": name,
            "explains": weights.latest is not None,
        },
        "tiles": {
            "examples": last["examples"],
            "per_second": last["examples"] / max(last.get("seconds") or 0.0, 1e-9),
            "recent_loss": last.get("recent_loss"),
            "better": improvement(loss, last.get("constant_loss")),
            "nonzero": last.get("n_nonzero"),
            "calibration": last.get("recent_calibration", last.get("calibration")),
            "lag": None,
            "checkpoint_age": None,
            "status": "ended" if is_finite else "red",
            "health": "the run has ended" if is_finite else "the loss is not finite",
        },
        "loss": loss_section(columns_of_lines(run.lines), run.marks, name),
        "nonzeros": nonzeros_of_lines(run.lines),
        "weights": weights.shown,
        "stream": {"lag": None, "rejected": rejected, "waiting": None, "figures": []},
    }  # fmt: skip
