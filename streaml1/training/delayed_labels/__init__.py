"""Labels that come later: an example is predicted at once, and learnt with its label."""

from __future__ import annotations

from streaml1.training.delayed_labels.event_sources import Events, opened_events
from streaml1.training.delayed_labels.run import LateRun
from streaml1.training.delayed_labels.settings import LateLabels, require_late

__all__ = ["Events", "LateLabels", "LateRun", "opened_events", "require_late"]
