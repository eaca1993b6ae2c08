"""Shell completion: the scripts, and what a shell is offered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from streaml1.cli import cli
from streaml1.cli.completion import SHELLS
from streaml1.models.registry import LEARNERS

ROOT = Path(__file__).parent.parent


def offered(*words: str) -> list[tuple[str, str]]:
    """Return the kinds and values that bash is offered for the last word."""
    environment = {
        "_STREAML1_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["streaml1", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner(env=environment).invoke(cli)
    assert result.exit_code == 0 and not result.stderr
    return [(kind, value) for kind, _, value in (x.partition(",") for x in result.stdout.split())]


@pytest.mark.parametrize("shell", SHELLS)
def test_script(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert f"_STREAML1_COMPLETE={shell}_complete" in result.stdout
    assert re.search(r"\bstreaml1\b", result.stdout)
    command = SHELLS[shell]
    assert f"`{command}`" in (ROOT / "docs" / "learn.md").read_text()
    assert command in CliRunner().invoke(cli, ["completion", "--help"]).output


def test_other_shells_are_rejected() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert result.stderr.startswith("streaml1: Invalid value for") and "tcsh" in result.stderr


def test_commands_options_and_values() -> None:
    assert offered("ev") == [("plain", "evaluate")]
    assert ("plain", "learn") in offered("")
    assert offered("learn", "--hash") == [("plain", "--hash-bits")]
    assert offered("learn", "--model", "") == [("plain", name) for name in LEARNERS]
    assert offered("learn", "a.svm", "--loss", "pois") == [("plain", "poisson")]
    assert offered("learn", "--save", "m")[0][0] == "file"
    assert offered("learn", "--checkpoint", "k")[0][0] == "dir"


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert offered("learn", "day") == [("file", "day")]
    assert offered("learn", "da") == [("plain", "data:")]
    assert offered("predict", "m", "riv") == [("plain", "river:")]
    Path("day.svm").write_text("")
    assert offered("learn", "da") == [("file", "da")], "files take precedence"
