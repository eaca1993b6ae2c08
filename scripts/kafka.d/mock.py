"""Run librdkafka's mock cluster as a process: print its address, then wait for SIGTERM."""

import signal

from confluent_kafka import Producer

if __name__ == "__main__":
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    signal.sigwait([signal.SIGTERM])
