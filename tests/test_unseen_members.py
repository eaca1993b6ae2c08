"""Names in options that no member of JSON lines has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streaml1 import ElasticNetClassifier
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.readers.unseen_members import _REPORTED, MIN_RECORDS, UnseenMembers
from streaml1.training import progressive


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
    line = b'{"y": 1, "cost": 2}'
    assert unseen.search([line] * (MIN_RECORDS - 1)) == []
    [sentence] = unseen.search([b'{"late": null}', b"[]", b"{", b"null", b""])
    assert sentence == (
        f"none of the first {MIN_RECORDS} lines has the member of "
        'ignore=["csot"] (did you mean "cost"?)'
    )
    assert unseen.is_done and unseen.search([line]) == []


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
    assert unseen.search([line]) == [] and unseen.is_done
