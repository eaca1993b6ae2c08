"""More than two classes: one elastic net per class against softmax.

Both have their default parameters, in which softmax has a penalty and the elastic net has none. The
third model is softmax with a penalty that leaves rare features in the model.

    python demos/one_versus_rest.py [iris] [wine] [wine-scaled] [digits] [modules]

Prints the accuracy and the log-loss on held-out rows.
"""

from __future__ import annotations

import argparse
import re
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.preprocessing import scale

import streaml1
from streaml1.sklearn import StreamClassifier

MODULES = [
    *("_pydecimal", "typing", "argparse", "tarfile", "turtle", "inspect", "ssl", "subprocess"),
    *("pickletools", "doctest", "datetime", "mailbox", "pdb", "smtplib", "optparse", "imaplib"),
]
LINES = 5
MODELS = {
    "one-vs-rest": None,
    "softmax": streaml1.SoftmaxClassifier(),
    "strength 1e-6": streaml1.SoftmaxClassifier(strength=1e-6),
}


def scaled_wine() -> tuple[Any, Any]:
    """Return the wines with columns of mean 0 and variance 1."""
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def module_words() -> tuple[Any, Any]:
    """Return the word counts of passages of the standard library, and their modules."""
    passages, modules = [], []
    for name in MODULES:
        source = (Path(sysconfig.get_path("stdlib")) / f"{name}.py").read_text("utf-8")
        for passage in re.findall(rf"(?:.*\n){{{LINES}}}", source):
            passages.append(passage)
            modules.append(name)
    return CountVectorizer(dtype=float).fit_transform(passages), np.array(modules)


DATA = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "wine-scaled": scaled_wine,
    "digits": lambda: load_digits(return_X_y=True),
    "modules": module_words,
}


def main() -> None:
    """Print a line for each data set and model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DATA)}")
    names = parser.parse_args().names or [*DATA]
    unknown = sorted({*names} - {*DATA})
    if unknown:
        parser.error(f"there is no data set {unknown[0]}; use {', '.join(DATA)}")
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for name in names:
        X, y = DATA[name]()
        for label, model in MODELS.items():
            estimator = StreamClassifier(model, epochs=5, random_state=0)
            scores = cross_validate(estimator, X, y, cv=folds, scoring=("accuracy", "neg_log_loss"))
            accuracy, loss = scores["test_accuracy"].mean(), -scores["test_neg_log_loss"].mean()
            print(f"{name:12} {label:14} accuracy {accuracy:.3f}, log-loss {loss:.3f}")


if __name__ == "__main__":
    main()
