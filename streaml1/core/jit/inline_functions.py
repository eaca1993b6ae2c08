"""Functions that only kernels call: kept as LLVM IR, without machine code of their own.

By default numba makes every function it compiles callable by itself: machine code, a wrapper for
Python and one for C. A kernel inlines dozens of functions that are hardly ever called from
Python, and that would be a third of the compile time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

__all__ = ["INLINE_OPTIONS", "IRLibrary"]


class IRLibrary(JITCodeLibrary):
    """Optimized LLVM IR to be linked into other libraries; no machine code is generated."""

    def _optimize_final_module(self) -> None:
        # As numba's first pass. It runs a second one, which the kernel that inlines this function
        # repeats on all of it: a fifth of the compile time, without an effect on speed.
        codegen = self._codegen
        passes, builder = codegen._module_pass_manager(
            loop_vectorize=codegen._loopvect,
            slp_vectorize=False,
            opt=codegen._opt_level,
            cost="cheap",
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        # As in numba, except that the module is not added to the execution engine.
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _InlineLowering(NativeLowering):
    _name = "streaml1_inline_lowering"

    def run_pass(self, state: Any) -> bool:
        codegen, target = state.targetctx.codegen(), state.targetctx
        state.library = IRLibrary(codegen, state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # numba registers a lowered function under its C entry point, an address. There is none
        # here, so a unique callable stands in for it: a bound method of a string with the name.
        key = ("inlined: " + state.func_id.unique_name).format
        target.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class _InlineCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_InlineLowering if pass_ is NativeLowering else pass_, description)
            for pass_, description in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


INLINE_OPTIONS = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _InlineCompiler,
}
"""Options of `numba.njit` for functions that are only inlined."""
