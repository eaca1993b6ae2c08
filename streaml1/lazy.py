"""Names of a package that are loaded when they are called for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["called_for"]


def called_for(package: str, homes: Mapping[str, str], name: str) -> Any:
    """The value of `name` in a package, from the module of it that `homes` tells, kept there.

    Raises
    ------
    AttributeError
        Where `homes` tells of no such name.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(import_module(f"{package}.{homes[name]}"), name)
    setattr(sys.modules[package], name, value)
    return value
