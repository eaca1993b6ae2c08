"""Commands of the command line, run in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from streaml1.cli import cli


def run(*args: str, input: str | None = None, code: int = 0) -> Result:
    """Run a command and assert its exit code."""
    result = CliRunner().invoke(cli, list(args), input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def error_of(*args: str, input: str | None = None, code: int = 2) -> str:
    """Assert that a command fails with a one-line error; return the message."""
    result = run(*args, input=input, code=code)
    assert result.stderr.startswith("streaml1: ") and result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    return result.stderr.removeprefix("streaml1: ").rstrip("\n")
