#!/usr/bin/env python3
"""Topics that change under a worker, and records that are hard to keep: for the end-to-end tests.

    changes.py delete     SERVERS TOPIC…
    changes.py create     SERVERS TOPIC PARTITIONS
    changes.py remake     SERVERS TOPIC PARTITIONS COUNT PREFIX AGE   deleted, made and filled within a moment, with
                                                    records stamped so many seconds ago; prints how long it was gone
    changes.py transaction SERVERS TOPIC PARTITION COUNT TIMEOUT-MS   writes, and dies with the transaction open
    changes.py transactions SERVERS TOPIC PARTITION COUNT   writes so many of five requests, and aborts each fourth
    changes.py abort      SERVERS TOPIC PARTITION           ends that transaction, as one that begins anew does
    changes.py alter      SERVERS TOPIC NAME=VALUE          of the topic's configuration
    changes.py requests   SERVERS TOPIC COUNT [PREFIX]      one notification each, partition after partition
    changes.py tombstones SERVERS TOPIC COUNT KEY-BYTES     partition after partition
    changes.py await      SERVERS TOPIC COUNT SECONDS [FROM]   waits for so many records; prints how long that took
    changes.py await-tokens SERVERS TOPIC COUNT SECONDS   waits for so many distinct keys of results
    changes.py tokens     SERVERS TOPIC                     the distinct keys of a topic of results, and how many of
                                                    their repeats say nothing of a doubt
"""

import json
import os
import sys
import time

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

import topics


def delete(servers, *names):
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_topics(list(names), operation_timeout=20).values():
        future.result(30)
    deadline = time.monotonic() + 20
    while set(names) & set(admin.list_topics(timeout=10).topics):
        if time.monotonic() > deadline:
            raise TimeoutError("topics do not go")
        time.sleep(0.02)


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
    count = len(client.list_topics(topic, timeout=20).topics[topic].partitions)
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
                if client.get_watermark_offsets(TopicPartition(topic, partition), timeout=5) == (0, 0):
                    break
            except KafkaException:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} [{partition}] is not empty")
            time.sleep(0.02)
    client.close()


def remake(servers, topic, partitions, count, prefix, age):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.list_topics(timeout=10)
    client = producer(servers)
    client.list_topics(timeout=10)
    stamp = int((time.time() - float(age)) * 1000)
    began = time.monotonic()
    admin.delete_topics([topic], operation_timeout=20)[topic].result(30)
    while True:
        try:
            admin.create_topics([NewTopic(topic, int(partitions), 1)], operation_timeout=20)[topic].result(30)
            break
        except Exception:
            if time.monotonic() - began > 20:
                raise
    await_empty(servers, topic, int(partitions), began + 20)
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


def transactional(servers, topic, partition, timeout_ms="60000"):
    client = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}/{partition}",
                       "transaction.timeout.ms": int(timeout_ms)})
    client.init_transactions(30)
    return client


def transaction(servers, topic, partition, count, timeout_ms):
    client = transactional(servers, topic, partition, timeout_ms)
    client.begin_transaction()
    for number in range(int(count)):
        client.produce(topic, key=f"ee{number:062x}".encode(), value=b'{"aps":{}}', partition=int(partition))
    if client.flush(60):
        raise RuntimeError("not all was written")
    # As one that is killed: `main` ends with _exit.


def transactions(servers, topic, partition, count):
    client = transactional(servers, topic, partition)
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


def abort(servers, topic, partition):
    transactional(servers, topic, partition)


def alter(servers, topic, setting):
    name, _, value = setting.partition("=")
    admin = AdminClient({"bootstrap.servers": servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={name: value})
    for future in admin.alter_configs([resource]).values():
        future.result(30)


def tombstones(servers, topic, count, size):
    write(servers, topic, ((os.urandom(int(size)), None) for _ in range(int(count))))


def await_records(servers, topic, count, seconds, start="0"):
    consumer = topics.reader(servers)
    began = time.monotonic()
    while True:
        held = sum(topics.ends(consumer, topic).values()) - int(start)
        spent = time.monotonic() - began
        if held >= int(count):
            print(f"{held} records of {topic} after {spent:.2f} s")
            return
        if spent > float(seconds):
            raise TimeoutError(f"{held} of {count} records of {topic} within {spent:.1f} s")
        time.sleep(0.1)


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
    actions = {"delete": delete, "create": create, "remake": remake, "transaction": transaction,
               "transactions": transactions, "abort": abort, "alter": alter, "requests": requests, "tombstones": tombstones,
               "await": await_records, "await-tokens": await_tokens, "tokens": tokens}
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
