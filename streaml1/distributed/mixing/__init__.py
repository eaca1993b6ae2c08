"""One model of all members of a consumer group, mixed through a compacted topic.

- `messages`: parts and bases as records, and back.
- `state`: what the records say; why each example is merged exactly once.
- `partition`: the open examples of a partition.
- `merger`: when a round ends.
- `guard`: how parts are joined.
- `group`: a process of the group.
- `simulation`: several partitions in this process, without a broker.
"""
