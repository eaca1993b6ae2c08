"""The alarm of a run: drifts are logged, counted and announced to observers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from streaml1.core.logging import event
from streaml1.training.observers import Observers
from streaml1.training.report import Report

__all__ = ["DriftAlarm"]

logger = logging.getLogger("streaml1")


class DriftAlarm:
    """Announces the drifts of a report, each once per process.

    Parameters
    ----------
    report
        The report, which finds them.
    observers
        Observers of the run.
    action
        `RunConfig.on_drift`.

    learner
        What learns: its rates restart after a drift if the action is "reset-rates".

    Raises
    ------
    ValueError
        If the action is "publish" and no observer publishes models, or "reset-rates" and the
        learner has no rate that decays.
    """

    def __init__(self, report: Report, observers: Observers, action: str, learner: Any) -> None:
        self._reset_rates: Callable[[], None] | None = None
        if action == "reset-rates":
            if not getattr(learner, "has_decaying_rates", False):
                raise ValueError(
                    f'on_drift="reset-rates" requires a model whose learning rates decay, got '
                    f"{learner!r}"
                )
            self._reset_rates = learner.reset_rates
        if action == "publish" and not any(getattr(o, "publishes", False) for o in observers):
            raise ValueError(
                'on_drift="publish" requires a ModelPublisher among the observers; add one, or use '
                'on_drift="log"'
            )
        self._report, self._observers, self._action = report, observers, action
        self._first = self._n_announced = 0

    def start(self) -> None:
        """Skip the drifts that were found before a resume."""
        self._first = self._n_announced = len(self._report.drifts)

    def announce(self) -> None:
        """Log new drifts, and call the observers."""
        for drift in self._report.drifts[self._n_announced :]:
            self._n_announced += 1
            logger.warning(
                "%s", drift.sentence(self._report.loss_name),
                extra=event("drift", **drift._asdict()),
            )  # fmt: skip
            if self._reset_rates is not None:
                self._reset_rates()
            self._observers.on_drift(drift, self._action)

    def max_rows(self, rows: int) -> int:
        """Return the most of `rows` rows that a batch may have.

        If a drift changes the model, it does so at the example where it is noticed, so that the
        weights do not depend on the blocks of the source.
        """
        return rows if self._reset_rates is None else min(rows, self._report.until_drift_test)

    def after_batch(self) -> None:
        """Announce drifts at once if they change the model."""
        if self._reset_rates is not None:
            self.announce()

    def metrics(self) -> dict[str, float]:
        """Return the number of drifts that this process has found."""
        return {"drifts_total": len(self._report.drifts) - self._first}
