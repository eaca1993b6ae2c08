"""Skipped examples: when there are too many of them, and the reasons in the summary."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import ElasticNetClassifier, progressive
from streaml1.cli import cli
from streaml1.training.bad_share import MIN_EXAMPLES, MIN_REJECTED, BadShare, TooManyBad
from streaml1.training.error_policy import LOGGED, ErrorPolicy
from streaml1.training.observers import Observer, Rejected
from streaml1.training.rejection_reasons import MAX_KINDS, MAX_REASONS, RejectionReasons

Write = Callable[[str, int, int], None]

COMMANDS = {
    "learn": ["learn", "a.csv"],
    "predict": ["predict", "m", "a.csv"],
    "evaluate": ["evaluate", "m", "a.csv"],
    "convert": ["convert", "a.csv", "a.rows"],
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes good rows and, spread among them, bad ones."""
    monkeypatch.chdir(tmp_path)
    model = ElasticNetClassifier()
    model.learn_many([{"b": 1.0}, {"b": 2.0}] * 20, [True, False] * 20)
    model.save("m")

    def write(name: str, n: int, n_bad: int) -> None:
        bad = {k * n // n_bad for k in range(n_bad)} if n_bad else set()
        rows = (f"word{k},{k % 2}" if k in bad else f"{k % 9},{k % 2}" for k in range(n))
        Path(name).write_text("b,y\n" + "\n".join(rows) + "\n")

    return write


STRICT = ["--target", "y", "--categorical", ""]  # words are no categories


def run(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*COMMANDS[command], *STRICT, *arguments])


SHARES = [
    (100, 99, [], 65),
    (1000, 70, [], 65),
    (1000, 40, [], 0),
    (1000, 70, ["--most-bad", "0.1"], 0),
    (1000, 990, ["--most-bad", "1"], 0),
    (1000, 6, ["--most-bad", "0"], 65),
    (60, 40, [], 65),
    (60, 25, [], 0),
    (25, 19, [], 0),
    (112, 12, [], 0),
    (112, 12, ["--most-bad", "0.05"], 65),
]


@pytest.mark.parametrize(
    ("command", "n", "n_bad", "options", "code"),
    [
        *(("convert", *share) for share in SHARES),
        *((command, *SHARES[k]) for command in ("learn", "predict", "evaluate") for k in (0, 2, 6)),
    ],
)
def test_too_many_rejected_examples_end_each_command(
    write: Write, command: str, n: int, n_bad: int, options: list[str], code: int
) -> None:
    write("a.csv", n, n_bad)
    result = run(command, "--bad", "skip", *options)
    assert result.exit_code == code, result.output
    if code:
        assert result.stderr.splitlines()[-1].startswith("streaml1: ")
        assert "examples were rejected, more than the maximum share" in result.stderr
        reasons = [line for line in result.stderr.splitlines() if " rejected as in a.csv:" in line]
        assert len(reasons) == (options != ["--most-bad", "0"])  # it ends at the first
        assert not Path("a.rows").exists()


def test_a_missing_label_names_the_option_that_skips_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a,y\n1,0\n2,\n")
    result = CliRunner().invoke(cli, ["learn", str(file), "--target", "y"])
    assert result.exit_code == 65
    reason = "a.csv:3: the label is missing: column 'y' is empty"
    assert f"{reason}; to leave such examples out, use --bad skip\n" in result.stderr
    skip = ["--bad", "skip", "--most-bad", "1"]
    result = CliRunner().invoke(cli, ["learn", str(file), "--target", "y", *skip])
    assert result.exit_code == 0 and f"{reason}\n" in result.output


def test_observers_and_reasons_show_what_they_are() -> None:
    assert repr(RejectionReasons()) == "RejectionReasons([])"
    with pytest.raises(TypeError, match="must be objects of subclasses of Observer, got 3$"):
        progressive(ElasticNetClassifier(), [({"a": 1.0}, True)], observers=[3])
    with pytest.raises(TypeError, match="observers must be a list of observers, got <"):
        progressive(ElasticNetClassifier(), [({"a": 1.0}, True)], observers=Observer())  # type: ignore[arg-type]


def test_share_needs_skipping(write: Write) -> None:
    write("a.csv", 10, 0)
    for command in COMMANDS:
        result = run(command, "--most-bad", "0.5")
        assert result.exit_code == 2
        assert "--most-bad requires --bad dead-letter or skip" in result.stderr


@given(st.integers(0, MIN_EXAMPLES - 2), st.integers(0, MIN_EXAMPLES), st.sampled_from([0.05, 0.8]))
def test_a_short_source_is_checked_at_its_end(n: int, n_bad: int, max_share: float) -> None:
    share = BadShare(max_share)
    n_bad = min(n, n_bad)
    for number in range(n - n_bad + 1, n + 1):
        share.on_rejected(Rejected(f"a:{number}", "bad", None, number))
    if n_bad >= MIN_REJECTED and n_bad > max(0.5, max_share) * n:
        with pytest.raises(TooManyBad, match=rf"^{n_bad} of the last {n} examples were rejected"):
            share.on_pass_end()
    else:
        share.on_pass_end()


# Reasons


def test_reasons_are_counted_in_the_summary(write: Write) -> None:
    write("a.csv", 500, 0)
    text = Path("a.csv").read_text()
    bad = [f"x{k},1" for k in range(3)] + [f"1,label{k}" for k in range(4)] + ["1,1,1"]
    Path("a.csv").write_text(text + "\n".join(bad) + "\n")
    reasons = [
        "4 rejected as in a.csv:505: invalid label 'label0': it must be",
        "3 rejected as in a.csv:502: column 'b': 'x0' is not a number",
        "1 rejected as in a.csv:509: the line has 3 cells, the header has 2",
    ]
    for command in ("learn", "evaluate"):
        lines = run(command, "--bad", "skip").stdout.splitlines()
        assert any(re.fullmatch("examples +500", line) for line in lines)
        first = next(k for k, line in enumerate(lines) if re.fullmatch("rejected +8", line))
        for line, reason in zip(lines[first + 1 :], reasons, strict=False):
            assert line.startswith(reason)
        assert len(lines) >= first + 1 + len(reasons)
    lines = run("convert", "--bad", "skip").stdout.splitlines()
    assert [line[:26] for line in lines[1:-1]] == [
        reason[:26] for reason in (reasons[1], reasons[2])
    ]
    Path("a.csv").write_text(text + "\n".join(2 * bad[:3]) + "\n")
    result = run("predict", "--bad", "skip")
    assert result.stderr.splitlines()[-1].startswith(f"streaml1: 6{reasons[1][1:]}")
    report = progressive(ElasticNetClassifier(), "a.csv", target="y", bad="skip")
    assert [reason.count for reason in report.reasons.most_common()] == [6]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("invalid label 'x': it must", "invalid label 'y z': it must", True),
        ("invalid label 2: recode", "invalid label -31.5e-7: recode", True),
        ("column 'a': 'x' is not a number", "column 'a': \"it's\" is not a number", True),
        ("column 'a': 'x' is not a number", "column 'b': 'x' is not a number", False),
        ("column 'I1': 'x' is", "column 'I2': 'x' is", False),
        ("the line has 3 cells, not 2", "the line has 1,004 cells, not 2", True),
        ("not JSON: Expecting value at column 7", "not JSON: Expecting value at column 12", True),
        ("the label is missing", "the weight is missing", False),
        (r"'it\'s' is not", r"'\\' is not", True),
    ],
)  # fmt: skip
def test_reasons_that_differ_in_values_are_one(one: str, other: str, same: bool) -> None:
    reasons = RejectionReasons()
    reasons.add("a:1", one)
    reasons.add("a:2", other)
    found = reasons.most_common()
    assert [reason.count for reason in found] == ([2] if same else [1, 1])
    assert (found[0].place, found[0].reason) == ("a:1", one)


def test_the_most_frequent_reasons_are_listed() -> None:
    reasons = RejectionReasons()
    names = ["".join(letters) for letters in itertools.product("abcdefghijk", repeat=3)]
    for k, name in enumerate(names):
        for _ in range(k + 1 if k < 20 else 1):
            reasons.add(f"a:{k}", f"it is {name}")
    lines = reasons.lines()
    assert lines[0] == f"20 rejected as in a:19: it is {names[19]}"
    assert lines[MAX_REASONS - 1].startswith(f"{21 - MAX_REASONS} rejected as in a:")
    n_rest = sum(range(1, 21 - MAX_REASONS)) + len(names) - 20
    assert lines[MAX_REASONS:] == [f"{n_rest:,} rejected for other reasons"]
    assert len(reasons._kinds) == MAX_KINDS < len(names)


@given(st.text(max_size=300))
def test_any_reason_can_be_counted(reason: str) -> None:
    reasons = RejectionReasons()
    reasons.add("a:1", reason)
    reasons.add("a:2", reason)
    assert [found.count for found in reasons.most_common()] == [2]


@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO])
@pytest.mark.parametrize("n", [0, LOGGED, LOGGED + 1, LOGGED + 3])
def test_total_is_logged_unless_each_was(
    n: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    policy = ErrorPolicy("skip")
    with caplog.at_level(level, "streaml1"):
        for k in range(n):
            policy(f"a.csv:{k + 1}", "no label")
        policy.log_total()
    messages = [record.getMessage() for record in caplog.records]
    n_logged = n if level == logging.INFO else min(n, LOGGED)
    assert messages[:n_logged] == [f"skipped a.csv:{k + 1}: no label" for k in range(n_logged)]
    more = f"{n} in all" if level == logging.INFO else f"{n - LOGGED} more, {n} in all"
    assert messages[n_logged:] == ([f"skipped {more}"] if n > LOGGED else [])
