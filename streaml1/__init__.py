"""Online learners for sparse, high-dimensional streams that keep their models sparse."""

from streaml1.models import ElasticNetClassifier, ElasticNetRegressor, load

__all__ = ["ElasticNetClassifier", "ElasticNetRegressor", "load"]
__version__ = "0.1.0"
