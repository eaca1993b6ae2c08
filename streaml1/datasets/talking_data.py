"""Clicks on the ads of apps, and which of them had the app downloaded."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from river.datasets import base

from streaml1.datasets.remote import File, Remote
from streaml1.sources.source import Lost, SourceError

__all__ = ["TalkingData"]

PAGE = "https://www.kaggle.com/c/talkingdata-adtracking-fraud-detection/data"
FILES = (File("train_sample.csv", PAGE, None, ""),)
CATEGORIES = ("ip", "app", "device", "os", "channel")


class TalkingData(Remote):
    """100,000 clicks on the ads of apps, by time; True: the app was downloaded after (227 of them).

    One example is {"ip": "87540", "app": "12", ...}: five categories as text. Clicks of the same
    minute are in the file's order.

    Parameters
    ----------
    directory
        A folder with train_sample.csv, which may be packed by gzip; None: that of `STREAML1_DATA`,
        or river's. Kaggle gives it to those who have an account, so it is never downloaded here.

    References
    ----------
    [^1]: [TalkingData AdTracking Fraud Detection Challenge, 2018.](https://www.kaggle.com/c/talkingdata-adtracking-fraud-detection)
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        super().__init__(
            "talkingdata", FILES, directory, task=base.BINARY_CLF, n_samples=100_000,
            n_features=len(CATEGORIES),
        )  # fmt: skip

    def download(self, force: bool = False, verbose: bool = True) -> None:
        """Refuse: it takes an account."""
        if self.own is None:
            raise SourceError(
                f"train_sample.csv of {PAGE} takes an account there: put it into a folder, and "
                "name that by directory= or STREAML1_DATA"
            )
        super().download(force, verbose)

    def _iter(self) -> Iterator[tuple[dict[str, str], bool]]:
        rows = csv.DictReader(self.text("train_sample.csv").decode().splitlines())
        columns = {*CATEGORIES, "click_time", "is_attributed"}
        if not columns <= set(rows.fieldnames or ()):
            raise Lost(f"{self.path} has not the columns {sorted(columns)}: copy it anew")
        for row in sorted(rows, key=lambda row: _time(row["click_time"])):
            yield {name: row[name] for name in CATEGORIES}, row["is_attributed"] == "1"


def _time(text: str) -> str:
    """A time that sorts as text: the hour may have one digit."""
    day, _, clock = text.partition(" ")
    return f"{day} {clock.rjust(len('00:00:00') if clock.count(':') == 2 else 5, '0')}"
