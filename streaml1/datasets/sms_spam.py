"""The SMS Spam Collection: text messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from river.datasets import base

from streaml1.datasets.remote import File, RemoteDataset
from streaml1.sources.source import Lost

__all__ = ["SMSSpam"]

FILES = (
    File(
        "SMSSpamCollection",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00228/smsspamcollection.zip",
        477_907,
        "1587ea43e58e82b14ff1f5425c88e17f8496bfcdb67a583dbff9eefaf9963ce3",
        member="SMSSpamCollection",
    ),
)

TOKEN = re.compile(r"\w+|[^\w\s]+")


class SMSSpam(RemoteDataset):
    """The SMS Spam Collection: 5,574 text messages; the label is True for spam (747 of them).

    An example is a message as {token: 1.0}: its distinct words in lower case, and its runs of
    punctuation ("!!"). Examples are in the order of the file. `river.datasets.SMSSpam` yields the
    raw text; here `messages` does. Both read the same download.

    Parameters
    ----------
    directory
        Directory with SMSSpamCollection. None: the directory named by `STREAML1_DATA`, else the
        download directory of river. A message may span several lines, as in some copies.

    References
    ----------
    [^1]: [Almeida, T.A., Gómez Hidalgo, J.M. and Yamakami, A., 2011. Contributions to the study of
        SMS spam filtering.](https://doi.org/10.1145/2034691.2034742)
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        super().__init__(
            "sms_spam", FILES, directory, task=base.BINARY_CLF, n_samples=5_574, n_features=None,
            sparse=True,
        )  # fmt: skip

    def messages(self) -> Iterator[tuple[str, bool]]:
        """Yield the text of each message and whether it is spam."""
        self.ensure_downloaded()
        lines = self.read_file("SMSSpamCollection").decode().split("\n")
        messages: list[tuple[str, str]] = []
        for line in filter(None, lines):
            label, tab, message = line.partition("\t")
            if tab and label in ("ham", "spam"):
                messages.append((label, message))
            elif messages:  # the continuation of a message
                messages[-1] = (messages[-1][0], messages[-1][1] + line)
            else:
                raise Lost(f"{self.path} must begin with ham or spam; download it again")
        for label, message in messages:
            yield message, label == "spam"

    def _iter(self) -> Iterator[tuple[dict[str, float], bool]]:
        for message, label in self.messages():
            yield dict.fromkeys(TOKEN.findall(message.lower()), 1.0), label
