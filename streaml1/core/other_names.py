"""Names of options and classes in other libraries and programs, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["COUNTERPARTS", "OTHER_CLASSES", "counterpart", "missing_attribute"]

_OTHERS = {
    "target": "label label-column label-col target-column y y-column response outcome",
    "delimiter": "sep separator",
    "passes": "epochs n-epochs num-epochs iterations n-iter max-iter n-passes",
    "lr": "learning-rate eta eta0 step-size",
    "save": "out output output-file model-out model-file model-path save-model export dump",
    "load": "load-model init-model model-in pretrained resume continue warm-start",
    "id": "id-column id-col",
    "ignore": "drop exclude drop-columns skip-columns",
    "categorical": "categories categorical-features categorical-columns cat-features cat-cols",
    "numeric": "numerical numeric-features numeric-columns numerical-features",
    "missing": "na-values nan null-values",
    "workers": "n-jobs jobs threads num-workers processes n-workers",
    "holdout": "test-size validation test-split val-split valid-split validation-split "
                 "validation-fraction valid-size eval-split",
    "limit": "nrows head max-rows max-examples n-rows sample",
    "columns": "names column-names",
    "weight": "weight-column weight-col weights sample-weight sample-weights importance",
    "positive-weight": "class-weight class-weights pos-weight scale-pos-weight",
    "negative-rate": "negative-sampling-rate downsampling-rate sampling-rate",
    "positive": "pos-label positive-label positive-class",
    "seed": "random-state random-seed",
    "hash-bits": "bits n-bits num-bits hash-size",
    "cross": "crosses polynomial poly-degree feature-crosses",
    "ngrams": "n-grams ngram-range",
    "loss": "objective criterion loss-fn",
    "model": "algorithm algo learner estimator method solver optimizer",
    "format": "type file-type file-format input-format",
    "bad skip": "skip-errors ignore-errors on-error errors skip-bad skip-invalid on-bad-lines",
    "group": "group-id consumer-group",
    "from": "auto-offset-reset offset-reset from-beginning from-offset",
    "checkpoint": "checkpoint-dir checkpoints checkpoint-path",
    "checkpoint-every": "checkpoint-interval save-every",
    "every": "verbose log-every log-interval report-every print-every",
    "table": "metric eval-metric scoring",
    "listen": "host bind address",
}  # fmt: skip
"""Names of others by ours. Dashes and underscores are the same."""

COUNTERPARTS = {name: ours for ours, others in _OTHERS.items() for name in others.split()}
"""Our names by those of others, which are spelled with dashes."""


def counterpart(name: str) -> str | None:
    """Return what an option of another library or program is called here, or None.

    Examples
    --------
    >>> counterpart("class_weight")
    'positive-weight'
    """
    return COUNTERPARTS.get(name.replace("_", "-"))


_CLASSES = {
    "ElasticNetClassifier": "LogisticRegression SGDClassifier Lasso ElasticNet Classifier VW "
                            "VWClassifier LogisticRegressionCV",
    "ElasticNetRegressor": "LinearRegression SGDRegressor Ridge Regressor VWRegressor ElasticNetCV "
                           "LassoCV",
    "FTRLClassifier": "FTRLProximal FTRL FTRLProximalClassifier",
    "PegasosClassifier": "LinearSVC SVC SVM Perceptron PAClassifier Pegasos ALMAClassifier",
    "SoftmaxClassifier": "SoftmaxRegression Softmax MultinomialNB VWMultiClassifier",
    "AdaptiveElasticNetClassifier": "AdaGrad Adagrad AdaGradClassifier",
    "CoinBettingClassifier": "CoinBetting COCOB Coin",
    "sklearn.StreamClassifier": "StreamClassifier",
    "sklearn.StreamRegressor": "StreamRegressor",
    "progressive": "learn train fit evaluate progressive_val_score run",
    "load": "read open load_model",
    "save": "dump save_model",
    "merge": "average",
    "datasets.stdlib": "stdlib",
    "solvers.fista": "fista",
    "solvers.sdca": "sdca",
}  # fmt: skip

OTHER_CLASSES = {name: ours for ours, others in _CLASSES.items() for name in others.split()}
"""Classes and functions here by those of other libraries."""


def missing_attribute(package: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a package does not have, with the one that may be meant.

    Examples
    --------
    >>> missing_attribute("streaml1", "SVC", [])
    AttributeError("module 'streaml1' has no attribute 'SVC'; did you mean PegasosClassifier?")
    >>> missing_attribute("streaml1", "MergeModels", ["load"])
    AttributeError("module 'streaml1' has no attribute 'MergeModels'")
    """
    meant = OTHER_CLASSES.get(name) if package == "streaml1" else None
    if meant is None and not name.startswith("_"):  # tools look for names such as __wrapped__
        from difflib import get_close_matches

        by_lower = {other.lower(): other for other in known}
        close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
        meant = by_lower[close[0]] if close else None
    hint = "" if meant is None else f"; did you mean {meant}?"
    return AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
