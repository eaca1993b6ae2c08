"""Import rules: package layers, no cycles, numba only in two packages, lazy heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import streaml1
from streaml1.models.registry import LEARNERS, Learner

PACKAGE = Path(__file__).parent.parent / "streaml1"

LAYERS = (
    ("core",),
    ("text", "optim"),
    ("features",),
    ("models", "sources"),
    ("datasets", "sklearn"),
    ("solvers",),
    ("training",),
    ("distributed", "serving"),
    ("cli",),
)
"""Packages from the bottom up. A package imports only packages of lower layers."""

LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}

FILES = sorted(PACKAGE.rglob("*.py"))


def shown(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path, *, at_import: bool = False) -> set[str]:
    """Return the full names that a file imports; with `at_import`, skip function bodies."""
    names: set[str] = set()
    nodes: list[ast.AST] = [tree_of(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and at_import:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and at_import:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        nodes += ast.iter_child_nodes(node)
    return names


MODULES = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in FILES}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}


def import_graph() -> dict[str, set[str]]:
    """Map each module to the package's modules that it imports, including within functions."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        graph[module] = set()
        for name in imports(path):
            if name.split(".")[0] == "streaml1":
                graph[module].add(name if name in MODULES else name.rpartition(".")[0])
        graph[module] &= MODULES.keys() - {module}
    return graph


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one node (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            start = stack.index(node)
            component = set(stack[start:])
            del stack[start:]
            if len(component) > 1:
                components.append(component)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return components


def package_of(name: str) -> str | None:
    """Return the package of a full name; None for top-level names and other distributions."""
    components = name.split(".")
    return (
        components[1]
        if components[0] == "streaml1" and len(components) > 1 and components[1] in LAYER
        else None
    )


def owner(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_top_level_has_only_the_listed_packages() -> None:
    assert {owner(path) for path in FILES} == {*LAYER, "__init__", "__main__"}
    names = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    assert names == {*LAYER, "__init__.py", "__main__.py", "py.typed"}
    assert len(names) <= 16 and len(LAYERS) <= 9


def may_import(package: str, imported: str) -> bool:
    """Return whether modules of a package may import a name."""
    other = package_of(imported)
    if other is not None:
        return other == package or LAYER[other] < LAYER[package]
    # The public names are for users; the command line is the only user in the package.
    of_users = imported.split(".")[0] == "streaml1" and imported != "streaml1.__version__"
    return package == "cli" or not of_users


def test_imports_point_to_lower_layers() -> None:
    within = [path for path in FILES if not owner(path).startswith("__")]  # see test_public_names
    wrong = [
        f"{shown(path)} imports {name}"
        for path in within
        for name in imports(path)
        if not may_import(owner(path), name)
    ]
    assert not wrong
    assert not may_import("core", "streaml1.text.vw") and not may_import("models", "streaml1.load")


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set(), "f": {"a", "e"}}
    assert cycles(graph) == [{"b", "c"}]
    assert cycles({**graph, "e": {"a"}}) == [set("abcde")]


def test_imports_have_no_cycles() -> None:
    """Include imports within functions and for type checkers."""
    graph = import_graph()
    assert graph["streaml1.core.simd"] >= {"streaml1.core.simd.bits"}
    assert not cycles(graph)


BUILT_ON = {"softmax_ball": "l1_ball", "scaled_softmax": "softmax"}


def test_update_rules_do_not_import_each_other() -> None:
    """Allow a rule that wraps another one: averaged weights, one per label or scaled values."""
    shared = {"__init__", "update_rule", "rule_state", "averaged", "loop", "losses", "tasks"}
    shared |= {"centred_rule", "fixed_point_rule"}  # bases of rules
    rules = {path.stem for path in (PACKAGE / "optim").glob("*.py")} - shared
    assert {"elastic_net", "l1_ball", "l1_ball_tree"} <= rules
    for path in (PACKAGE / "optim").rglob("*.py"):
        allowed = {BUILT_ON.get(path.stem), path.stem.removeprefix("averaged_")}
        for imported in imports(path):
            if imported.startswith("streaml1.optim."):
                target = imported.split(".")[2]
                assert target not in rules or target in allowed, f"{path.name} imports {imported}"
        if path.parent.name == "structures":
            assert "    def margin(" not in path.read_text()


def roots(names: set[str]) -> set[str]:
    """Return the distributions or packages that full names begin with."""
    return {name.split(".")[0] for name in names}


def test_only_core_imports_numba() -> None:
    """Modules needed for a first prediction must not import it at import time either."""
    light = ("__init__", "lazy_import", "decorators", "cache_dir", "object_cache", "loader")
    compilers = {"numba", "llvmlite"}
    users = {path for path in FILES if roots(imports(path)) & compilers}
    assert users
    for path in users:
        assert path.parent.name in ("jit", "simd"), shown(path)
        if path.parent.name == "jit" and path.stem in light:
            assert not roots(imports(path, at_import=True)) & compilers, shown(path)
    for path in FILES:
        if path.name not in ("__init__.py", "lazy_imports.py"):
            assert "import_module" not in path.read_text(), shown(path)


def test_heavy_libraries_are_imported_on_demand() -> None:
    allowed = {"cli": {"click"}, "sklearn": {"sklearn"}}
    heavy = {"pandas", "polars", "scipy", "matplotlib", "sklearn", "rich", "click", "kafka",
             "prometheus_client"}  # fmt: skip
    loaded = {path: roots(imports(path, at_import=True)) & heavy for path in FILES}
    assert {name for names in loaded.values() for name in names} == {"click", "sklearn"}
    for path, names in loaded.items():
        assert names <= allowed.get(owner(path), set()), shown(path)


def test_public_names() -> None:
    """The package imports nothing eagerly and exports names of the public packages."""
    path = PACKAGE / "__init__.py"
    assert {package_of(name) for name in imports(path, at_import=True)} == {None}
    offered = {package_of(name) for name in imports(path)} - {None}
    homes = streaml1._homes()
    assert set(homes) == set(streaml1.__all__)
    assert {home.split(".")[0] for home in homes.values()} | {*streaml1._SUBPACKAGES} == offered
    for name, home in homes.items():
        assert name in import_module(f"streaml1.{home}").__all__


WITH_REGISTRY = (PACKAGE / "__init__.py", PACKAGE / "models" / "__init__.py")


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=lambda learner: learner.name)
def test_type_checkers_see_every_learner(learner: Learner) -> None:
    """Nothing else fails if the star import of a learner is forgotten, as it is not executed."""
    star = f"streaml1.models.{learner.module}.*"
    registry = PACKAGE / "models" / "registry.py"
    line = f"from {star[:-2]} import *"
    assert star in imports(registry), f"add the line {line!r} to {shown(registry)}"


def names_of(path: Path) -> tuple[list[str], set[str]]:
    """Return the names in the `__all__` of a file, and the names that it defines or imports."""
    tree = tree_of(path)
    offered: list[str] = []
    defined: set[str] = set()
    for node in tree.body:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                defined.add(part.id)
            if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__":
                offered = [] if path in WITH_REGISTRY else ast.literal_eval(part.value)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
    defined |= {name.rpartition(".")[2] for name in imports(path)}
    if path in WITH_REGISTRY:  # includes the classes of the registry
        module = import_module(".".join(path.relative_to(PACKAGE.parent).parent.parts))
        offered, defined = (
            module.__all__,
            {name for name in module.__all__ if hasattr(module, name)},
        )
    return offered, defined


def test_all_lists_defined_names() -> None:
    """Each name in `__all__` occurs once and is defined or imported in the file."""
    for path in FILES:
        offered, defined = names_of(path)
        assert len(offered) == len(set(offered)), shown(path)
        assert set(offered) <= defined, shown(path)
        assert offered or path.name == "__main__.py" or not defined, shown(path)


def named_tuples(trees: Iterable[ast.AST]) -> set[str]:
    """Return the names of all classes that derive from NamedTuple."""
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {cls.name for cls in classes if "NamedTuple" in map(ast.unparse, cls.bases)}


def returned_calls(tree: ast.AST, decorators: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each function with one of the decorators and the calls in its return statements."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        used = {ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list}
        for node in ast.walk(function) if used & decorators else ():
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                yield function.name, ast.unparse(node.value.func)


CALLED_BY_KERNELS_ONLY = {"_parse_other_scalar"}


def test_kernels_return_no_named_tuples_to_python() -> None:
    """numba's code that builds them crashes if a signal arrives: see `streaml1.core.jit`."""
    trees = [*map(tree_of, FILES)]
    named = named_tuples(trees)
    assert {"LineCounts", "EpochResult", "JsonScalar"} <= named
    violations = {
        name
        for tree in trees
        for name, called in returned_calls(tree, {"kernel", "gil_kernel", "bound_kernel"})
        if called in named
    }
    assert violations == CALLED_BY_KERNELS_ONLY
