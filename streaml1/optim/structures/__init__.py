"""Data structures and arithmetic of the update rules, without verbs of their own.

| file | structure | used by |
|---|---|---|
| `slot_arrays` | allocation, growth and renumbering of arrays by slot | all rules |
| `feature_scales` | robust mean sizes; scaled values | rules that scale |
| `feature_origins` | what values of features in every row are measured from | rules that scale |
| `target_centre` | what targets are measured from | `coin_betting`, `scaled_ftrl` |
| `soft_threshold` | soft-thresholding of stored weights | elastic nets |
| `lane_table` | rows of eight floats; mixtures of eight margins | `lane_mixture` |
| `lane_slots`, `lane_clock` | what lanes store of a feature, and share | `lane_mixture` |
| `lane_steps`, `lane_margins` | steps of what lanes share; margins of all | `lane_mixture` |
| `lane_states` | states in model files: checks, and earlier versions | `lane_mixture` |
| `joined_lanes`, `lane_momentum`, `shard_coins` | lanes of several models as one | `lane_mixture` |
| `joined_origins` | origins of several models as one | rules that scale |
| `running_averages`, `alive_intervals` | running means; when a weight died | averaged rules |
| `fixed_point_vector` | weights as integers with one shift for all | `fixed_point_rule`, l1 balls |
| `timing_wheel` | which weights become zero next | `l1_ball`, `softmax_ball` |
| `rank_tree`, `rank_tree_nodes` | a B+ tree with counts and sums | `l1_ball_tree` |
| `weight_blocks` | equal weights as one | `fobos_linf` |
| `linf_level` | how the level of equal weights moves | `fobos_linf` |
| `linf_candidates`, `linf_floor`, `top_k` | the largest free weights | `fobos_linf` |
| `pnorm_moments` | the p-norm of a vector that shrinks | `smidas` |
| `multiclass` | softmax and residuals of a row | `softmax`, `softmax_ball` |
"""
