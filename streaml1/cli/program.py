"""The program: how every command ends, well or not."""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from streaml1.cli.messages import PROGRAM, abandon_output, abandon_unsaid, complain, say_as
from streaml1.core import exit_codes as exits

__all__ = ["Program", "Refusal", "cli", "main"]

INTERRUPTED = tuple(128 + n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
CLOSED_PIPE = 128 + signal.SIGPIPE


def main() -> NoReturn:
    """Run the command line."""
    try:
        cli.main(prog_name=PROGRAM)
    except SystemExit as end:
        interrupted = end.code in INTERRUPTED
        ended = interrupted or _all_ended()
        said = _all_said()
        abandon_unsaid()
        if interrupted or (ended and said):
            # To take the interpreter apart, with a compiler in it, takes a tenth of a second.
            os._exit(end.code)  # type: ignore[arg-type]
        raise
    raise AssertionError("cli.main exits")


def _all_ended() -> bool:
    """Whether nobody else is at work; what was left for the exit is done then."""
    others = (one for one in threading.enumerate() if one is not threading.current_thread())
    if not all(one.daemon for one in others):
        return False
    atexit._run_exitfuncs()
    return True


def _all_said() -> bool:
    """Whether standard output has taken all; where it cannot, Python tells it."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):  # the first: there is none
        return False
    return True


class Refusal(click.ClickException):
    """What ends a command in one sentence, and with which exit code."""

    def __init__(self, message: str, code: int = exits.WRONG) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click has it in the class


class Program(click.Group):
    """Tells every mistake in one sentence on standard error; what to exit with, errors know."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a name may hold what the terminal cannot show
                stream.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        given = extra.get("args", args[0] if args else None)
        given = sys.argv[1:] if given is None else given
        say_as("text")
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        if sys.stdout is None:
            complain("standard output is closed: give it a file, such as /dev/null", "error")
            sys.exit(exits.WRONG)
        try:
            code = super().main(*args, **extra)
        except OSError as error:  # of --help; commands are below
            if not exits.may_pass(error):
                raise
            code = exits.AGAIN
            complain(str(_no_room(error)), "error", exit_code=code)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.UsageError as error:
            if _wants_json(given):  # the option is not read where another is wrong
                say_as("json")
            where = f"; see {error.ctx.command_path} --help" if error.ctx else ""
            code = error.exit_code
            complain(error.format_message().rstrip(".") + where, "error", exit_code=code)
        except click.ClickException as error:
            code = error.exit_code
            complain(error.format_message(), "error", exit_code=code)
        except click.Abort:
            code = 128 + signal.SIGINT
            complain("interrupted", "error", exit_code=code)
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what is wrong with its input ends it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            abandon_output()
            ctx.exit(CLOSED_PIPE)
        except OSError as error:
            if not exits.may_pass(error):
                raise
            raise _no_room(error) from None
        except MemoryError as error:
            reason = str(error).partition(" for an array")[0] or "none is left"
            raise Refusal(
                f"the memory does not suffice ({reason[:1].lower()}{reason[1:]}): take fewer "
                "--hash-bits or --max-features, or a number for --lr, for one weight a feature "
                "instead of eight"
            ) from None
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            code = getattr(error, "exit_code", None)
            if code is None:
                raise
            raise Refusal(str(error), code) from None


def _wants_json(args: Sequence[str]) -> bool:
    """Whether --log json is among what was written, or in the environment."""
    form = os.environ.get("STREAML1_LOG", "")
    for one, after in itertools.pairwise([*args, ""]):
        if one == "--log" or one.startswith("--log="):
            form = after if one == "--log" else one.removeprefix("--log=")
    return form == "json"


def _no_room(error: OSError) -> Refusal:
    abandon_output()
    return Refusal(f"standard output cannot be written: {exits.reason(error)}", exits.AGAIN)


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
