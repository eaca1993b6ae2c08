"""The catalog of data sets: their classes, modules and names in a source."""

from __future__ import annotations

from typing import Any

from streaml1.core.lazy_imports import import_attribute

__all__ = ["MODULES", "SOURCE_NAMES", "TIME_ORDERED", "dataset_class"]

MODULES = {
    "Arcene": "arcene",
    "Drifting": "drifting",
    "Landsat": "landsat",
    "MAGIC04": "magic04",
    "MNIST": "mnist",
    "RCV1": "rcv1",
    "SMSSpam": "sms_spam",
    "TalkingData": "talking_data",
}
"""Class -> module of this package."""

SOURCE_NAMES = {
    "rcv1": "RCV1",
    "magic04": "MAGIC04",
    "arcene": "Arcene",
    "landsat": "Landsat",
    "mnist": "MNIST",
    "sms-spam": "SMSSpam",
    "talkingdata": "TalkingData",
    "drifting": "Drifting",
}
"""Name in a source such as ``data:rcv1`` -> class."""

TIME_ORDERED = ("talkingdata", "drifting")
"""Names of the data sets that are ordered by time: a source does not shuffle them."""


def dataset_class(name: str) -> Any:
    """Import and return the data set class `name`.

    Raises
    ------
    AttributeError
        If there is no such class.
    """
    return import_attribute("streaml1.datasets", MODULES, name)
