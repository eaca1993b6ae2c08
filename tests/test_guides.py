"""The pages that guide by task: their commands print what the pages show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streaml1.datasets import SMSSpam
from tests.conftest import ROOT
from tests.doc_samples import run_samples

GUIDE = ROOT / "docs" / "guide"
ON_MESSAGES = "## On 5,574 messages"


def test_spam_samples(cwd: Path) -> None:
    before, _, _ = (GUIDE / "spam.md").read_text().partition(ON_MESSAGES)
    assert run_samples(before) == 2


def test_spam_samples_on_the_data_set(cwd: Path) -> None:
    if not SMSSpam().is_downloaded:
        pytest.skip("the SMS Spam Collection is not on this machine")
    _, _, after = (GUIDE / "spam.md").read_text().partition(ON_MESSAGES)
    code = after.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "spam.md", "exec"), {})
    assert run_samples(after) == 1


def test_spam_from_folders(cwd: Path) -> None:
    for label, text in (("ham", b"see you"), ("spam", b"caf\xe9")):
        Path(label).mkdir()
        Path(label, "1.txt").write_bytes(text)
    _, _, after = (GUIDE / "spam.md").read_text().partition("## From folders")
    exec(compile(after.partition("```python\n")[2].partition("```")[0], "spam.md", "exec"), {})
    mails = [json.loads(line) for line in Path("mails.jsonl").read_text().splitlines()]
    assert sorted((mail["label"], mail["text"]) for mail in mails) == [
        ("ham", "see you"),
        ("spam", "caf\ufffd"),
    ]


def test_fraud_samples(cwd: Path) -> None:
    assert run_samples((GUIDE / "fraud.md").read_text()) == 1
