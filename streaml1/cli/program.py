"""The program: how every command ends, well or not."""

from __future__ import annotations

import errno
import signal
import sys
from typing import Any, NoReturn

import click

from streaml1.console import PROGRAM, abandon_output, complain

__all__ = ["Program", "Refusal", "cli", "main"]

CLOSED_PIPE = 128 + signal.SIGPIPE


def main() -> NoReturn:
    """Run the command line."""
    cli.main(prog_name=PROGRAM)
    raise AssertionError("cli.main exits")


class Refusal(click.ClickException):
    """What ends a command in one sentence, with exit code 2."""

    exit_code = 2


class Program(click.Group):
    """Tells every mistake in one sentence on standard error, and exits with 2."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a name may hold what the terminal cannot show
                stream.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.UsageError as error:
            where = f"; see {error.ctx.command_path} --help" if error.ctx else ""
            complain(error.format_message().rstrip(".") + where)
            code = error.exit_code
        except click.ClickException as error:
            complain(error.format_message())
            code = error.exit_code
        except click.Abort:
            complain("interrupted")
            code = 128 + signal.SIGINT
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what is wrong with its input ends it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            abandon_output()
            ctx.exit(CLOSED_PIPE)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            abandon_output()
            raise Refusal("standard output cannot be written: no space left on device") from None
        except ValueError as error:
            from streaml1.modelfile import ModelFileError
            from streaml1.rows import BadExample
            from streaml1.streams import SourceError

            if isinstance(error, SourceError | BadExample | ModelFileError):
                raise Refusal(str(error)) from None
            raise


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from streaml1 import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(PROGRAM, cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Learn sparse linear models from streams of examples.

    Example: streaml1 learn stdlib --l1 5e-4 --lr 0.03 --schedule constant
    """
