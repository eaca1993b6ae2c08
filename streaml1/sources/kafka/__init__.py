"""Kafka topics as sources of examples, and as destinations of records."""
