"""The transformers of river that a model file can hold: one entry each, by class name.

An entry lists the parameters that the constructor takes and the attributes that learning changes,
each with its kind. A transformer with an attribute that its entry does not list is rejected, so
that no state of a later version of river is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from streaml1.models.pipelines.kinds import (
    COUNT,
    FLAG,
    INT,
    KEYS,
    NAME,
    NAMES,
    NGRAM_RANGE,
    NONE,
    NUMBER,
    PATTERN,
    SUM,
    TEXT,
    TEXTS,
    TYPE,
    TYPES,
    VALUE,
    Kind,
    Unstorable,
    between,
    mapping,
    optional,
    pairs,
)

__all__ = ["TRANSFORMERS", "Entry", "decode_object", "encode_object"]


@dataclass(frozen=True)
class Entry:
    """How a class of river is stored.

    Parameters
    ----------
    module
        Module of river: `preprocessing` stands for `river.preprocessing`.
    params
        Kind of each parameter of the constructor, which is also an attribute.
    state
        Kind of each attribute that learning changes. The constructor creates containers.
    derived
        Attributes that the constructor derives from the parameters.
    positional
        The parameter that the constructor takes as `*args`, if any.
    finish
        Called with an object once its state is restored.
    """

    module: str
    params: Mapping[str, Kind] = field(default_factory=dict)
    state: Mapping[str, Kind] = field(default_factory=dict)
    derived: tuple[str, ...] = ()
    positional: str | None = None
    finish: Callable[[Any], None] | None = None

    def load(self, name: str) -> type:
        """Return the class."""
        import river.compose
        import river.feature_extraction
        import river.preprocessing
        import river.stats

        kind: type = attrgetter(f"{self.module}.{name}")(river)
        return kind


STATISTICS: dict[str, Entry] = {
    "AbsMax": Entry("stats", state={"abs_max": NUMBER}),
    "Constant": Entry("preprocessing.impute", {"value": VALUE}),
    "Count": Entry("stats", state={"n": COUNT}),
    "Max": Entry("stats", state={"max": NUMBER}),
    "Mean": Entry("stats", state={"n": SUM, "_mean": NUMBER}),
    "Min": Entry("stats", state={"min": NUMBER}),
    "Mode": Entry("stats", {"k": INT}, {"counts": mapping(COUNT)}),
    "Sum": Entry("stats", state={"sum": NUMBER}),
}


def encode_object(value: Any, table: Mapping[str, Entry]) -> dict[str, Any]:
    """Return an object of a class in a table as JSON.

    Raises
    ------
    Unstorable
        If its class is not in the table, or an attribute has a value that a file cannot hold. The
        arguments are the value, and the name of the attribute if it is one.
    """
    name = type(value).__name__
    entry = table.get(name)
    if entry is None or entry.load(name) is not type(value):
        raise Unstorable(value)
    attributes = vars(value)
    known = {*entry.params, *entry.state, *entry.derived}
    for attribute, item in attributes.items():
        if attribute not in known:
            raise Unstorable(item, attribute)
    return {
        "class": name,
        "params": _encode_attributes(attributes, entry.params),
        "state": _encode_attributes(attributes, entry.state),
    }


def _encode_attributes(attributes: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    coded = {}
    for name, kind in kinds.items():
        try:
            coded[name] = kind.encode(attributes[name])
        except Unstorable as error:
            raise Unstorable(error.args[0], name) from None
    return coded


def decode_object(coded: Any, table: Mapping[str, Entry]) -> Any:
    """Return the object that `encode_object` encoded; any exception if it is not one."""
    if set(coded) != {"class", "params", "state"}:
        raise Unstorable(coded)
    name = coded["class"]
    entry = table[name]
    params = _decode_attributes(coded["params"], entry.params)
    positional = () if entry.positional is None else params.pop(entry.positional)
    value = entry.load(name)(*positional, **params)
    if entry.positional is not None and isinstance(positional, dict):
        setattr(value, entry.positional, positional)
    for attribute, item in _decode_attributes(coded["state"], entry.state).items():
        if isinstance(item, dict):
            # In place: a container of river also knows what a new feature starts with.
            container = getattr(value, attribute)
            container.clear()
            container.update(item)
        else:
            setattr(value, attribute, item)
    if entry.finish is not None:
        entry.finish(value)
    return value


def _decode_attributes(coded: Any, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    if set(coded) != set(kinds):
        raise Unstorable(coded)
    return {name: kind.decode(coded[name]) for name, kind in kinds.items()}


def _statistic(*names: str) -> Kind:
    """Return the kind of the statistics of some classes."""
    table = {name: STATISTICS[name] for name in names}
    return Kind(partial(encode_object, table=table), partial(decode_object, table=table))


def _encode_imputer(value: Any) -> Any:
    if not hasattr(value, "update"):
        return VALUE.encode(value)
    coded = encode_object(value, STATISTICS)
    return {"class": coded["class"], "params": coded["params"]}


def _decode_imputer(coded: Any) -> Any:
    if not (isinstance(coded, dict) and "class" in coded):
        return VALUE.decode(coded)
    entry = STATISTICS[coded["class"]]
    if set(coded) != {"class", "params"}:
        raise Unstorable(coded)
    return entry.load(coded["class"])(**_decode_attributes(coded["params"], entry.params))


IMPUTER = Kind(_encode_imputer, _decode_imputer)
"""What `StatImputer` is given for a feature: a statistic, whose state is in `stats`, or a value."""


def _share_statistics(imputer: Any) -> None:
    """Make the statistics that an imputer learns its parameters, as the constructor does."""
    imputer.imputers = tuple(
        (name, imputer.stats[name] if hasattr(given, "update") else given)
        for name, given in imputer.imputers
    )


_UINT32 = between(0, 2**32 - 1)
_WORDS: dict[str, Kind] = {
    "on": optional(TEXT),
    "strip_accents": FLAG,
    "lowercase": FLAG,
    "preprocessor": NONE,
    "stop_words": optional(TEXTS),
    "tokenizer_pattern": PATTERN,
    "tokenizer": NONE,
    "ngram_range": NGRAM_RANGE,
}

TRANSFORMERS: dict[str, Entry] = {
    "BagOfWords": Entry("feature_extraction", _WORDS, derived=("processing_steps",)),
    "Binarizer": Entry("preprocessing", {"threshold": NUMBER, "dtype": TYPE}),
    "Discard": Entry("compose", {"keys": KEYS}, positional="keys"),
    "FeatureHasher": Entry(
        "preprocessing",
        {"n_features": between(1, 2**63 - 1), "seed": optional(_UINT32), "alternate_sign": FLAG},
        {"_seed": _UINT32},
    ),
    "MaxAbsScaler": Entry(
        "preprocessing", {"window_size": NONE}, {"abs_max": mapping(_statistic("AbsMax"))}
    ),
    "MinMaxScaler": Entry(
        "preprocessing",
        {"window_size": NONE},
        {"min": mapping(_statistic("Min")), "max": mapping(_statistic("Max"))},
    ),
    "Normalizer": Entry("preprocessing", {"order": NUMBER}),
    "OneHotEncoder": Entry(
        "preprocessing",
        {"categories": optional(mapping(NAMES)), "drop_zeros": FLAG, "drop_first": FLAG},
        {"values": mapping(NAMES), "_zero_dict": mapping(between(0, 0))},
    ),
    "OrdinalEncoder": Entry(
        "preprocessing",
        {
            "categories": optional(mapping(mapping(INT))),
            "unknown_value": optional(INT),
            "none_value": INT,
        },
        {"values": mapping(mapping(INT))},
        derived=("_reserved_category_codes",),
    ),
    "Prefixer": Entry("compose", {"prefix": TEXT}),
    "PreviousImputer": Entry("preprocessing", state={"_latest": mapping(VALUE)}),
    "Renamer": Entry("compose", {"mapping": mapping(NAME)}),
    "Select": Entry("compose", {"keys": KEYS}, positional="keys"),
    "SelectType": Entry("compose", {"types": TYPES}, positional="types"),
    "StandardScaler": Entry(
        "preprocessing",
        {"with_std": FLAG, "window_size": NONE},
        {"counts": mapping(COUNT), "means": mapping(NUMBER), "vars": mapping(SUM)},
    ),
    "StatImputer": Entry(
        "preprocessing",
        {"imputers": pairs(NAME, IMPUTER)},
        {"stats": mapping(_statistic(*STATISTICS))},
        positional="imputers",
        finish=_share_statistics,
    ),
    "Suffixer": Entry("compose", {"suffix": TEXT}),
    "TFIDF": Entry(
        "feature_extraction",
        {"normalize": FLAG, **_WORDS},
        {"dfs": mapping(COUNT), "n": COUNT},
        derived=("processing_steps",),
    ),
}
