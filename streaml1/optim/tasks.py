"""Which losses are for labels of two kinds, and which for numbers.

Commands begin with it, before numpy is loaded.
"""

__all__ = ["CLASSIFICATION", "REGRESSION"]

CLASSIFICATION = ("logistic", "hinge", "smoothed_hinge")
REGRESSION = ("squared", "absolute")
