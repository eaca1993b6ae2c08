"""A page in the browser that shows a run, live or finished.

| file | |
|---|---|
| `history` | curves in a bounded number of points |
| `weights` | the largest weights, their last values, and those that changed most |
| `rejections` | counts of rejected examples by reason |
| `sections` | what the page shows, as JSON: one section per part of the page |
| `live` | the observer that collects it while a run learns |
| `finished` | the same from a file of `--report` or `--log json` |
| `routes` | HTTP: the page, its events, searches and explanations |
| `assets` | the files of the page, and all of it in one file |

Nothing is computed unless a page is open, except for a few sums per quarter of a second.
"""

from __future__ import annotations

from streaml1.training.page.assets import single_file
from streaml1.training.page.finished import FinishedPage, read_run
from streaml1.training.page.live import LivePage
from streaml1.training.page.routes import page_routes

__all__ = ["FinishedPage", "LivePage", "page_routes", "read_run", "single_file"]
