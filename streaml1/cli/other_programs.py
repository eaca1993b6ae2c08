"""Names of commands, options and values in other programs, and what to use for them here.

Options of Vowpal Wabbit, which take values and are often repeated, are in `vw_options`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from streaml1.core.other_names import COUNTERPARTS

__all__ = ["OTHER_COMMANDS", "OTHER_OPTIONS", "meant_option", "meant_value", "option_remedy"]

OTHER_COMMANDS = {
    "train": "learn", "fit": "learn", "run": "learn", "score": "predict", "test": "evaluate",
    "tune": "sweep", "search": "sweep", "describe": "inspect", "head": "inspect",
    "info": "show", "weights": "show", "stats": "show", "summary": "show",
    "validate": "evaluate", "eval": "evaluate", "explain": "predict", "audit": "predict",
    "compare": "diff", "help": "--help", "version": "--version", "cache": "convert",
    "dashboard": "page", "plot": "page",
}  # fmt: skip
"""Commands of other programs, and what they are called here."""


OTHER_OPTIONS = {f"--{name}": f"--{ours}" for name, ours in COUNTERPARTS.items()}
"""Likewise options, which are proposed if the command has them."""

EVALUATE = "use streaml1 evaluate MODEL SOURCE after learning"
LINEAR = "all models are linear; see --cross for interactions"
ORDER = "examples are learnt in the order of the source: sort or shuffle the file beforehand"
PENALTIES = "use --l1 or --l2, the strengths of the penalties"
SOURCE = "name the data without an option, as in streaml1 learn clicks.csv"
TOPIC = "name the topic as SOURCE, as in kafka://localhost:9092/clicks"
UNSCALED = "omit it: --lr auto needs no scaled features"

REMEDIES = {
    f"--{name}": remedy
    for remedy, names in {
        ORDER: "shuffle no-shuffle sort sort-by time-column timestamp timestamp-column "
               "date-column order-by",
        "omit it: each example updates the model, however many are read at once":
            "batch-size batch minibatch-size mini-batch chunksize chunk-size buffer-size",
        "omit it: the model of the best of --passes is kept":
            "early-stopping early-stopping-rounds patience tol tolerance n-iter-no-change",
        LINEAR: "dropout layers hidden hidden-size depth max-depth n-estimators num-trees "
                "embedding-dim factors k-factors kernel activation",
        "omit it: models are learnt on the processor": "gpu device cuda use-gpu",
        UNSCALED: "normalize normalise standardize standardise scale scaler scaling min-max",
        PENALTIES: "lambda reg regularization regularisation C l1-ratio weight-decay lambda1 "
                   "lambda2 reg-alpha reg-lambda l1-reg l2-reg",
        "use --model, and --help-model NAME for the options of a learner":
            "momentum adam beta1 beta2",
        EVALUATE: "test test-data test-file valid valid-data valid-file validation-data eval "
                  "eval-set eval-data eval-file",
        "use streaml1 sweep, which compares settings": "grid param-grid params tune trials",
        "omit it: each example is predicted before it is learnt, so the loss is unbiased":
            "cv folds n-folds n-splits kfold cross-validation",
        "use streaml1 predict MODEL SOURCE": "predict proba predict-proba test-only",
        "use --intercept-lr 0 for no intercept":
            "intercept bias fit-intercept no-intercept no-bias use-bias",
        "omit it: all columns other than the target are features; use --ignore to leave some out":
            "features feature-columns feature-cols usecols use-columns x-columns",
        "omit it: text is UTF-8 or UTF-16; convert other files: iconv -f latin1 -t utf-8":
            "encoding charset",
        SOURCE: "input input-file input-path file files train train-data train-file source path",
        TOPIC: "kafka topic topics bootstrap-servers bootstrap-server brokers broker broker-list",
    }.items()
    for name in names.split()
}  # fmt: skip
"""What to do instead of an option that has no counterpart in a command that learns."""

SHORT = {"-v": "--every", "-o": "--save", "-n": "--limit", "-e": "--passes", "-m": "--model",
         "-s": "--seed", "-w": "--workers", "-j": "--workers"}  # fmt: skip
"""Options of one letter that Vowpal Wabbit does not have."""

LOGISTIC = "log logloss logistic bce crossentropy binarycrossentropy nll sigmoid"
OTHER_VALUES = {
    "--loss": {
        "logistic": LOGISTIC,
        "squared": "mse rmse l2 leastsquares squarederror meansquarederror square quadratic",
        "absolute": "mae l1 absoluteerror meanabsoluteerror",
        "hinge": "svm perceptron",
        "quantile": "pinball",
        "huber": "smoothl1 huberloss",
        "poisson": "count nllpoisson",
        "--model softmax": "multinomial categoricalcrossentropy softmax",
    },
    "--model": {
        "elastic-net": "logistic logisticregression logit lr linear linearregression lasso ridge "
                       "elasticnet sgd sgdclassifier sgdregressor fobos-l1 gd auto",
        "adaptive": "adagrad adam rmsprop",
        "ftrl": "ftrlproximal ftrl-p",
        "pegasos": "svm linearsvm linearsvc svc",
        "softmax": "multiclass multinomial softmaxregression oaa onevsrest",
        "coin": "coinbetting cocob parameterfree",
        "truncated-gradient": "tg truncated",
        "eg": "winnow exponentiatedgradient",
    },
    "--task": {
        "classification": "binary binaryclassification classifier class classify",
        "regression": "regressor numeric continuous regress",
        "--model softmax": "multiclass multinomial",
    },
}  # fmt: skip
"""Names of others by our values of options, without dashes and underscores."""


def meant_option(name: str, known: Collection[str]) -> str | None:
    """Return the option of a command that another program calls `name`, or None.

    Parameters
    ----------
    name
        The unknown option.
    known
        The options of the command.
    """
    spelled = name.replace("_", "-")
    if spelled in known:
        return spelled
    ours = SHORT.get(name) or OTHER_OPTIONS.get(spelled)
    return ours if ours is not None and ours.split()[0] in known else None


def option_remedy(name: str, known: Collection[str]) -> str | None:
    """Return what to do instead of an option that only other programs have, or None.

    Parameters
    ----------
    name
        The unknown option.
    known
        The options of the command.
    """
    return REMEDIES.get(name.replace("_", "-")) if "--model" in known else None


def meant_value(option: str, value: str, known: Iterable[str]) -> str | None:
    """Return the value that is meant by one that an option does not have, or None.

    Parameters
    ----------
    option
        The option, such as ``--loss``.
    value
        The invalid value.
    known
        The values of the option.
    """
    plain = value.lower().replace("_", "").replace("-", "").replace(" ", "")
    for ours, others in OTHER_VALUES.get(option, {}).items():
        if plain in others.replace("-", "").split():
            return ours
    similar = get_close_matches(value.lower(), list(known), n=1, cutoff=0.7)
    return similar[0] if similar else None
