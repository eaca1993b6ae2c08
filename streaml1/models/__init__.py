"""The learners: river estimators, their hyperparameters, model files. No numerics.

Each learner is a module, imported at the first use of one of its classes: setting up the kernels of
all of them takes as long as importing numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaml1.core.lazy_imports import import_attribute
from streaml1.models.registry import modules_of_classes

if TYPE_CHECKING:
    from pathlib import Path

    from streaml1.models.registry import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers know the classes from the registry
    __all__ = [*modules_of_classes(), "decode", "load"]  # noqa: PLE0604

    def __getattr__(name: str) -> Any:
        return import_attribute(__name__, modules_of_classes(), name)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote; it continues bit-identically.

    Raises
    ------
    ModelFileError
        If the file is missing, truncated, modified, not a model file, or of a newer format.
    """
    from pathlib import Path

    from streaml1.models import serialization

    return _restored(serialization.read(Path(path)), Path(path))


def decode(data: bytes, path: str | Path) -> Any:
    """Return the model in the bytes of a model file; errors refer to it as `path`.

    Raises
    ------
    ModelFileError
        See `load`.
    """
    from streaml1.models import serialization

    return _restored(serialization.decode(data, path), path)


def _restored(content: tuple[str, dict[str, Any], dict[str, Any]], path: str | Path) -> Any:
    from streaml1.models.serialization import ModelFileError

    name, params, state = content
    modules = modules_of_classes()
    if name not in modules:
        what = name if name.isidentifier() and len(name) < 80 else "model"
        raise ModelFileError(f"{path} holds a {what}, which this version of streaml1 does not know")
    kind = import_attribute(__name__, modules, name)
    try:
        return kind._from_file(params, state)
    except MemoryError:
        raise ModelFileError(f"{path} needs more memory than there is") from None
    except Exception:  # a crafted file can raise anything
        raise ModelFileError(f"{path} was not written by streaml1") from None
