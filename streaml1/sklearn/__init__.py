"""Estimators for scikit-learn that wrap the learners; needs the extra `sklearn`."""

from streaml1.sklearn.estimators import StreamClassifier, StreamRegressor

__all__ = ["StreamClassifier", "StreamRegressor"]
