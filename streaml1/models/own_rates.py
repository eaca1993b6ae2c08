"""Models whose rule has rates of its own: they have no `lr` and no `schedule`."""

from __future__ import annotations

from typing import Any

from streaml1.models.base import OnlineModel
from streaml1.models.parameters import Parameter

__all__ = ["OwnRates", "only"]


def only(own: Any) -> Any:
    """A check for what is no parameter: it has this value."""

    def check(name: str, value: Any) -> Any:
        if value != own:
            raise ValueError(f"{name} cannot be set: the rates of this model are its own")
        return own

    return check


class OwnRates(OnlineModel):
    """A model whose rule is told eta = 1 at every step (or another schedule of its own)."""

    lr = Parameter(only(1.0))
    schedule = Parameter(only("constant"))

    _own_schedule = "constant"

    def _begin(self) -> None:
        self.lr, self.schedule = 1.0, self._own_schedule
        super()._begin()

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes - {"lr", "schedule"}
