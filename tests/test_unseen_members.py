"""Names in options that no member of JSON lines has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streaml1 import ElasticNetClassifier
from streaml1.cli import cli
from streaml1.sources import SourceOptions
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.readers.unseen_members import (
    _REPORTED,
    MAX_EXAMPLES,
    MIN_RECORDS,
    UnseenMembers,
    decoded_lines,
)
from streaml1.training import progressive
from streaml1.training.dict_rows import dict_rows


@pytest.fixture(autouse=True)
def nothing_reported() -> None:
    _REPORTED.clear()


@pytest.mark.parametrize("option", ["ignore", "categorical", "numeric"])
def test_members_that_no_line_has_are_reported_once(
    option: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A misspelled name would let a model learn a member that was to be ignored."""
    row = {"y": 1, "user": {"age": 3}, "vec": [0.5, None], "tags": ["a"]}
    rest = {"y": 0, "user": None}
    for k in range(3):
        (tmp_path / f"part-{k}.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(rest)}\n")
    names = ["user.aeg", "vec.1", "user", "tags=a"]
    model = ElasticNetClassifier(lr=0.1)
    for _ in range(2):
        progressive(model, tmp_path, target="y", **{option: names})
    [message] = [record.message for record in caplog.records]
    assert message.startswith(str(tmp_path / "part-0.jsonl"))
    assert f'none of the first 2 lines has the member of {option}=["user.aeg"]' in message


def test_members_of_records_are_judged_by_many() -> None:
    unseen = UnseenMembers(JsonRoles("y", ignore=frozenset(["csot", "late"])), MIN_RECORDS)
    example = {"y": 1, "cost": 2}
    assert unseen.search([example] * (MIN_RECORDS - 1)) == []
    lines = decoded_lines([b'{"late": null}', b"[]", b"{", b"null", b""])
    [sentence] = unseen.search(lines)
    assert sentence == (
        f"none of the first {MIN_RECORDS} lines has the member of "
        'ignore=["csot"] (did you mean "cost"?)'
    )
    assert unseen.is_done and unseen.search([example]) == []


@pytest.mark.parametrize(
    ("roles", "line"),
    [
        (JsonRoles("y", ignore=frozenset(["a"]), at="p.q"), b'{"p": {"q": {"a": 1}}}'),
        (JsonRoles(ignore=frozenset(["a"])), b'{"x": {"a": 1}, "y": 1}'),
        (JsonRoles("y", ignore=frozenset(["a.0.b"])), b'{"a": [{"b": null}]}'),
        (JsonRoles("y", ignore=frozenset(["day"]), elsewhere=("day",)), b"{}"),
    ],
)
def test_members_are_found_where_they_are(roles: JsonRoles, line: bytes) -> None:
    unseen = UnseenMembers(roles)
    assert unseen.search(decoded_lines([line])) == [] and unseen.is_done


@pytest.mark.parametrize("n", [3, MAX_EXAMPLES + 200])
def test_members_that_no_dict_has_are_reported(n: int, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"y": k % 2 == 0, "user": {"age": k % 7}, "cost": 1.0} for k in range(n)]
    for _ in range(2):
        report = progressive(
            ElasticNetClassifier(lr=0.1), iter(rows), target="y", ignore=["csot", "user.age"]
        )
        assert report.examples == n
    [message] = [record.message for record in caplog.records]
    assert message.endswith(
        f'none of the first {min(n, MAX_EXAMPLES):,} dicts has the member of ignore=["csot"] '
        '(did you mean "cost"?)'
    )


def test_a_live_stream_of_dicts_is_not_held_back(caplog: pytest.LogCaptureFixture) -> None:
    """The warning comes after the first examples, while the stream goes on."""
    seen = []

    def rows() -> Iterator[dict[str, object]]:
        for k in range(MAX_EXAMPLES + 1):
            seen.append(len(caplog.records))
            yield {"y": k % 2 == 0, "a": 1}

    options = SourceOptions(target="y", ignore=["b"])
    read = [example[0] for example in dict_rows(rows(), options, "rows", reject=never)]
    assert read == list(range(1, MAX_EXAMPLES + 2))
    assert seen == [0] * MAX_EXAMPLES + [1]


def test_x_is_a_member_of_dicts_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    """Only lines hold their features in an object `x`."""
    rows = [{"x": {"a": 1.0, "b": 2.0}, "c": 3.0}] * 3
    options = SourceOptions(ignore=["x.a", "c", "x.d"], require_label=False)
    assert [x for _, x, *_ in dict_rows(rows, options, "rows", reject=never)] == [{"x.b": 2.0}] * 3
    [message] = [record.message for record in caplog.records]
    assert 'none of the first 3 dicts has the member of ignore=["x.d"]' in message


def never(place: str, reason: str) -> None:
    raise AssertionError(f"{place}: {reason}")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_commands_that_read_a_file_report_them(command: str, tmp_path: Path) -> None:
    """A misspelled `--categorical` gives predictions of other features than the learnt ones."""
    path, model = tmp_path / "a.jsonl", tmp_path / "model"
    path.write_text("".join(f'{{"y": {k % 2}, "zip": {k % 3}}}\n' for k in range(60)))
    learn = ["learn", str(path), "--target", "y", "--categorical", "zip", "--save", str(model)]
    assert CliRunner().invoke(cli, learn).exit_code == 0
    _REPORTED.clear()
    options = ["--target", "y"] if command == "evaluate" else []
    arguments = [command, str(model), str(path), *options, "--categorical", "zpi"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "none of the first 60 lines has the member of --categorical zpi" in result.output
