"""Access to Kafka through Python's confluent-kafka, a client that shares no code with the worker."""

import os
import sys
import time
from functools import partial

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE = 180  # seconds
# Temporary errors of a topic that was just created, or of a broker that was just started.
PASSING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_COORDINATOR,
           KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def run(action, *arguments):
    """Runs a program's action, and exits with 0, or with 1 if it raises or returns False."""
    try:
        status = 1 if action(*arguments) is False else 0
    except (RuntimeError, ValueError, OSError, KafkaException) as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        status = 1
    # confluent-kafka 1.7.0 releases None once too often for each null header, so Python would abort when it exits.
    sys.stdout.flush()
    os._exit(status)


def patiently(call, *arguments, **named):
    """Repeats a call that raises a passing error."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call(*arguments, **named)
        except KafkaException as failure:
            error = failure.args[0]
            if not (error.retriable() or error.code() in PASSING) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def wait_until(is_done, failure):
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        if time.monotonic() > deadline:
            raise TimeoutError(failure)
        time.sleep(0.05)


def create(servers, topics):
    """Creates topics, given as name -> (partitions, configuration), and waits until each partition has a leader. Retries,
    because Kafka refuses a topic while it deletes an old one with the same name."""
    admin = AdminClient({"bootstrap.servers": servers})
    for name, (count, configuration) in topics.items():
        new = NewTopic(name, count, 1, config=configuration)
        wait_until(lambda: not admin.create_topics([new], operation_timeout=60)[name].exception(PATIENCE),
                   f"{name} is not created")

    def have_leaders():
        known = admin.list_topics(timeout=60).topics
        return all(name in known and [p.leader >= 0 for p in known[name].partitions.values()] == [True] * count
                   for name, (count, _) in topics.items())

    wait_until(have_leaders, "topics have no leader in time: " + ", ".join(topics))


def delete(servers, names):
    """Deletes topics, and waits until the broker lists none of them."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_topics(list(names), operation_timeout=60).values():
        future.result(PATIENCE)
    wait_until(lambda: not set(names) & admin.list_topics(timeout=60).topics.keys(),
               "topics are not deleted in time: " + ", ".join(names))


def produce(servers, topic, records, note=lambda record, message: None, rate=0):
    """Writes records (key, value, headers, partition, timestamp), and calls a function with each acknowledged one.

    Returns the number of acknowledged records. Raises if one was not acknowledged, because a book would be wrong.
    """
    # With more requests in flight, a broker that refuses one (because its topic was just created) may accept the next.
    # librdkafka then reports the refused records as written.
    producer = Producer({
        "bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 10,
        "max.in.flight.requests.per.connection": 1, "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 1_000_000, "message.max.bytes": 50_000_000, "compression.type": "lz4",
        "log_level": 0,
    })
    written = 0
    failure = None

    def delivered(record, error, message):
        nonlocal written, failure
        if error is not None or message.offset() is None or message.offset() < 0:
            # librdkafka reports DUPLICATE_SEQUENCE_NUMBER as success without an offset, even if the record is not in
            # the log.
            failure = failure or error or "acknowledged without an offset"
            return
        note(record, message)
        written += 1

    started = time.monotonic()
    step = max(1, min(500, rate // 200)) if rate else 500
    for number, record in enumerate(records):
        while True:
            try:
                producer.produce(topic, value=record.value, key=record.key, headers=record.headers or [],
                                 partition=record.partition, timestamp=record.timestamp,
                                 on_delivery=partial(delivered, record))
                break
            except BufferError:
                producer.poll(0.1)
        if number % step == 0:
            producer.poll(0)
            while rate and (ahead := number / rate - (time.monotonic() - started)) > 0:
                producer.poll(ahead)  # returns at each report
        if failure:
            break
    producer.flush(60)
    if failure or len(producer):
        raise RuntimeError(f"not all records were acknowledged: {failure or len(producer)}")
    return written


def partitions(client, topic):
    known = client.list_topics(topic, timeout=60).topics[topic]
    if known.error:
        raise KafkaException(known.error)
    return sorted(known.partitions)


def reader(servers, group="books"):
    return Consumer({
        "bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False,
        "enable.auto.offset.store": False, "auto.offset.reset": "earliest", "queued.min.messages": 100_000,
        "fetch.wait.max.ms": 50, "log_level": 0,
    })


def ends(consumer, topic):
    """Returns the offset after the last record of each partition."""
    return {p: patiently(consumer.get_watermark_offsets, TopicPartition(topic, p), timeout=60)[1]
            for p in patiently(partitions, consumer, topic)}


def written(servers, *names):
    """Returns the number of records that were ever written to the topics."""
    consumer = reader(servers)
    try:
        return sum(sum(ends(consumer, name).values()) for name in names)
    finally:
        consumer.close()


class Tail:
    """Follows a topic from its first record, or from its end."""

    def __init__(self, servers, topic, at_end=False):
        self.topic = topic
        self.consumer = reader(servers)
        self.next = {p: end if at_end else 0 for p, end in ends(self.consumer, topic).items()}
        self.consumer.assign([TopicPartition(topic, p, at) for p, at in self.next.items()])
        self.errors = 0

    def read(self, limit=10_000, timeout=0.2):
        for message in self.consumer.consume(limit, timeout=timeout):
            if message.error():
                self.errors += 1  # the broker is away
                continue
            self.next[message.partition()] = message.offset() + 1
            yield message

    def is_past(self, ends):
        """Whether the end is reached, including transaction markers, which readers do not see."""
        place = {p.partition: p.offset for p in self.consumer.position([TopicPartition(self.topic, p) for p in ends])}
        return all(max(self.next[p], place[p]) >= end for p, end in ends.items())


def read(servers, topic):
    """Yields every record that the topic holds at the time of the call."""
    tail = Tail(servers, topic)
    try:
        until = ends(tail.consumer, topic)
        silent = time.monotonic() + PATIENCE
        while not tail.is_past(until):
            for message in tail.read():
                silent = time.monotonic() + PATIENCE
                if message.offset() < until[message.partition()]:
                    yield message
            if time.monotonic() > silent:
                raise TimeoutError(f"reading {topic}: nothing for {PATIENCE} s at {tail.next}, short of {until}")
    finally:
        tail.consumer.close()


def lag(servers, group, topic):
    """Returns the number of records of the topic that the group has not committed."""
    consumer = reader(servers, group)
    try:
        places = [TopicPartition(topic, p) for p in patiently(partitions, consumer, topic)]
        total = 0
        # The commits are read before the ends, so that the lag may be too large but never too small.
        for place in patiently(consumer.committed, places, timeout=60):
            first, end = patiently(consumer.get_watermark_offsets, place, timeout=60)
            total += end - (place.offset if place.offset >= 0 else first)
        return total
    finally:
        consumer.close()


def version():
    return "confluent-kafka %s, librdkafka %s" % (confluent_kafka.version()[0], confluent_kafka.libversion()[0])
