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
    from streaml1.models.serialization import ModelFile

if not TYPE_CHECKING:  # type checkers know the classes from the registry
    __all__ = [*modules_of_classes(), "decode", "load", "save"]  # noqa: PLE0604

    def __getattr__(name: str) -> Any:
        return import_attribute(__name__, modules_of_classes(), name)


def save(model: Any, path: str | Path) -> None:
    """Write a model, or a river pipeline that ends in one, to one file.

    `load` reads it and continues bit-identically. The file is written next to `path` and then
    renamed, so that an existing model is replaced atomically. It holds no pickle and no code: the
    transformers of a pipeline are stored by name, with their parameters and state.

    Parameters
    ----------
    model
        A model of streaml1, or a pipeline of river that ends in one.
    path
        The file.

    Raises
    ------
    ModelFileError
        If the file cannot be written, or a step, a name or a parameter is of a type that a model
        file cannot hold. The message names the step.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from river import preprocessing
    >>> import streaml1
    >>> pipeline = preprocessing.StandardScaler() | streaml1.ElasticNetClassifier()
    >>> for k in range(100):
    ...     pipeline.learn_one({"a": k % 7, "b": 1000 * (k % 5)}, k % 7 > 3)
    >>> path = Path(tempfile.mkdtemp()) / "clicks.model"
    >>> streaml1.save(pipeline, path)
    >>> loaded = streaml1.load(path)
    >>> x = {"a": 5, "b": 2000}
    >>> loaded.predict_proba_one(x) == pipeline.predict_proba_one(x)
    True
    """
    from pathlib import Path

    from streaml1.models import pipelines, serialization
    from streaml1.models.base import OnlineModel

    if isinstance(model, OnlineModel):
        model.save(path)
    else:
        serialization.write(Path(path), pipelines.snapshot(model)())


def load(path: str | Path) -> Any:
    """Read a model or a pipeline that `save` wrote; it continues bit-identically.

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


def _restored(content: ModelFile, path: str | Path) -> Any:
    from streaml1.models.serialization import ModelFileError

    name, params, state, steps = content
    modules = modules_of_classes()
    if name not in modules:
        what = name if name.isidentifier() and len(name) < 80 else "model"
        raise ModelFileError(f"{path} holds a {what}, which this version of streaml1 does not know")
    kind = import_attribute(__name__, modules, name)
    try:
        model = kind._from_file(params, state)
        if steps is None:
            return model
        from streaml1.models.pipelines import join_steps

        return join_steps(steps, model)
    except MemoryError:
        raise ModelFileError(f"{path} needs more memory than is available") from None
    except Exception:  # a crafted file can raise anything
        raise ModelFileError(f"{path} was not written by streaml1") from None
