"""Online learners for sparse, high-dimensional streams that keep their models sparse."""

from typing import TYPE_CHECKING, Any

from streaml1.modelfile import ModelFileError
from streaml1.models import ElasticNetClassifier, ElasticNetRegressor, load
from streaml1.rows import BadExample

if TYPE_CHECKING:
    from streaml1.consumer import progressive

__all__ = [
    "BadExample",
    "ElasticNetClassifier",
    "ElasticNetRegressor",
    "ModelFileError",
    "load",
    "progressive",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The readers and the report are not needed to learn and predict: they load when called for.
    if name == "progressive":
        from streaml1.consumer import progressive

        return progressive
    raise AttributeError(f"module 'streaml1' has no attribute {name!r}")
