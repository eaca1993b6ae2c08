"""State of one model: its rule, vocabulary and online record, and the calls into the kernels.

No numerical work happens here, and only the examples are validated. Each class extends the one
above it:

| class | adds |
|---|---|
| `row_slots.RowSlots` | conversion of batches to rows of slots, for known names |
| `predictor.Predictor` | prediction |
| `locking.LockedState` | the lock, backups and copies |
| `capacity.GrowableState` | slots: allocation, release, remapping |
| `weight_counts.WeightedState` | queries of the weights, pruning to `max_features` |
| `batch_learning.BatchLearner` | batches, of which all rows are learnt or none |
| `model_state.ModelState` | learning of single examples |
"""

from __future__ import annotations

from streaml1.models.state.model_state import ModelState

__all__ = ["ModelState"]
