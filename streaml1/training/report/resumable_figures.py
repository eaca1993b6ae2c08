"""The running figures of a report with the state that a checkpoint holds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1.training.drift import Drift
from streaml1.training.report.line import LINE_TYPES, Line, thinned
from streaml1.training.report.running_figures import RunningFigures
from streaml1.training.report.sums import Sums
from streaml1.training.report.window import WINDOW
from streaml1.training.saved_state import require_like, require_type

__all__ = ["ResumableFigures"]

MAX_LABELS = 10**7
"""Bound of the number of labels in a checkpoint: a run counts the weight of each."""


class ResumableFigures(RunningFigures):
    """Running figures that can be saved and continued."""

    def state_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as (JSON values, arrays), for `load_state_dict`."""
        facts: dict[str, Any] = {
            "loss": self.loss,
            "lines": [line.as_dict() for line in thinned(self.lines)],
            "examples": self.examples,
            "refused": self.rejected,
            "all": vars(self._all),
            "recent": vars(self._recent),
            "total": self._total,
            "labels": [self._counts.known, self._counts.weights.tolist()],
            "seconds": time.perf_counter() - self._started,
            "warnings": [self.warnings, self._new_warnings],
            "pass_number": self.pass_number,
            "quantile": self._quantile.state.tolist(),
            "drifts": [drift._asdict() for drift in self.drifts],
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self._detector is not None:
            facts["detector"], arrays = self._detector.state_dict()
        if self.held_out is not None:
            facts["held_out"], best = self.held_out.state_dict()
            arrays |= best
        if self._window is None:
            return facts, arrays
        n = min(self._window.n, WINDOW)
        facts |= {"window": [self._window.n, self._window.ranked_at]}
        return facts, arrays | {"p": self._window.p[:n], "y": self._window.y[:n]}

    def load_state_dict(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue another report; the time between the two does not count.

        Raises
        ------
        ValueError
            If the state was not written by a report of the same loss.
        """
        self._check_state(facts, arrays)
        self.lines = [Line(**line) for line in facts["lines"]]
        self.examples, self.rejected = facts["examples"], facts["refused"]
        vars(self._all).update(facts["all"])
        vars(self._recent).update(facts["recent"])
        self._total = facts["total"]
        if "label" not in facts["all"] and self.loss != "softmax":  # an older checkpoint
            self._all.label = self._total
        self.warnings, self._new_warnings = facts.get("warnings", ({}, []))
        self.drifts = [Drift(**drift) for drift in facts.get("drifts", [])]
        if self._detector is not None and "detector" in facts:
            self._detector.load_state_dict(facts["detector"], arrays)
        self.pass_number = facts.get("pass_number", 1)
        if "quantile" in facts:
            self._quantile.state[:] = facts["quantile"]
        if self.held_out is not None:
            # What was learnt cannot be held out: the choice of the first pass holds.
            nothing = {"every": 0, "first_pass": {}, "n_closed": 0}
            nothing |= {"best_pass": 0, "best_loss": None}
            self.held_out.load_state_dict(facts.get("held_out", nothing), arrays)
        self._counts.known, weights = facts["labels"]
        self._counts.weights = np.array(weights, np.float64)
        now = time.perf_counter()
        self._started, self._lined = now - facts["seconds"], now
        if self._window is not None:
            self._window.n, self._window.ranked_at = facts["window"]
            n = len(arrays["p"])
            self._window.p[:n], self._window.y[:n] = arrays["p"], arrays["y"]

    def _check_state(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        require_type(facts["lines"], list[dict[str, Any]], "lines")
        for line in facts["lines"]:
            for name, value in line.items():
                require_type(value, LINE_TYPES[name], name)
        for name in ("examples", "refused", "pass_number"):
            require_like({name: facts.get(name, 1)}, {name: 0}, "the report")
        for name in ("total", "seconds"):
            require_type(facts[name], float, name)
        require_like(facts["all"], vars(Sums()), "sums")
        require_like(facts["recent"], vars(Sums()), "sums")
        warnings, new_warnings = facts.get("warnings", ({}, []))
        require_type(warnings, dict[str, str], "warnings")
        require_type(new_warnings, list[str], "warnings")
        for drift in facts.get("drifts", []):
            require_like(drift, Drift(0, 0, 0.0, 0.0)._asdict(), "a drift")
        known, weights = facts["labels"]
        require_type(weights, list[float], "labels")
        if type(known) is not int or not len(weights) <= known < MAX_LABELS:
            raise ValueError("the number of labels is out of range")
        quantile = facts.get("quantile", self._quantile.state.tolist())
        require_type(quantile, list[float], "quantile")
        if len(quantile) != len(self._quantile.state):
            raise ValueError("the state of the quantile has another length")
        if self._window is not None:
            n, ranked_at = facts["window"]
            require_like({"n": n, "ranked_at": ranked_at}, {"n": 0, "ranked_at": 0}, "the window")
            p, y = arrays["p"], arrays["y"]
            has_shape = p.shape == y.shape == (min(n, WINDOW),)
            if not has_shape or p.dtype != np.float64 or y.dtype != bool or np.isnan(p).any():
                raise ValueError("the recent predictions have another shape or dtype")
