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


OPTIONS = {
    "use --hash-bits {}, or omit it: names are stored and do not collide": "-b= --bit_precision=",
    "use {}, with whole namespaces or columns": "-q= --quadratic= --cubic= --interactions=",
    "use {}": "--experimental_full_name_interactions=",
    "use --lr {}, or omit it: --lr auto needs no learning rate": "-l= --learning_rate=",
    "use --schedule {} with a numeric --lr": "--power_t=",
    "use --loss {}": "--loss_function=",
    "use --loss quantile --quantile {}": "--quantile_tau=",
    "use --save {}": "-f= --final_regressor=",
    "use --load {}": "-i= --initial_regressor=",
    "use streaml1 evaluate MODEL SOURCE, or streaml1 predict MODEL SOURCE": "-t --testonly",
    "use streaml1 predict MODEL SOURCE > {}": "-p=",
    "use streaml1 learn {}": "-d= --data=",
    "omit it, or use streaml1 convert SOURCE FILE.rows to read faster":
        "-c -k --cache --cache_file= --kill_cache",
    "use --every {}": "-P= --progress=",
    "use --holdout 0": "--holdout_off",
    "use --holdout {}": "--holdout_period=",
    "use --model ftrl": "--ftrl",
    "use --model ftrl --alpha {}": "--ftrl_alpha=",
    "use --model ftrl --beta {}": "--ftrl_beta=",
    "use --model coin": "--coin",
    "use --lr with a number": "--sgd",
    "use --model adaptive": "--adaptive --adax",
    "use --model softmax, which adds labels as they appear": "--oaa=",
    "use --model softmax, which has no costs": "--csoaa= --wap= --csoaa_ldf= --wap_ldf=",
    "use --text NAMESPACE --ngrams {}": "--ngram=",
    "omit it: the loss determines what is predicted": "--link=",
    "use streaml1 show MODEL, or streaml1 export MODEL --csv": "--readable_model= --invert_hash=",
    "omit it: learning is not random": "--random_seed=",
    "use --intercept-lr 0": "--noconstant",
    "omit it, and redirect standard output to /dev/null": "--quiet --driver_output_off",
    "omit it, or use --log json for more events": "--log_level=",
    "use --ignore with the others": "--keep=",
    "there is no equivalent: add such features to the data":
        "--ignore_linear= --skips= --affix= --spelling= --dictionary=",
    "omit it: each pair of different features counts once":
        "--leave_duplicate_interactions --permutations",
    "omit it: the order of features in a line does not matter": "--sort_features",
    "omit it: memory follows the features seen, not -b": "--sparse_weights",
    "omit it: weights start at zero":
        "--initial_weight= --random_weights --normal_weights --truncated_normal_weights",
    "omit it: --bad fail is the default": "--strict_parse",
    "rename the namespaces in the data": "--redefine=",
    "there is no equivalent: truncate the data": "--feature_limit=",
    "omit it: --l1 selects features while it learns": "--feature_mask=",
    "omit it: names are stored, and --hash-bits hashes all of them": "--hash=",
    "omit it: names are stored and do not collide": "--hash_seed=",
    "use --intercept-init {}": "--constant= -C=",
    "use --model softmax --classes {}, or any labels without it": "--named_labels=",
    "use --limit {}": "--examples= --initial_pass_length=",
    "omit it: the model of the best pass is kept": "--early_terminate=",
    "use streaml1 evaluate MODEL SOURCE on later data": "--holdout_after=",
    "omit it, or clip the output of streaml1 predict": "--min_prediction= --max_prediction=",
    "omit it: the intercept is never penalized": "--no_bias_regularization",
    "omit it: members of nested JSON are named by their paths": "--chain_hash",
    "use --format jsonl: one object per line, with the label in y or --target": "--json",
    "there is no equivalent: contextual bandits are not supported":
        "--dsjson --cb= --cb_type= --cb_adf --cb_explore= --cb_explore_adf --ccb_explore_adf "
        "--slates --cbify= --cb_sample --cb_dro --cats= --epsilon= --first= --cover= --squarecb "
        "--regcb --rnd= --softmax --synthcover --large_action_space --automl= --epsilon_decay "
        "--explore_eval --multiworld_test= --warm_cb=",
    "use --format csv --target COLUMN": "--csv",
    "use --delimiter {}": "--csv_separator=",
    "use --no-header": "--csv_no_file_header",
    "use --columns NAME,...": "--csv_header=",
    "omit it: compressed files are recognized": "--compressed",
    "omit it: standard input is read for - only": "--no_stdin",
    "use streaml1 serve MODEL, which answers lines of text over HTTP": "--daemon",
    "use streaml1 serve MODEL --listen {}": "--port=",
    "use streaml1 serve MODEL --workers {}": "--num_children=",
    "omit it: streaml1 serve runs in the foreground, under a supervisor":
        "--foreground --pid_file= --port_file= --no_daemon",
    "use streaml1 predict MODEL SOURCE --explain K": "-a --audit",
    "use streaml1 export MODEL --csv":
        "--audit_regressor= --predict_only_model --hexfloat_weights "
        "--dump_json_weights_experimental=",
    "use streaml1 predict MODEL SOURCE: the margin is log(p / (1 - p))": "-r= --raw_predictions=",
    "omit it, and compare the output of streaml1 predict with 0.5": "--binary",
    "omit it: softmax and the logistic loss predict probabilities": "--probabilities",
    "use --positive-weight W, or --weight NAME": "--classweight=",
    "use --checkpoint DIR": "--save_per_pass",
    "use --checkpoint DIR, whose report continues": "--preserve_performance_counters",
    "use streaml1 convert, then streaml1 learn FILE.rows --shards N --workers N":
        "--span_server= --total= --node= --unique_id= --span_server_port=",
    "omit it: --lr auto needs no scaled features": "--normalized",
    "omit it: the weight of an example multiplies its gradient": "--invariant",
    "omit it, or use --lr with a number and --schedule": "--initial_t=",
    "omit it: of several passes the best is kept": "--decay_learning_rate=",
    "omit it: each saved model can be learnt further with --load": "--save_resume",
    "omit it, or use streaml1.solvers in Python to solve a batch exactly":
        "--bfgs --conjugate_gradient --svrg --mem= --termination= --hessian_on",
    "there is no equivalent: all labelled examples are learnt":
        "--active --active_cover --cs_active=",
    "learn one model per label, each with its --target": "--multilabel_oaa=",
    "use --model softmax, which has one set of weights per label":
        "--ect= --log_multi= --recall_tree= --plt= --memory_tree= --emt",
    "there is no equivalent: all models are linear; see --cross for interactions":
        "--lrq= --lrqfa= --new_mf= --search= --marginal= --bag= --rank= --nn= --lda= --ksvm "
        "--autolink= --stage_poly --boosting= --bootstrap=",
    "use --model coin, which has no learning rate either": "--freegrad --pistol",
    "use streaml1 inspect SOURCE, which reads a part and learns nothing": "--dry_run",
    "there is no equivalent: use --loss quantile or --loss huber": "--expectile_q=",
    "omit it: labels are 0 and 1": "--logistic_min= --logistic_max=",
    "omit it: the report goes to standard output, and messages to standard error":
        "--driver_output= --log_output= --limit_output=",
    "omit it: the memory of reading is bounded": "--ring_size= --example_queue_limit=",
    "write the data as Parquet, JSON lines or CSV": "--flatbuffer",
    "omit it: values are not scaled, and a column is a namespace": "--csv_ns_value=",
    "omit it: a saved model contains the state of its penalties": "--l1_state= --l2_state=",
    "use --l2, which acts on all weights at every example": "--sparse_l2=",
    "use --cross NAME,NAME": "--interact=",
    "use --model adaptive, which has a learning rate per feature": "--OjaNewton",
    "there is no equivalent: predictions have no intervals": "--confidence",
    "omit it: --model softmax updates all labels at once": "--oaa_subsample=",
    "omit it: --model softmax predicts probabilities": "--scores",
    "omit it: labels may be any text": "--indexing=",
    "use --passes N": "--replay_b= --replay_c= --replay_m=",
    "use --report FILE.jsonl": "--extra_metrics=",
}  # fmt: skip
"""Options by remedy, in which ``{}`` stands for the value. Options with a value end in ``=``.

Options that streaml1 has with the same name and meaning, such as --l1, are not among them.
"""

REMEDIES = {
    option.removesuffix("="): Remedy(text, option.endswith("="))
    for text, options in OPTIONS.items()
    for option in options.split()
}
"""Remedies by option."""

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


LOSSES = {
    "classic": "squared",
    "expectile": "quantile or huber: there is no expectile loss",
}
"""Losses of Vowpal Wabbit that have another name here, or none."""

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
    if option == "--ngram":  # the first letter of a namespace may precede the number
        letter, number = value[:1], value[1:]
        return number if letter.isalpha() and number.isdigit() else value or "N"
    if option == "--power_t":
        return {"0": "constant", "0.0": "constant", "1": "inverse", "1.0": "inverse"}.get(
            value, "invsqrt"
        )
    if option == "--loss_function":
        return LOSSES.get(value, shlex.quote(value) if value else "NAME")
    return shlex.quote(value) if value else PLACEHOLDERS.get(option, "VALUE")
