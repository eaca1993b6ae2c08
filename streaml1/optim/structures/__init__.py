"""What rules stand on: structures and sums without verbs of their own.

| file | what | whose |
|---|---|---|
| `slots.py` | arrays as slots are made and moved | nearly all |
| `ahead.py` | memory asked for before it is used | rules that walk rows by eights |
| `shrinkage.py` | what is left beyond the penalty owed | elastic net, its lanes and stamps |
| `lanes.py` | rows of eight floats; what eight nets predict together | elastic net's lanes |
| `raw_vector.py` | weights as whole numbers and one shift for all | both balls |
| `wheel.py` | timers: which weights end next | l1 ball, ball of each label |
| `wide_tree.py`, `tree_nodes.py` | a tree with counts and sums | l1 ball by the tree |
| `blocks.py`, `level.py` | equal weights as one, and how they fall together | l-infinity norm |
| `candidates.py`, `floor.py`, `pool.py` | what they meet next | the same |
| `pnorm.py` | the p-norm of what shrinks, from moments | SMIDAS |
| `averages.py`, `lifetimes.py` | running means; when a weight ended | averaged rules |
| `many.py` | softmax over the outputs of a row | rules of many labels |
"""
