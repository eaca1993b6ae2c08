"""TalkingData: clicks on ads for apps, and which led to a download."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from river.datasets import base

from streaml1.datasets.remote import File, RemoteDataset
from streaml1.sources.source import Lost, SourceError

__all__ = ["TalkingData"]

PAGE = "https://www.kaggle.com/c/talkingdata-adtracking-fraud-detection/data"
FILES = (File("train_sample.csv", PAGE, None, ""),)
CATEGORIES = ("ip", "app", "device", "os", "channel")


class TalkingData(RemoteDataset):
    """100,000 clicks on ads for apps, by time; the label is True if the app was downloaded.

    An example is {"ip": "87540", "app": "12", ...}: five categorical features as text. 227 labels
    are True. Clicks within the same minute keep the order of the file.

    Parameters
    ----------
    directory
        Directory with train_sample.csv, plain or compressed with gzip. None: the directory named by
        `STREAML1_DATA`, else the download directory of river. It is never downloaded automatically,
        because Kaggle requires an account.

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
        """Raise an error that names the page to download from."""
        if self.user_directory is None:
            raise SourceError(
                f"downloading train_sample.csv needs a Kaggle account; get it from {PAGE} and name "
                "its directory with directory= or STREAML1_DATA"
            )
        super().download(force, verbose)

    def _iter(self) -> Iterator[tuple[dict[str, str], bool]]:
        rows = csv.DictReader(self.read_file("train_sample.csv").decode().splitlines())
        columns = {*CATEGORIES, "click_time", "is_attributed"}
        if not columns <= set(rows.fieldnames or ()):
            raise Lost(f"{self.path} must have the columns {sorted(columns)}; download it again")
        for row in sorted(rows, key=lambda row: _sortable_time(row["click_time"])):
            yield {name: row[name] for name in CATEGORIES}, row["is_attributed"] == "1"


def _sortable_time(text: str) -> str:
    """Pad the hour of a time to two digits, so that times sort as text."""
    day, _, clock = text.partition(" ")
    return f"{day} {clock.rjust(len('00:00:00') if clock.count(':') == 2 else 5, '0')}"
