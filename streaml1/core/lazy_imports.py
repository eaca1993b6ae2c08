"""Attributes of a package that are imported when they are first accessed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from streaml1.core.other_names import missing_attribute

__all__ = ["gc_disabled", "import_attribute"]


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the garbage collector within a block.

    Imports and compilers create many objects of which most stay alive. Each of them counts towards
    the next collection, which would traverse all of them and free hardly anything.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_attribute(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Import an attribute of a package from the submodule that defines it, and set it there.

    A package calls this from its module-level ``__getattr__``. The second access to the attribute
    does not call ``__getattr__`` any more.

    Parameters
    ----------
    package
        Full name of the package.
    homes
        Attribute name -> name of the submodule, relative to the package.
    name
        Name of the attribute.

    Raises
    ------
    AttributeError
        If `homes` does not list the name.
    """
    if name not in homes:
        raise missing_attribute(package, name, homes)
    module = f"{package}.{homes[name]}"
    is_new = module not in sys.modules
    with gc_disabled():
        value = getattr(import_module(module), name)
        # Freezing and unfreezing moves all objects to the oldest generation: only full collections
        # traverse the imported modules from now on. This must not be repeated, because garbage of
        # the application moves along, and a full collection may never come. Unfreezing would also
        # undo a freeze of the application, such as that of a server before it forks; then leave it
        # alone.
        if is_new and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
    setattr(sys.modules[package], name, value)
    return value
