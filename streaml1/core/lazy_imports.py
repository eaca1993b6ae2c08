"""Names of a package that are loaded when they are called for."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["called_for", "uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Have nobody look for garbage: compilers and imports make many objects, and most stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def called_for(package: str, homes: Mapping[str, str], name: str) -> Any:
    """The value of `name` in a package, from the module of it that `homes` tells, kept there.

    Raises
    ------
    AttributeError
        Where `homes` tells of no such name.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    with uncollected():
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        if not gc.get_freeze_count():  # nobody else has frozen what is not to be looked at
            gc.freeze()
            gc.unfreeze()  # modules are old from now on: full collections alone look at them
    setattr(sys.modules[package], name, value)
    return value
