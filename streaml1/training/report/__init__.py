"""What a run over a stream was like: lines of a table that grows, a picture, JSON lines.

`losses` and `sums` are what is added up over examples, `window` what of the last is ranked, `line`
what a line holds; `table` and `plot` say it. `report` is all of it over a run.
"""

from __future__ import annotations

from streaml1.training.report.line import Line, line_after
from streaml1.training.report.losses import LEAST_PROBABILITY, MARGINS, NAMES, losses
from streaml1.training.report.plot import require_plotting
from streaml1.training.report.report import Report
from streaml1.training.report.window import WINDOW

__all__ = [
    "LEAST_PROBABILITY",
    "MARGINS",
    "NAMES",
    "WINDOW",
    "Line",
    "Report",
    "line_after",
    "losses",
    "require_plotting",
]
