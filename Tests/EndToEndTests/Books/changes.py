#!/usr/bin/env python3
"""Changes of topics for the end-to-end tests that no other tool can make.

    changes.py remake       SERVERS TOPIC PARTITIONS COUNT PREFIX AGE   deletes, creates and fills a topic within a moment,
                                                    with records stamped AGE seconds ago
    changes.py transactions SERVERS TOPIC PARTITION COUNT   writes COUNT transactions of five requests; aborts each fourth
    changes.py tombstones   SERVERS TOPIC COUNT KEY-BYTES   partition after partition, keys that do not compress
"""

import os
import sys
import time

from confluent_kafka import Producer

import topics
from records import Record

BODY = b'{"aps":{"alert":"changes"}}'


def remake(servers, topic, partitions, count, prefix, age):
    stamp = int((time.time() - float(age)) * 1000)
    topics.delete(servers, [topic])
    topics.create(servers, {topic: (int(partitions), {})})
    topics.wait_until(lambda: topics.written(servers, topic) == 0, f"{topic} is not empty")
    topics.produce(servers, topic, (Record(f"{prefix}{n:062x}", BODY, partition=n % int(partitions), timestamp=stamp)
                                    for n in range(int(count))))


def transactions(servers, topic, partition, count):
    client = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}/{partition}"})
    client.init_transactions(60)
    for number in range(int(count)):
        client.begin_transaction()
        for index in range(5):
            client.produce(topic, key=f"00{number * 5 + index:062x}".encode(), value=BODY, partition=int(partition))
        if number % 4 == 1:
            # An abort drops records that were not written yet.
            client.flush(60)
            client.abort_transaction(60)
        else:
            client.commit_transaction(60)


def tombstones(servers, topic, count, size):
    partitions = len(topics.partitions(topics.reader(servers), topic))
    topics.produce(servers, topic, (Record(os.urandom(int(size)), None, partition=n % partitions)
                                    for n in range(int(count))))


topics.run({"remake": remake, "transactions": transactions, "tombstones": tombstones}[sys.argv[1]], *sys.argv[2:])
