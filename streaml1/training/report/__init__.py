"""The report of a training run: a table that grows, a plot, JSON lines.

| module | content |
|---|---|
| `losses` | losses of predictions, and the predictions of the baseline |
| `sums` | running sums over examples |
| `window` | ROC AUC of the last examples |
| `reliability` | observed rates by predicted probability |
| `line` | one line of the report |
| `columns` | the columns of the table, and those that fit a width |
| `text_table`, `notebook`, `plot` | the lines as text, as HTML and as a picture |
| `summary` | the last line as a sentence, and as a table of names and figures |
| `report` | all of it, for one run |
"""

from __future__ import annotations

from streaml1.training.report.line import Line, line_after
from streaml1.training.report.losses import MARGINS, MIN_PROBABILITY, NAMES, losses
from streaml1.training.report.plot import require_plotting
from streaml1.training.report.reliability import ReliabilityBin, reliability_table
from streaml1.training.report.report import Report
from streaml1.training.report.window import WINDOW

__all__ = [
    "MARGINS",
    "MIN_PROBABILITY",
    "NAMES",
    "WINDOW",
    "Line",
    "ReliabilityBin",
    "Report",
    "line_after",
    "losses",
    "reliability_table",
    "require_plotting",
]
