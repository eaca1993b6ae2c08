"""Delayed labels: an example is predicted when it arrives, and learnt when its label does."""

from __future__ import annotations

from streaml1.training.delayed_labels.event_sources import Events, open_events
from streaml1.training.delayed_labels.run import DelayedLabelRun, require_negatives

__all__ = ["DelayedLabelRun", "Events", "open_events", "require_negatives"]
