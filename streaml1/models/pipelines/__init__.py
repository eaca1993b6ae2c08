"""River pipelines that end in a model of streaml1: their steps as JSON in the model's file.

A file of a pipeline is the file of its last step with one more array, `steps`. It names classes of
the table in `transformers.py` and holds their attributes as checked JSON; reading it runs no code
of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from streaml1.core.rows import shown, shown_type
from streaml1.models.pipelines.kinds import Unstorable
from streaml1.models.pipelines.transformers import TRANSFORMERS, decode_object, encode_object
from streaml1.models.serialization import ModelFileError

__all__ = [
    "adopt_state",
    "calls_own_code",
    "have_same_parameters",
    "is_pipeline",
    "join_steps",
    "learner_of",
    "require_instance",
    "snapshot",
    "text_inputs",
]

UNIONS = ("TransformerUnion", "TransformerProduct")
REMEDY = "apply it before the pipeline, or pickle the pipeline"


def is_pipeline(model: Any) -> bool:
    """Return whether a model is a river pipeline with at least one step."""
    steps = getattr(model, "steps", None)
    return isinstance(steps, Mapping) and bool(steps)


def require_instance(model: Any, what: str = "model") -> None:
    """Raise TypeError if a model is a class."""
    if isinstance(model, type):
        name = model.__name__
        raise TypeError(f"{what} must be a model such as {name}(), got the class {name}")


def learner_of(model: Any) -> Any:
    """Return the last step of a river pipeline, or the model itself."""
    return learner_of(list(model.steps.values())[-1]) if is_pipeline(model) else model


def _children(step: Any) -> Mapping[str, Any]:
    """Return the steps of a pipeline or the parts of a union by name; none of other steps."""
    children = getattr(step, "steps", getattr(step, "transformers", None))
    return children if isinstance(children, Mapping) else {}


def _walk(step: Any) -> Iterator[Any]:
    yield step
    for child in _children(step).values():
        yield from _walk(child)


def calls_own_code(model: Any) -> bool:
    """Return whether a step is not a class of river, or applies a function of its caller."""
    kinds = {type(step) for step in _walk(model)}
    return any(
        kind.__module__.partition(".")[0] not in ("river", "streaml1")
        or kind.__name__ == "FuncTransformer"
        for kind in kinds
    )


def text_inputs(model: Any) -> list[str] | None:
    """Return the features that a model reads as raw text; None if it reads none."""
    words = (step for step in _walk(model) if type(step).__name__ in ("BagOfWords", "TFIDF"))
    names = [step.on for step in words if isinstance(getattr(step, "on", None), str)]
    names += getattr(learner_of(model), "text", None) or ()
    return [*dict.fromkeys(names)] or None


def snapshot(model: Any, packed: bool = True) -> Callable[[], bytes]:
    """Return a function that encodes the current state at any later time, in any thread.

    Parameters
    ----------
    model
        A model of streaml1, or a river pipeline that ends in one.
    packed
        Whether to compress the file, which takes longer.

    Raises
    ------
    ModelFileError
        If a model file cannot hold a step.
    TypeError
        If the model is a class.
    """
    require_instance(model)
    learner = learner_of(model)
    if not hasattr(learner, "_snapshot"):
        raise ModelFileError(
            "a model file holds a model of streaml1 or a river pipeline that ends in one, got "
            f"{'a pipeline that ends in ' if is_pipeline(model) else ''}{type(learner).__name__}"
        )
    steps = None if learner is model else _encode_steps(model)
    encode: Callable[[], bytes] = learner._snapshot(packed, steps)
    return encode


def _encode_steps(model: Any) -> Any:
    """Return the steps of a pipeline as JSON; its learner is null."""
    seen: set[int] = set()
    learner = learner_of(model)

    def encode(step: Any, place: str) -> Any:
        if step is learner:
            return None
        if id(step) in seen:
            raise ModelFileError(
                f"{place} is also another step of the pipeline, which a model file cannot hold; "
                "give each step a transformer of its own"
            )
        seen.add(id(step))
        kind = type(step)
        if kind.__module__.startswith("river.compose") and kind.__name__ in ("Pipeline", *UNIONS):
            parts = [
                [name, encode(child, _place(name, place))]
                for name, child in _children(step).items()
            ]
            return {"class": kind.__name__, "steps": parts}
        try:
            return encode_object(step, TRANSFORMERS)
        except Unstorable as error:
            raise _unstorable(step, place, *error.args) from None

    return encode(model, "")


def _place(name: str, within: str) -> str:
    return f"step {name!r}{f' of {within}' if within else ''}"


def _unstorable(step: Any, place: str, value: Any, attribute: str | None = None) -> ModelFileError:
    kind = shown_type(step)
    if attribute is None:
        known = ", ".join(sorted({*TRANSFORMERS, *UNIONS, "Pipeline"}))
        return ModelFileError(
            f"{place} is {kind}, which a model file cannot hold; {REMEDY} (it holds {known})"
        )
    return ModelFileError(
        f"{attribute} of {place}, {kind}, has the value {shown(value)}, which a model file "
        f"cannot hold; change it, {REMEDY}"
    )


def join_steps(coded: Any, learner: Any) -> Any:
    """Return the pipeline of steps that `snapshot` encoded, ending in a learner.

    Raises
    ------
    Exception
        Any, if they are not such steps.
    """
    pipeline = _decode_step(coded, learner)
    if learner_of(pipeline) is not learner or pipeline is learner:
        raise ValueError("the steps do not end in the model")
    if _encode_steps(pipeline) != coded:
        raise ValueError("the steps are not written as they are read")
    return pipeline


def _decode_step(coded: Any, learner: Any) -> Any:
    """Return a step; `learner` is None where only transformers may be."""
    if coded is None and learner is not None:
        return learner
    if "steps" not in coded:
        return decode_object(coded, TRANSFORMERS)
    if set(coded) != {"class", "steps"}:
        raise ValueError("unknown entries")
    from river import compose

    name, parts = coded["class"], coded["steps"]
    if name not in ("Pipeline", *UNIONS) or not all(type(part[0]) is str for part in parts):
        raise ValueError("not a pipeline")
    last = len(parts) - 1 if name == "Pipeline" else -1
    children = {
        key: _decode_step(part, learner if k == last else None)
        for k, (key, part) in enumerate(parts)
    }
    if len(children) != len(parts) or not children:
        raise ValueError("a name occurs twice")
    made = getattr(compose, name)()
    _children(made).update(children)  # type: ignore[attr-defined]
    return made


def have_same_parameters(one: Any, other: Any) -> bool:
    """Return whether two models or pipelines have the same parameters; their states may differ."""
    if not (is_pipeline(one) and is_pipeline(other)):
        return repr(one) == repr(other)
    same_steps = _without_state(_encode_steps(one)) == _without_state(_encode_steps(other))
    return same_steps and repr(learner_of(one)) == repr(learner_of(other))


def _without_state(coded: Any) -> Any:
    if isinstance(coded, dict):
        return {key: _without_state(item) for key, item in coded.items() if key != "state"}
    return [_without_state(item) for item in coded] if isinstance(coded, list) else coded


def adopt_state(model: Any, saved: Any) -> None:
    """Give a model or pipeline the state of another with the same steps; the other is used up.

    Callers may hold references to the steps, so each keeps its identity.
    """
    children, of_saved = _children(model), _children(saved)
    if not children:
        vars(model).update(vars(saved))
    for name, child in children.items():
        adopt_state(child, of_saved[name])
