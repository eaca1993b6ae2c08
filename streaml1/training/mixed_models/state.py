"""What the topic of a mixed model says: the newest base, and the parts that wait for a merge.

All members read the same records in the same order, so that they agree. Why each example is merged
exactly once, whatever members do and whenever they do it:

1. A base holds, with the model, the offset up to which the examples of each partition are in it.
   Both are one message.
2. A part can be merged only into the base that it has started from, and only if it begins at that
   offset. A merge moves the offset to the end of the part. So parts that two owners make of the
   same examples exclude each other, and a part is merged at most once.
3. The run that merges has an epoch that no earlier run had. It begins by publishing the newest base
   that it knows again, under its own epoch. From then on bases of lower epochs are ignored,
   whenever they appear. So bases form one chain.
4. An owner whose open examples do not begin at the offset of the newest base reads on from that
   offset. So no example is left out.
"""

from __future__ import annotations

from streaml1.training.mixed_models.messages import Base, Message, Part

__all__ = ["MixState"]


class MixState:
    """The newest base, and the last part of each partition.

    Attributes
    ----------
    base : Base or None
        The newest base.
    base_id : str
        Its id; "" without one.
    parts : dict of int to Part
        The last part of each partition, which may have been merged already.
    seen : dict of int to int
        For each partition the number of parts that have arrived.
    """

    def __init__(self) -> None:
        self.base: Base | None = None
        self.parts: dict[int, Part] = {}
        self.seen: dict[int, int] = {}
        self.base_id = ""

    def apply(self, message: Message) -> bool:
        """Take a message into account; return whether there is a new base."""
        if isinstance(message, Base):
            if self.base is not None and message.rank <= self.base.rank:
                return False
            self.base, self.base_id = message, message.id
            return True
        last = self.parts.get(message.partition)
        # Compaction may leave a part of an earlier owner as the last one, with which the next owner
        # resumes. What an owner has published that this reader alone remembers must not mute it.
        if last is None or message.epoch >= last.epoch or not self.is_mergeable(last):
            self.parts[message.partition] = message
            self.seen[message.partition] = self.seen.get(message.partition, 0) + 1
        return False

    def next_epoch(self, partition: int) -> int:
        """Return the epoch of a new owner of a partition."""
        last = self.parts.get(partition)
        return 1 if last is None else last.epoch + 1

    def is_mergeable(self, part: Part) -> bool:
        """Return whether a part continues the newest base."""
        if self.base is None or part.base != self.base_id:
            return False
        return self.base.frontier.get(part.partition, part.lo) == part.lo

    def mergeable(self) -> dict[int, Part]:
        """Return the parts that continue the newest base, by partition."""
        return {p: part for p, part in sorted(self.parts.items()) if self.is_mergeable(part)}
