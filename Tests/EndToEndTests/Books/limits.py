#!/usr/bin/env python3
"""Records at the limits of what a producer can write. Behind each, in the same partition, comes a good one, which must
have its result soon.

    limits.py SERVERS REQUESTS RETRIES RESULTS REPEATS

REPEATS is how often an envelope names one device. The topics have one partition. Exits with 1 when a good record has no
result in time, or a result is larger than the README says.
"""

import json
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource

import topics

RESULT_LIMIT = 4096
TOPIC = ("apns-topic", b"com.example.shop")
PAYLOAD = b'{"aps":{"alert":"Hi"}}'
NEVER = 2**63 - 1


class Bench:
    def __init__(self, servers, requests, retries, results):
        self.requests, self.retries = requests, retries
        self.number = self.count = self.size = self.largest = 0
        self.results = {}  # token -> value of the first result
        self.findings = []
        self.producer = Producer({
            "bootstrap.servers": servers, "acks": "all", "message.max.bytes": 50_000_000, "compression.type": "lz4",
            "linger.ms": 0,
        })
        self.tail = topics.Tail(servers, results)
        # The default before Kafka 4, and possible since.
        settings = {
            "message.timestamp.after.max.ms": str(NEVER), "message.timestamp.before.max.ms": str(NEVER),
            "retention.ms": "-1",
        }
        admin = AdminClient({"bootstrap.servers": servers})
        resources = [ConfigResource("topic", topic, set_config=settings) for topic in (requests, retries)]
        for future in admin.alter_configs(resources).values():
            future.result(topics.PATIENCE)

    def token(self):
        self.number += 1
        return "00%062x" % (0xA11_0000 + self.number)

    def write(self, topic, key, value, headers, **more):
        failures = []
        self.producer.produce(
            topic, key=key, value=value, headers=headers, partition=0,
            on_delivery=lambda error, message: failures.append(error) if error else None, **more)
        if self.producer.flush(60) > 0 or failures:
            raise RuntimeError(f"not written: {failures}")

    def read(self):
        for message in self.tail.read():
            size = sum(len(part or b"") for part in (message.key(), message.value()))
            size += sum(len(name) + len(value or b"") for name, value in message.headers() or [])
            self.count += 1
            self.size += size
            self.largest = max(self.largest, size)
            self.results.setdefault((message.key() or b"").decode("utf-8", "replace"), message.value())

    def result(self, token, name):
        deadline = time.monotonic() + topics.PATIENCE
        while token not in self.results:
            if time.monotonic() > deadline:
                raise RuntimeError(f"FOUND {name}: no result in time")
            self.read()
        return json.loads(self.results[token])

    def behind(self, name, topic, write):
        """Writes the record and a good one behind it, and waits for that one's result."""
        write()
        token = self.token()
        self.write(topic, token, PAYLOAD, [TOPIC] + (retry_headers(self.number) if topic == self.retries else []))
        result = self.result(token, f"{name}, the one behind it")
        if result["outcome"] != "accepted":
            self.findings.append(f"{name}: the one behind it: {result}")

    def expect(self, name, token, **members):
        result = self.result(token, name)
        found = {member: result.get(member) for member in members}
        if found != members:
            self.findings.append(f"{name}: {found}, expected {members}")


def retry_headers(number, **more):
    values = {
        "request": f"apns.requests/0/{number}/0", "attempt": 1, "due-ms": 1, "first-ms": int(time.time() * 1000),
        "sends": 1, "in-doubt": 0,
    } | {name.replace("_", "-"): value for name, value in more.items()}
    return [("push-retry-" + name, str(value).encode()) for name, value in values.items()]


def main(servers, requests, retries, results, repeats):
    bench, repeats = Bench(servers, requests, retries, results), int(repeats)
    token = bench.token()
    name = "1.7 MB of control characters as apns-topic"
    bench.behind(name, requests, lambda: bench.write(requests, token, PAYLOAD, [("apns-topic", b"\x01" * 1_700_000)]))
    bench.expect(name, token, outcome="invalid", reason="BadTopic")

    def retry(members, **headers):
        token = bench.token()
        bench.behind(str(headers), retries, lambda: bench.write(
            retries, token, PAYLOAD, [TOPIC] + retry_headers(0, **headers)))
        bench.expect(str(headers), token, outcome="accepted", **members)

    for number in [2**31 - 1, 2**31, 10**18 - 1, NEVER]:
        retry({"attempts": 1_000_001, "in_doubt": 1_000_000}, sends=number, in_doubt=number)
    for number in [-1, NEVER, 0]:
        retry({"requested_at_ms": 0}, due_ms=number, first_ms=number)

    now = int(time.time() * 1000)
    for timestamp in [-1, -2, 1, now - 2**63 + 400, -2**63 + now, 2**62, NEVER]:
        for topic in [requests, retries]:
            token, name = bench.token(), f"timestamp {timestamp} in {topic}"
            headers = [TOPIC] + (retry_headers(0) if topic == retries else [])
            try:
                bench.behind(name, topic, lambda: bench.write(topic, token, PAYLOAD, headers, timestamp=timestamp))
            except RuntimeError as error:
                if "FOUND" in str(error):
                    raise
                print(f"{name}: Kafka does not take it: {error}")
                continue
            known = timestamp if 1 <= timestamp <= 253_402_300_799_999 else 0
            wanted = {"requested_at_ms": known} if topic == requests else {}
            # A request of 1970 is too old; one without a time is not.
            outcome = "expired" if topic == requests and timestamp == 1 else "accepted"
            bench.expect(name, token, outcome=outcome, **wanted)

    def envelope(tokens, topic, key):
        value = {"device_tokens": tokens, "payload": {"aps": {"alert": "Hi"}}, "headers": {"apns-topic": topic}}
        bench.write(requests, key, json.dumps(value).encode(), [])

    count = bench.count
    same = [bench.token()] * repeats
    bench.behind(f"one token {repeats} times, with a key of 900 KB", requests, lambda: envelope(
        same, "com.example.shop", b"k" * 900_000))
    bench.behind("10,000 bad tokens, with an apns-topic of 900 KB", requests, lambda: envelope(
        [f"zz{number}" for number in range(10_000)], "x" * 900_000, b"k"))
    deadline = time.monotonic() + topics.PATIENCE
    while bench.count < count + repeats + 10_002 and time.monotonic() < deadline:
        bench.read()
    if bench.count != count + repeats + 10_002:
        bench.findings.append(f"{bench.count - count} results of {repeats + 10_002}")
    if bench.largest > RESULT_LIMIT:
        bench.findings.append(f"a result of {bench.largest} bytes")
    print(f"{bench.count} results, the largest of {bench.largest} bytes", *bench.findings, sep="\nFOUND ")
    return not bench.findings


topics.run(main, *sys.argv[1:])
