"""The registry of learners: one entry each.

It feeds the public names of `streaml1`, the lazy imports, the command line, `streaml1 warm`, the
regret and the tests that run over all learners. To add a learner, write its update rule in
`streaml1/optim/`, its estimators in `streaml1/models/`, its hyperparameters in `hyperparameters.py`
and an entry here. What the regret compares it with is the estimator's `_comparator` method.

This module imports neither numpy nor river.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streaml1.models import hyperparameters as params

if TYPE_CHECKING:  # one line per learner, by which type checkers resolve `streaml1.FTRLClassifier`
    from streaml1.models.adaptive_elastic_net import *  # noqa: F403
    from streaml1.models.coin_betting import *  # noqa: F403
    from streaml1.models.eg import *  # noqa: F403
    from streaml1.models.elastic_net import *  # noqa: F403
    from streaml1.models.fobos import *  # noqa: F403
    from streaml1.models.ftrl import *  # noqa: F403
    from streaml1.models.l1_ball import *  # noqa: F403
    from streaml1.models.pegasos import *  # noqa: F403
    from streaml1.models.smidas import *  # noqa: F403
    from streaml1.models.softmax import *  # noqa: F403
    from streaml1.models.truncated_gradient import *  # noqa: F403
else:
    # Hidden from type checkers, for which this module re-exports everything above.
    __all__ = ["LEARNERS", "Learner", "modules_of_classes"]


class Learner(NamedTuple):
    """A learner.

    Attributes
    ----------
    name
        The value of `--model` on the command line.
    module
        The module in `streaml1.models` that defines its classes.
    classifier, regressor
        Names of its classes; `regressor` is None if there is none.
    parameters
        The declaration of its hyperparameters.
    summary
        One line of help.
    """

    name: str
    module: str
    classifier: str
    regressor: str | None
    parameters: type[params.SharedParameters]
    summary: str

    @property
    def classes(self) -> dict[str, str]:
        """Class names by task."""
        found = {"classification": self.classifier, "regression": self.regressor}
        return {task: name for task, name in found.items() if name is not None}


LEARNERS = {
    learner.name: learner
    for learner in (
        Learner(
            "elastic-net",
            "elastic_net",
            "ElasticNetClassifier",
            "ElasticNetRegressor",
            params.ElasticNetParameters,
            "lazy FoBoS or SGD with l1 and squared l2 penalties",
        ),
        Learner(
            "adaptive",
            "adaptive_elastic_net",
            "AdaptiveElasticNetClassifier",
            "AdaptiveElasticNetRegressor",
            params.AdaptiveElasticNetParameters,
            "elastic net with AdaGrad's per-feature learning rates",
        ),
        Learner(
            "truncated-gradient",
            "truncated_gradient",
            "TruncatedGradientClassifier",
            "TruncatedGradientRegressor",
            params.TruncatedGradientParameters,
            "SGD that shrinks small weights towards zero",
        ),
        Learner(
            "pegasos",
            "pegasos",
            "PegasosClassifier",
            None,
            params.PegasosParameters,
            "linear SVM, the dense baseline",
        ),
        Learner(
            "softmax",
            "softmax",
            "SoftmaxClassifier",
            None,
            params.SoftmaxParameters,
            "multiclass logistic regression, penalties on features",
        ),
        Learner(
            "ftrl",
            "ftrl",
            "FTRLClassifier",
            "FTRLRegressor",
            params.FTRLParameters,
            "FTRL-Proximal: per-feature learning rates",
        ),
        Learner(
            "coin",
            "coin_betting",
            "CoinBettingClassifier",
            "CoinBettingRegressor",
            params.CoinBettingParameters,
            "coin betting: no learning rate, any scale of features",
        ),
        Learner(
            "fobos",
            "fobos",
            "FOBOSClassifier",
            "FOBOSRegressor",
            params.FOBOSParameters,
            "FoBoS with the l2 or l-infinity norm of all weights",
        ),
        Learner(
            "l1-ball",
            "l1_ball",
            "L1BallClassifier",
            "L1BallRegressor",
            params.L1BallParameters,
            "SGD with projection onto the l1 ball",
        ),
        Learner(
            "smidas",
            "smidas",
            "SMIDASClassifier",
            "SMIDASRegressor",
            params.SMIDASParameters,
            "sparse p-norm mirror descent",
        ),
        Learner(
            "eg",
            "eg",
            "EGClassifier",
            "EGRegressor",
            params.EGParameters,
            "exponentiated gradient",
        ),
    )
}
"""The learners by name, in the order of the help."""


def modules_of_classes() -> dict[str, str]:
    """Return the module of each class of a learner, sorted by class."""
    found = {
        name: learner.module for learner in LEARNERS.values() for name in learner.classes.values()
    }
    return dict(sorted(found.items()))
