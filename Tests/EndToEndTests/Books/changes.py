#!/usr/bin/env python3
"""Topics that change under a worker, and records that are hard to keep: for the end-to-end tests.

    changes.py delete     SERVERS TOPIC…
    changes.py create     SERVERS TOPIC PARTITIONS
    changes.py remake     SERVERS TOPIC PARTITIONS COUNT PREFIX AGE   deleted, made and filled within a moment, with
                                                    records stamped so many seconds ago; prints how long it was gone
    changes.py transactions SERVERS TOPIC PARTITION COUNT   writes so many of five requests, and aborts each fourth
    changes.py requests   SERVERS TOPIC COUNT [PREFIX]      one notification each, partition after partition
    changes.py tombstones SERVERS TOPIC COUNT KEY-BYTES     partition after partition
    changes.py await-tokens SERVERS TOPIC COUNT SECONDS   waits for so many distinct keys of results
    changes.py tokens     SERVERS TOPIC                     the distinct keys of a topic of results, and how many of
                                                    their repeats say nothing of a doubt
"""

import json
import os
import sys
import time

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import topics


def delete(servers, *names):
    topics.delete(servers, names)


def create(servers, name, partitions):
    topics.create(servers, {name: (int(partitions), {})})


def producer(servers):
    return Producer({
        "bootstrap.servers": servers, "acks": "all", "linger.ms": 5, "message.max.bytes": 4_000_000,
        "queue.buffering.max.kbytes": 1_000_000, "compression.type": "lz4",
    })


def write(servers, topic, records):
    client = producer(servers)
    failures = []
    count = len(client.list_topics(topic, timeout=60).topics[topic].partitions)
    for number, (key, value) in enumerate(records):
        client.produce(topic, key=key, value=value, partition=number % count,
                       on_delivery=lambda error, _: error and failures.append(error))
        client.poll(0)
    if client.flush(60) or failures:
        raise RuntimeError(f"not all was written: {failures[:1]}")


def requests(servers, topic, count, prefix="00"):
    body = b'{"aps":{"alert":"changes"}}'
    write(servers, topic, ((f"{prefix}{number:062x}".encode(), body) for number in range(int(count))))


def await_empty(servers, topic, partitions, deadline):
    """The controller has made it anew; what a broker that has not heard of that takes goes with the old log."""
    client = topics.reader(servers)
    for partition in range(partitions):
        while True:
            try:
                if client.get_watermark_offsets(TopicPartition(topic, partition), timeout=60) == (0, 0):
                    break
            except KafkaException:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} [{partition}] is not empty")
            time.sleep(0.02)
    client.close()


def remake(servers, topic, partitions, count, prefix, age):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.list_topics(timeout=60)
    client = producer(servers)
    client.list_topics(timeout=60)
    stamp = int((time.time() - float(age)) * 1000)
    began = time.monotonic()
    admin.delete_topics([topic], operation_timeout=60)[topic].result(180)
    while True:
        try:
            admin.create_topics([NewTopic(topic, int(partitions), 1)], operation_timeout=60)[topic].result(180)
            break
        except Exception:
            if time.monotonic() - began > 180:
                raise
    await_empty(servers, topic, int(partitions), began + 180)
    made = time.monotonic()
    body = b'{"aps":{"alert":"changes"}}'
    failures = []
    for number in range(int(count)):
        client.produce(topic, key=f"{prefix}{number:062x}".encode(), value=body, partition=number % int(partitions),
                       timestamp=stamp, on_delivery=lambda error, _: error and failures.append(error))
        client.poll(0)
    if client.flush(60) or failures:
        raise RuntimeError(f"not all was written: {failures[:1]}")
    print(f"{topic} was made anew within {made - began:.2f} s, and full after {time.monotonic() - began:.2f} s")


def transactions(servers, topic, partition, count):
    client = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}/{partition}"})
    client.init_transactions(60)
    for number in range(int(count)):
        client.begin_transaction()
        for index in range(5):
            client.produce(topic, key=f"00{number * 5 + index:062x}".encode(), value=b'{"aps":{"alert":"Hi"}}',
                           partition=int(partition))
        if number % 4 == 1:
            # Else what was not written yet is not written at all.
            client.flush(60)
            client.abort_transaction(60)
        else:
            client.commit_transaction(60)


def tombstones(servers, topic, count, size):
    write(servers, topic, ((os.urandom(int(size)), None) for _ in range(int(count))))


def await_tokens(servers, topic, count, seconds):
    known = set()
    began = time.monotonic()
    for message in topics.follow(servers, topic, float(seconds), from_beginning=True):
        known.add(message.key())
        if len(known) >= int(count):
            break
    tokens(servers, topic)
    if len(known) < int(count):
        raise TimeoutError(f"{len(known)} of {count} tokens in {topic} within {time.monotonic() - began:.1f} s")


def tokens(servers, topic):
    found = {}
    marked = {}
    for message in topics.read(servers, topic):
        key = message.key()
        found[key] = found.get(key, 0) + 1
        marked[key] = marked.get(key, 0) + (json.loads(message.value())["in_doubt"] > 0)
    unmarked = sum(max(0, count - 1 - marked[key]) for key, count in found.items())
    print(f"distinct {len(found)} records {sum(found.values())} unmarked {unmarked}")


def main():
    actions = {"delete": delete, "create": create, "remake": remake, "transactions": transactions, "requests": requests, "tombstones": tombstones,
               "await-tokens": await_tokens, "tokens": tokens}
    try:
        actions[sys.argv[1]](*sys.argv[2:])
        status = 0
    except (RuntimeError, ValueError, OSError, KeyError) as error:
        print(f"changes.py: {error!r}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
