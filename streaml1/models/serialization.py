"""Model files: one versioned file per model, without pickle or code. Zero weights are omitted.

Layout, little-endian:

| bytes | content |
|---|---|
| 8 | `streaml1` |
| 4 | version of the format (uint32) |
| 8 | length of the body (uint64) |
| 32 | SHA-256 of the version, the length and the body |
| rest | the body: a numpy archive (.npz) without objects |

The archive holds the arrays of the rule, the record of the online loop, and UTF-8 JSON: `header`
(class, parameters, kind of vocabulary), `names` and `labels`, and `steps` if the model is the last
step of a river pipeline.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streaml1.core import exit_codes as exits
from streaml1.core.atomic_write import write_atomic
from streaml1.core.named_options import by_caller
from streaml1.core.rows import ensure
from streaml1.core.types import Bytes
from streaml1.features.vocabulary.crossed_name import CrossedName
from streaml1.models.archive import archive_of, read_arrays

__all__ = [
    "FORMAT",
    "ModelFile",
    "ModelFileError",
    "decode",
    "decode_name",
    "encode",
    "encode_name",
    "is_model_file",
    "read",
    "write",
]

MAGIC = b"streaml1"
FORMAT = 1
_HEAD = struct.Struct("<8sIQ32s")

CHUNK = 10_000
"""Number of names that are encoded at once."""


class ModelFileError(ValueError):
    """A model file that is missing, invalid, truncated, modified or of a newer format."""

    exit_code = exits.USAGE_ERROR


class ModelFile(NamedTuple):
    """The content of a model file.

    Parameters
    ----------
    model
        Class name of the model.
    params
        Its parameters.
    state
        Its state, as `ModelState.snapshot` returns it.
    steps
        JSON of the pipeline that ends in the model; None if it is not part of one.
    """

    model: str
    params: dict[str, Any]
    state: dict[str, Any]
    steps: Any = None


def write(path: Path, data: bytes) -> None:
    """Write the bytes of a model to a file, replacing `path` atomically.

    Raises
    ------
    ModelFileError
        If the file cannot be written.
    """
    try:
        write_atomic(path, data)
    except (OSError, RuntimeError) as error:  # RuntimeError: a symbolic link to itself
        reason = (getattr(error, "strerror", None) or "write failed").lower()
        failure = ModelFileError(
            f"{path} cannot be written ({reason}); an existing file is unchanged"
        )
        failure.exit_code = exits.write_failure_code(error)
        raise failure from None


def encode(content: ModelFile, packed: bool = True) -> bytes:
    """Return the bytes of a model file, compressed if `packed`; uncompressed is faster.

    Raises
    ------
    ModelFileError
        If a name, a label or a parameter has a type that a model file cannot hold.
    """
    model, params, state, steps = content
    vocabulary = dict(state["names"])
    header = {
        "model": model,
        "params": {name: _encode_param(name, value) for name, value in params.items()},
        "names": {key: vocabulary[key] for key in ("kind", "bits") if key in vocabulary},
    }
    arrays: dict[str, Any] = {f"rule.{name}": array for name, array in state["arrays"].items()}
    arrays["online"] = state["online"]
    arrays["header"] = _encode_json(header)
    if "names" in vocabulary:
        arrays["names"] = _encode_json([encode_name(name) for name in vocabulary["names"]])
    if "labels" in state:
        arrays["labels"] = _encode_json(
            [encode_name(label, "label", "labels") for label in state["labels"]]
        )
    arrays |= {key: vocabulary[key] for key in ("slots", "joints") if key in vocabulary}
    if steps is not None:
        arrays["steps"] = _encode_json(steps)
    if state["forgotten"] is not None:
        arrays["forgotten"] = state["forgotten"]
    body = archive_of(arrays, packed)
    return _HEAD.pack(MAGIC, FORMAT, len(body), _digest(FORMAT, body)) + body


def _digest(version: int, body: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<IQ", version, len(body)) + body).digest()


def read(path: Path) -> ModelFile:
    """Return the content of a model file.

    Raises
    ------
    ModelFileError
        If the file cannot be read, or is not a complete model of this or an earlier format.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        failure = ModelFileError(f"{path}: {(error.strerror or 'cannot be read').lower()}")
        if exits.is_temporary(error):
            failure.exit_code = exits.TEMPORARY_FAILURE
        raise failure from None
    return decode(data, path)


def is_model_file(path: str) -> bool:
    """Return whether there is a file that begins as model files do."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def decode(data: bytes, path: str | Path) -> ModelFile:
    """Return the content of the bytes of a model file.

    Errors refer to the file as `path`.

    Raises
    ------
    ModelFileError
        If it is not a complete model of this or an earlier format.
    """
    if data[:8] != MAGIC[: len(data)] or not data:
        raise ModelFileError(
            f"{path} is not a streaml1 model; streaml1.save"
            + by_caller(" and learn --save write one", " writes one")
        )
    if len(data) < _HEAD.size:
        raise ModelFileError(f"{path} is truncated: got {len(data)} bytes; use an earlier copy")
    _, version, length, digest = _HEAD.unpack_from(data)
    if version < 1:
        raise ModelFileError(f"{path} was modified after it was saved; use an earlier copy")
    if version > FORMAT:
        raise ModelFileError(
            f"{path} has format {version}, but this version of streaml1 supports {FORMAT}; upgrade"
        )
    body = data[_HEAD.size :]
    if len(body) < length:
        raise ModelFileError(
            f"{path} is truncated: got {len(body)} of {length} bytes; use an earlier copy"
        )
    if len(body) > length or _digest(version, body) != digest:
        raise ModelFileError(f"{path} was modified after it was saved; use an earlier copy")
    try:
        return _decode(body)
    except MemoryError:
        raise ModelFileError(f"{path} needs more memory than is available") from None
    except Exception:  # a crafted file can raise anything
        raise ModelFileError(f"{path} was not written by streaml1") from None


def _decode(body: bytes) -> ModelFile:
    arrays = read_arrays(body)
    ensure(isinstance(arrays.get("steps", {}), dict), "steps are not an object")
    steps = arrays.pop("steps", None)
    header = arrays.pop("header")
    vocabulary: dict[str, Any] = dict(header["names"])
    ensure(set(vocabulary) <= {"kind", "bits"}, "an unknown entry")
    if vocabulary["kind"] == "table":
        listed = arrays.pop("names")
        ensure(isinstance(listed, list), "names are not a list")
        vocabulary["names"] = [decode_name(coded) for coded in listed]
        vocabulary["joints"] = arrays.pop("joints")
        ensure(
            vocabulary["joints"].dtype == np.int32 and vocabulary["joints"].ndim == 1,
            "joints are not a vector of int32",
        )
    else:
        vocabulary["slots"] = arrays.pop("slots")
        ensure(
            vocabulary["slots"].dtype == np.uint32 and vocabulary["slots"].ndim == 1,
            "slots are not a vector of uint32",
        )
    labels = {}
    if "labels" in arrays:
        coded_labels = arrays.pop("labels")
        ensure(isinstance(coded_labels, list), "labels are not a list")
        labels["labels"] = [decode_name(coded) for coded in coded_labels]
    state = {
        **labels,
        "names": vocabulary,
        "online": arrays.pop("online"),
        "forgotten": arrays.pop("forgotten", None),
        "arrays": {name.removeprefix("rule."): array for name, array in arrays.items()},
    }
    ensure(state["online"].dtype.names is not None and state["online"].size == 1, "no record")
    ensure(all(name.startswith("rule.") for name in arrays), "an unknown entry")
    params = {name: _decode_param(coded) for name, coded in header["params"].items()}
    return ModelFile(str(header["model"]), params, state, steps)


def _encode_json(value: object) -> Bytes:
    """Return a value as UTF-8 JSON, in an array for the archive."""
    if isinstance(value, list):
        # In chunks, because `json.dumps` holds the GIL throughout.
        chunks = (_compact_json(value[lo : lo + CHUNK])[1:-1] for lo in range(0, len(value), CHUNK))
        text = f"[{','.join(chunks)}]"
    else:
        text = _compact_json(value)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _compact_json(value: object) -> str:
    # Not escaped: json would decode a pair of lone surrogates as one character.
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def encode_name(name: Hashable, what: str = "feature name", many: str = "names") -> Any:
    """Return a name as JSON: strings and ints as they are, others tagged with their type."""
    if isinstance(name, bool | np.bool_):
        return {"bool": bool(name)}
    if name is None or isinstance(name, str):
        return name
    if isinstance(name, int | np.integer):
        return int(name)
    if isinstance(name, float | np.floating):
        return {"float": float(name).hex()}
    if isinstance(name, bytes):
        return {"bytes": name.hex()}
    if isinstance(name, CrossedName):
        return {"cross": list(name)}
    if type(name) is tuple:
        return {"tuple": [encode_name(part, what, many) for part in name]}
    raise ModelFileError(
        f"the {what} {name!r} of type {type(name).__name__} cannot be stored in a model file; use "
        f"strings, numbers, bytes, None or tuples of them as {many}, or pickle the model"
    )


def decode_name(coded: Any) -> Hashable:
    """Return the name that `encode_name` encoded."""
    if coded is None or (isinstance(coded, str | int) and not isinstance(coded, bool)):
        return coded
    ((kind, value),) = coded.items()
    if kind == "bool":
        ensure(isinstance(value, bool), "not a bool")
        return bool(value)
    if kind == "float":
        return float.fromhex(value)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "cross":
        ensure(isinstance(value, list) and len(value) > 1, "not a crossed feature")
        ensure(all(isinstance(name, str) for name in value), "a factor is not a string")
        return CrossedName(value)
    if kind == "tuple":
        return tuple(decode_name(part) for part in value)
    raise ValueError(f"unknown type of name: {kind}")


def _encode_param(name: str, value: Any) -> Any:
    """Return a hyperparameter as JSON; floats are hexadecimal, so that no bit is lost."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}
    if isinstance(value, list):
        return {"labels": [encode_name(label, "label", "labels") for label in value]}
    module, kind = type(value).__module__, type(value).__name__
    if module == "river.optim.schedulers":
        params = {k: _encode_param(k, getattr(value, k)) for k in value._get_params()}
        return {"scheduler": kind, "params": params}
    raise ModelFileError(
        f"{name} of type {module}.{kind} cannot be stored in a model file; use a number or a "
        "scheduler of river.optim.schedulers, or pickle the model"
    )


def _decode_param(coded: Any) -> Any:
    """Return the hyperparameter that `_encode_param` encoded."""
    if not isinstance(coded, dict):
        return coded
    if "float" in coded:
        return float.fromhex(coded["float"])
    if "labels" in coded:
        return [decode_name(label) for label in coded["labels"]]
    from river.optim import base, schedulers

    kind = getattr(schedulers, coded["scheduler"])
    if not (isinstance(kind, type) and issubclass(kind, base.Scheduler)):
        raise ValueError("not a scheduler")
    return kind(**{name: _decode_param(value) for name, value in coded["params"].items()})
