"""Functions that are parts of kernels: their code is kept as LLVM's, for kernels to take in.

Numba makes every function that it compiles one that can be called: machine code of its own, a
wrapper for Python and one for C. A kernel has dozens of parts that are hardly ever called so, and
to make that of all of them is a third of the time that compiling takes.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

__all__ = ["PART", "Library"]


class Library(JITCodeLibrary):
    """Optimised code to be linked into other libraries, and not made machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "lowering_of_parts"

    def run_pass(self, state: Any) -> bool:
        codegen, target = state.targetctx.codegen(), state.targetctx
        state.library = Library(codegen, state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # Numba knows a function by what Python would call, a builtin: one of its own, then.
        name = ("a part: " + state.func_id.unique_name).format
        target.insert_user_function(name, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=name)
        return True


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Lowering if one is NativeLowering else one, what) for one, what in passes.passes
        ]
        passes.finalize()
        return [passes]


PART = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _Compiler,
}
"""Options of numba for such functions."""
