"""Kafka, through Python's confluent-kafka: a client that shares no code of ours with the worker."""

import json
import time
from functools import partial

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from commits import Committed, commit_content, commit_place


def create(servers, topics):
    """`topics`: name -> (partitions, configuration). Waits until each has its leaders."""
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = [
        NewTopic(name, partitions, 1, config=configuration) for name, (partitions, configuration) in topics.items()
    ]
    for name, future in admin.create_topics(wanted, operation_timeout=60).items():
        future.result(180)
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        known = admin.list_topics(timeout=60).topics
        if all(
            name in known and len(known[name].partitions) == partitions
            and all(p.leader >= 0 for p in known[name].partitions.values())
            for name, (partitions, _) in topics.items()
        ):
            return
        time.sleep(0.05)
    raise TimeoutError("topics have no leader in time: " + ", ".join(topics))


def delete(servers, names):
    """Waits until none of them shows any more."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_topics(list(names), operation_timeout=60).values():
        future.result(180)
    deadline = time.monotonic() + 180
    while any(name in admin.list_topics(timeout=60).topics for name in names):
        if time.monotonic() > deadline:
            raise TimeoutError("topics do not go in time: " + ", ".join(names))
        time.sleep(0.05)


def produce(servers, topic, records, book, rate=0, progress=lambda count: None):
    """Writes the records and, as Kafka acknowledges each, its line to the book with the place it was given.

    Returns how many were acknowledged; raises when one was not: then the book would not be true.
    """
    # One request in flight: a broker that refuses one (a topic that was just made) may take the next, and librdkafka then
    # says of the refused records that they are written, which they are not.
    producer = Producer({
        "bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 10,
        "max.in.flight.requests.per.connection": 1, "queue.buffering.max.messages": 200_000, "compression.type": "lz4",
    })
    written = 0
    failure = None

    def delivered(line, error, message):
        nonlocal written, failure
        if error is not None:
            failure = failure or error
            return
        if message.offset() is None or message.offset() < 0:
            # librdkafka says so where a broker takes it for one that it has (DUPLICATE_SEQUENCE_NUMBER); seen on a busy
            # machine, and the log did not have it.
            failure = failure or "acknowledged without an offset: whether the log has it is not known"
            return
        line["p"], line["o"] = message.partition(), message.offset()
        book.write(json.dumps(line) + "\n")
        written += 1

    started = time.monotonic()
    step = max(1, min(500, rate // 200)) if rate else 500
    for number, record in enumerate(records):
        while True:
            try:
                producer.produce(
                    topic, value=record.value, key=record.key, headers=record.headers,
                    on_delivery=partial(delivered, record.line))
                break
            except BufferError:
                producer.poll(0.1)
        if number % step == 0:
            producer.poll(0)
            progress(written)
            while rate and (ahead := number / rate - (time.monotonic() - started)) > 0:
                producer.poll(ahead)  # which comes back at each report
        if failure:
            break
    producer.flush(60)
    book.flush()
    if failure:
        raise RuntimeError(f"a record was not acknowledged: {failure}")
    if len(producer):
        raise RuntimeError(f"{len(producer)} records were not acknowledged within 60 s")
    return written


def partitions(client, topic):
    known = client.list_topics(topic, timeout=60).topics[topic]
    if known.error:
        raise RuntimeError(f"topic {topic}: {known.error}")
    return sorted(known.partitions)


def reader(servers, group="books"):
    return Consumer({
        "bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False,
        "enable.auto.offset.store": False, "auto.offset.reset": "earliest", "queued.min.messages": 100_000,
        "fetch.wait.max.ms": 50, "enable.partition.eof": False,
    })


def ends(consumer, topic):
    """Partition -> the offset after its last record, from the broker."""
    return {p: end(consumer, TopicPartition(topic, p)) for p in partitions(consumer, topic)}


def end(consumer, partition):
    """The offset after a partition's last record. Of a topic that was just made its leader may not know of it yet."""
    deadline = time.monotonic() + 180
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=60)[1]
        except confluent_kafka.KafkaException as error:
            code = error.args[0].code()
            passing = (confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
                       confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
            if code not in passing or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def read(servers, topic):
    """Yields every record that the topic holds at the time of the call, from its beginning."""
    consumer = reader(servers)
    try:
        until = {p: end for p, end in ends(consumer, topic).items() if end > 0}
        consumer.assign([TopicPartition(topic, p, 0) for p in until])
        silent = time.monotonic() + 180
        while until:
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error():
                    raise RuntimeError(f"reading {topic}: {message.error()}")
                silent = time.monotonic() + 180
                p = message.partition()
                if p in until:
                    yield message
                    if message.offset() >= until[p] - 1:
                        del until[p]
            for p in [position.partition for position in consumer.position(
                    [TopicPartition(topic, p) for p in until]) if position.offset >= until[position.partition]]:
                del until[p]  # ended in records that readers do not see (a transaction's marker)
            if time.monotonic() > silent:
                raise TimeoutError(f"reading {topic}: nothing for 180 s, short of {until}")
    finally:
        consumer.close()


def follow(servers, topic, timeout, from_beginning=False):
    """Yields records that come to the topic from now on, for so many seconds; or those that are there, too."""
    consumer = reader(servers)
    try:
        consumer.assign(
            [TopicPartition(topic, p, 0 if from_beginning else end) for p, end in ends(consumer, topic).items()])
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for message in consumer.consume(200, timeout=0.02):
                if message.error():
                    raise RuntimeError(f"reading {topic}: {message.error()}")
                yield message
    finally:
        consumer.close()


LOADING = (confluent_kafka.KafkaError.NOT_COORDINATOR, confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def committed(consumer, topic):
    """Partition -> the offset that the consumer's group committed; where it never did, the partition's first.

    A broker that has just been started may not lead the group yet: it is asked again for a while.
    """
    deadline = time.monotonic() + 180
    asked = [TopicPartition(topic, p) for p in partitions(consumer, topic)]
    while True:
        try:
            places = consumer.committed(asked, timeout=60)
            break
        except confluent_kafka.KafkaException as failure:
            if not failure.args[0].retriable() and failure.args[0].code() not in LOADING:
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    return {
        place.partition: place.offset if place.offset >= 0 else consumer.get_watermark_offsets(place, timeout=60)[0]
        for place in places
    }


def commits(servers, group, topic):
    """Partition -> what the group committed, with its metadata, as the broker's own topic has it."""
    found = {p: Committed(-1, "", 0) for p in partitions(reader(servers), topic)}
    for message in read(servers, "__consumer_offsets"):
        if (place := commit_place(message.key())) and place[:2] == (group, topic) and message.value():
            found[place[2]] = Committed(*commit_content(message.value()))
    return found


def lag_of(consumer, topic):
    """Records of the topic that the consumer's group has not committed."""
    offsets = committed(consumer, topic)
    # The ends are read after the commits: the lag may be seen too large, never too small.
    return sum(end - offsets[p] for p, end in ends(consumer, topic).items())


def lag(servers, group, topic):
    """The same, asked once."""
    consumer = reader(servers, group)
    try:
        return lag_of(consumer, topic)
    finally:
        consumer.close()


def written(servers, topic):
    """How many records were ever written to the topic."""
    consumer = reader(servers)
    try:
        return sum(ends(consumer, topic).values())
    finally:
        consumer.close()


def version():
    return "confluent-kafka %s, librdkafka %s" % (confluent_kafka.version()[0], confluent_kafka.libversion()[0])
