"""Options of Vowpal Wabbit and mistyped names are rejected with what to use instead."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streaml1.cli import cli
from streaml1.cli.other_programs import (
    OTHER_COMMANDS,
    OTHER_OPTIONS,
    OTHER_VALUES,
    SHORT,
)
from streaml1.cli.other_programs import REMEDIES as OTHER_REMEDIES
from streaml1.cli.vw_options import REMEDIES, remedy_of


def error_of(line: str) -> str:
    result = CliRunner().invoke(cli, shlex.split(line), prog_name="streaml1")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
    return result.stderr.removeprefix("streaml1: ").rstrip("\n")


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("learn a.vw -q ab", "-q is an option of Vowpal Wabbit: use --cross a,b, with whole"),
        ("learn a.vw -qab", "use --cross a,b, with"),
        ("learn a.vw -q ::", "use --cross NAME,NAME, with"),
        ("learn a.vw --cubic abc", "use --cross a,b,c, with"),
        ("learn a.vw --interactions ab", "use --cross a,b, with"),
        ("learn a.vw --interactions abcd", "use --cross NAME,NAME, with"),
        ("learn a.vw --experimental_full_name_interactions 'site|ad'", "use --cross site,ad;"),
        ("learn a.vw -b 22", "use --hash-bits 22, or omit it"),
        ("learn a.vw -b22", "use --hash-bits 22, or omit it"),
        ("learn a.vw -b", "use --hash-bits N, or omit it"),
        ("learn a.vw --passes 2 --loss_function logistic", "use --loss logistic;"),
        ("learn a.vw --loss_function=classic", "use --loss squared;"),
        ("learn a.vw --loss_function expectile", "use --loss quantile or huber: there is no"),
        ("learn a.vw -f my.model", "use --save my.model;"),
        ("learn a.vw -f 'my model'", "use --save 'my model';"),
        ("learn a.vw -f --l1 1", "use --save FILE;"),
        ("learn a.vw -i my.model", "use --load my.model;"),
        ("learn a.vw -t", "use streaml1 evaluate MODEL SOURCE, or streaml1 predict"),
        ("learn -d a.vw", "use streaml1 learn a.vw;"),
        ("-d a.vw --l1 1", "use streaml1 learn a.vw; see streaml1 --help"),
        ("learn a.vw -c", "omit it, or use streaml1 convert SOURCE FILE.rows"),
        ("learn a.vw --cache", "omit it, or use streaml1 convert SOURCE FILE.rows"),
        ("learn a.vw -k", "omit it, or use streaml1 convert SOURCE FILE.rows"),
        ("learn a.vw --ftrl", "use --model ftrl;"),
        ("learn a.vw --coin", "use --model coin;"),
        ("learn a.vw --oaa 10", "use --model softmax, which adds labels"),
        ("learn a.vw --holdout_off", "use --holdout 0;"),
        ("learn a.vw --ngram 2", "use --text NAMESPACE --ngrams 2;"),
        ("learn a.vw --ngram t2", "use --text NAMESPACE --ngrams 2;"),
        ("learn a.vw --ngram", "use --text NAMESPACE --ngrams N;"),
        ("learn a.vw --power_t 0.5", "use --schedule invsqrt with a numeric --lr;"),
        ("learn a.vw --power_t 0", "use --schedule constant with"),
        ("learn a.vw -l 0.5", "use --lr 0.5, or omit it"),
        ("predict m a.vw -p out", "use streaml1 predict MODEL SOURCE > out;"),
        ("learn a.vw --daemon", "use streaml1 serve MODEL, which answers lines of text over HTTP;"),
        ("serve m --port 26542", "use streaml1 serve MODEL --listen 26542;"),
        ("serve m --num_children 4", "use streaml1 serve MODEL --workers 4;"),
        ("learn a.vw -a", "use streaml1 predict MODEL SOURCE --explain K;"),
        ("learn a.vw -C 0.5", "use --intercept-init 0.5;"),
        ("learn a.vw --examples 9", "use --limit 9;"),
        ("learn a.json --json", "use --format jsonl: one object per line"),
        ("learn a.vw --cb_explore 4", "contextual bandits are not supported;"),
        ("learn a.vw --lrq ab4", "all models are linear; see --cross for interactions;"),
    ],
)
def test_options_of_vowpal_wabbit(line: str, remedy: str) -> None:
    message = error_of(line)
    assert remedy in message and re.search(r"; see streaml1.* --help$", message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "learn a.vw --loss_function logistic -b 22 -qab -q ac --passes 2 -c -k -f m",
            "--loss_function, -b, -q, -c, -k and -f are options of Vowpal Wabbit: for "
            "--loss_function use --loss logistic; for -b use --hash-bits 22, or omit it: names are "
            "stored and do not collide; for -q use --cross a,b --cross a,c, with whole namespaces "
            "or columns; for -c and -k omit it, or use streaml1 convert SOURCE FILE.rows to read "
            "faster; for -f use --save m; see streaml1 learn --help",
        ),
        (
            "-d a.vw --ftrl --oaa=3",
            "-d, --ftrl and --oaa are options of Vowpal Wabbit: for -d use streaml1 learn a.vw; "
            "for --ftrl use --model ftrl; for --oaa use --model softmax, which adds labels as they "
            "appear; see streaml1 --help",
        ),
        (
            "-t -i 'my model' -d a.vw -p out --quiet",
            "for -t, -i, -d and -p use streaml1 evaluate 'my model' a.vw, or streaml1 predict "
            "'my model' a.vw > out; for --quiet omit it",
        ),
        (
            "learn a.vw -t -i my.model",
            "for -t and -i use streaml1 evaluate my.model SOURCE, or streaml1 predict my.model "
            "SOURCE > FILE; see streaml1 learn --help",
        ),
        ("learn a.vw -f a -f b", "-f is an option of Vowpal Wabbit: use --save b; see"),
    ],
)
def test_all_options_of_vowpal_wabbit_are_answered_at_once(line: str, message: str) -> None:
    assert message in error_of(line)


def test_remedies_use_options_that_exist() -> None:
    known = {name for command in cli.commands.values() for param in command.params
             for name in (*param.opts, *param.secondary_opts)}  # fmt: skip
    for option, remedy in REMEDIES.items():
        if option not in ("--json", "--csv"):  # of predict and export; unknown to learn
            assert option not in known, "reachable only if it is unknown here"
        assert set(re.findall(r"--[a-z][a-z0-9-]*", remedy.text)) <= known
        assert set(re.findall(r"streaml1 ([a-z]+)", remedy.text)) <= set(cli.commands)
        assert remedy.has_value or "{}" not in remedy.text
    models = {m for r in REMEDIES.values() for m in re.findall(r"--model ([a-z]+)", r.text)}
    (choice,) = (p.type for p in cli.commands["learn"].params if p.name == "model")
    assert isinstance(choice, click.Choice) and models <= {*choice.choices}


GENERAL = """
    -a --audit -P --progress -t --testonly --holdout_off --holdout_period --holdout_after
    --early_terminate --passes --examples --min_prediction --max_prediction --loss_function
    --quantile_tau --l1 --l2 --no_bias_regularization --named_labels --hash --hash_seed --ignore
    --ignore_linear --keep --redefine -b --bit_precision --noconstant -C --constant --ngram --skips
    --feature_limit --affix --spelling --dictionary --interactions -q --quadratic --cubic -d --data
    --daemon --foreground --port --num_children --pid_file --port_file -c --cache --cache_file
    --json --dsjson -k --kill_cache --compressed --no_stdin --csv --csv_separator
    --csv_no_file_header --csv_header --quiet --driver_output_off --log_level -f --final_regressor
    --readable_model --invert_hash --predict_only_model --save_resume
    --preserve_performance_counters --save_per_pass --span_server --unique_id --total --node -p
    --predictions -r --raw_predictions --random_seed -l --learning_rate --power_t --initial_t
    --decay_learning_rate -i --initial_regressor --feature_mask --sgd --adaptive --invariant
    --normalized --ftrl --coin --bfgs --link --oaa --csoaa --binary
"""
"""Options of vw 9.11 that do not belong to one reduction, and of the usual reductions."""


def test_every_general_option_has_an_answer() -> None:
    known = {name for param in cli.commands["learn"].params for name in param.opts}
    assert {*GENERAL.split()} - known - {*REMEDIES} == set()


def test_every_general_option_has_a_row_in_the_docs() -> None:
    page = Path("docs", "from-vowpal-wabbit.md")
    text = (Path(__file__).parent.parent / page).read_text()
    rows = "".join(line.partition("|")[2] for line in text.splitlines() if line[:1] == "|")
    found = re.findall(r"(?<![\w-])--?[A-Za-z]\w*", rows)
    assert {*GENERAL.split()} - {*found} == set()


@given(st.sampled_from(sorted(REMEDIES)), st.lists(st.text("-=ab{} 1'\\", max_size=5), max_size=4))
def test_any_arguments_have_a_remedy(option: str, args: list[str]) -> None:
    remedy = remedy_of(option, [*args, option, *args])
    assert remedy is not None and option in remedy
    assert re.match(r"-.+ (is an option|are options) of Vowpal Wabbit: ", remedy)


def test_other_options_have_none() -> None:
    assert remedy_of("--nosuch", ["--nosuch", "-b"]) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("learn a.svm --taget y", "No such option '--taget' (did you mean --target?); see "),
        ("learn a.svm --los x", "No such option '--los' (did you mean --loss?);"),
        ("a.svm", "a.svm is not a command: use streaml1 inspect a.svm, or streaml1 learn a.svm;"),
        ("'my clicks.csv' --target y", "learn 'my clicks.csv'; see streaml1 --help"),
        ("lern a.svm", "No such command 'lern' (did you mean learn?); see streaml1 --help"),
        ("learn a.csv --label y", "No such option '--label' (did you mean --target?); see"),
        ("predict m a.csv --epochs 2", "No such option '--epochs'; see streaml1 predict --help"),
        ("train a.csv", "No such command 'train' (did you mean learn?); see streaml1 --help"),
        ("show m --json", "No such option '--json'; see streaml1 show --help"),
        ("learn a.svm --until x", "(did you mean --until-end?);"),
        ("learn a.svm --qiet", "No such option '--qiet'; see streaml1 learn --help"),
        ("learn a.svm --zzzzz", "No such option '--zzzzz'; see streaml1 learn --help"),
        (
            "evaluate m a.csv --text t",
            "--text is a parameter of the model, which keeps it: omit it;",
        ),
        ("predict m a.csv --cross a,b", "--cross is a parameter of the model, which keeps it"),
        ("predict m a.csv --save x", "No such option '--save'"),
        ("learn a.csv --shuffle", "No such option '--shuffle': examples are learnt in the order"),
        ("learn a.csv --batch_size 3", "'--batch_size': omit it: each example updates the model"),
        ("learn a.csv --class-weight balanced", "(did you mean --positive-weight?);"),
        ("learn a.csv --lambda 1", "No such option '--lambda': use --l1 or --l2"),
        ("learn a.csv --kafka h:9092", "name the topic as SOURCE, as in kafka://localhost:9092"),
        ("learn a.csv --max_features 3 --hash_bits 3", "(did you mean --max-features?);"),
        ("learn a.csv --skip-errors", "(did you mean --bad skip?);"),
        ("learn a.csv -o m", "No such option '-o' (did you mean --save?);"),
        ("show m --shuffle", "No such option '--shuffle'; see streaml1 show --help"),
        ("serve m --host 0.0.0.0", "(did you mean --listen?);"),
        ("help", "No such command 'help' (did you mean --help?);"),
        ("learn a.csv --loss log_loss", "'poisson' (did you mean logistic?);"),
        ("learn a.csv --loss MSE", "(did you mean squared?);"),
        ("learn a.csv --loss cross-entropy", "(did you mean logistic?);"),
        ("learn a.csv --loss quantil", "(did you mean quantile?);"),
        ("learn a.csv --loss zzz", "'poisson'; see streaml1 learn --help"),
        ("learn a.csv --model SGDClassifier", "(did you mean elastic-net?);"),
        ("learn a.csv --model /", "'eg' (did you mean --load /?);"),
        ("learn a.csv --l1 1e-4,1e-3", "is not a number; sweep compares several values; see"),
        ("learn a.csv --task binary", "(did you mean classification?);"),
        ("learn a.csv --task multiclass", "(did you mean --model softmax?);"),
    ],
)
def test_mistyped_names(line: str, message: str) -> None:
    assert message in error_of(line)


def test_names_of_other_programs_lead_to_existing_ones() -> None:
    known = {name for param in cli.commands["learn"].params for name in param.opts}
    known_to_all = known | {name for param in cli.commands["serve"].params for name in param.opts}
    assert {name.split()[0] for name in OTHER_OPTIONS.values()} <= known_to_all
    assert {*SHORT.values()} <= known
    others = [*OTHER_OPTIONS, *OTHER_REMEDIES, *SHORT]
    assert not {*others} & known and not {*others} & {*REMEDIES}
    assert len(others) == len({*others})
    assert {*OTHER_COMMANDS.values()} - {"--help", "--version"} <= {*cli.commands}
    assert not {*OTHER_COMMANDS} & {*cli.commands}


@pytest.mark.parametrize("option", OTHER_VALUES)
def test_values_of_other_programs_lead_to_existing_ones(option: str) -> None:
    known = {name for param in cli.commands["learn"].params for name in param.opts}
    [param] = [param for param in cli.commands["learn"].params if option in param.opts]
    assert isinstance(param.type, click.Choice)
    values = {*OTHER_VALUES[option]} - {"--model softmax"}
    assert values <= {*param.type.choices} and "--model" in known
