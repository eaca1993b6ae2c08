"""confluent-kafka in the place of kafka-python, to read and write records.

`ConfluentConsumer` and `ConfluentProducer` offer the methods of kafka-python's clients that this
package uses. Only records go through librdkafka. Metadata, topic ids and offset requests stay with
a client of kafka-python, so that starts, ends and recreated topics are treated alike; and errors
are converted to kafka-python's, so that there is one explanation for each.
"""
