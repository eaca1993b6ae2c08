"""Drift alarms: a rise of the progressive loss that is not a coincidence.

| module | content |
|---|---|
| `adwin` | the adaptive window: which of the last numbers are alike |
| `detector` | the losses of a run as numbers of such a window, and its rises as drifts |
"""

from __future__ import annotations

from streaml1.training.drift.adwin import AdaptiveWindow, Cut
from streaml1.training.drift.detector import Drift, DriftDetector

__all__ = ["AdaptiveWindow", "Cut", "Drift", "DriftDetector"]
