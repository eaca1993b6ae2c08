"""Mutation testing: change one place of a module at a time, and see whether a test fails.

The changes are those of cosmic-ray that a careless edit could make (`CHANGES`), and statements that
are removed. They are made in a copy of the repository. Each mutant runs the tests of its area in a
new process until the first fails. Modules with kernels run interpreted: compiling each mutant would
take minutes, and the machine code is compared with the interpreted kernels elsewhere
(``tests/test_state_invariance.py``).
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import use_mutation
from cosmic_ray.operators.operator import Operator
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import TestOutcome
from parso.python.tree import Keyword


class Area(NamedTuple):
    """Modules and the tests that hold them, as paths relative to the package and to `tests`.

    Only mutants that pass the other tests run the slow ones, given by parts of their names.
    """

    modules: str
    tests: str
    slow: str = ""
    is_interpreted: bool = False


AREAS = {
    "checkpoints": Area(
        "training/checkpoint/*.py training/saved_state.py",
        "test_checkpoint test_checkpoint_ownership test_crafted_checkpoints",
        "killed interrupted mutated between_any_two after_the_save",
    ),
    "positions": Area(
        "sources/kafka/partition_merge.py sources/kafka/topic_source.py sources/kafka/records.py "
        "sources/readers/parsed_lines.py sources/readers/named_lines.py "
        "training/record_coordinates.py",
        "test_kafka_source test_records test_sources test_prediction_json",
        "poison is_paused",
    ),
    "late-labels": Area(
        "training/delayed_labels/*.py",
        "test_delayed_labels test_pending_log test_crafted_checkpoints",
        "kill mutated resumed_after log_size",
    ),
    "rejections": Area(
        "training/error_policy.py training/dead_letters.py training/rejection_reasons.py",
        "test_rejections test_dead_letters test_observers test_training_run",
    ),
    "model-files": Area(
        "models/serialization.py models/archive.py", "test_modelfile test_crafted_files"
    ),
    "losses": Area("optim/losses.py", "test_losses", is_interpreted=True),
    "reported-losses": Area("training/report/losses.py", "test_losses test_report"),
}

CHANGES = """
    AddNot ExceptionReplacer NumberReplacer ReplaceAndWithOr ReplaceOrWithAnd
    ReplaceBreakWithContinue ReplaceContinueWithBreak ReplaceFalseWithTrue ReplaceTrueWithFalse
    ReplaceUnaryOperator_Delete_Not ReplaceUnaryOperator_Delete_USub ZeroIterationForLoop
    ReplaceBinaryOperator_: Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul
    BitAnd_BitOr BitOr_BitAnd BitXor_BitAnd LShift_RShift RShift_LShift
    ReplaceComparisonOperator_: Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq
    NotEq_Eq Is_IsNot IsNot_Is
"""
"""Names of cosmic-ray's operators; a prefix with a colon belongs to the names behind it."""


class RemoveStatement(Operator):
    """Replace a statement of a function by ``pass``, unless it is a docstring or an import."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the position of the statement."""
        if node.type != "simple_stmt" or not has_ancestor(node, "funcdef"):
            return
        kept = ("string", "strings", "import_name", "import_from", "global_stmt", "nonlocal_stmt")
        if node.children[0].type not in kept and node.get_code().strip() != "pass":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Replace the statement."""
        first = node.get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, first.prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return no examples: they serve cosmic-ray's own tests."""
        return ()


class Mutant(NamedTuple):
    """One change of one place; `occurrence` counts the places of the operator in its module."""

    operator: Operator
    occurrence: int
    line: int


def operators() -> Iterator[Operator]:
    prefix = ""
    for name in CHANGES.split():
        if name.endswith(":"):
            prefix = name[:-1]
        else:
            yield plugins.get_operator(f"core/{prefix}{name}")()
    yield RemoveStatement()


def has_ancestor(node: Any, kind: str) -> bool:
    while node is not None and node.type != kind:
        node = node.parent
    return node is not None


def is_annotation(node: Any) -> bool:
    """Return whether the node is in an annotation, which has no effect at run time."""
    while node.parent is not None:
        parent = node.parent
        if parent.type in ("annassign", "tfpdef") and node.get_previous_sibling() in (":",):
            return True
        if parent.type == "funcdef" and node.get_previous_sibling() in ("->",):
            return True
        node = parent
    return False


def mutants(module: Path) -> list[list[Mutant]]:
    """Return the mutants of each place and kind of change."""
    places: dict[tuple[Any, str], list[Mutant]] = {}
    nodes = list(ast_nodes(get_ast_from_path(module)))
    for operator in operators():
        positions = ((n, start) for n in nodes for start, _ in operator.mutation_positions(n))
        for k, (node, start) in enumerate(positions):
            if not is_annotation(node):
                place = start, type(operator).__module__
                places.setdefault(place, []).append(Mutant(operator, k, start[0]))
    return list(places.values())


def sample(places: list[list[Mutant]], n: int, rng: random.Random) -> list[Mutant]:
    """Return one mutant for each of n places, or every mutant if n is 0, in the order of lines."""
    if n == 0:
        return [mutant for place in places for mutant in place]
    chosen = rng.sample(places, min(n, len(places)))
    return sorted((rng.choice(place) for place in chosen), key=lambda mutant: mutant.line)


def changed_lines(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return "\n".join([*(f"    - {x.strip()}" for x in old), *(f"    + {x.strip()}" for x in new)])


def copy_repository(tree: Path) -> None:
    """Copy the tracked files as they are; the tree keeps its path, to which the cache belongs."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True)
    for name in filter(os.path.isfile, listed.stdout.split("\0")):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, target)
    # Installed commands and data of the tests are found in the copy, too.
    (tree / ".venv-test").symlink_to(Path(".venv-test").resolve())


def commands(area: Area, args: argparse.Namespace) -> list[str]:
    """Return the commands that run the quick tests, and the slow ones unless `--quick`."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m", "not slow"]
    tests = [f"tests/{name}.py" for name in area.tests.split()]
    slow = " or ".join(area.slow.split())
    chosen = [[]] if not slow else [["-k", f"not ({slow})"], ["-k", slow]]
    if args.quick:
        chosen = chosen[:1]
    return [shlex.join([args.python, "-m", "pytest", *options, *k, *tests]) for k in chosen]


def baseline(command: str) -> float:
    """Run the tests without a mutation; return the seconds after which a mutant counts as hung."""
    for _ in range(2):  # the first run compiles
        start = time.monotonic()
        outcome, output = run_tests(command, 3600)
        if outcome != TestOutcome.SURVIVED:
            sys.exit(f"{output}\nThe tests fail without a mutation: {command}")
    return 60 + 3 * (time.monotonic() - start)


def passes(command: str, seconds: float) -> bool:
    return run_tests(command, seconds)[0] == TestOutcome.SURVIVED


def run_area(area: Area, modules: list[Path], args: argparse.Namespace) -> tuple[int, int]:
    """Return how many mutants failed a test, and how many there were."""
    os.environ.pop("NUMBA_DISABLE_JIT", None)
    if area.is_interpreted:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    runs = [(command, baseline(command)) for command in commands(area, args)]
    killed = total = 0
    for module in modules:
        chosen = sample(mutants(module), args.sample, random.Random(f"{args.seed} {module}"))
        failed = 0
        for operator, occurrence, line in chosen:
            with use_mutation(module, operator, occurrence) as (before, after):
                survived = all(passes(command, seconds) for command, seconds in runs)
            failed += not survived
            if survived:
                changes = changed_lines(before, after)
                print(f"{module}:{line} {type(operator).__name__}\n{changes}", flush=True)
        if chosen:
            print(f"{module}: {failed} of {len(chosen)} mutants failed a test", flush=True)
        killed, total = killed + failed, total + len(chosen)
    return killed, total


def selected(names: list[str]) -> dict[str, list[Path]]:
    """Return the modules to mutate, by area."""
    package = Path("streaml1")
    all_modules = {
        name: [path for glob in area.modules.split() for path in sorted(package.glob(glob))]
        for name, area in AREAS.items()
    }
    tests = {Path(f"tests/{test}.py") for area in AREAS.values() for test in area.tests.split()}
    if missing := [str(test) for test in tests if not test.exists()]:
        sys.exit(f"AREAS names tests that do not exist: {', '.join(missing)}")
    chosen: dict[str, list[Path]] = {}
    for name in names or AREAS:
        by_file = [area for area, modules in all_modules.items() if Path(name) in modules]
        if name in AREAS:
            chosen[name] = all_modules[name]
        elif by_file:
            chosen.setdefault(by_file[0], []).append(Path(name))
        else:
            sys.exit(f"no area and no module of one: {name!r}; areas are {', '.join(AREAS)}")
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="AREA or FILE")
    parser.add_argument("--sample", type=int, default=40, help="mutants per module, 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="leave out the slow tests")
    parser.add_argument("--folder", type=Path, default="build/mutate", help="holds the copy")
    parser.add_argument("--python", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    folder, chosen = args.folder.resolve(), selected(args.names)
    copy_repository(folder / "tree")
    os.chdir(folder / "tree")
    os.environ |= {"PYTHONPATH": str(folder / "tree"), "NUMBA_CACHE_DIR": str(folder / "cache")}
    for name, modules in chosen.items():
        killed, total = run_area(AREAS[name], modules, args)
        if total:
            print(f"{name}: {killed} of {total} mutants, {killed / total:.0%}", flush=True)


if __name__ == "__main__":
    main()
