#!/usr/bin/env python3
"""What the end-to-end tests do to topics, and no other tool can.

    changes.py remake       SERVERS TOPIC PARTITIONS COUNT PREFIX AGE   deletes, creates and fills a topic within a moment,
                                                    with records stamped AGE seconds ago
    changes.py transactions SERVERS TOPIC PARTITION COUNT   writes COUNT transactions of five requests; aborts each fourth
    changes.py tombstones   SERVERS TOPIC COUNT KEY-BYTES   partition after partition, keys that do not compress
"""

import os
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import topics

BODY = b'{"aps":{"alert":"changes"}}'


def write(servers, topic, partitions, records, **more):
    client = Producer({
        "bootstrap.servers": servers, "acks": "all", "linger.ms": 5, "message.max.bytes": 4_000_000,
        "queue.buffering.max.kbytes": 1_000_000, "compression.type": "lz4",
    })
    failures = []
    for number, (key, value) in enumerate(records):
        client.produce(topic, key=key, value=value, partition=number % partitions,
                       on_delivery=lambda error, _: error and failures.append(error), **more)
        client.poll(0)
    if client.flush(60) or failures:
        raise RuntimeError(f"not all was written: {failures[:1]}")


def remake(servers, topic, partitions, count, prefix, age):
    stamp = int((time.time() - float(age)) * 1000)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic], operation_timeout=60)[topic].result(topics.PATIENCE)
    topics.wait_until(lambda: not admin.create_topics([NewTopic(topic, int(partitions), 1)])[topic].exception(60),
                      f"{topic} is not created")
    topics.wait_until(lambda: topics.written(servers, topic) == 0, f"{topic} is not empty")
    write(servers, topic, int(partitions), ((f"{prefix}{n:062x}".encode(), BODY) for n in range(int(count))),
          timestamp=stamp)


def transactions(servers, topic, partition, count):
    client = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}/{partition}"})
    client.init_transactions(60)
    for number in range(int(count)):
        client.begin_transaction()
        for index in range(5):
            client.produce(topic, key=f"00{number * 5 + index:062x}".encode(), value=BODY, partition=int(partition))
        if number % 4 == 1:
            # An abort drops what was not written yet.
            client.flush(60)
            client.abort_transaction(60)
        else:
            client.commit_transaction(60)


def tombstones(servers, topic, count, size):
    partitions = len(topics.partitions(topics.reader(servers), topic))
    write(servers, topic, partitions, ((os.urandom(int(size)), None) for _ in range(int(count))))


topics.run({"remake": remake, "transactions": transactions, "tombstones": tombstones}[sys.argv[1]], *sys.argv[2:])
