"""One model's state, and the calls into the kernels that change it.

Nothing numerical happens here, and nothing is validated but the examples themselves. Each class
stands on the one above it:

| class | what it knows |
|---|---|
| `reader.Predictor` | predictions |
| `state.LockedState` | who may change the state, and copies of it |
| `room.GrowableState` | slots and names: what is given them, given back, moved |
| `weights.WeightedState` | which weights there are, and how many there may be |
| `many.BatchLearner` | many examples: rows are learnt, or none of them |
| `engine.ModelState` | one example; all of it |
"""

from __future__ import annotations

from streaml1.models.state.model_state import ModelState

__all__ = ["ModelState"]
