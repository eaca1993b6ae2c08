"""Compilation: the one file that knows numba.

A rule is a class of plain Python methods over arrays. Loops call free *verbs* (`gather`,
`scatter`, ...); compiled, a verb becomes the method of that name of its first argument's class,
so that every loop is compiled once for each class of rule and is found on disk by the next
process. With `NUMBA_DISABLE_JIT=1` the same text runs interpreted, all but the raw memory.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import numpy as np
from llvmlite import ir
from numba import carray, config, njit
from numba.core import caching, cgutils
from numba.core import types as nbtypes
from numba.core.runtime import rtsys
from numba.extending import intrinsic, models, overload, register_model

__all__ = [
    "COMPILED",
    "LANES",
    "array_at",
    "bit_count",
    "borrowed",
    "eight_at",
    "eight_of",
    "entry",
    "float_of_bits",
    "generic",
    "greater",
    "gil_kernel",
    "high_product",
    "inlined",
    "is_cached",
    "kernel",
    "leading_zeros",
    "lesser",
    "load",
    "load_byte",
    "load_float",
    "load_word",
    "matches",
    "minus",
    "optional",
    "plus",
    "prefetch",
    "prefetch_at",
    "put_eight",
    "python_api",
    "row_kernel",
    "rule_at",
    "scratch",
    "store_word",
    "trailing_zeros",
    "signed",
    "times",
]

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = not config.DISABLE_JIT

_PACKAGE = Path(__file__).parent
_COMPILED_LAYERS = (
    *("jit.py", "hashing.py", "losses.py", "vectors.py", "rows.py"),
    *("parse/*.py", "names/*.py", "rules/*.py", "rules/parts/*.py", "online.py", "walk/*.py"),
    *("projection.py", "offline/*.py"),
)


def _digest() -> str:
    """A name for the text of all that is compiled."""
    texts = [p.read_bytes() for pat in _COMPILED_LAYERS for p in sorted(_PACKAGE.glob(pat))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


# numba keys its cache by the text of a kernel's own file alone: after an upgrade that changed
# only losses.py it would run the old code. The digest in the files' names prevents that.
_DIGEST = _digest()
_MARK = "kernels.digest"


def _drop_old_files(folder: Path) -> None:
    """Remove the machine code of other texts of this package, once for each new text."""
    mark = folder / _MARK
    try:
        if mark.exists() and mark.read_text() == _DIGEST:
            return
        for path in [*folder.glob("*.nbi"), *folder.glob("*.nbc")]:
            if _DIGEST not in path.name:
                path.unlink(missing_ok=True)
        mark.write_text(_DIGEST)
    except (OSError, ValueError):  # another process is at it, or the folder may only be read
        return


def _locators() -> str:
    """Locators whose file names carry the digest, listed as numba's setting wants them."""
    names = []
    for base in ("UserProvided", "InTree", "UserWide", "Zip"):
        locator = getattr(caching, f"{base}CacheLocator", None)
        if locator is None:
            continue

        def get_disambiguator(self: Any, _base: Any = locator) -> str:
            return f"{_base.get_disambiguator(self)}-{_DIGEST}"

        def ensure_cache_path(self: Any, _base: Any = locator) -> None:
            _base.ensure_cache_path(self)
            _drop_old_files(Path(self.get_cache_path()))

        methods = {
            "get_disambiguator": get_disambiguator,
            "ensure_cache_path": ensure_cache_path,
        }
        name = f"_{base}"
        globals()[name] = type(name, (locator,), methods)
        names.append(f"{__name__}.{name}")
    return ",".join(names)


_LOCATORS = _locators()


@contextmanager
def _digest_in_the_name() -> Iterator[None]:
    if not hasattr(config, "CACHE_LOCATOR_CLASSES"):  # another numba: its own naming
        yield
        return
    saved, config.CACHE_LOCATOR_CLASSES = config.CACHE_LOCATOR_CLASSES, _LOCATORS
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = saved


class _QuickCache(caching.FunctionCache):
    """numba's cache of one function, that does not load the compiler to look for it.

    Numba has all that it can compile registered first, scipy's linear algebra among it: half a
    second of a new process. Code from the disk needs none of that, and what is to be compiled
    after all has it registered then.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _quick(compiled: Any) -> Any:
    """A kernel whose code is looked for quickly, in the versions of numba where that is known."""
    own = {"_guard_against_spurious_io_errors", "_load_overload"}
    cache = getattr(compiled, "_cache", None)
    if type(cache) is caching.FunctionCache and own <= set(dir(cache)):
        cache.__class__ = _QuickCache
    return compiled


def _compile(fn: Any, **options: Any) -> Any:
    with _digest_in_the_name():
        try:
            return _quick(njit(cache=True, error_model="numpy", **options)(fn))
        except RuntimeError:  # no folder can be written: a read-only image without a home
            return njit(error_model="numpy", **options)(fn)


def kernel(fn: F) -> F:
    """Compile `fn` at its first call, to run without the interpreter lock, cached on disk."""
    compiled: F = _compile(fn, nogil=True)
    return compiled


def gil_kernel(fn: F) -> F:
    """Compile `fn` as `kernel` does, but keep the lock: for calls of a microsecond."""
    compiled: F = _compile(fn)
    return compiled


def inlined(fn: F) -> F:
    """Compile `fn` into the kernels that call it."""
    compiled: F = _compile(fn, forceinline=True)
    return compiled


def row_kernel(fn: Callable[..., Any], rule: type) -> Any:
    """`fn` with its global name `Rule` bound to the class `rule`, compiled, keeping the lock.

    A call that hands over a rule costs two microseconds before any work; the address of an array
    of addresses, with the rule rebuilt inside by `rule_at`, a twentieth of that. Addresses do not
    tell the class, so it is bound before compilation.
    """
    bound = types.FunctionType(fn.__code__, {**fn.__globals__, "Rule": rule}, fn.__name__)
    bound.__qualname__ = f"{fn.__qualname__}[{rule.__name__}]"
    bound.__module__ = fn.__module__
    return _compile(bound)


def entry(compiled: Any, *argument_types: str) -> Any:
    """What calls a kernel with arguments of given types alone, at half the cost.

    Types are numba's names, such as `"int64"`.
    """
    wanted = tuple(getattr(nbtypes, name) for name in argument_types)
    compiled.compile(wanted)
    # Half public: the dispatcher itself does as well, after a look at each argument's type.
    return getattr(compiled.overloads[wanted], "entry_point", compiled)


def is_cached(compiled: Any) -> bool:
    """Whether the machine code of a kernel is kept on disk."""
    return bool(getattr(getattr(compiled, "_cache", None), "_cache_path", ""))


# A verb that stays a call counts each array of its rule up and down, borrowed or not: some ten
# nanoseconds an array.
_VERB = {"error_model": "numpy", "forceinline": True}


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


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(nbtypes.voidptr))

    return nbtypes.voidptr(address), codegen


def _hint(context: Any, builder: Any, place: Any) -> Any:
    pointer = builder.bitcast(place, context.get_value_type(nbtypes.voidptr))
    i32 = ir.IntType(32)
    hint = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    call = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0i8")
    # As for reading, though some of it is written: else threads that read would fight for it.
    builder.call(call, [pointer, i32(0), i32(3), i32(1)])
    return context.get_dummy_value()


@intrinsic
def _prefetch(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _hint(context, builder, builder.gep(data, [args[1]]))

    return nbtypes.void(array, k), codegen


@intrinsic
def prefetch_at(typingctx: Any, address: Any) -> Any:
    """Hint that memory at an address is about to be read; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], context.get_value_type(nbtypes.voidptr))
        return _hint(context, builder, place)

    return nbtypes.void(nbtypes.uint64), codegen


def prefetch(array: Any, k: Any) -> None:
    """Hint that `array[k]`, k of type uint64, is about to be used; no effect interpreted."""


@overload(prefetch, inline="always")
def _prefetch_compiled(array: Any, k: Any) -> Any:
    def compiled(array: Any, k: Any) -> None:
        _prefetch(array, k)

    return compiled


@intrinsic
def _borrowed(typingctx: Any, rule: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lent = args[0]
        for i, kind in enumerate(rule.types):
            array = context.make_array(kind)(context, builder, builder.extract_value(lent, i))
            for owner in ("meminfo", "parent"):
                setattr(array, owner, cgutils.get_null_value(getattr(array, owner).type))
            lent = builder.insert_value(lent, array._getvalue(), i)
        return lent

    return rule(rule), codegen


def borrowed(rule: Any) -> Any:
    """The same rule, with arrays that are not counted as references to their memory.

    A loop that hands a rule to verbs counts each of its arrays up and down for each verb: some
    ten nanoseconds an array and a row. Whoever calls the kernel holds the rule all the while.
    """
    return rule


@overload(borrowed)
def _borrowed_compiled(rule: Any) -> Any:
    def compiled(rule: Any) -> Any:
        return _borrowed(rule)

    return compiled


@intrinsic
def load(typingctx: Any, address: Any) -> Any:
    """Read the 8 bytes at a memory address as a uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def load_float(typingctx: Any, address: Any) -> Any:
    """Read the 8 bytes at a memory address as a float; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

    return nbtypes.float64(nbtypes.uint64), codegen


@intrinsic
def load_word(typingctx: Any, address: Any) -> Any:
    """As `load`, of any address: it need not be a multiple of 8; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def load_byte(typingctx: Any, address: Any) -> Any:
    """Read the byte at a memory address as a uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def store_word(typingctx: Any, address: Any, word: Any) -> Any:
    """Write the 8 bytes of a uint64 to a memory address of any kind; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store(args[1], place, align=1)
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def matches(typingctx: Any, address: Any, byte: Any) -> Any:
    """Which of the 64 bytes at a memory address are equal to one, a bit each; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = ir.VectorType(ir.IntType(8), 64)
        there = builder.load(builder.inttoptr(args[0], block.as_pointer()), align=1)
        one = builder.trunc(args[1], ir.IntType(8))
        wanted = builder.insert_element(
            ir.Constant(block, ir.Undefined), one, ir.Constant(ir.IntType(32), 0)
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(wanted, wanted, everywhere)
        return builder.bitcast(builder.icmp_unsigned("==", there, wanted), ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def trailing_zeros(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are zero below the lowest that is not; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def leading_zeros(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are zero above the highest that is not; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def bit_count(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are not zero; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def high_product(typingctx: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def float_of_bits(typingctx: Any, bits: Any) -> Any:
    """The float that is written by 64 bits; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return nbtypes.float64(nbtypes.uint64), codegen


# Eight floats as one value: a cache line, and one instruction on what has vectors so wide.

LANES = 8


class _Eight(nbtypes.Type):
    def __init__(self) -> None:
        super().__init__("Eight")


_EIGHT = _Eight()
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _on_eights(build: Callable[..., Any], twin: Any) -> Any:
    """An operation on two values of eight floats: what builds its code, and numpy's for it."""

    @intrinsic
    def compiled(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return build(builder, *args)

        return _EIGHT(_EIGHT, _EIGHT), codegen

    return compiled if COMPILED else twin


plus = _on_eights(lambda builder, a, b: builder.fadd(a, b), np.add)
minus = _on_eights(lambda builder, a, b: builder.fsub(a, b), np.subtract)
times = _on_eights(lambda builder, a, b: builder.fmul(a, b), np.multiply)
lesser = _on_eights(
    lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b),
    lambda a, b: np.where(a < b, a, b),
)
greater = _on_eights(
    lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b),
    lambda a, b: np.where(a > b, a, b),
)


def _signed(builder: Any, size: Any, like: Any) -> Any:
    signs = builder.and_(builder.bitcast(like, _BITS), ir.Constant(_BITS, [-(2**63)] * LANES))
    return builder.bitcast(builder.or_(builder.bitcast(size, _BITS), signs), _VECTOR)


# The first must not be below zero.
signed = _on_eights(_signed, np.copysign)


@intrinsic
def _eight_at(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], _VECTOR.as_pointer()))
        loaded.align = 8
        return loaded

    return _EIGHT(nbtypes.uint64), codegen


@intrinsic
def _put_eight(typingctx: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = builder.store(args[1], builder.inttoptr(args[0], _VECTOR.as_pointer()))
        stored.align = 8
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, _EIGHT), codegen


@intrinsic
def _eight_of(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        none, index = ir.Constant(_VECTOR, ir.Undefined), ir.IntType(32)
        first = builder.insert_element(none, args[0], ir.Constant(index, 0))
        zeros = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)
        return builder.shuffle_vector(first, none, zeros)

    return _EIGHT(nbtypes.float64), codegen


def _eight_in_memory(address: Any) -> Any:
    return array_at(address, LANES, np.float64).copy()


def _put_into_memory(address: Any, value: Any) -> None:
    array_at(address, LANES, np.float64)[:] = value


eight_at = _eight_at if COMPILED else _eight_in_memory
put_eight = _put_eight if COMPILED else _put_into_memory
eight_of = _eight_of if COMPILED else lambda x: np.full(LANES, x)

SCRATCH = 128


def scratch() -> Any:
    """128 floats of a kernel's own, not set to anything; they are gone when it returns."""
    return np.empty(SCRATCH)


@intrinsic
def _scratch(typingctx: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), SCRATCH))
        return builder.bitcast(place, context.get_value_type(nbtypes.voidptr))

    return nbtypes.voidptr(), codegen


@overload(scratch, inline="always")
def _scratch_compiled() -> Any:
    def compiled() -> Any:
        return carray(_scratch(), (SCRATCH,), np.float64)

    return compiled


def python_api(name: str, result: str, *arguments: str) -> Any:
    """A function of Python's C interface, for kernels that hold the interpreter lock.

    Types are numba's names; a pointer is a uint64.
    """
    types_of = [getattr(nbtypes, argument) for argument in arguments]
    return nbtypes.ExternalFunction(name, getattr(nbtypes, result)(*types_of))


def array_at(address: Any, n: Any, dtype: Any) -> Any:
    """The array of `n` elements that begins at a memory address."""
    kind = np.dtype(dtype)
    memory = (ctypes.c_char * (int(n) * kind.itemsize)).from_address(int(address))
    return np.frombuffer(memory, kind)


@overload(array_at)
def _array_at(address: Any, n: Any, dtype: Any) -> Any:
    def compiled(address: Any, n: Any, dtype: Any) -> Any:
        return carray(_pointer(address), (np.int64(n),), dtype)

    return compiled


def rule_at(rule: Any, frame: Any, first: int) -> Any:
    """The rule whose arrays' addresses and lengths stand in `frame` from `first`; compiled only.

    `rule` is a class whose fields are annotated with the types of their elements.
    """
    raise NotImplementedError("raw memory is read by compiled code only")


@overload(rule_at)
def _rule_at(rule, frame, first):  # type: ignore[no-untyped-def]
    cls = rule.instance_class
    names = {"Rule": cls, "array_at": array_at}
    arrays = []
    fields = get_type_hints(cls, include_extras=True).values()
    for i, field in enumerate(fields):
        names[f"dtype{i}"] = field.__metadata__[0]
        arrays.append(f"array_at(frame[first + {2 * i}], frame[first + {2 * i + 1}], dtype{i})")
    # The number of fields differs by rule, and compiled code cannot loop over types.
    text = f"def compiled(rule, frame, first):\n    return Rule({', '.join(arrays)})"
    exec(text, names)
    return names["compiled"]
