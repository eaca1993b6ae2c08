"""Labels that come later than their examples: what is predicted at once is learnt with its label."""

from __future__ import annotations

from streaml1.consumer.late.run import LateLabels, LateRun
from streaml1.consumer.late.sources import Events, opened_events

__all__ = ["Events", "LateLabels", "LateRun", "opened_events"]
