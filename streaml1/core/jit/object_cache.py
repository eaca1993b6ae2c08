"""Kernels whose types are told: kept as machine code that is loaded without a compiler."""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from streaml1.core.jit.cache_dir import Turn, digest, folders
from streaml1.core.jit.lazy_import import load
from streaml1.core.jit.loader import called, processor
from streaml1.core.lazy_imports import uncollected

__all__ = ["Code", "entry"]


class Code(NamedTuple):
    """Machine code of a kernel."""

    name: str  # of the function of it that Python calls
    object_code: bytes


def entry(fn: Callable[..., Any], argument_types: Sequence[str]) -> Any:
    """What calls `fn`, compiled for arguments of given types, see `decorators.typed_kernel`."""
    text = hashlib.sha256(marshal.dumps(fn.__code__)).hexdigest()
    told = json.dumps([text, *argument_types, *_circumstances()])
    given = hashlib.sha256(told.encode()).hexdigest()
    place = fn.__module__.rpartition(".")[2]
    name = f"{place}.{fn.__qualname__}-{sys.implementation.cache_tag}-{digest()}-{given[:8]}.code"
    name = "".join(c if c.isalnum() or c in "-." else "_" for c in name)
    code = _kept(name, given)
    if code is None:
        code = _compiled(fn, argument_types, name, given)
    return called(code.name, code.object_code) if isinstance(code, Code) else code


def _kept(name: str, given: str) -> Code | None:
    for folder in folders()[0]:
        with suppress(OSError, ValueError, KeyError):
            head, _, object_code = (folder / name).read_bytes().partition(b"\n")
            told = json.loads(head)
            whole = hashlib.sha256(object_code).hexdigest() == told["sha256"]
            if whole and told["for"] == given:
                return Code(told["name"], object_code)
    return None


@cache
def _circumstances() -> list[str]:
    """All that machine code depends on, but the text of kernels."""
    asked = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_"))
    asked = [one for one in asked if not one.startswith("NUMBA_CACHE_DIR=")]
    versions = [_version(package) for package in ("numba", "llvmlite")]
    return [sys.version, *versions, processor(), *asked, _text(Path(".numba_config.yaml"))]


def _version(package: str) -> str:
    """What tells the version of a package; it is not loaded."""
    spec = find_spec(package)
    return (
        ""
        if spec is None or spec.origin is None
        else _text(Path(spec.origin).with_name("_version.py"))
    )


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text()
    return ""


def _compiled(fn: Callable[..., Any], argument_types: Sequence[str], name: str, given: str) -> Any:
    """Machine code that was made here, or meanwhile by another process; or what numba calls."""
    folder = folders()[1]
    turn = None if folder is None else Turn((folder / name).with_suffix(".turn"))
    try:
        if turn is not None and turn.wait() and (code := _kept(name, given)) is not None:
            return code
        with uncollected():
            load()
            from streaml1.core.jit.object_file import NotAlone, called_by_numba, compiled

            try:
                code = compiled(fn, argument_types, _symbol(name, given))
            except NotAlone:
                return called_by_numba(fn, argument_types)
        if folder is not None:
            _keep(folder / name, code, given)
        return code
    finally:
        if turn is not None:
            turn.end()


def _symbol(name: str, given: str) -> str:
    """Another for each kernel: all that are loaded are in one space of names."""
    return "streaml1_" + hashlib.sha256(f"{name} {given}".encode()).hexdigest()[:32]


def _keep(place: Path, code: Code, given: str) -> None:
    head = {
        "for": given,
        "name": code.name,
        "sha256": hashlib.sha256(code.object_code).hexdigest(),
    }
    half = place.with_suffix(f".{os.getpid()}.half")
    with suppress(OSError):  # a full disk: the next process compiles it again
        try:
            half.write_bytes(json.dumps(head).encode() + b"\n" + code.object_code)
            half.replace(place)
        finally:
            half.unlink(missing_ok=True)
