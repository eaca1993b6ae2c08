"""On-disk cache of kernels with one signature, as object files that load without a compiler.

Compared with numba's own cache this saves 0.6 s of a process's start, since numba is not imported,
and 1.0 us per call, since numba's dispatcher is not called. `object_file` compiles the object
files, `loader` loads them.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from streaml1.core.jit.cache_dir import (
    CompileLock,
    cache_directories,
    compiler_versions,
    discard,
    discard_directory,
    read_text,
    source_digest,
    warn_unwritable,
)
from streaml1.core.jit.lazy_import import load_numba
from streaml1.core.jit.loader import ObjectCode, host_processor, load_address, load_function
from streaml1.core.jit.prebuilt import object_file_stem, prebuilt
from streaml1.core.lazy_imports import gc_disabled

__all__ = ["load_or_compile"]


def load_or_compile(
    fn: Callable[..., Any],
    argument_types: Sequence[str],
    nogil: bool = False,
    native: bool = False,
) -> Any:
    """Return `fn` compiled for `argument_types`, from the cache or compiled and cached now.

    Parameters
    ----------
    fn
        The function.
    argument_types, nogil
        As in `decorators.typed_kernel`.
    native
        Whether to return the address of a C function, as an int, instead of a Python function.
    """
    # The digest in the file name covers all sources but, in tests, not functions outside of the
    # package; their own bytecode does.
    bytecode = marshal.dumps(_without_paths(fn.__code__), 2)  # later formats depend on refcounts
    kernel = _digest([bytecode.hex(), *argument_types, nogil, native])
    key = f"{kernel}-{_environment()}"
    name = _file_name(fn, kernel)
    load: Callable[[ObjectCode], Any] = load_address if native else load_function
    for cached in (_read_cached(name, key), _read_prebuilt(name, kernel)):
        if cached is not None:
            with suppress(Exception):  # LLVM rejects it: compile again
                return load(cached)
    code = _compile(fn, argument_types, nogil, native, name, key)
    return load(code) if isinstance(code, ObjectCode) else code


def _without_paths(code: CodeType) -> CodeType:
    """Return bytecode without file names, which differ between a build and an installation."""
    constants = (_without_paths(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename="", co_consts=tuple(constants))


def _digest(inputs: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def _file_name(fn: Callable[..., Any], kernel: str) -> str:
    module = fn.__module__.rpartition(".")[2]
    tag = sys.implementation.cache_tag
    stem = f"{module}.{fn.__qualname__}-{tag}-{source_digest()}-{kernel[:8]}"
    name = f"{stem}-{_environment()[:8]}.code"
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name)


def _read_cached(name: str, key: str) -> ObjectCode | None:
    """Return a file from the cache, or None."""
    found = (_read(directory / name, key) for directory in cache_directories().search)
    return next((code for code in found if code is not None), None)


def _read_prebuilt(name: str, kernel: str) -> ObjectCode | None:
    """Return the file of a kernel from the package, or None."""
    packed = prebuilt()
    if packed is None:
        return None
    return _read(packed.directory / f"{object_file_stem(name)}.code", kernel)


def _read(path: Path, key: str) -> ObjectCode | None:
    """Return a file, or None if it is missing, damaged or its key does not begin with `key`."""
    with suppress(Exception):  # a damaged file can raise anything
        first_line, _, content = path.read_bytes().partition(b"\n")
        header = json.loads(first_line)
        is_whole = hashlib.sha256(content).hexdigest() == header["sha256"]
        if is_whole and header["for"].startswith(key):
            return ObjectCode(header["name"], content)
    return None


@cache
def _environment() -> str:
    """Return a digest of all that machine code depends on except the sources of kernels."""
    variables = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_"))
    variables = [v for v in variables if not v.startswith("NUMBA_CACHE_DIR=")]
    config = read_text(Path(".numba_config.yaml"))
    return _digest([sys.version, *compiler_versions(), host_processor(), *variables, config])


def _compile(
    fn: Callable[..., Any],
    argument_types: Sequence[str],
    nogil: bool,
    native: bool,
    name: str,
    key: str,
) -> Any:
    """Return object code compiled here or meanwhile by another process, or what numba compiles."""
    directory = cache_directories().writable
    lock = None if directory is None else CompileLock((directory / name).with_suffix(".lock"))
    try:
        if lock is not None and lock.acquire() and (code := _read_cached(name, key)) is not None:
            return code
        with gc_disabled():
            load_numba()
            from streaml1.core.jit.object_file import (
                NotSelfContainedError,
                address_by_numba,
                compile_to_object,
                numba_fallback,
            )

            try:
                symbol = _symbol(name, key)
                code = compile_to_object(fn, argument_types, symbol, nogil, native)
            except NotSelfContainedError:
                if native:
                    return address_by_numba(fn, argument_types)
                return numba_fallback(fn, argument_types, nogil)
        if directory is not None:
            _write(directory / name, code, key)
        return code
    finally:
        if lock is not None:
            lock.release()


def _symbol(name: str, key: str) -> str:
    """Return a symbol name for a kernel, unique since all loaded code shares one namespace."""
    return "streaml1_" + hashlib.sha256(f"{name} {key}".encode()).hexdigest()[:32]


def _write(path: Path, code: ObjectCode, key: str) -> None:
    header = {
        "for": key,
        "name": code.symbol,
        "sha256": hashlib.sha256(code.content).hexdigest(),
    }
    temporary = path.with_suffix(f".{os.getpid()}.half")
    try:
        discard_directory(path)
        temporary.write_bytes(json.dumps(header).encode() + b"\n" + code.content)
        temporary.replace(path)
    except OSError as error:  # the disk may be full: the next process compiles again
        warn_unwritable(path.parent, error)
    finally:
        discard(temporary)
