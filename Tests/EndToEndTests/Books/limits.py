#!/usr/bin/env python3
"""Records at the limits of what a producer can write, including those of `chaos_poison` and unusual times. Each is
followed by a good record in the same partition, which must have its result soon.

    limits.py SERVERS REQUESTS RETRIES RESULTS

The topics have one partition. Exits with 1 when a good record has no result in time, or a result is larger than the
README says.
"""

import json
import random
import sys
import time
import uuid

from confluent_kafka.admin import AdminClient, ConfigResource

import chaos_poison
import topics
from records import Record

RESULT_LIMIT = 4096
TOPIC = ("apns-topic", b"com.example.shop")
NEVER = 2**63 - 1


def main(servers, requests, retries, results):
    tail = topics.Tail(servers, results)
    # All timestamps are allowed, which was the default before Kafka 4.
    settings = {"message.timestamp.after.max.ms": str(NEVER), "message.timestamp.before.max.ms": str(NEVER),
                "retention.ms": "-1"}
    admin = AdminClient({"bootstrap.servers": servers})
    resources = [ConfigResource("topic", topic, set_config=settings) for topic in (requests, retries)]
    for future in admin.alter_configs(resources).values():
        future.result(topics.PATIENCE)
    largest = count = 0

    def write(topic, key, value, headers, timestamp):
        topics.produce(servers, topic, [Record(key, value, headers, partition=0, timestamp=timestamp)])

    def expect(name, topic, key, value, headers, timestamp=None):
        nonlocal largest, count
        count += 1
        now_ms = int(time.time() * 1000)
        try:
            write(topic, key, value, headers, now_ms if timestamp is None else timestamp)
        except RuntimeError as error:
            return print(f"{name}: Kafka does not take it: {error}")
        token = "00%062x" % (0xA11_0000 + count)
        good = [header for header in chaos_poison.retry_headers(count, str(uuid.uuid4()), now_ms, is_wrong=False)
                if header[0] not in ("push-device-token", "push-app")]
        write(topic, token, chaos_poison.PAYLOAD, [TOPIC] + (good if topic == retries else []), now_ms)
        deadline = time.monotonic() + topics.PATIENCE
        outcome = None
        while outcome is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"FOUND {name}: no result of the one behind it")
            for message in tail.read():
                largest = max(largest, len(message.key() or b"") + len(message.value()) + sum(
                    len(header) + len(content or b"") for header, content in message.headers() or []))
                if message.key() == token.encode():
                    outcome = json.loads(message.value())["outcome"]
        if outcome != "accepted":
            raise RuntimeError(f"FOUND {name}: the one behind it is {outcome}")

    source = random.Random(1)
    for kind, make in chaos_poison.KINDS.items():
        if kind != "closed_gateway":
            expect(kind, requests, *make(source, int(time.time() * 1000)))
    for number in range(len(chaos_poison.WRONG)):
        expect(f"retry headers {number}", retries, source.randbytes(8).hex(), chaos_poison.PAYLOAD,
               chaos_poison.retry_headers(number, str(uuid.uuid4()), int(time.time() * 1000)))
    for timestamp in [-1, -2, 1, -2**63 + int(time.time() * 1000), 2**62, NEVER]:
        expect(f"timestamp {timestamp}", requests, "00" * 32, chaos_poison.PAYLOAD, [TOPIC], timestamp)
    print(f"{count} records, the largest result has {largest} bytes")
    return largest <= RESULT_LIMIT


topics.run(main, *sys.argv[1:])
