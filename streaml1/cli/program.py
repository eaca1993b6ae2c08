"""The command group, and how every command exits."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import click

from streaml1.cli.help_pages import Command
from streaml1.cli.messages import (
    PROGRAM,
    abandon_output,
    abandon_unwritten,
    report_problem,
    set_log_format,
)
from streaml1.cli.other_programs import (
    OTHER_COMMANDS,
    meant_option,
    meant_value,
    option_remedy,
)
from streaml1.cli.settings import place_of
from streaml1.cli.termination import Terminated, terminate_by_exception, watchdog
from streaml1.cli.vw_options import remedy_of
from streaml1.core import exit_codes as exits
from streaml1.core.logging import wants_json
from streaml1.core.named_options import command_line_options, flag_of

__all__ = ["CommandError", "Program", "cli", "main"]

INTERRUPTED = tuple(128 + n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
COMMANDS = (
    "inspect", "learn", "evaluate", "predict", "show", "sweep", "export", "diff", "merge",
    "convert", "serve", "page", "partitions", "warm", "completion",
)  # fmt: skip
"""The commands in the order of --help, which is that of a first model."""
COMMAND_LINE = "streaml1.command_line"
"""Key of the arguments in the meta data of a context."""
CLOSED_PIPE = 128 + signal.SIGPIPE


def main() -> NoReturn:
    """Run the command line."""
    terminate_by_exception()
    watchdog.start()
    try:
        cli.main(prog_name=PROGRAM)
    except SystemExit as end:
        interrupted = end.code in INTERRUPTED
        idle = interrupted or _run_exit_functions()
        flushed = _flush_output()
        abandon_unwritten()
        if interrupted or (idle and flushed):
            # Finalizing an interpreter with a compiler in it takes a tenth of a second.
            os._exit(end.code)  # type: ignore[arg-type]
        raise
    raise AssertionError("cli.main exits")


def _run_exit_functions() -> bool:
    """Run the exit functions and return True, unless another thread is still running."""
    threads = (thread for thread in threading.enumerate() if thread != threading.current_thread())
    if not all(thread.daemon for thread in threads):
        return False
    atexit._run_exitfuncs()
    return True


def _flush_output() -> bool:
    """Flush standard output; return False if it fails, which Python then reports."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):  # AttributeError: sys.stdout is None
        return False
    return True


class CommandError(click.ClickException):
    """An error that ends a command with one sentence and an exit code."""

    def __init__(self, message: str, code: int = exits.USAGE_ERROR) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # a class attribute in click


class Program(click.Group):
    """A group that reports every error in one sentence on standard error.

    Exceptions with an attribute `exit_code` are expected errors and end the command with it.
    """

    command_class = Command

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # names may contain characters it cannot encode
                stream.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        given = extra.get("args", args[0] if args else None)
        given = sys.argv[1:] if given is None else given
        set_log_format("text")
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        if sys.stdout is None:
            report_problem(
                "standard output is closed: redirect it, for example to /dev/null", "error"
            )
            sys.exit(exits.USAGE_ERROR)
        try:
            with command_line_options(self._flags()):
                code = super().main(*args, **extra)
        except OSError as error:  # from --help; `invoke` handles the commands
            if not exits.is_temporary(error):
                raise
            code = exits.TEMPORARY_FAILURE
            report_problem(str(_no_room(error)), "error", exit_code=code)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.UsageError as error:
            if wants_json(given):  # click has not parsed --log if another option is wrong
                set_log_format("json")
            where = f"; see {error.ctx.command_path} --help" if error.ctx else ""
            code = error.exit_code
            report_problem(_usage_message(error, given) + where, "error", exit_code=code)
        except click.ClickException as error:
            code = error.exit_code
            report_problem(error.format_message(), "error", exit_code=code)
        except click.Abort as abort:
            cause = abort.__cause__
            code = 128 + (cause.number if isinstance(cause, Terminated) else signal.SIGINT)
            report_problem("interrupted", "error", exit_code=code)
        sys.exit(code or 0)

    def _flags(self) -> dict[str, str]:
        """Return the options of all commands by the names of their parameters."""
        params = [param for command in self.commands.values() for param in command.params]
        options = [param for param in params if isinstance(param, click.Option)]
        return {option.name or "": option.opts[0] for option in options}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of `COMMANDS`, others last."""
        rank = {name: k for k, name in enumerate(COMMANDS)}
        return sorted(self.commands, key=lambda name: (rank.get(name, len(rank)), name))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command that `args` begin with; say which ones take a file."""
        name = args[0]
        if self.get_command(ctx, name) is None and ("." in name or os.path.exists(name)):
            source = shlex.quote(name)
            ctx.fail(
                f"{source} is not a command: use {PROGRAM} inspect {source}, or {PROGRAM} learn "
                f"{source}"
            )
        return super().resolve_command(ctx, args)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """Return the context of a command line, which it contains for messages."""
        given = list(args)
        ctx = super().make_context(info_name, args, *rest, **extra)
        ctx.meta[COMMAND_LINE] = given
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and convert expected errors to `CommandError`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            abandon_output()
            ctx.exit(CLOSED_PIPE)
        except Terminated as signaled:
            report_problem("interrupted", "error", exit_code=128 + signaled.number)
            ctx.exit(128 + signaled.number)
        except OSError as error:
            if exits.lacks_descriptors(error):
                raise CommandError(
                    f"{exits.os_reason(error)}: raise the limit (ulimit -n), or close connections",
                    exits.TEMPORARY_FAILURE,
                ) from None
            if not exits.is_temporary(error):
                raise
            raise _no_room(error) from None
        except MemoryError as error:
            reason = str(error).partition(" for an array")[0] or "none is left"
            raise CommandError(
                f"out of memory ({reason[:1].lower()}{reason[1:]}): reduce --hash-bits or "
                "--max-features, or use a numeric --lr, which keeps 8 bytes per feature "
                "instead of 216"
            ) from None
        except click.UsageError:
            raise
        except click.ClickException as error:
            message = error.format_message()
            raise CommandError(f"{message}{place_of(ctx, message)}", error.exit_code) from None
        except click.exceptions.Exit:
            raise
        except Exception as error:
            code = getattr(error, "exit_code", None)
            if isinstance(error, EOFError):  # click takes it for Ctrl-D at a prompt
                raise RuntimeError(f"unexpected end of data: {error}") from error
            if code is None:
                raise
            place = place_of(ctx, str(error))
            raise CommandError(f"{error}{place}{_corrected(ctx, error)}", code) from None


OUTPUT_OPTIONS = {"-o", "--out", "--output", "--save"}
PRINTING_COMMANDS = {"predict", "evaluate", "show", "export", "diff"}
"""Commands that print what others write to the file of such an option."""

TYPES = {"integer": "an integer", "float": "a number"}
"""Types of values as click names them, and as messages do."""


def _usage_message(error: click.UsageError, args: Sequence[str]) -> str:
    """Return the message of an error; for an unknown name with the most similar known one."""
    if isinstance(error, click.NoSuchOption):
        remedy = remedy_of(error.option_name, args, _known_options(error.ctx))
        if remedy is None:
            remedy = _kept_by_model(error) or _printed(error)
        if remedy is not None:
            return remedy
    if error.message.startswith("Got unexpected extra argument") and _is_command(error, "export"):
        return f"{error.message}: export prints to standard output; append > FILE"
    if isinstance(error, click.MissingParameter):
        return _missing_parameter(error, args)
    if isinstance(error, click.BadParameter):
        remedy = _meant_choice(error) or _swept(error)
        return _in_plain_words(error.format_message()) + remedy
    name = getattr(error, "option_name", "") or getattr(error, "command_name", "")
    similar = getattr(error, "possibilities", None) or ()
    by_name = {known.lstrip("-"): known for known in similar}  # all begin with dashes
    nearest = [by_name[found] for found in get_close_matches(name.lstrip("-"), by_name, n=1)]
    known = _known_options(error.ctx) if isinstance(error, click.NoSuchOption) else set()
    begun = [option for option in known if option.startswith(name)]
    nearest = begun if len(begun) == 1 else nearest
    if not isinstance(error, click.NoSuchOption):
        usual = OTHER_COMMANDS.get(name)
    else:
        usual = meant_option(name, known)
        if usual is None and (remedy := option_remedy(name, known)) is not None:
            return f"{error.message.rstrip('.')}: {remedy}"
    meant = [usual] if usual is not None else nearest
    if not meant and not similar:
        return error.format_message().rstrip(".")
    hint = f" (did you mean {meant[0]}?)" if meant else ""
    return f"{error.message.rstrip('.')}{hint}"


def _meant_choice(error: click.BadParameter) -> str:
    """Return a clause with the value that is meant by one that is not among the choices."""
    param = error.param
    found = re.search(r"'(.*)' is not one of ", error.message)
    if found is None or not isinstance(param, click.Option):
        return ""
    value, option = found[1], param.opts[0]
    if option == "--model" and os.path.exists(value):
        return f" (did you mean --load {shlex.quote(value)}?)"
    meant = meant_value(option, value, re.findall(r"'(.*?)'", error.message[found.end() :]))
    return "" if meant is None else f" (did you mean {meant}?)"


def _swept(error: click.BadParameter) -> str:
    """Return the remedy for a list of values of a hyperparameter, which only sweep accepts."""
    is_list = re.match(r"'[^', ]+(,[^', ]+)+' is not a valid (float|integer)", error.message)
    return "; sweep compares several values" if is_list and _is_command(error, "learn") else ""


def _kept_by_model(error: click.NoSuchOption) -> str | None:
    """Return the remedy for a hyperparameter that is given to a command with a trained model."""
    from streaml1.cli.parameter_options import declared_options

    command = None if error.ctx is None else error.ctx.command
    if command is None or not any(param.name == "model" for param in command.params):
        return None
    learn = cli.commands["learn"].params
    named = [
        param.name for param in learn if error.option_name in (*param.opts, *param.secondary_opts)
    ]
    if not named or named[0] not in declared_options():
        return None
    return f"{error.option_name} is a parameter of the model, which keeps it: omit it"


def _printed(error: click.NoSuchOption) -> str | None:
    """Return the remedy for an output file that is given to a command that prints."""
    if error.option_name not in OUTPUT_OPTIONS or not _is_command(error, *PRINTING_COMMANDS):
        return None
    name = error.ctx.info_name if error.ctx else ""
    return f"{error.message.rstrip('.')}: {name} prints to standard output; append > FILE"


def _is_command(error: click.UsageError, *names: str) -> bool:
    """Return whether an error is about one of these commands."""
    return error.ctx is not None and error.ctx.info_name in names


def _missing_parameter(error: click.MissingParameter, args: Sequence[str]) -> str:
    """Return the message of a missing argument or option, on one line."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if error.ctx is not None and isinstance(error.param, click.Argument):
        command = error.ctx.command
        names = [p for p in command.params if isinstance(p, click.Argument)]
        given, _, _ = command.make_parser(error.ctx).parse_args([*args[1:]])
        # Of one argument where SOURCE... and a file are needed, click takes the file to be given.
        last = given.get(names[-1].name or "")
        if error.param is not names[-1] and isinstance(last, str):
            taken = " and ".join(name.make_metavar(error.ctx) for name in names)
            return f"Missing argument: {error.ctx.info_name} takes {taken}, got only {last}"
    is_source = error.param is not None and error.param.name == "source"
    return f"{message}: name a file, or - for standard input" if is_source else message


def _in_plain_words(message: str) -> str:
    """Return the message of an invalid value without the names that click has for types."""
    before, found, after = message.rstrip(".").rpartition(" is not a valid ")
    kind, _, rest = after.partition(" ")
    if not found or kind not in TYPES:
        return message.rstrip(".")
    rest = rest.removeprefix("range").strip()
    return f"{before} is not {TYPES[kind]}{' ' if rest else ''}{rest}"


def _corrected(ctx: click.Context, error: Exception) -> str:
    """Return a clause with the corrected command if an error names the options that it lacks."""
    missing: Mapping[str, str] = getattr(error, "missing_options", {})
    added = [word for name, value in missing.items() for word in (flag_of(name), value)]
    command = [*ctx.meta.get(COMMAND_LINE, ()), *added]
    if not missing or "--" in command:
        return ""
    is_targeted = any(arg.partition("=")[0] == "--target" for arg in command)
    has_columns = missing.get("format") not in ("svmlight", "vw", "jsonl")
    unnamed = command[0] == "learn" and has_columns and not is_targeted
    return f"; run {shlex.join([PROGRAM, *command, *(['--target', 'COLUMN'] if unnamed else [])])}"


def _known_options(ctx: click.Context | None) -> set[str]:
    """Return the options of the command that was parsed."""
    params = ctx.command.get_params(ctx) if ctx else []
    return {name for param in params for name in (*param.opts, *param.secondary_opts)}


def _no_room(error: OSError) -> CommandError:
    abandon_output()
    return CommandError(
        f"standard output cannot be written: {exits.os_reason(error)}", exits.TEMPORARY_FAILURE
    )


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from streaml1.core.version import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    PROGRAM,
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Your data: streaml1 inspect clicks.csv prints a command that learns from it.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Learn sparse linear models from streams of examples.

    Example: streaml1 learn stdlib --l1 1e-4
    """
