"""Options from a configuration file (`--config`) and from environment variables.

The command line beats the environment, which beats the file. Both are given to click as the defaults
of the command, so that their values are converted and checked like those of the command line.
"""  # noqa: E501

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import click

__all__ = ["Settings", "config_option", "place_of", "read_settings", "remember_places"]

PREFIX = "STREAML1"
PLACES = "streaml1.places"
"""Key of the places of settings in the meta data of a context."""
OTHER_VARIABLES = tuple(f"{PREFIX}_{name}" for name in ("DATA", "KAFKA", "LOG", "REGISTRY"))
"""How variables begin that hold for all commands."""


class Settings(NamedTuple):
    """Values of options that the command line did not give.

    Attributes
    ----------
    values
        The values by the name of the parameter.
    places
        Where each value comes from.
    warnings
        Sentences about environment variables that are ignored.
    """

    values: dict[str, Any]
    places: dict[str, str]
    warnings: list[str]


def config_option() -> click.Option:
    """Return the option --config."""
    return click.Option(
        ["--config"], type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.toml",
        expose_value=False, help="Read options from this file. Those of the command line and of "
        "STREAML1_... environment variables take precedence.",
    )  # fmt: skip


def read_settings(ctx: click.Context, path: str | None) -> Settings:
    """Return the options of a command in a file and in the environment; reject unknown ones."""
    command = ctx.info_name or ""
    prefix = f"{PREFIX}_{command.upper()}_"
    path = path or os.environ.get(f"{prefix}CONFIG") or None
    settings = Settings({}, {}, [])
    options = _options(ctx)
    for key, value in {} if path is None else _table(ctx, path, command).items():
        name = key.replace("_", "-")
        if name not in options:
            arguments = {p.name for p in ctx.command.params if isinstance(p, click.Argument)}
            is_argument = key in arguments or f"{key}s" in arguments
            hint = (
                f": give {key.upper()} on the command line"
                if is_argument else _nearest(name, options)
            )  # fmt: skip
            raise click.UsageError(f"{path} has an unknown key {key!r} in [{command}]{hint}", ctx)
        _add(settings, options[name], value, f"{key} in {path}")
    names = {name.replace("-", "_").upper(): name for name in options}
    for variable in sorted(os.environ):
        if not variable.startswith(prefix) or variable == f"{prefix}CONFIG":
            continue
        name = variable.removeprefix(prefix)
        if name in names:
            _add(settings, options[names[name]], os.environ[variable], variable)
        else:
            settings.warnings.append(
                f"the environment variable {variable} is ignored, because {command} has no such "
                f"option{_nearest(name, names, prefix + '{}')}"
            )
    settings.warnings.extend(_without_command(prefix, {*names, "CONFIG"}))
    settings.warnings.extend(_of_misspelled_command(ctx, command))
    return settings


def remember_places(ctx: click.Context, settings: Settings, given: Mapping[str, Any]) -> None:
    """Remember for `place_of` where values were set, unless the command line has `given` them."""
    ctx.meta[PLACES] = {
        name: settings.places[param.name]
        for param in ctx.command.params
        if param.name in settings.places and param.name not in given
        for name in (param.name, *param.opts, *param.secondary_opts)
    }


def place_of(ctx: click.Context, sentence: str) -> str:
    """Return a clause with the place of the option that an error begins with, if a setting gave it.

    Options whose values click accepts are checked by the commands.
    """
    place = ctx.meta.get(PLACES, {}).get(sentence.partition(" ")[0])
    return "" if place is None else f" ({place})"


def _without_command(prefix: str, names: set[str]) -> list[str]:
    """Return warnings about variables without the name of the command, such as STREAML1_TARGET."""
    variables = (f"{PREFIX}_{name}" for name in sorted(names))
    return [
        f"the environment variable {variable} is ignored: its name is "
        f"{prefix}{variable.removeprefix(f'{PREFIX}_')}"
        for variable in variables
        if variable in os.environ and not variable.startswith(OTHER_VARIABLES)
    ]


def _of_misspelled_command(ctx: click.Context, command: str) -> list[str]:
    """Return warnings about variables that may be for this command, such as STREAML1_LERN_L1."""
    program = ctx.find_root().command
    commands = program.list_commands(ctx) if isinstance(program, click.Group) else [command]
    known = [name.replace("-", "_").upper() for name in commands]
    warnings = []
    for variable in sorted(os.environ):
        if not variable.startswith(f"{PREFIX}_") or variable.startswith(OTHER_VARIABLES):
            continue
        rest = variable.removeprefix(f"{PREFIX}_")
        word, _, option = rest.partition("_")
        is_known = any(rest.startswith(f"{name}_") for name in known)
        if option and not is_known and get_close_matches(word, known, 1, 0.75) == [command.upper()]:
            warnings.append(
                f"the environment variable {variable} is ignored, because there is no command "
                f"{word.lower()} (did you mean {PREFIX}_{command.upper()}_{option}?)"
            )
    return warnings


class _Target(NamedTuple):
    """An option, and whether its name negates it, as in --no-header."""

    option: click.Option
    negated: bool


def _options(ctx: click.Context) -> dict[str, _Target]:
    """Return the options that settings can give, by name without dashes."""
    found: dict[str, _Target] = {}
    for param in ctx.command.params:
        if isinstance(param, click.Option) and (param.expose_value or param.name == "log"):
            found |= {name.lstrip("-"): _Target(param, False) for name in param.opts}
            found |= {name.lstrip("-"): _Target(param, True) for name in param.secondary_opts}
    return found


def _table(ctx: click.Context, path: str, command: str) -> dict[str, Any]:
    """Return the table of a command in a file."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise click.UsageError(
            f"--config {path} cannot be read: {(error.strerror or str(error)).lower()}", ctx
        ) from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise click.UsageError(f"--config {path} is not valid TOML: {error}", ctx) from None
    group = ctx.find_root().command
    known = list(group.commands) if isinstance(group, click.Group) else [command]
    for name, table in content.items():
        if name not in known or not isinstance(table, dict):
            is_option = name.replace("_", "-") in _options(ctx)
            hint = "" if is_option else _nearest(name, known, "[{}]")
            hint = hint or f": put the options of {command} in [{command}]"
            raise click.UsageError(
                f"{path} has {name!r}, which is not the table of a command{hint}", ctx
            )
    table = content.get(command, {})
    assert isinstance(table, dict)
    return table


def _add(settings: Settings, target: _Target, value: Any, place: str) -> None:
    option = target.option
    assert option.name is not None
    if _is_switch(option) and _is_word(value, "false"):
        settings.values.pop(option.name, None)  # the environment overrules the file
        settings.places.pop(option.name, None)
        return
    settings.values[option.name] = _converted(target, value, place)
    settings.places[option.name] = place


def _converted(target: _Target, value: Any, place: str) -> Any:
    """Return a value as the command line would give it."""
    option = target.option
    if isinstance(value, Mapping):
        raise click.UsageError(f"{place} is a table; give a value")
    if option.is_flag:
        try:
            flag: bool = click.BOOL.convert(value, None, None)
        except click.BadParameter:
            raise click.UsageError(f"{place} must be true or false, got {value!r}") from None
        return flag != target.negated
    values = [
        _text(option, item, place) for item in (value if isinstance(value, list) else [value])
    ]
    return values if option.multiple else ",".join(values)


def _text(option: click.Option, value: Any, place: str) -> str:
    """Return one value of an option as the command line has it."""
    if _is_switch(option) and _is_word(value, "true"):
        return str(option.flag_value)
    if isinstance(value, bool):
        word = str(value).lower()
        raise click.UsageError(f'{place} must be text or a number, got {word}; quote it: "{word}"')
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _is_switch(option: click.Option) -> bool:
    """Return whether an option takes a value and can do without, as --metrics."""
    return not option.is_flag and isinstance(option.flag_value, str)


def _is_word(value: Any, word: str) -> bool:
    """Return whether a value is true or false, in TOML or as a variable spells it."""
    return isinstance(value, bool | str) and str(value).lower() == word


def _nearest(name: str, known: Iterable[str], form: str = "{}") -> str:
    found = get_close_matches(name, list(known), n=1)
    return f" (did you mean {form.format(found[0])}?)" if found else ""
