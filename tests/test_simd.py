"""The table of SIMD operations: complete, and right about what runs interpreted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core import simd
from streaml1.core.jit import kernel
from streaml1.core.simd.math import binary_exponent

COLUMNS = ("name", "types", "meaning", "AVX-512", "AVX2", "twin")


def table() -> list[dict[str, str]]:
    """Read the rows of the table in the docstring of `streaml1.core.simd`."""
    assert simd.__doc__ is not None
    rows: list[dict[str, str]] = []
    bounds: list[tuple[int, int]] = []
    for line in simd.__doc__.splitlines():
        if re.fullmatch(r"=+(  =+)+", line):
            bounds = [match.span() for match in re.finditer("=+", line)]
        elif not line:
            bounds = []
        elif bounds:
            cells = [line[start:end].strip() for start, end in bounds]
            if tuple(cells) != COLUMNS:
                rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def test_the_table_lists_all_operations() -> None:
    names = [row["name"] for row in table()]
    assert sorted(names) == simd.__all__
    for row in table():
        assert all(row.values()), row
        assert row["twin"] in ("yes", "no-op", "-")


def test_each_operation_is_defined_in_one_module() -> None:
    modules = [path.stem for path in Path(simd.__file__).parent.glob("*.py")]
    assert {"bits", "f64x8", "load_store", "math", "raw_memory", "u64x8"} == {*modules} - {
        "__init__"
    }
    for name in simd.__all__:
        assert getattr(simd, name) is not None


INTERPRETED = """
from numba.extending import _Intrinsic
from streaml1.core import simd
compiled_only = [name for name in simd.__all__ if isinstance(getattr(simd, name), _Intrinsic)]
print(*compiled_only)
"""


def test_the_table_knows_what_runs_interpreted(python: Callable[..., str]) -> None:
    compiled_only = set(python("-c", INTERPRETED, NUMBA_DISABLE_JIT="1").split())
    # A function that raises NotImplementedError.
    compiled_only.add("rule_at")
    assert {row["name"] for row in table() if row["twin"] == "-"} == compiled_only


@kernel
def exponents(x: np.ndarray, found: np.ndarray) -> None:
    for k in range(len(x)):
        found[k] = binary_exponent(x[k])


@given(st.lists(st.floats(0.0, allow_infinity=True), max_size=20))
def test_binary_exponents_are_those_of_frexp(x: list[float]) -> None:
    extremes = [0.0, 5e-324, 2.0**-1022, np.nextafter(2.0**-1022, 0.0), 1.0, 1.7e308, math.inf]
    values = np.array([*x, *extremes])
    found = np.empty(len(values), np.int64)
    exponents(values, found)
    assert found.tolist() == [math.frexp(v)[1] for v in values.tolist()]
