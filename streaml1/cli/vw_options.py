"""Options of Vowpal Wabbit: each is rejected with the option or command to use here."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
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
EXPLAIN = "use streaml1 predict MODEL SOURCE --explain K"
SERVE = "use streaml1 serve MODEL, which answers lines of text over HTTP"
SERVE_NONE = "omit it: streaml1 serve runs in the foreground, under a supervisor"
SHARDS = "use streaml1 convert, then streaml1 learn FILE.rows --shards N --workers N"
NO_BANDITS = "there is no equivalent: contextual bandits are not supported"
NOT_LINEAR = "there is no equivalent: all models are linear; see --cross for interactions"
NO_FEATURES = "there is no equivalent: add such features to the data"
NO_TREES = "use --model softmax, which has one set of weights per label"
ONE_PAIR = "omit it: each pair of different features counts once"
ZERO_START = "omit it: weights start at zero"
QUIET = "omit it, and redirect standard output to /dev/null"

REMEDIES = {
    "-b": Remedy("use --hash-bits {}, or omit it: names are stored and do not collide", True),
    "--bit_precision": Remedy("use --hash-bits {}, or omit it: names are stored and do not collide",
                              True),
    "-q": Remedy("use {}, with whole namespaces or columns", True),
    "--quadratic": Remedy("use {}, with whole namespaces or columns", True),
    "--cubic": Remedy("use {}, with whole namespaces or columns", True),
    "--interactions": Remedy("use {}, with whole namespaces or columns", True),
    "--experimental_full_name_interactions": Remedy("use {}", True),
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
    "--adax": Remedy("use --model adaptive"),
    "--oaa": Remedy("use --model softmax, which adds labels as they appear", True),
    "--csoaa": Remedy("use --model softmax, which has no costs", True),
    "--ngram": Remedy("use --text NAMESPACE --ngrams {}", True),
    "--link": Remedy("omit it: the loss determines what is predicted", True),
    "--readable_model": Remedy("use streaml1 show MODEL, or streaml1 export MODEL --csv", True),
    "--invert_hash": Remedy("use streaml1 show MODEL, or streaml1 export MODEL --csv", True),
    "--random_seed": Remedy("omit it: learning is not random", True),
    "--noconstant": Remedy("use --intercept-lr 0"),
    "--quiet": Remedy(QUIET),
    "--driver_output_off": Remedy(QUIET),
    "--log_level": Remedy("omit it, or use --log json for more events", True),
    "--keep": Remedy("use --ignore with the others", True),
    "--ignore_linear": Remedy(NO_FEATURES, True),
    "--leave_duplicate_interactions": Remedy(ONE_PAIR),
    "--permutations": Remedy(ONE_PAIR),
    "--sort_features": Remedy("omit it: the order of features in a line does not matter"),
    "--sparse_weights": Remedy("omit it: memory follows the features seen, not -b"),
    "--initial_weight": Remedy(ZERO_START, True),
    "--random_weights": Remedy(ZERO_START),
    "--strict_parse": Remedy("omit it: --bad fail is the default"),
    "--redefine": Remedy("rename the namespaces in the data", True),
    "--skips": Remedy(NO_FEATURES, True),
    "--affix": Remedy(NO_FEATURES, True),
    "--spelling": Remedy(NO_FEATURES, True),
    "--dictionary": Remedy(NO_FEATURES, True),
    "--feature_limit": Remedy("there is no equivalent: truncate the data", True),
    "--feature_mask": Remedy("omit it: --l1 selects features while it learns", True),
    "--hash": Remedy("omit it: names are stored, and --hash-bits hashes all of them", True),
    "--hash_seed": Remedy("omit it: names are stored and do not collide", True),
    "--constant": Remedy("use --intercept-init {}", True),
    "-C": Remedy("use --intercept-init {}", True),
    "--named_labels": Remedy("use --model softmax --classes {}, or any labels without it", True),
    "--examples": Remedy("use --limit {}", True),
    "--early_terminate": Remedy("omit it: the model of the best pass is kept", True),
    "--holdout_after": Remedy("use streaml1 evaluate MODEL SOURCE on later data", True),
    "--min_prediction": Remedy("omit it, or clip the output of streaml1 predict", True),
    "--max_prediction": Remedy("omit it, or clip the output of streaml1 predict", True),
    "--no_bias_regularization": Remedy("omit it: the intercept is never penalized"),
    "--chain_hash": Remedy("omit it: members of nested JSON are named by their paths"),
    "--json": Remedy("use --format jsonl: one object per line, with the label in y or --target"),
    "--dsjson": Remedy(NO_BANDITS),
    "--csv": Remedy("use --format csv --target COLUMN"),
    "--csv_separator": Remedy("use --delimiter {}", True),
    "--csv_no_file_header": Remedy("use --no-header"),
    "--csv_header": Remedy("use --columns NAME,...", True),
    "--compressed": Remedy("omit it: compressed files are recognized"),
    "--no_stdin": Remedy("omit it: standard input is read for - only"),
    "--daemon": Remedy(SERVE),
    "--port": Remedy("use streaml1 serve MODEL --listen {}", True),
    "--num_children": Remedy("use streaml1 serve MODEL --workers {}", True),
    "--foreground": Remedy(SERVE_NONE),
    "--pid_file": Remedy(SERVE_NONE, True),
    "--port_file": Remedy(SERVE_NONE, True),
    "-a": Remedy(EXPLAIN),
    "--audit": Remedy(EXPLAIN),
    "--audit_regressor": Remedy("use streaml1 export MODEL --csv", True),
    "-r": Remedy("use streaml1 predict MODEL SOURCE: the margin is log(p / (1 - p))", True),
    "--raw_predictions": Remedy("use streaml1 predict MODEL SOURCE: the margin is "
                                "log(p / (1 - p))", True),
    "--binary": Remedy("omit it, and compare the output of streaml1 predict with 0.5"),
    "--probabilities": Remedy("omit it: softmax and the logistic loss predict probabilities"),
    "--classweight": Remedy("use --positive-weight W, or --weight NAME", True),
    "--save_per_pass": Remedy("use --checkpoint DIR"),
    "--preserve_performance_counters": Remedy("use --checkpoint DIR, whose report continues"),
    "--predict_only_model": Remedy("use streaml1 export MODEL --csv"),
    "--span_server": Remedy(SHARDS, True),
    "--total": Remedy(SHARDS, True),
    "--node": Remedy(SHARDS, True),
    "--unique_id": Remedy(SHARDS, True),
    "--normalized": Remedy("omit it: --lr auto needs no scaled features"),
    "--invariant": Remedy("omit it: the weight of an example multiplies its gradient"),
    "--initial_t": Remedy("omit it, or use --lr with a number and --schedule", True),
    "--decay_learning_rate": Remedy("omit it: of several passes the best is kept", True),
    "--save_resume": Remedy("omit it: each saved model can be learnt further with --load"),
    "--bfgs": Remedy("omit it, or use streaml1.solvers in Python to solve a batch exactly"),
    "--conjugate_gradient": Remedy("omit it, or use streaml1.solvers in Python to solve a batch "
                                   "exactly"),
    "--svrg": Remedy("omit it, or use streaml1.solvers in Python to solve a batch exactly"),
    "--active": Remedy("there is no equivalent: all labelled examples are learnt"),
    "--multilabel_oaa": Remedy("learn one model per label, each with its --target", True),
    "--wap": Remedy("use --model softmax, which has no costs", True),
    "--csoaa_ldf": Remedy("use --model softmax, which has no costs", True),
    "--wap_ldf": Remedy("use --model softmax, which has no costs", True),
    "--ect": Remedy(NO_TREES, True),
    "--log_multi": Remedy(NO_TREES, True),
    "--recall_tree": Remedy(NO_TREES, True),
    "--plt": Remedy(NO_TREES, True),
    "--lrq": Remedy(NOT_LINEAR, True),
    "--lrqfa": Remedy(NOT_LINEAR, True),
    "--new_mf": Remedy(NOT_LINEAR, True),
    "--search": Remedy(NOT_LINEAR, True),
    "--marginal": Remedy(NOT_LINEAR, True),
    "--bag": Remedy(NOT_LINEAR, True),
    "--rank": Remedy(NOT_LINEAR, True),
    "--nn": Remedy(NOT_LINEAR, True),
    "--lda": Remedy(NOT_LINEAR, True),
    "--ksvm": Remedy(NOT_LINEAR),
    "--autolink": Remedy(NOT_LINEAR, True),
    "--stage_poly": Remedy(NOT_LINEAR),
    "--boosting": Remedy(NOT_LINEAR, True),
    "--bootstrap": Remedy(NOT_LINEAR, True),
    "--freegrad": Remedy("use --model coin, which has no learning rate either"),
    "--pistol": Remedy("use --model coin, which has no learning rate either"),
    "--cb": Remedy(NO_BANDITS, True),
    "--cb_type": Remedy(NO_BANDITS, True),
    "--cb_adf": Remedy(NO_BANDITS),
    "--cb_explore": Remedy(NO_BANDITS, True),
    "--cb_explore_adf": Remedy(NO_BANDITS),
    "--ccb_explore_adf": Remedy(NO_BANDITS),
    "--slates": Remedy(NO_BANDITS),
    "--cbify": Remedy(NO_BANDITS, True),
}  # fmt: skip
"""Remedies by option. Options with the same name and meaning, such as --l1, are not among them."""

FULL_NAMES = "--experimental_full_name_interactions"
INTERACTIONS = ("-q", "--quadratic", "--cubic", "--interactions", FULL_NAMES)
"""Options that may be repeated, each with the namespaces to combine."""

TESTING = {
    "-t": "", "--testonly": "", "-i": "MODEL", "--initial_regressor": "MODEL",
    "-d": "SOURCE", "--data": "SOURCE", "-p": "FILE",
}  # fmt: skip
"""Options of a run that only predicts, and the part of our command that each names."""

PLACEHOLDERS = {
    "-f": "FILE", "--final_regressor": "FILE", "-i": "FILE", "--initial_regressor": "FILE",
    "-p": "FILE", "-d": "SOURCE", "--data": "SOURCE",
    "-b": "N", "--bit_precision": "N", "-P": "N", "--progress": "N", "--ngram": "N",
    "--holdout_period": "N", "--examples": "N", "--num_children": "N", "--port": "PORT",
    "--named_labels": "LABEL,...", "--csv_separator": "CHARACTER",
}  # fmt: skip
"""Placeholders of values that are not given, by option."""


FORMATS = {"--json", "--csv"}
"""Options of Vowpal Wabbit that are a --format here, in commands that have it."""


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
    if option in FORMATS and known and not {"--format", "--version"} & {*known}:
        return None  # of a command that reads no examples
    values: dict[str, list[str]] = {}
    for name, value in _occurrences(args, known) or [(option, "")]:
        values.setdefault(name, []).append(value)
    options: dict[str, list[str]] = {}  # by remedy: -c and -k have the same
    tested = _test_command(values)
    for name, given in values.items():
        text = tested if tested and name in TESTING else _remedy(name, given)
        options.setdefault(text, []).append(name)
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


def _test_command(values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the remedy for the options of a run of ``vw -t -i MODEL``; None for other runs."""
    if not ("-t" in values or "--testonly" in values) or len({*values} & {*TESTING}) < 2:
        return None
    parts = {"MODEL": "MODEL", "SOURCE": "SOURCE", "FILE": "FILE"}
    for option, part in TESTING.items():
        if part and values.get(option, ("",))[-1]:
            parts[part] = shlex.quote(values[option][-1])
    command = "{MODEL} {SOURCE}".format(**parts)
    return f"use streaml1 evaluate {command}, or streaml1 predict {command} > {parts['FILE']}"


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
    if option == FULL_NAMES:
        return shlex.quote(value.replace("|", ",")) if value else "NAME,NAME"
    if option in INTERACTIONS:  # one letter per namespace, of which --cross combines at most three
        is_letters = value.isalnum() and value.isascii() and len(value) < 4
        return ",".join(value) if is_letters else "NAME,NAME"
    if option == "--power_t":
        return {"0": "constant", "0.0": "constant", "1": "inverse", "1.0": "inverse"}.get(
            value, "invsqrt"
        )
    if option == "--loss_function":
        return {"classic": "squared"}.get(value, shlex.quote(value) if value else "NAME")
    return shlex.quote(value) if value else PLACEHOLDERS.get(option, "VALUE")
