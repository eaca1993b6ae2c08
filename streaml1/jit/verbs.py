"""Verbs: in a kernel, the methods of the class of the rule at hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba.core import cgutils
from numba.core import types as nbtypes
from numba.extending import intrinsic, overload

from streaml1.jit.compilation import COMPILED
from streaml1.jit.parts import PART

__all__ = ["borrowed", "generic", "optional"]

F = TypeVar("F", bound=Callable[..., Any])

# A verb that stays a call counts each array of its rule up and down, borrowed or not: some ten
# nanoseconds an array.
_VERB = {"error_model": "numpy", **PART}


def generic(verb: F) -> F:
    """Make `verb(rule, ...)`, inside a kernel, the method of that name of the rule's class."""

    @overload(verb, strict=False, jit_options=_VERB)
    def resolve(rule: Any, *args: Any) -> Any:
        return vars(getattr(rule, "instance_class", object)).get(verb.__name__)

    return verb


def optional(verb: F) -> F:
    """Do as `generic`, but `verb` itself is the method of a class that has none."""
    name = verb.__name__

    @functools.wraps(verb)
    def call(rule: Any, *args: Any) -> Any:
        method = getattr(rule, name, None)
        return verb(rule, *args) if method is None else method(*args)

    @overload(call, strict=False, jit_options=_VERB)
    def resolve(rule: Any, *args: Any) -> Any:
        return vars(getattr(rule, "instance_class", object)).get(name, verb)

    return cast(F, call)


def _lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    array = context.make_array(kind)(context, builder, value)
    for owner in ("meminfo", "parent"):
        setattr(array, owner, cgutils.get_null_value(getattr(array, owner).type))
    return array._getvalue()


@intrinsic
def _borrowed(typingctx: Any, owned: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lent = args[0]
        if isinstance(owned, nbtypes.Array):
            return _lent(context, builder, owned, lent)
        for i, kind in enumerate(owned.types):
            array = _lent(context, builder, kind, builder.extract_value(lent, i))
            lent = builder.insert_value(lent, array, i)
        return lent

    return owned(owned), codegen


def _itself(owned: Any) -> Any:
    return owned


# The same array or rule, with arrays that are not counted as references to their memory. A loop
# that hands one to functions counts it up and down for each: some ten nanoseconds an array and a
# row. Whoever calls the kernel holds it all the while.
borrowed = _borrowed if COMPILED else _itself
