"""Data sets: what comes with Python, what is downloaded once, and what is made up.

All but `stdlib` are loaded when they are called for: river's own data sets take half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streaml1.datasets.source  # noqa: F401  (makes them sources: ``data:rcv1``)
from streaml1.core.lazy_imports import called_for
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

_HOMES = {
    "Arcene": "arcene",
    "Drifting": "drifting",
    "Landsat": "landsat",
    "MAGIC04": "magic04",
    "MNIST": "mnist",
    "RCV1": "rcv1",
    "SMSSpam": "sms_spam",
    "TalkingData": "talking_data",
}


def __getattr__(name: str) -> Any:
    return called_for(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
