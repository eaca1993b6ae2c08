"""One model of all members of a consumer group, mixed through a compacted topic.

- `topic`: the topic; `training.mixed_models` has its records and what they say.
- `partition`: the open examples of a partition.
- `merger`: when a round ends.
- `guard`: how parts are joined.
- `group`: a process of the group.
- `simulation`: several partitions in this process, without a broker.
"""
