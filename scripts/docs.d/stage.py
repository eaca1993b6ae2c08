"""Write the pages of the documentation site to a directory: `stage.py DIRECTORY`.

They are the files of docs/, CHANGELOG.md and CONTRIBUTING.md with their links adapted, a page of
each notebook, a page of all commands and options, and the API.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path

import click
import notebooks
from formulas import with_formulas

import streaml1
from streaml1.cli import cli
from streaml1.cli.help_pages import Command

ROOT = Path(__file__).parent.parent.parent
BASES = (
    *("base.OnlineModel", "inspection.InspectableModel"),
    *("base.OnlineClassifier", "base.OnlineRegressor"),
)
PACKAGES = {
    "Batch solvers": "streaml1.solvers",
    "Estimators of scikit-learn": "streaml1.sklearn",
    "Data sets": "streaml1.datasets",
    "Many runs": "streaml1.distributed",
    "Serving": "streaml1.serving",
}
"""The packages with public names of their own, by their title on the page of the API."""
TOP_LEVEL = ("CHANGELOG.md", "CONTRIBUTING.md")


def main(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(ROOT / "docs", directory)
    for name in ("site.css", "local_worker.js"):
        shutil.copy(Path(__file__).with_name(name), directory)
    for name in TOP_LEVEL:
        text = (ROOT / name).read_text()
        (directory / name).write_text(re.sub(r"\]\(docs/", "](", text))
    notebooks.stage(directory / "notebooks")
    for page in directory.rglob("*.md"):
        text = page.read_text()
        adapted = re.sub(r"\]\(\.\./(?=(?:CHANGELOG|CONTRIBUTING)\.md)", "](", text)
        adapted = with_formulas(adapted)
        if adapted != text:
            page.write_text(adapted)
    (directory / "command-line.md").write_text(command_line())
    with open(directory / "api.md", "a") as file:
        file.write(api())


def command_line() -> str:
    """Return the page of all commands and options, from their help."""
    parts = ["# Command line\n\nAll options, as `--help` or `--help-all` shows them.\n"]
    context = click.Context(cli, info_name="streaml1", max_content_width=100)
    for name in sorted(cli.list_commands(context)):
        command = cli.get_command(context, name)
        assert command is not None
        child = click.Context(command, parent=context, info_name=name, max_content_width=100)
        page = child.make_formatter()
        write = command.write_all if isinstance(command, Command) else command.format_help
        write(child, page)
        parts.append(f"## {name}\n\n```text\n{page.getvalue().rstrip()}\n```\n")
    return "\n".join(parts)


def api() -> str:
    """Return the directives from which the builder writes the docstrings of the public names."""
    groups: dict[str, list[str]] = {
        "Models": [],
        "Methods of all models": [f"::: streaml1.models.{name}\n" for name in BASES],
        "Runs and files": [],
        "Errors": [],
    }
    for name in streaml1.__all__:
        value = getattr(streaml1, name)
        if not hasattr(value, "__module__"):
            continue
        target = f"::: {value.__module__}.{name}\n"
        if inspect.isclass(value) and issubclass(value, Exception):
            groups["Errors"].append(target)
        elif inspect.isclass(value) and value.__module__.startswith("streaml1.models"):
            groups["Models"].append(target)
        else:
            groups["Runs and files"].append(target)
    for title, package in PACKAGES.items():
        public = importlib.import_module(package)
        values = {name: getattr(public, name) for name in public.__all__}
        groups[title] = [f"::: {v.__module__}.{n}\n" for n, v in values.items()]
    return "".join(f"\n## {title}\n\n" + "\n".join(lines) for title, lines in groups.items())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
