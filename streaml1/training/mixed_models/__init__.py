"""The topic of a model that a consumer group mixes, see `distributed.mixing`.

- `messages`: parts and bases as records, and back.
- `state`: what the records say; why each example is merged exactly once.
- `reader`: reading the topic.
"""
