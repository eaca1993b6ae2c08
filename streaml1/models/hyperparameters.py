"""The hyperparameters of every learner, declared once.

The classes here are the declarations alone: the learners inherit from them, and the command line
builds its options from them without importing numpy, river or a kernel. A declaration in a subclass
replaces the inherited one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from streaml1.models.parameter_checks import (
    AUTO,
    Choice,
    Deferred,
    FeatureName,
    Fixed,
    Integer,
    Number,
    NumberOrAuto,
    OptionalBoolean,
    Rate,
    boolean,
)
from streaml1.models.parameters import SCHEDULES, Parameterized, Scheduler, parameter
from streaml1.optim.tasks import CLASSIFICATION, REGRESSION

__all__ = [
    "AdaptiveElasticNetParameters",
    "AveragingParameters",
    "ClassifierParameters",
    "CoinBettingParameters",
    "EGParameters",
    "ElasticNetParameters",
    "FOBOSParameters",
    "FTRLParameters",
    "L1BallParameters",
    "LearningRateParameters",
    "PegasosParameters",
    "RegressorParameters",
    "SMIDASParameters",
    "SharedParameters",
    "SoftmaxParameters",
    "TruncatedGradientParameters",
]

MAX_INPUT = 1e50
"""Equals `streaml1.core.rows.VALUE_LIMIT`, whose module imports numpy: this one must not."""

STRENGTH = Number(0.0, 1e30)
L1_DOC = "Strength of the l1 penalty."
L2_DOC = "Strength of the squared l2 penalty."
HALF = "The penalty is `l2 / 2` times the squared norm."
SUM = "It penalizes the sum over all examples, not each step."
RATE_DETAILS = (
    "A scheduler of `river.optim.schedulers` is called as `get(t)` for the t-th example, from 0."
)
AVERAGE_DETAILS = (
    "Predictions, `weights`, the intercept and all counts use the mean over all steps instead of "
    "the last weights. Learning is unaffected."
)
STAYS = "A weight that was ever non-zero stays non-zero in the average."


def _cross_check() -> Callable[[str, Any], Any]:
    from streaml1.features.interactions import check_cross

    return check_cross


def _text_check() -> Callable[[str, Any], Any]:
    from streaml1.features.ngrams import check_text

    return check_text


def _classes_check() -> Callable[[str, Any], Any]:
    from streaml1.models.class_labels import checked_classes

    return checked_classes


def _offset() -> Any:
    return parameter(
        default=None,
        check=FeatureName(),
        fixed=True,
        doc="Name of the feature that is added to the margin, without a weight.",
        details="It is 0 where the feature is absent. For the Poisson loss it is the logarithm of "
        "the exposure.",
    )


def _average(details: str) -> Any:
    doc = "Predict with the running average of the weights."
    return parameter(default=False, check=boolean, fixed=True, doc=doc, details=details)


def _intercept_lr(doc: str, details: str = "") -> Any:
    return parameter(default=0.01, check=Number(0.0, 1e10), doc=doc, details=details)


def _radius(details: str) -> Any:
    doc = "Radius of the l1 ball: upper bound on the l1 norm of the weights."
    return parameter(default=10.0, check=Number(1e-30, 1e30), doc=doc, details=details)


def _nonnegative(details: str) -> Any:
    doc = "Keep all weights non-negative."
    return parameter(default=False, check=boolean, fixed=True, doc=doc, details=details)


# Shared by several learners


class SharedParameters(Parameterized):
    """Parameters of every learner.

    By default the update rule computes its own rates and receives eta = 1, so that `lr` and
    `schedule` are not arguments of the constructor. `LearningRateParameters` adds them.
    """

    loss: str = parameter(default="logistic", check=Fixed("logistic"), init=False)
    lr: float | str | Scheduler = parameter(default=1.0, check=Fixed(1.0), init=False)
    schedule: str = parameter(default="constant", check=Fixed("constant"), init=False)
    intercept_lr: float = _intercept_lr("Constant learning rate of the intercept; 0 freezes it.")
    intercept_init: float = parameter(
        default=0.0,
        check=Number(-MAX_INPUT, MAX_INPUT),
        fixed=True,
        doc="Initial value of the intercept.",
    )
    clip_gradient: float = parameter(
        default=1e12,
        check=Number(0.0, 1e30, above=True),
        doc="Upper bound on the absolute value of the derivative of the loss.",
    )
    max_features: int | None = parameter(
        default=None,
        check=Integer(1, 2**31, or_none=True),
        doc="Keep at most N non-zero weights, dropping the smallest.",
        details="When a step would exceed N, the weights closest to zero are dropped until seven "
        "eighths of N are left.",
    )
    hash_bits: int | None = parameter(
        default=None,
        check=Integer(1, 30, or_none=True),
        fixed=True,
        doc="Hash feature names to 2**B slots instead of storing them.",
        details="Features that share a slot share a weight. The hash is the same on every machine.",
    )
    cross: Iterable[Sequence[str]] | None = parameter(
        default=None,
        check=Deferred("None or a list of pairs and triples of name prefixes", _cross_check),
        fixed=True,
        doc="Add interactions: products of the features of two or three name prefixes.",
        details='For example `[("site", "ad")]`.',
    )
    text: Sequence[str] | None = parameter(
        default=None,
        check=Deferred("None or a list of feature names", _text_check),
        fixed=True,
        doc="Features that hold raw text, which is replaced by its tokens.",
    )
    ngrams: int = parameter(
        default=1,
        check=Integer(1, 10),
        fixed=True,
        doc="Add word n-grams up to length N.",
    )


class LearningRateParameters(SharedParameters):
    """Parameters of learners with one learning rate for all weights."""

    lr: float | str | Scheduler = parameter(
        default=0.1, check=Rate(), doc="Learning rate.", details=RATE_DETAILS
    )
    schedule: str = parameter(
        default="invsqrt",
        check=Choice(*SCHEDULES),
        doc="Decay of a numeric learning rate.",
        details='Step t, from 0, has the rate `lr / sqrt(t + 1)` ("invsqrt"), `lr` ("constant") or '
        '`lr / (t + 1)` ("inverse"). A scheduler or `lr="auto"` ignores it.',
    )


class AveragingParameters(SharedParameters):
    """Parameters of learners that can average their weights."""

    average: bool = _average(f"{AVERAGE_DETAILS} {STAYS}")


class ClassifierParameters(SharedParameters):
    """Parameters of binary classifiers."""

    loss: str = parameter(
        default="logistic",
        check=Choice(*CLASSIFICATION),
        doc="Loss function.",
        details="The smoothed hinge has width 1.",
    )
    negative_rate: float = parameter(
        default=1.0,
        check=Number(0.0, 1.0, above=True),
        doc="Share of the negative examples that the stream has kept.",
        details="Predictions are for the full stream. Requires the logistic loss.",
    )
    positive_weight: float = parameter(
        default=1.0,
        check=Number(0.0, 1e10),
        doc="Factor of the sample weights of positive examples.",
        details="Predictions rise with it; it is not undone.",
    )
    offset: str | int | None = _offset()


class RegressorParameters(SharedParameters):
    """Parameters of regressors."""

    loss: str = parameter(
        default="squared",
        check=Choice(*REGRESSION),
        doc="Loss function.",
        details="The squared loss is half the squared error. With the Poisson loss, labels must be "
        ">= 0 and predictions are the exponential of the margin; a numeric `lr` needs a small "
        "`clip_gradient`, unless labels are small.",
    )
    quantile: float = parameter(
        default=0.5,
        check=Number(0.0, 1.0, above=True, below=True),
        doc="Quantile of the labels that the quantile loss predicts.",
        details="Other losses ignore it.",
    )
    huber_delta: float = parameter(
        default=1.0,
        check=Number(0.0, 1e30, above=True),
        doc="Size of an error from which the Huber loss is linear.",
        details="Other losses ignore it.",
    )
    offset: str | int | None = _offset()


# One class per learner


class ElasticNetParameters(LearningRateParameters, AveragingParameters):
    """Parameters of the elastic net."""

    l1: float = parameter(default=0.0, check=STRENGTH, doc=L1_DOC)
    l2: float = parameter(default=0.0, check=STRENGTH, doc=L2_DOC, details=HALF)
    update: str = parameter(
        default="fobos",
        check=Choice("fobos", "sgd"),
        doc="Penalty step: proximal (fobos) or clipped gradient (sgd).",
    )
    stamps: str = parameter(
        default="folded",
        check=Choice("folded", "explicit"),
        fixed=True,
        doc="Representation of lazy weights: one number per weight (folded) or time stamps "
        "(explicit).",
        details="Explicit stamps follow the paper: each weight has the time of its last update, "
        "next to tables of the steps since. Both learn the same weights; folded is faster and "
        "smaller.",
    )
    budget: int = parameter(
        default=2**20,
        check=Integer(1, 2**30),
        doc="Number of steps that the tables of explicit stamps or of `average` hold.",
        details="When the tables are full, all weights are brought up to date.",
    )
    lr: float | str | Scheduler = parameter(
        default=AUTO,
        check=Rate(auto=True),
        doc="Learning rate.",
        details=f"{RATE_DETAILS} "
        'With "auto" there is none to choose: four elastic nets at rates of their own and four '
        "coin-betting learners are mixed by their losses. All but one of them see each value in "
        "units of the mean size of its feature. `weights`, `freeze` and saved models predict with "
        "averaged weights, the mixture, or slowly moving weights, whichever would have predicted "
        "best had it been saved earlier. With `average` or explicit stamps, which need a single "
        'net, "auto" is 0.1.',
    )
    intercept_lr: float = _intercept_lr(
        "Constant learning rate of the intercept; 0 freezes it.",
        'With `lr="auto"` the intercepts of the elastic nets have rates that decay like those of '
        "their weights and are proportional to this one.",
    )
    average: bool = _average(f"{AVERAGE_DETAILS} {STAYS} `stamps` then has no effect.")


class TruncatedGradientParameters(LearningRateParameters, AveragingParameters):
    """Parameters of the truncated gradient."""

    gravity: float = parameter(
        default=1e-4, check=STRENGTH, doc="Strength of the shrinkage towards zero."
    )
    period: int = parameter(
        default=1,
        check=Integer(1, 2**31),
        doc="Number of steps between two shrinkages.",
        details="Steps whose number, from 1, is a multiple of it shrink the weights.",
    )
    threshold: float = parameter(
        default=math.inf,
        check=Number(0.0, math.inf),
        doc="Largest absolute value of a weight that is shrunk.",
    )


class PegasosParameters(AveragingParameters):
    """Parameters of Pegasos."""

    loss: str = parameter(default="hinge", check=Choice("hinge", "logistic"), doc="Loss function.")
    schedule: str = parameter(default="inverse", check=Fixed("inverse"), init=False)
    l2: float = parameter(
        default=1e-4,
        check=Number(1e-10, 1e10),
        doc=L2_DOC,
        details=f"{HALF} It also sets the learning rate.",
    )
    project: bool = parameter(
        default=True,
        check=boolean,
        doc="Scale the weights into a ball that holds the optimum after each step.",
        details="Its radius is 1 / sqrt(l2), or sqrt(2 log(2) / l2) for the logistic loss.",
    )
    average: bool = _average(AVERAGE_DETAILS)


class SoftmaxParameters(LearningRateParameters):
    """Parameters of multiclass logistic regression."""

    lr: float | str | Scheduler = parameter(
        default=AUTO,
        check=Rate(auto=True),
        doc="Learning rate.",
        details=f"{RATE_DETAILS} "
        'With "auto" there is none to choose: each value is seen in units of the mean size of its '
        "feature, clipped to three times that, and rates are computed from the norms of such rows "
        "and from the gradients of each feature. "
        'With the ball, "auto" is 0.1.',
    )
    strength: float = parameter(default=1e-4, check=STRENGTH, doc="Strength of the penalty.")
    penalty: str = parameter(
        default="l1",
        check=Choice("l1", "l1/l2", "l1/linf", "ball"),
        fixed=True,
        doc="Penalty on single weights (l1), on the rows of features (l1/l2, l1/linf), or an l1 "
        "ball per label (ball).",
        details="l1/l2 is the sum of the Euclidean norms of the rows, l1/linf the sum of their "
        "largest absolute values. With the ball, the weights of each label are projected onto an "
        "l1 ball after each step.",
    )
    l2: float = parameter(
        default=0.0, check=STRENGTH, doc=L2_DOC, details=f"{HALF} It must be 0 with the ball."
    )
    radius: float = _radius(
        "Each label has its own ball. When the radius decreases, the next step projects."
    )
    nonnegative: bool = _nonnegative("Used with the ball only.")
    classes: Iterable[Hashable] | None = parameter(
        default=None,
        check=Deferred("None or a list of two or more labels", _classes_check),
        fixed=True,
        doc="The labels; all others are rejected.",
        details="None adds each new label with zero weights at its first example.",
    )
    intercept_lr: float = _intercept_lr("Constant learning rate of the intercepts; 0 freezes them.")
    intercept_init: float = parameter(
        default=0.0,
        check=Number(-MAX_INPUT, MAX_INPUT),
        fixed=True,
        doc="Initial value of the intercept of each label.",
    )
    max_features: int | None = parameter(
        default=None,
        check=Integer(1, 2**31, or_none=True),
        doc="Keep the weights of at most N features, dropping the smallest.",
        details="When a step would exceed N, the features whose largest weight is closest to zero "
        "are dropped until seven eighths of N are left.",
    )


class FTRLParameters(SharedParameters):
    """Parameters of FTRL-Proximal."""

    alpha: float | str = parameter(
        default=AUTO,
        check=NumberOrAuto(1e-100, 1e10),
        doc="Scale of the per-feature learning rates.",
        details='With "auto" it is computed from the sizes of labels and scaled rows.',
    )
    beta: float = parameter(
        default=1.0,
        check=Number(1e-100, 1e10),
        doc="Offset in the denominator of the rates; larger values slow their initial decay.",
    )
    scaled: bool | None = parameter(
        default=None,
        check=OptionalBoolean(),
        fixed=True,
        doc="See each value in units of the mean size of its feature.",
        details="Values beyond three times that mean are clipped, and the intercept is learnt like "
        'a weight. None: with `alpha="auto"`, which requires it.',
    )
    l1: float = parameter(default=1.0, check=STRENGTH, doc=L1_DOC, details=SUM)
    l2: float = parameter(default=0.0, check=STRENGTH, doc=L2_DOC, details=SUM)


class AdaptiveElasticNetParameters(SharedParameters):
    """Parameters of the elastic net with a learning rate for each weight."""

    lr: float = parameter(
        default=0.3,
        check=Number(0.0, 1e10),
        doc="Learning rate.",
        details="It is divided by `delta` plus the root of the sum of the squared gradients of a "
        "feature.",
    )
    delta: float = parameter(
        default=0.1,
        check=Number(1e-100, 1e10),
        doc="Offset in the denominator of the rates; larger values slow their initial decay.",
    )
    l1: float = parameter(default=0.0, check=STRENGTH, doc=L1_DOC)
    l2: float = parameter(default=0.0, check=STRENGTH, doc=L2_DOC, details=HALF)


class CoinBettingParameters(SharedParameters):
    """Parameters of coin betting."""

    wealth: float = parameter(
        default=0.64,
        check=Number(1e-30, 1e10),
        doc="Initial wealth of each weight, relative to the mean size of the labels.",
        details="Larger values let weights grow faster at first.",
    )
    l1: float = parameter(default=0.0, check=STRENGTH, doc=L1_DOC, details=SUM)
    intercept_lr: float = _intercept_lr(
        "0 freezes the intercept.",
        "Any other value has no effect: the intercept learns without a learning rate, too.",
    )


class FOBOSParameters(LearningRateParameters):
    """Parameters of FoBoS with a norm of the whole weight vector."""

    strength: float = parameter(
        default=1e-4, check=STRENGTH, doc="Strength of the norm penalty (not squared)."
    )
    norm: str = parameter(
        default="l2",
        check=Choice("l2", "linf"),
        fixed=True,
        doc="Norm of the weight vector: Euclidean (l2) or maximum (linf).",
    )


class L1BallParameters(LearningRateParameters):
    """Parameters of projection onto the l1 ball."""

    radius: float = _radius("When it decreases, the next step projects.")
    nonnegative: bool = _nonnegative(
        "Weights that a step makes negative become zero before the projection."
    )
    index: str = parameter(
        default="wheel",
        check=Choice("wheel", "tree"),
        fixed=True,
        doc="Data structure that finds the weights to be zeroed: timing wheel or balanced tree.",
        details="The tree is that of the paper. Both learn bit-identical weights; the wheel is "
        "faster.",
    )


class SMIDASParameters(LearningRateParameters):
    """Parameters of SMIDAS."""

    l1: float = parameter(default=1e-4, check=STRENGTH, doc=L1_DOC)
    p: float | None = parameter(
        default=None,
        check=Number(2.0, 100.0, or_none=True),
        fixed=True,
        doc="Order of the p-norm link.",
        details="None is `max(2, 2 * log(n_features))`.",
    )
    n_features: float = parameter(
        default=2**20,
        check=Number(1.0, 2.0**64),
        fixed=True,
        doc="Expected number of features; determines p if p is not given.",
    )


class EGParameters(LearningRateParameters):
    """Parameters of the exponentiated gradient."""

    radius: float = parameter(
        default=10.0,
        check=Number(0.0, 1e30, above=True),
        doc="Sum of all weights; of both weights of each pair in EG+-.",
    )
    n_features: int = parameter(
        default=2**18,
        check=Integer(1, 2**32),
        fixed=True,
        doc="Maximum number of features; more are rejected.",
    )
    nonnegative: bool = _nonnegative(
        "False is EG+-, with a pair of weights per feature. True is EG, in which features "
        "that were never seen have a positive weight, too."
    )
