"""The SMS Spam Collection: text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from river.datasets import base

from streaml1.datasets.remote import File, Remote
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

WORD = re.compile(r"\w+|[^\w\s]+")


class SMSSpam(Remote):
    """The SMS Spam Collection: 5,574 short messages, and which are spam (True, 747 of them).

    One example is a message as {word: 1.0}: its distinct words in lower case, and what stands
    between them that is no space ("!!"). The order is that of the file. What river calls SMSSpam
    gives the text: here `messages` does, and both are read from the same download.

    Parameters
    ----------
    directory
        A folder with SMSSpamCollection; None: that of `STREAML1_DATA`, or river's. Copies in which
        a message goes over two lines are read too.

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
        """Each message as it was written, and whether it is spam."""
        self.require()
        lines = self.text("SMSSpamCollection").decode().split("\n")
        found: list[tuple[str, str]] = []
        for line in filter(None, lines):
            label, tab, message = line.partition("\t")
            if tab and label in ("ham", "spam"):
                found.append((label, message))
            elif found:
                found[-1] = (found[-1][0], found[-1][1] + line)
            else:
                raise Lost(f"{self.path} begins with neither ham nor spam: copy it anew")
        for label, message in found:
            yield message, label == "spam"

    def _iter(self) -> Iterator[tuple[dict[str, float], bool]]:
        for message, label in self.messages():
            yield dict.fromkeys(WORD.findall(message.lower()), 1.0), label
