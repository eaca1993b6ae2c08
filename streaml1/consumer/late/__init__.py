"""Labels that come later: an example is predicted at once, and learnt with its label."""

from __future__ import annotations

from streaml1.consumer.late.run import LateRun
from streaml1.consumer.late.settings import LateLabels, require_late
from streaml1.consumer.late.sources import Events, opened_events

__all__ = ["Events", "LateLabels", "LateRun", "opened_events", "require_late"]
