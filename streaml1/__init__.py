"""Online learners for sparse, high-dimensional streams that keep their models sparse."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaml1 import datasets as datasets
    from streaml1 import distributed as distributed
    from streaml1 import serving as serving
    from streaml1 import sklearn as sklearn
    from streaml1 import solvers as solvers
    from streaml1.core.rows import BadExample as BadExample
    from streaml1.core.version import __version__ as __version__
    from streaml1.models import *  # noqa: F403
    from streaml1.models import save as save
    from streaml1.models.serialization import ModelFileError as ModelFileError
    from streaml1.training import Consumer as Consumer
    from streaml1.training import progressive as progressive
    from streaml1.training.merge import merge as merge
    from streaml1.training.model_registry import load as load
    from streaml1.training.regret import regret as regret

_HOMES = {
    "BadExample": "core.rows",
    "Consumer": "training",
    "ModelFileError": "models.serialization",
    "load": "training.model_registry",
    "merge": "training.merge",
    "progressive": "training",
    "regret": "training.regret",
    "save": "models",
}
"""Public names next to the learners, and the modules that define them."""

_SUBPACKAGES = ("datasets", "distributed", "serving", "sklearn", "solvers")


def _homes() -> dict[str, str]:
    """Return the module of each public name, the learners included."""
    registry = import_module("streaml1.models.registry")
    return {**_HOMES, **dict.fromkeys(registry.modules_of_classes(), "models")}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Loaded at the first use: the command line answers --help without a compiler, and learning
        # does not import the readers or the report.
        if name in _SUBPACKAGES:
            return import_module(f"streaml1.{name}")
        if name == "__version__":
            return import_module("streaml1.core.version").__version__
        if name == "__all__":
            return sorted(_homes())
        homes = _HOMES if name in _HOMES else _homes()
        if name not in homes:
            other_names = import_module("streaml1.core.other_names")
            raise other_names.missing_attribute(__name__, name, __dir__())
        return import_module("streaml1.core.lazy_imports").import_attribute(__name__, homes, name)


def __dir__() -> list[str]:
    special = {name for name in globals() if name.startswith("__")}
    return sorted({*special, *_homes(), *_SUBPACKAGES})
