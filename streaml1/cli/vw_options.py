"""Options of Vowpal Wabbit: each is rejected with the option or command to use here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["remedy_of"]


class Remedy(NamedTuple):
    """What to use instead of an option of Vowpal Wabbit.

    Attributes
    ----------
    text
        The remedy; `{}` stands for the value.
    has_value
        Whether the option has a value.
    """

    text: str
    has_value: bool = False


NO_CACHE = "omit it, or use streaml1 convert SOURCE FILE.rows to read faster"

REMEDIES = {
    "-b": Remedy("use --hash-bits {}, or omit it: names are stored and do not collide", True),
    "--bit_precision": Remedy("use --hash-bits {}, or omit it: names are stored and do not collide",
                              True),
    "-q": Remedy("use --cross {}, with whole namespaces or columns", True),
    "--quadratic": Remedy("use --cross {}, with whole namespaces or columns", True),
    "--cubic": Remedy("use --cross {}, with whole namespaces or columns", True),
    "--interactions": Remedy("use --cross {}, with whole namespaces or columns", True),
    "-l": Remedy("use --lr {}, or omit it: --lr auto needs no learning rate", True),
    "--learning_rate": Remedy("use --lr {}, or omit it: --lr auto needs no learning rate", True),
    "--power_t": Remedy("use --schedule {} with a numeric --lr", True),
    "--loss_function": Remedy("use --loss {}", True),
    "--quantile_tau": Remedy("use --loss quantile --quantile {}", True),
    "-f": Remedy("use --save {}", True),
    "--final_regressor": Remedy("use --save {}", True),
    "-i": Remedy("use --load {}", True),
    "--initial_regressor": Remedy("use --load {}", True),
    "-t": Remedy("use streaml1 evaluate MODEL SOURCE, or streaml1 predict MODEL SOURCE"),
    "--testonly": Remedy("use streaml1 evaluate MODEL SOURCE, or streaml1 predict MODEL SOURCE"),
    "-p": Remedy("use streaml1 predict MODEL SOURCE > {}", True),
    "-d": Remedy("use streaml1 learn {}", True),
    "--data": Remedy("use streaml1 learn {}", True),
    "-c": Remedy(NO_CACHE),
    "-k": Remedy(NO_CACHE),
    "--cache": Remedy(NO_CACHE),
    "--cache_file": Remedy(NO_CACHE, True),
    "--kill_cache": Remedy(NO_CACHE),
    "-P": Remedy("use --every {}", True),
    "--progress": Remedy("use --every {}", True),
    "--holdout_off": Remedy("use --holdout 0"),
    "--holdout_period": Remedy("use --holdout {}", True),
    "--ftrl": Remedy("use --model ftrl"),
    "--ftrl_alpha": Remedy("use --model ftrl --alpha {}", True),
    "--ftrl_beta": Remedy("use --model ftrl --beta {}", True),
    "--coin": Remedy("use --model coin"),
    "--sgd": Remedy("use --lr with a number"),
    "--adaptive": Remedy("use --model adaptive"),
    "--oaa": Remedy("use --model softmax, which adds labels as they appear", True),
    "--csoaa": Remedy("use --model softmax, which has no costs", True),
    "--ngram": Remedy("use --text NAMESPACE --ngrams {}", True),
    "--link": Remedy("omit it: the loss determines what is predicted", True),
    "--readable_model": Remedy("use streaml1 show MODEL, or streaml1 export MODEL --csv", True),
    "--invert_hash": Remedy("use streaml1 show MODEL, or streaml1 export MODEL --csv", True),
    "--random_seed": Remedy("omit it: learning is not random", True),
    "--noconstant": Remedy("use --intercept-lr 0"),
}  # fmt: skip
"""Remedies by option. Options with the same name and meaning, such as --l1, are not among them."""

PLACEHOLDERS = {
    "-f": "FILE", "--final_regressor": "FILE", "-i": "FILE", "--initial_regressor": "FILE",
    "-p": "FILE", "-d": "SOURCE", "--data": "SOURCE",
    "-b": "N", "--bit_precision": "N", "-P": "N", "--progress": "N", "--ngram": "N",
    "--holdout_period": "N",
}  # fmt: skip
"""Placeholders of values that are not given, by option."""


def remedy_of(option: str, args: Sequence[str]) -> str | None:
    """Return the remedy for an option of Vowpal Wabbit, or None for any other option.

    Parameters
    ----------
    option
        The unknown option, such as ``-q``.
    args
        The arguments of the command line, which may contain its value.
    """
    remedy = REMEDIES.get(option)
    if remedy is None:
        return None
    value = _translated(option, _value(option, args)) if remedy.has_value else ""
    return f"{option} is an option of Vowpal Wabbit: {remedy.text.format(value)}"


def _value(option: str, args: Sequence[str]) -> str:
    """Return the value that follows an option, or is attached to it; empty if there is none."""
    for arg, following in zip(args, [*args[1:], ""], strict=True):
        if arg == option:
            return "" if following.startswith("-") else following
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
        if not option.startswith("--") and arg.startswith(option) and not arg.startswith("--"):
            return arg.removeprefix(option)
    return ""


def _translated(option: str, value: str) -> str:
    """Return the value as streaml1 writes it, or a placeholder."""
    if option in ("-q", "--quadratic", "--cubic", "--interactions"):  # one letter per namespace
        return ",".join(value) if value.isalnum() and value.isascii() else "NAME,NAME"
    if option == "--power_t":
        return {"0": "constant", "0.0": "constant", "1": "inverse", "1.0": "inverse"}.get(
            value, "invsqrt"
        )
    if option == "--loss_function":
        return {"classic": "squared"}.get(value, shlex.quote(value) if value else "NAME")
    return shlex.quote(value) if value else PLACEHOLDERS.get(option, "VALUE")
