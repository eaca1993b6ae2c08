"""Models in one file: versioned, no pickle, nothing in it is run, zeros are left out.

Layout: 8 bytes `streaml1`, the format's version (uint32, little-endian), the length of what
follows the digest (uint64), its SHA-256, then a numpy archive (.npz) without objects: the arrays,
and under `header` and `names` JSON in UTF-8.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from streaml1.core import exit_codes as exits
from streaml1.core.atomic_write import replace
from streaml1.core.rows import ensure
from streaml1.features.vocabulary.crossed_name import CrossedName

__all__ = ["FORMAT", "ModelFileError", "decode", "encode", "read", "write"]

MAGIC = b"streaml1"
FORMAT = 1
_HEAD = struct.Struct("<8sIQ32s")

PIECE = 10_000
"""How many names are written at once."""


class ModelFileError(ValueError):
    """A file that is refused: missing, foreign, torn, altered or too new."""

    exit_code = exits.WRONG


def write(path: Path, model: str, params: dict[str, Any], state: dict[str, Any]) -> None:
    """Write a model's class name, parameters and state; takes the place of `path` at the end.

    Raises
    ------
    ModelFileError
        Where it cannot be written, or a name, a label or a parameter is of no kind that a file
        holds.
    """
    data = encode(model, params, state)
    try:
        replace(path, data)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself
        reason = (getattr(error, "strerror", None) or "the disk refused").lower()
        refusal = ModelFileError(
            f"{path} cannot be written ({reason}); what was there is as it was"
        )
        refusal.exit_code = exits.unwritten(error)
        raise refusal from None


def encode(model: str, params: dict[str, Any], state: dict[str, Any], packed: bool = True) -> bytes:
    """What a file holds; not `packed` it is larger, and far sooner there.

    Raises
    ------
    ModelFileError
        Where a name, a label or a parameter is of no kind that a file holds.
    """
    names = dict(state["names"])
    header = {
        "model": model,
        "params": {name: _param(name, value) for name, value in params.items()},
        "names": {part: names[part] for part in ("kind", "bits") if part in names},
    }
    arrays: dict[str, Any] = {f"rule.{name}": array for name, array in state["arrays"].items()}
    arrays["online"] = state["online"]
    arrays["header"] = _text(header)
    if "names" in names:
        arrays["names"] = _text([_name(name) for name in names["names"]])
    if "labels" in state:
        arrays["labels"] = _text([_name(label, "label", "labels") for label in state["labels"]])
    arrays |= {part: names[part] for part in ("slots", "joints") if part in names}
    if state["forgotten"] is not None:
        arrays["forgotten"] = state["forgotten"]
    archive = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(archive, **arrays)
    body = archive.getvalue()
    return _HEAD.pack(MAGIC, FORMAT, len(body), _digest(FORMAT, body)) + body


def _digest(version: int, body: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<IQ", version, len(body)) + body).digest()


def read(path: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Class name, parameters and state of the model in a file.

    Raises
    ------
    ModelFileError
        Where there is no file, or it is not a whole model of this version or an earlier one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    return decode(data, path)


def decode(data: bytes, path: str | Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What `encode` has written; `path` is what errors call it.

    Raises
    ------
    ModelFileError
        Where it is no whole model of this version or an earlier one.
    """
    if data[:8] != MAGIC[: len(data)] or not data:
        raise ModelFileError(f"{path} is not a streaml1 model; `save` writes one")
    if len(data) < _HEAD.size:
        raise ModelFileError(f"{path} is torn: {len(data)} bytes; take an earlier copy")
    _, version, length, digest = _HEAD.unpack_from(data)
    if version < 1:
        raise ModelFileError(f"{path} has been altered since it was saved; take an earlier copy")
    if version > FORMAT:
        raise ModelFileError(
            f"{path} has format {version}, newer than {FORMAT}, which this streaml1 reads: upgrade"
        )
    body = data[_HEAD.size :]
    if len(body) < length:
        raise ModelFileError(
            f"{path} is torn: {len(body)} of {length} bytes are there; take an earlier copy"
        )
    if len(body) > length or _digest(version, body) != digest:
        raise ModelFileError(f"{path} has been altered since it was saved; take an earlier copy")
    try:
        return _decode(body)
    except Exception:  # whatever a crafted file provokes
        raise ModelFileError(f"{path} is no model that streaml1 has written") from None


def _decode(body: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = _value(arrays.pop("header"))
    names: dict[str, Any] = dict(header["names"])
    ensure(set(names) <= {"kind", "bits"}, "what is this")
    if names["kind"] == "table":
        listed = _value(arrays.pop("names"))
        names["names"] = [_named(coded) for coded in listed]
        names["joints"] = arrays.pop("joints")
        ensure(names["joints"].dtype == np.int32 and names["joints"].ndim == 1, "joints are none")
    else:
        names["slots"] = arrays.pop("slots")
        ensure(names["slots"].dtype == np.uint32 and names["slots"].ndim == 1, "slots are none")
    labels = {}
    if "labels" in arrays:
        labels["labels"] = [_named(coded) for coded in _value(arrays.pop("labels"))]
    state = {
        **labels,
        "names": names,
        "online": arrays.pop("online"),
        "forgotten": arrays.pop("forgotten", None),
        "arrays": {name.removeprefix("rule."): array for name, array in arrays.items()},
    }
    ensure(state["online"].dtype.names is not None, "no record")
    ensure(all(name.startswith("rule.") for name in arrays), "what is this")
    params = {name: _parameter(coded) for name, coded in header["params"].items()}
    return str(header["model"]), params, state


def _text(value: Any) -> Any:
    if isinstance(value, list):
        # Piece by piece: json lets no other thread run, however long a list is.
        pieces = (_json(value[lo : lo + PIECE])[1:-1] for lo in range(0, len(value), PIECE))
        text = f"[{','.join(pieces)}]"
    else:
        text = _json(value)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _json(value: Any) -> str:
    # Not escaped: a pair of surrogates would come back as the one character that it stands for.
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _value(text: Any) -> Any:
    return json.loads(text.tobytes().decode("utf-8", "surrogatepass"))


def _name(name: Hashable, what: str = "feature name", many: str = "features") -> Any:
    """A name as JSON: strings and ints are themselves, the rest says its type."""
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
        return {"tuple": [_name(part, what, many) for part in name]}
    raise ModelFileError(
        f"the {what} {name!r} is a {type(name).__name__}, which a model file cannot hold; "
        f"name {many} by strings, numbers, bytes, None or tuples of them, or pickle the model"
    )


def _named(coded: Any) -> Hashable:
    if coded is None or (isinstance(coded, str | int) and not isinstance(coded, bool)):
        return coded
    ((kind, value),) = coded.items()
    if kind == "bool":
        return bool(value)
    if kind == "float":
        return float.fromhex(value)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "cross":
        return CrossedName(value)
    if kind == "tuple":
        return tuple(_named(part) for part in value)
    raise ValueError(f"no kind of name: {kind}")


def _param(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}
    if isinstance(value, list):
        return {"labels": [_name(label, "label", "labels") for label in value]}
    module, kind = type(value).__module__, type(value).__name__
    if module == "river.optim.schedulers":
        params = {k: _param(k, getattr(value, k)) for k in value._get_params()}
        return {"scheduler": kind, "params": params}
    raise ModelFileError(
        f"{name} is a {kind} from {module}, which a model file cannot hold; "
        "set it to a number or a scheduler of river.optim.schedulers first, or pickle the model"
    )


def _parameter(coded: Any) -> Any:
    if not isinstance(coded, dict):
        return coded
    if "float" in coded:
        return float.fromhex(coded["float"])
    if "labels" in coded:
        return [_named(label) for label in coded["labels"]]
    from river.optim import base, schedulers

    kind = getattr(schedulers, coded["scheduler"])
    if not (isinstance(kind, type) and issubclass(kind, base.Scheduler)):
        raise ValueError("not a scheduler")
    return kind(**{name: _parameter(value) for name, value in coded["params"].items()})
