"""SIMD operations and raw memory for kernels: one vocabulary, built at the first use.

A vector has eight 64-bit lanes: one register on AVX-512, two on AVX2, four on SSE2. Names follow
Highway and simdjson. This table lists all operations; the modules say more about each.

Types: ``V`` is `F64x8`, ``W`` is `U64x8`, ``f`` a float, ``u`` a uint64, ``m`` a uint64 used as a
mask (bit i is lane, byte or element i), ``p`` the address of memory as a uint64, of any alignment
unless the table says "aligned", ``A`` an array. Operations without ``->`` return nothing.

Instructions: what LLVM emits, without moves and constants; ``=`` is the same as on AVX-512, once
per register. "Or 8 loads" stands for processors whose gathers are not faster (`has_fast_gather`).
Processors with neither extension run the same operations with SSE2 or scalar instructions and
return the same bits.

Twin: whether the operation runs in interpreted mode, too; ``-`` is for compiled code only.
Python's operators on ``W`` are described in `u64x8`, exponentials and logarithms in `math`.

Arithmetic
----------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
add                    V V -> V, W W -> W, f f -> f  a + b                                VADDPD, VPADDQ           =                    yes
sub                    V V -> V, W W -> W, f f -> f  a - b                                VSUBPD, VPSUBQ           =                    yes
mul                    V V -> V, f f -> f            a * b                                VMULPD                   =                    yes
div                    V V -> V, f f -> f            a / b                                VDIVPD                   =                    yes
neg                    V -> V, f -> f                -a                                   VXORPD                   =                    yes
copysign               V V -> V, f f -> f            a >= 0 with the sign of b            VPTERNLOGQ               VANDPS, VORPS        yes
lane_min               V V -> V, f f -> f            a if a < b else b                    VMINPD                   =                    yes
lane_max               V V -> V, W W -> W, f f -> f  a if a > b else b                    VMAXPD, VPMAXUQ          VMAXPD, VPCMPGTQ     yes
exp2_int               V -> V                        2**n, whole n from -1022 to 1023     VADDPD, VPSLLQ           =                    yes
hsum                   V -> f                        sum of the lanes                     VADDSD                   =                    yes
exclusive_scan         W -> W                        for each lane the sum before it      VALIGNQ, VPADDQ          VPERM2I128, VPADDQ   -
splat                  f -> V                        the same value in all lanes          VBROADCASTSD             =                    yes
splat_u64              u -> W                        the same value in all lanes          VPBROADCASTQ             =                    yes
last_lane              W -> u                        lane 7                               VPEXTRQ                  =                    -
to_bits                V -> W, f -> int64            bits of floats as integers           no instruction           =                    yes
as_f64x8               W -> V                        bits of integers as floats           no instruction           =                    -
=====================  ============================  ===================================  =======================  ===================  =====

Comparison and masks
--------------------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
select_negative        V V V -> V                    x if a < 0 else y                    VCMPPD, masked VMOVUPD   VCMPPD, VBLENDVPD    yes
concat_upper_lower     V V -> V                      lanes 4 to 7 of a, 0 to 3 of b        VBLENDPD                 no instruction       yes
zero_first             V u -> V                      lanes 0 to n - 1 set to 0            VPCMPUQ, masked VMOVUPD  VPCMPGTQ, VPANDN     yes
any_negative           V -> bool                     any lane < 0                         VCMPPD, KORTEST          VCMPPD, VTESTPS      yes
all_less               W u -> bool                   all lanes < bound                    VPCMPUQ, KORTEST         VPCMPGTQ, VTESTPS    yes
movemask               W -> m                        lanes that are not 0                 VPTESTMQ                 VPCMPEQQ, VMOVMSKPS  -
lane_mask_from         u -> W                        all ones in lanes k to 7, else 0     VPCMPUQ, VPMOVM2Q        VPCMPGTQ             -
mask_ge                A u f -> m                    array[k:k + 64] >= bound             VCMPPD                   VCMPPD, VPMOVMSKB    yes
mask_eq                A u u -> m                    array[k:k + 8] == x                  VPCMPEQQ                 VPCMPEQQ, VMOVMSKPS  yes
mask_not_rising        A u -> W                      16 uint32: array[i] >= array[i + 1]  VPCMPUD, VPMOVM2D        VPMAXUD, VPCMPEQD    yes
=====================  ============================  ===================================  =======================  ===================  =====

Loads, stores and prefetch hints
--------------------------------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
load                   A u -> V                      array[k:k + 8]                       VMOVUPS                  =                    yes
load_f64x8             p -> V                        8 floats, aligned to 8 bytes         VMOVUPS                  =                    yes
store_f64x8            p V                           8 floats, aligned to 8 bytes         VMOVUPS                  =                    yes
load_u64x8             A u -> W                      array[k:k + 8], any unsigned dtype   VPMOVZX                  =                    yes
loadu_u64x8            p -> W                        8 uint64                             VMOVUPS                  =                    -
store_u64x8            p W                           8 uint64                             VMOVUPS                  =                    -
load_u32x8             p -> W                        8 uint32, zero-extended              VPMOVZXDQ                =                    -
store_u32x8            p W                           8 uint32, truncated                  VPMOVQD                  VSHUFPS, VPERMPD     -
load_u32_pairs         p -> W, W                     16 uint32: even and odd indices      VPANDD, VPSRLQ           VPBLENDD, VPSRLQ     -
load_every_fifth       p -> W                        uint32 at indices 0, 5, ..., 35      VPERMI2D                 VPBLENDD, VPERMD     -
load_u64               p -> u                        a uint64, aligned                    MOV                      =                    -
loadu_u64              p -> u                        a uint64                             MOV                      =                    -
load_f64               p -> f                        a float, aligned                     VMOVSD                   =                    -
load_u8                p -> u                        a byte                               MOVZX                    =                    -
store_u64              p u                           a uint64                             MOV                      =                    -
store_u32              p u                           the low 32 bits                      MOV                      =                    -
prefetch               A u                           the line of array[k] into L1         PREFETCHT0               =                    no-op
prefetch_early         A u                           the line of array[k] into L2         PREFETCHT1               =                    no-op
prefetch_at            p                             a line into L1                       PREFETCHT0               =                    -
=====================  ============================  ===================================  =======================  ===================  =====

Arrays, rules and functions in raw memory
-----------------------------------------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
array_at               p u dtype -> A                the array at an address              no instruction           =                    yes
rule_at                class A int -> rule           a rule from addresses of its arrays  MOV                      =                    -
call_f64               p tuple -> f                  calls the C function at an address   CALL                     =                    -
call_i64               p tuple -> int64              calls the C function at an address   CALL                     =                    -
borrowed               A -> A, rule -> rule          the same without reference counts    no instruction           =                    yes
stack_buffer           -> A                          128 floats on the stack              no instruction           =                    yes
=====================  ============================  ===================================  =======================  ===================  =====

Gathers and scatters
--------------------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
gather                 A A u -> V                    array[ids[k:k + 8]]                  VGATHERQPD or 8 loads    8 loads              yes
scatter                A A u V                       array[ids[k:k + 8]] = x, in order    8 stores                 =                    yes
gather_pairs           A A u -> V, V                 both floats of 16-byte elements      8 loads, VPERMI2PD       8 loads, VUNPCKLPD   yes
scatter_pairs          A A u V V                     both floats of 16-byte elements      8 stores                 =                    yes
addresses_of           A W -> W                      addresses of array[indices]          VPSLLQ, VPADDQ           =                    yes
gather_at              W u -> V                      floats at addresses + offset         VGATHERQPD or 8 loads    =                    yes
gather_u64             W -> W                        uint64 at addresses                  VPGATHERQQ or 8 loads    =                    -
scatter_u64            W W                           uint64 to addresses, in order        VPSCATTERQQ or 8 stores  8 stores             -
can_permute            p p p p -> bool               whether permute_u64 is faster        CMP                      False                -
permute_u64            p p W -> W                    gather_u64 near two addresses        VPERMT2B                 8 loads              -
lookup16               p W -> W                      lookup in a table of 16 uint64       VPERMT2Q                 as gather_u64        -
=====================  ============================  ===================================  =======================  ===================  =====

Bit manipulation
----------------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
bit_and                W W -> W                      a & b                                VANDPS                   =                    yes
bit_or                 W W -> W                      a | b                                VORPS                    =                    yes
shift_right            W W -> W                      a >> b                               VPSRLVQ                  =                    yes
lane_popcount          W -> W                        set bits of each lane                VPOPCNTQ                 VPSHUFB, VPSADBW     -
popcount               u -> u                        set bits                             POPCNT                   =                    -
ctz                    u -> u                        zeros below the lowest set bit       TZCNT                    =                    yes
clz                    u -> u                        zeros above the highest set bit      LZCNT                    =                    -
pext                   u m -> u                      bits selected by a mask, packed      PEXT                     =                    -
mul_high               u u -> u                      high 64 bits of the product          MULX                     =                    -
f64_from_bits          u -> f                        bits of an integer as a float        VMOVQ                    =                    -
store_bit_indices      p m u                         base + indices of set bits, uint32   VPCOMPRESSB, VPMOVZXBD   table, VPMOVZXBD     -
=====================  ============================  ===================================  =======================  ===================  =====

Blocks of 64 bytes
------------------
=====================  ============================  ===================================  =======================  ===================  =====
name                   types                         meaning                              AVX-512                  AVX2                 twin
=====================  ============================  ===================================  =======================  ===================  =====
byte_eq_mask           p u -> m                      bytes == b                           VPCMPEQB                 VPCMPEQB, VPMOVMSKB  -
byte_lt_mask           p u -> m                      bytes < b, unsigned                  VPCMPUB                  VPMAXUB, VPMOVMSKB   -
byte_in_mask           p u u u u -> m                bytes that equal a, b, c or d        VPSHUFB, VPCMPEQB        4 x VPCMPEQB         -
compress_bytes         p m p                         bytes selected by a mask, packed     VPCOMPRESSB              VPSHUFB by a table   -
compress_bytes_marked  p m p u u                     the same, marked by neighbours       VPCOMPRESSB              VPSHUFB by a table   -
compress_lowercase     p p m m m                     the same, in lower case              VPCOMPRESSB              VPSHUFB by a table   -
has_compress           -> bool                       whether there is VPCOMPRESSB         True (VBMI2)             False                -
=====================  ============================  ===================================  =======================  ===================  =====
"""  # noqa: E501

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaml1.core.jit.lazy_import import COMPILED, LazyFunction, before_first_compilation

if TYPE_CHECKING:
    from streaml1.core.simd.bits import (
        byte_eq_mask,
        byte_in_mask,
        byte_lt_mask,
        clz,
        compress_bytes,
        compress_bytes_marked,
        compress_lowercase,
        ctz,
        f64_from_bits,
        has_compress,
        mul_high,
        pext,
        popcount,
        store_bit_indices,
    )
    from streaml1.core.simd.f64x8 import (
        add,
        all_less,
        any_negative,
        bit_and,
        bit_or,
        concat_upper_lower,
        copysign,
        div,
        exp2_int,
        hsum,
        lane_max,
        lane_min,
        mul,
        neg,
        select_negative,
        shift_right,
        splat,
        splat_u64,
        sub,
        to_bits,
        zero_first,
    )
    from streaml1.core.simd.load_store import (
        addresses_of,
        gather,
        gather_at,
        gather_pairs,
        load,
        load_f64x8,
        load_u64x8,
        mask_eq,
        mask_ge,
        mask_not_rising,
        scatter,
        scatter_pairs,
        store_f64x8,
    )
    from streaml1.core.simd.raw_memory import (
        array_at,
        borrowed,
        call_f64,
        call_i64,
        load_f64,
        load_u8,
        load_u64,
        loadu_u64,
        prefetch,
        prefetch_at,
        prefetch_early,
        rule_at,
        stack_buffer,
        store_u32,
        store_u64,
    )
    from streaml1.core.simd.u64x8 import (
        as_f64x8,
        can_permute,
        exclusive_scan,
        gather_u64,
        lane_mask_from,
        lane_popcount,
        last_lane,
        load_every_fifth,
        load_u32_pairs,
        load_u32x8,
        loadu_u64x8,
        lookup16,
        movemask,
        permute_u64,
        scatter_u64,
        store_u32x8,
        store_u64x8,
    )

__all__ = [
    "add",
    "addresses_of",
    "all_less",
    "any_negative",
    "array_at",
    "as_f64x8",
    "bit_and",
    "bit_or",
    "borrowed",
    "byte_eq_mask",
    "byte_in_mask",
    "byte_lt_mask",
    "call_f64",
    "call_i64",
    "can_permute",
    "clz",
    "compress_bytes",
    "compress_bytes_marked",
    "compress_lowercase",
    "concat_upper_lower",
    "copysign",
    "ctz",
    "div",
    "exclusive_scan",
    "exp2_int",
    "f64_from_bits",
    "gather",
    "gather_at",
    "gather_pairs",
    "gather_u64",
    "has_compress",
    "hsum",
    "lane_mask_from",
    "lane_max",
    "lane_min",
    "lane_popcount",
    "last_lane",
    "load",
    "load_every_fifth",
    "load_f64",
    "load_f64x8",
    "load_u32_pairs",
    "load_u32x8",
    "load_u64",
    "load_u64x8",
    "load_u8",
    "loadu_u64",
    "loadu_u64x8",
    "lookup16",
    "mask_eq",
    "mask_ge",
    "mask_not_rising",
    "movemask",
    "mul",
    "mul_high",
    "neg",
    "permute_u64",
    "pext",
    "popcount",
    "prefetch",
    "prefetch_at",
    "prefetch_early",
    "rule_at",
    "scatter",
    "scatter_pairs",
    "scatter_u64",
    "select_negative",
    "shift_right",
    "splat",
    "splat_u64",
    "stack_buffer",
    "store_bit_indices",
    "store_f64x8",
    "store_u32",
    "store_u32x8",
    "store_u64",
    "store_u64x8",
    "sub",
    "to_bits",
    "zero_first",
]


def _modules() -> tuple[Any, ...]:
    from streaml1.core.simd import bits, f64x8, load_store, raw_memory, u64x8

    return bits, f64x8, load_store, raw_memory, u64x8


def _register() -> None:
    """Import the modules, which registers types and overloads of operators for numba."""
    _modules()


if COMPILED:
    before_first_compilation(_register)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = LazyFunction(lambda: _find(name)) if COMPILED else _find(name)
    return value


def _find(name: str) -> Any:
    [value] = [vars(module)[name] for module in _modules() if name in module.__all__]
    return value
