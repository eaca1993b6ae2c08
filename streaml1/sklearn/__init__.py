"""Estimators for scikit-learn that wrap the learners; needs the extra `sklearn`."""

try:
    from streaml1.sklearn.estimators import StreamClassifier, StreamRegressor
except ImportError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ImportError(
        "streaml1.sklearn needs scikit-learn 1.6 or newer; install it with "
        "pip install 'streaml1[sklearn]'",
        name=error.name,
    ) from error

__all__ = ["StreamClassifier", "StreamRegressor"]
