"""Options of Vowpal Wabbit: each is rejected with the option or command to use here."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
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
    "-q": Remedy("use {}, with whole namespaces or columns", True),
    "--quadratic": Remedy("use {}, with whole namespaces or columns", True),
    "--cubic": Remedy("use {}, with whole namespaces or columns", True),
    "--interactions": Remedy("use {}, with whole namespaces or columns", True),
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
    "--quiet": Remedy("omit it, and redirect standard output to /dev/null"),
    "--keep": Remedy("use --ignore with the others", True),
    "--normalized": Remedy("omit it: --lr auto needs no scaled features"),
    "--invariant": Remedy("omit it: the weight of an example multiplies its gradient"),
    "--initial_t": Remedy("omit it, or use --lr with a number and --schedule", True),
    "--decay_learning_rate": Remedy("omit it: of several passes the best is kept", True),
    "--save_resume": Remedy("omit it: each saved model can be learnt further with --load"),
    "--bfgs": Remedy("omit it, or use streaml1.solvers in Python to solve a batch exactly"),
}  # fmt: skip
"""Remedies by option. Options with the same name and meaning, such as --l1, are not among them."""

INTERACTIONS = ("-q", "--quadratic", "--cubic", "--interactions")
"""Options that may be repeated, each with the namespaces to combine."""

PLACEHOLDERS = {
    "-f": "FILE", "--final_regressor": "FILE", "-i": "FILE", "--initial_regressor": "FILE",
    "-p": "FILE", "-d": "SOURCE", "--data": "SOURCE",
    "-b": "N", "--bit_precision": "N", "-P": "N", "--progress": "N", "--ngram": "N",
    "--holdout_period": "N",
}  # fmt: skip
"""Placeholders of values that are not given, by option."""


def remedy_of(option: str, args: Sequence[str], known: Collection[str] = ()) -> str | None:
    """Return the remedy for an option of Vowpal Wabbit, or None for any other option.

    If the command line has more options of Vowpal Wabbit, the answer has the remedies of all.

    Parameters
    ----------
    option
        The unknown option, such as ``-q``.
    args
        The arguments of the command line, which may contain its value.
    known
        The options of the command, some of which are spelled as one of Vowpal Wabbit.
    """
    if option not in REMEDIES:
        return None
    values: dict[str, list[str]] = {}
    for name, value in _occurrences(args, known) or [(option, "")]:
        values.setdefault(name, []).append(value)
    options: dict[str, list[str]] = {}  # by remedy: -c and -k have the same
    for name, given in values.items():
        options.setdefault(_remedy(name, given), []).append(name)
    if len(values) == 1:
        return f"{option} is an option of Vowpal Wabbit: {next(iter(options))}"
    answers = "; ".join(f"for {_listed(names)} {text}" for text, names in options.items())
    return f"{_listed(list(values))} are options of Vowpal Wabbit: {answers}"


def _occurrences(args: Sequence[str], known: Collection[str]) -> list[tuple[str, str]]:
    """Return the options of Vowpal Wabbit in a command line, with their values if given."""
    found = []
    for arg, following in zip(args, [*args[1:], ""], strict=True):
        if arg == "--":
            break
        name, equals, value = arg.partition("=")
        if not arg.startswith("--") and arg[:2] in REMEDIES:
            name, equals, value = arg[:2], arg[2:], arg[2:].removeprefix("=")
        if name not in REMEDIES or name in known:
            continue
        if not equals and not following.startswith("-"):
            value = following
        found.append((name, value))
    return found


def _remedy(option: str, given: Sequence[str]) -> str:
    """Return the remedy for all occurrences of an option."""
    remedy = REMEDIES[option]
    if not remedy.has_value:
        return remedy.text
    values = [_translated(option, value) for value in given]
    if option in INTERACTIONS:
        return remedy.text.format(" ".join(f"--cross {value}" for value in values))
    return remedy.text.format(values[-1])  # the one that counts


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _translated(option: str, value: str) -> str:
    """Return the value as streaml1 writes it, or a placeholder."""
    if option in INTERACTIONS:  # one letter per namespace
        return ",".join(value) if value.isalnum() and value.isascii() else "NAME,NAME"
    if option == "--power_t":
        return {"0": "constant", "0.0": "constant", "1": "inverse", "1.0": "inverse"}.get(
            value, "invsqrt"
        )
    if option == "--loss_function":
        return {"classic": "squared"}.get(value, shlex.quote(value) if value else "NAME")
    return shlex.quote(value) if value else PLACEHOLDERS.get(option, "VALUE")
