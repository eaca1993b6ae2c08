"""The state of an update rule, declared field by field.

An update rule is a named tuple of one-dimensional arrays. Each field is annotated with the type of
its array and with what the array is:

| declaration | the array holds | saved |
|---|---|---|
| `PerSlot` | `width` elements for each slot | yes, for the slots that are live |
| `PerRow` | one row of elements for each slot, as wide as the rule's `row_width` | by the rule |
| `Index` | elements for each slot that follow from the saved fields | no, rebuilt |
| `Ledger` | scalars that all slots share, as one record or a few floats | yes |
| `Scratch` | temporary values, or tables that exist for speed alone | no, rebuilt |

`RuleState` derives from these declarations what every rule needs: `size`, `nbytes`, `grow`, `remap`,
`state_dict`, `from_state_dict`, `drop`, `seen_mask`, `live_mask` and the dtype and shape part of
`check`. A rule is a subclass of this mixin and of the named tuple, and adds its compiled verbs and
what is special to it. `ScratchRule` also provides the room of a scratch array for the current row::

    class FTRLState(NamedTuple):
        slots: Annotated[Records, PerSlot(SLOT, dropped=(-0.0, 0.0))]
        scratch: Annotated[Records, Scratch(SCRATCH)]
        clock: Annotated[Records, Ledger(CLOCK)]

    class FTRL(ScratchRule, FTRLState): ...

Two conventions hold for every rule. A slot that no example has touched is all zero bits, and a slot
that was touched is not: the column that `seen_mask` reads is never +0.0 again. Where a rule needs a touched slot
to hold zero, it stores -0.0 or a tiny number.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import DTypeLike

from streaml1.core.rows import ensure
from streaml1.core.types import Bools, Ints
from streaml1.optim.structures.slot_arrays import grown, moved, scratch_for, zeros

__all__ = [
    "LOW",
    "MAX_STEPS",
    "Index",
    "Ledger",
    "PerRow",
    "PerSlot",
    "RuleState",
    "Scratch",
    "ScratchRule",
    "declared",
    "ensure_array",
    "ensure_keys",
    "new_arrays",
    "new_state",
    "slot_fields",
]

MAX_STEPS = 2**60
"""Bound of numbers of steps in a model file, far below where the next step would overflow."""

LOW = 1e-9
"""Bound of the rounding error of a running sum in units of the sum, in a model file."""


@dataclass(frozen=True, eq=False)
class PerSlot:
    """An array with `width` adjacent elements for each slot.

    Parameters
    ----------
    dtype
        Of the elements. Fields of a structured dtype are saved one by one, under their names.
    width
        Number of elements for each slot.
    extra
        Number of slots behind the last one that belong to no feature. They are not saved.
    keys
        For a `width` above 1: the key that each column is saved under. By default the array is
        saved as a whole, with shape (slots, width), under the name of the field.
    dropped
        What a slot holds after `drop`: one number, or one for each field of a structured dtype.
    seen
        Field of a structured dtype whose bits are not all zero once an example touched the slot.
        By default it is the first; of a plain dtype the first column decides.
    """

    dtype: DTypeLike
    width: int = 1
    extra: int = 0
    keys: tuple[str, ...] = ()
    dropped: float | tuple[float, ...] | None = None
    seen: str = ""

    def dropped_values(self, name: str) -> dict[str, float]:
        """Return what `drop` writes, by the keys of `column_keys`."""
        values = self.dropped if isinstance(self.dropped, tuple) else (self.dropped,)
        return {
            key: value
            for key, value in zip(self.column_keys(name), values, strict=True)
            if value is not None
        }

    def column_keys(self, name: str) -> tuple[str, ...]:
        """Return the keys of `state_dict` that belong to the field `name`."""
        return self.keys or np.dtype(self.dtype).names or (name,)

    def columns(self, array: Any, name: str) -> dict[str, Any]:
        """Return a view of the slots for each key: shape (slots,), or (slots, width)."""
        keys, fields = self.column_keys(name), np.dtype(self.dtype).names
        if fields:
            return {field: array[field] for field in fields}
        if self.width == 1:
            return {keys[0]: array}
        table = array.reshape(-1, self.width)
        if len(keys) == 1:
            return {keys[0]: table}
        return {key: table[:, i] for i, key in enumerate(keys)}


@dataclass(frozen=True, eq=False)
class PerRow:
    """An array with one row for each slot, as wide as the `row_width` of the rule.

    A rule with such a field saves and restores it itself.
    """

    dtype: DTypeLike


@dataclass(frozen=True, eq=False)
class Index:
    """An array with an element for each slot that `_rebuild_index` derives from the saved fields.

    `extra` elements follow, as in `PerSlot`. Growing keeps the content.
    """

    dtype: DTypeLike
    extra: int = 0


@dataclass(frozen=True, eq=False)
class Ledger:
    """`n` elements that all slots share; by default one record.

    `saved_as` is the key and the dtype under which they are saved, where these are not the name of
    the field and its dtype.
    """

    dtype: DTypeLike
    n: int = 1
    saved_as: tuple[str, DTypeLike] | None = None

    def stored(self, name: str) -> tuple[str, np.dtype[Any], int]:
        """Return the key, the dtype and the length of the saved array."""
        if self.saved_as is None:
            return name, np.dtype(self.dtype), self.n
        key, dtype = self.saved_as[0], np.dtype(self.saved_as[1])
        return key, dtype, self.n * np.dtype(self.dtype).itemsize // dtype.itemsize


@dataclass(frozen=True, eq=False)
class Scratch:
    """`n` elements at first that are never saved; the rule replaces the array as it needs."""

    dtype: DTypeLike
    n: int = 0


Field = PerSlot | PerRow | Index | Ledger | Scratch


def _declared(rule: Any) -> dict[str, Field]:
    """Return the declaration of each field of a rule, in the order of the fields."""
    hints = get_type_hints(rule, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in rule._fields}


def _slot_fields(rule: Any) -> tuple[tuple[str, PerSlot], ...]:
    """Return the `PerSlot` fields of a rule."""
    return tuple((n, field) for n, field in declared(rule).items() if isinstance(field, PerSlot))


def _ledgers_of(rule: Any) -> tuple[tuple[str, Ledger], ...]:
    """Return the `Ledger` fields of a rule."""
    return tuple((n, field) for n, field in declared(rule).items() if isinstance(field, Ledger))


# Assigned with a type, because mypy does not accept a class as an argument of a cached function.
declared: Callable[[Any], dict[str, Field]] = cache(_declared)
slot_fields: Callable[[Any], tuple[tuple[str, PerSlot], ...]] = cache(_slot_fields)
_ledgers: Callable[[Any], tuple[tuple[str, Ledger], ...]] = cache(_ledgers_of)


def ensure_array(array: Any, name: str, dtype: DTypeLike, shape: Sequence[int]) -> None:
    """Raise AssertionError unless a saved array has this dtype and shape."""
    expected = np.dtype(dtype)
    ensure(
        array.dtype == expected and array.shape == tuple(shape),
        f"{name} must be {expected} of shape {tuple(shape)}, got {array.dtype} of {array.shape}",
    )


def ensure_keys(arrays: dict[str, Any], expected: Sequence[str]) -> None:
    """Raise AssertionError unless exactly the expected arrays were saved."""
    ensure(
        set(arrays) == set(expected),
        f"the state must consist of {', '.join(expected)}, got {', '.join(arrays)}",
    )


class RuleState:
    """Everything about the state of a rule that follows from its declarations.

    To be inherited together with a named tuple whose fields are declared (see the module).
    """

    __slots__ = ()

    def _array(self, name: str) -> Any:
        return getattr(self, name)

    def _with(self, **arrays: Any) -> Self:
        """Return the same rule with some arrays replaced."""
        changed: Self = self._replace(**arrays)  # type: ignore[attr-defined]
        return changed

    @property
    def row_width(self) -> int:
        """Number of elements of a row; only rules with a `PerRow` field have one."""
        raise NotImplementedError(f"{type(self).__name__} has no rows")

    def _width_and_extra(self, field: Field) -> tuple[int, int] | None:
        """Return how many elements a slot has in a field, and how many slots follow the last."""
        if isinstance(field, PerSlot):
            return field.width, field.extra
        if isinstance(field, PerRow):
            return self.row_width, 0
        return (1, field.extra) if isinstance(field, Index) else None

    @property
    def size(self) -> int:
        """Number of slots."""
        for name, field in declared(type(self)).items():
            layout = self._width_and_extra(field)
            if layout is not None:
                return len(self._array(name)) // layout[0] - layout[1]
        raise TypeError(f"{type(self).__name__} has no array with an element for each slot")

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, in bytes."""
        return sum(int(self._array(name).nbytes) for name in declared(type(self)))

    def grow(self, d: int) -> Self:
        """Return the same rule with `d` slots, at least as many as now."""
        larger = {}
        for name, field in declared(type(self)).items():
            layout = self._width_and_extra(field)
            if layout is not None:
                width, extra = layout
                larger[name] = grown(self._array(name), (d + extra) * width)
        return self._with(**larger)

    def remap(self, new_slots: Ints, d: int) -> Self:
        """Return the rule with `d` slots to which slot j has moved as `new_slots[j]`.

        Slots with a negative entry are given back: they must not be live.
        """
        changed = {}
        for name, field in declared(type(self)).items():
            layout = self._width_and_extra(field)
            if layout is None:
                continue
            array, (width, extra) = self._array(name), layout
            if isinstance(field, Index):
                changed[name] = zeros((d + extra) * width, array)
            else:
                whole = array[: self.size * width]
                changed[name] = moved(whole, new_slots, d, width, extra)
        rule = self._with(**changed)
        rule._rebuild_index()
        return rule

    def _rebuild_index(self) -> None:
        """Fill the `Index` fields from the saved ones, after `remap` and `from_state_dict`."""

    def _rebuild_scratch(self) -> None:
        """Fill the `Scratch` fields from the saved ones, after `from_state_dict`."""

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        """Return the live slots and copies of all that later steps depend on."""
        slots = np.flatnonzero(self.live_mask())
        saved: dict[str, Any] = {}
        for name, field in declared(type(self)).items():
            array = self._array(name)
            if isinstance(field, PerSlot):
                for key, column in field.columns(array, name).items():
                    saved[key] = column[slots]
            elif isinstance(field, Ledger):
                key, dtype, _ = field.stored(name)
                saved[key] = array.copy() if field.saved_as is None else array.copy().view(dtype)
        return slots, saved

    @classmethod
    def saved_keys(cls) -> tuple[str, ...]:
        """Return the keys of `state_dict`, in its order."""
        keys: list[str] = []
        for name, field in declared(cls).items():
            if isinstance(field, PerSlot):
                keys += field.column_keys(name)
            elif isinstance(field, Ledger):
                keys.append(field.stored(name)[0])
        return tuple(keys)

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> Self:
        """Return the rule with `d` slots whose `state_dict` was (slots, arrays).

        Raises
        ------
        AssertionError
            If an array is missing, unknown, or of another dtype or shape.
        """
        ensure_keys(arrays, cls.saved_keys())
        rule = new_state(cls, d)
        rule._load_slots(slots, arrays)
        rule._load_ledgers(arrays)
        rule._rebuild_scratch()
        rule._rebuild_index()
        return rule

    def _load_slots(self, slots: Ints, arrays: dict[str, Any]) -> None:
        for name, field in slot_fields(type(self)):
            for key, column in field.columns(self._array(name), name).items():
                ensure_array(arrays[key], key, column.dtype, (len(slots), *column.shape[1:]))
                column[slots] = arrays[key]

    def _load_ledgers(self, arrays: dict[str, Any]) -> None:
        for name, field in _ledgers(type(self)):
            key, dtype, n = field.stored(name)
            saved = np.atleast_1d(arrays[key])  # a record without a dimension is accepted
            ensure_array(saved, key, dtype, (n,))
            # A copy: arrays from a file are not aligned, and kernels are compiled for those that
            # are.
            target = self._array(name)
            target[:] = saved if field.saved_as is None else saved.view(target.dtype)

    # The next three are the defaults of a rule without a scratch array, whose shared scalars never
    # leave their range; `ScratchRule` has one. The first and the last are compiled.

    def has_capacity(self, nnz: Any) -> bool:
        """Return whether a row of `nnz` non-zeros can be learnt without calling `reserve` first."""
        return True

    def reserve(self, nnz: int) -> Self:
        """Return the same rule with room for a row of `nnz` non-zeros."""
        return self

    def renormalize(self) -> None:
        """Rewrite all stored numbers as of now."""

    def live_mask(self) -> Bools:
        """Return which slots hold what later steps depend on.

        By default those with a non-zero number: a new slot is all zeros.
        """
        live = np.zeros(self.size, bool)
        for name, field in slot_fields(type(self)):
            array = self._array(name)[: self.size * field.width]
            for column in field.columns(array, name).values():
                live |= np.any(column != 0, axis=tuple(range(1, column.ndim)))
        return live

    def seen_mask(self) -> Bools:
        """Return which slots an example has touched."""
        name, field = slot_fields(type(self))[0]
        array = self._array(name)
        if np.dtype(field.dtype).names:
            return _has_bits(array[field.seen or np.dtype(field.dtype).names[0]])  # type: ignore[index]
        return _has_bits(array[: self.size * field.width : field.width])

    def drop(self, slots: Ints) -> None:
        """Set the weights of some slots to 0 as of now; the slots stay seen."""
        for name, field in slot_fields(type(self)):
            if field.dropped is None:
                raise NotImplementedError(f"{type(self).__name__} must define drop")
            columns = field.columns(self._array(name), name)
            for key, value in field.dropped_values(name).items():
                columns[key][slots] = value

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken; here, if an array has a wrong layout."""
        size = self.size
        for name, field in declared(type(self)).items():
            array, dtype = self._array(name), np.dtype(field.dtype)
            ensure(
                array.dtype == dtype and array.ndim == 1,
                f"{name} must be a one-dimensional array of {dtype}",
            )
            layout = self._width_and_extra(field)
            if layout is not None:
                n = (size + layout[1]) * layout[0]
                ensure(len(array) == n, f"{name} must have {n} elements, got {len(array)}")
            elif isinstance(field, Ledger):
                ensure(len(array) == field.n, f"{name} must have {field.n} elements")
                for column in (array[key] for key in dtype.names) if dtype.names else (array,):
                    is_nan = column.dtype.kind == "f" and np.isnan(column).any()
                    ensure(not is_nan, f"{name} has a NaN")


class ScratchRule(RuleState):
    """A rule whose field `scratch` holds an element for each non-zero of the current row."""

    __slots__ = ()

    def has_capacity(self: Any, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.scratch))

    def reserve(self: Any, nnz: int) -> Any:
        return self._with(scratch=scratch_for(nnz, self.scratch))


Rule = TypeVar("Rule", bound=RuleState)


def new_state(rule: type[Rule], d: int) -> Rule:
    """Return a rule with `d` slots whose arrays are all zeros.

    A rule with a `PerRow` field makes its rows itself: see `new_arrays`.
    """
    return rule(**new_arrays(rule, d))


def new_arrays(rule: type[RuleState], d: int, **made: Any) -> dict[str, Any]:
    """Return the arrays of a rule with `d` slots by field: those given, else zeros."""
    arrays = {}
    for name, field in declared(rule).items():
        if name in made:
            arrays[name] = made[name]
            continue
        if isinstance(field, PerSlot):
            n = (d + field.extra) * field.width
        elif isinstance(field, Index):
            n = d + field.extra
        elif isinstance(field, PerRow):
            raise TypeError(f"{rule.__name__} must make its rows itself")
        else:
            n = field.n
        arrays[name] = zeros(n, np.dtype(field.dtype))
    return arrays


def _has_bits(column: Any) -> Bools:
    """Return which numbers have a bit set: all but +0.0 and 0."""
    return np.asarray(column).view(np.dtype(f"u{column.dtype.itemsize}")) != 0
