"""Data sets in the form of `river.datasets`: downloaded, synthetic, or part of Python.

All but `stdlib` are imported on first use, because importing `river.datasets` takes half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streaml1.datasets.source  # noqa: F401  (registers the sources ``data:rcv1`` ...)
from streaml1.datasets.catalog import dataset_class
from streaml1.datasets.standard_library import Stdlib, stdlib

if TYPE_CHECKING:
    from streaml1.datasets.arcene import Arcene
    from streaml1.datasets.drifting import Drifting
    from streaml1.datasets.landsat import Landsat
    from streaml1.datasets.magic04 import MAGIC04
    from streaml1.datasets.mnist import MNIST
    from streaml1.datasets.rcv1 import RCV1
    from streaml1.datasets.sms_spam import SMSSpam
    from streaml1.datasets.talking_data import TalkingData

__all__ = [
    "MAGIC04",
    "MNIST",
    "RCV1",
    "Arcene",
    "Drifting",
    "Landsat",
    "SMSSpam",
    "Stdlib",
    "TalkingData",
    "stdlib",
]


def __getattr__(name: str) -> Any:
    return dataset_class(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
