#!/usr/bin/env python3
"""Records that a producer can write and nobody should have to fear: each is written, and behind it, in the same
partition, a good one that must have its result soon.

    limits.py --servers HOST:PORT --requests TOPIC --retries TOPIC --results TOPIC --within SECONDS [--repeats COUNT]

Says for each how long that took, and in the end how many bytes of results there are for each byte written. Exits with 1
when a good one has no result in time, or a result is larger than the README says. The topics have one partition.
"""

import argparse
import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

RESULT_LIMIT = 4096
TOPIC = ("apns-topic", b"com.example.shop")
PAYLOAD = b'{"aps":{"alert":"Hi"}}'
NEVER = 2**63 - 1


class Bench:
    def __init__(self, options):
        self.options = options
        self.number = 0
        self.written = 0
        self.results = {}
        self.size = 0
        self.largest = 0
        self.count = 0
        self.findings = []
        self.producer = Producer({
            "bootstrap.servers": options.servers, "acks": "all", "message.max.bytes": 50_000_000,
            "compression.type": "lz4", "linger.ms": 0,
        })
        self.consumer = Consumer({
            "bootstrap.servers": options.servers, "group.id": "limits", "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        })
        self.consumer.assign([TopicPartition(options.results, 0, 0)])
        # What a cluster may be set to; so it was by default before Kafka 4.
        admin = AdminClient({"bootstrap.servers": options.servers})
        settings = {
            "message.timestamp.after.max.ms": str(NEVER), "message.timestamp.before.max.ms": str(NEVER),
            "retention.ms": "-1",
        }
        resources = [ConfigResource("topic", topic, set_config=settings) for topic in (options.requests, options.retries)]
        for future in admin.alter_configs(resources).values():
            future.result(180)

    def token(self):
        self.number += 1
        return "00%062x" % (0xA11_0000 + self.number)

    def write(self, topic, key, value, headers, timestamp=None):
        failures = []
        more = {} if timestamp is None else {"timestamp": timestamp}
        self.producer.produce(
            topic, key=key, value=value, headers=headers, partition=0,
            on_delivery=lambda error, message: failures.append(error) if error else None, **more)
        if self.producer.flush(60) > 0 or failures:
            raise RuntimeError(f"not written: {failures}")
        self.written += len(key or b"") + len(value or b"") + sum(len(n) + len(v) for n, v in headers)

    def read(self, seconds):
        message = self.consumer.poll(seconds)
        if message is None or message.error():
            return
        size = len(message.key() or b"") + len(message.value() or b"")
        size += sum(len(name) + len(value or b"") for name, value in message.headers() or [])
        self.count += 1
        self.size += size
        self.largest = max(self.largest, size)
        self.results.setdefault((message.key() or b"").decode("utf-8", "replace"), []).append(message)

    def result(self, token):
        return json.loads(self.results[token][0].value())

    def behind(self, name, write):
        """Writes the record, a good one behind it, and waits for that one's result."""
        started = time.monotonic()
        topic = write() or self.options.requests
        token = self.token()
        headers = [TOPIC]
        if topic == self.options.retries:
            headers += retry_headers(self.number)
        self.write(topic, token.encode(), PAYLOAD, headers)
        taken = time.monotonic()
        while token not in self.results and time.monotonic() - taken < self.options.within:
            self.read(0.2)
        if token in self.results:
            print(f"{name}: the one behind it after {time.monotonic() - taken:.1f} s "
                  f"(written in {taken - started:.1f} s)")
            if self.result(token)["outcome"] != "accepted":
                self.findings.append(f"{name}: the one behind it: {self.result(token)}")
        else:
            # Whatever comes next waits, too.
            sys.exit(f"FOUND {name}: no result of the one behind it within {self.options.within} s")
        sys.stdout.flush()

    def expect(self, name, token, **members):
        deadline = time.monotonic() + self.options.within
        while token not in self.results and time.monotonic() < deadline:
            self.read(0.2)
        if token not in self.results:
            self.findings.append(f"{name}: it has no result itself")
            return
        found = {member: self.result(token).get(member) for member in members}
        if found != members:
            self.findings.append(f"{name}: {found}, expected {members}")


def retry_headers(number, sends="1", in_doubt="0", attempt="1", first=None, due="1"):
    values = {
        "push-retry-request": f"apns.requests/0/{number}/0", "push-retry-attempt": attempt, "push-retry-due-ms": due,
        "push-retry-first-ms": first or str(int(time.time() * 1000)), "push-retry-sends": sends,
        "push-retry-in-doubt": in_doubt,
    }
    return [(name, value.encode()) for name, value in values.items()]


def play(bench):
    requests, retries = bench.options.requests, bench.options.retries
    bench.behind("nothing", lambda: None)

    token = bench.token()
    bench.behind("1.7 MB of control characters as apns-topic", lambda: bench.write(
        requests, token.encode(), PAYLOAD, [("apns-topic", b"\x01" * 1_700_000)]))
    bench.expect("1.7 MB as apns-topic", token, outcome="invalid", reason="BadTopic")

    def retry(token, **more):
        bench.write(retries, token.encode(), PAYLOAD, [TOPIC] + retry_headers(0, **more))
        return retries

    for text in ["2147483647", "2147483648", "999999999999999999", "9223372036854775807"]:
        token = bench.token()
        bench.behind(f"push-retry-sends: {text}", lambda: retry(token, sends=text, in_doubt=text))
        bench.expect("push-retry-sends", token, outcome="accepted", attempts=1_000_001, in_doubt=1_000_000)
    for due, first in [("-1", "-1"), ("9223372036854775807", "9223372036854775807"), ("0", "0")]:
        token = bench.token()
        bench.behind(f"push-retry-due-ms: {due}", lambda: retry(token, due=due, first=first))
        bench.expect("push-retry-first-ms", token, outcome="accepted", requested_at_ms=0)

    now = int(time.time() * 1000)
    for timestamp in [-1, -2, 1, now - 2**63 + 400, -2**63 + now, 2**62, 2**63 - 1]:
        for topic in [requests, retries]:
            token = bench.token()
            headers = [TOPIC] + (retry_headers(0) if topic == retries else [])
            try:
                bench.behind(f"timestamp {timestamp} in {topic.rsplit('.', 2)[-1]}", lambda: bench.write(
                    topic, token.encode(), PAYLOAD, headers, timestamp=timestamp) or topic)
            except RuntimeError as error:
                print(f"timestamp {timestamp}: Kafka does not take it: {error}")
                continue
            known = timestamp if 1 <= timestamp <= 253_402_300_799_999 else 0
            wanted = {"requested_at_ms": known} if topic == requests else {}
            # What was asked for in 1970 is too old; what has no time is not.
            outcome = "expired" if topic == requests and timestamp == 1 else "accepted"
            bench.expect(f"timestamp {timestamp}", token, outcome=outcome, **wanted)

    def envelope(tokens, headers, key):
        value = {"device_tokens": tokens, "payload": {"aps": {"alert": "Hi"}}, "headers": headers}
        bench.write(requests, key, json.dumps(value).encode(), [])

    before = bench.size, bench.count, bench.written
    same = bench.token()
    repeats = bench.options.repeats
    bench.behind(f"one token {repeats} times, with a key of 900 KB", lambda: envelope(
        [same] * repeats, {"apns-topic": "com.example.shop"}, b"k" * 900_000))
    bench.behind("10,000 bad tokens, with an apns-topic of 900 KB", lambda: envelope(
        [f"zz{number}" for number in range(10_000)], {"apns-topic": "x" * 900_000}, b"k"))
    deadline = time.monotonic() + 180
    while bench.count < before[1] + repeats + 10_002 and time.monotonic() < deadline:
        bench.read(0.2)
    size, count, written = (now - then for now, then in zip((bench.size, bench.count, bench.written), before))
    print(f"{count} results, {size} bytes of them for {written} bytes of requests; the largest has {bench.largest}")
    if count != repeats + 10_002:
        bench.findings.append(f"{count} results of {repeats + 10_002}")
    if bench.largest > RESULT_LIMIT or size > count * RESULT_LIMIT:
        bench.findings.append(f"a result of {bench.largest} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["--servers", "--requests", "--retries", "--results"]:
        parser.add_argument(name, required=True)
    parser.add_argument("--within", type=float, required=True)
    parser.add_argument("--repeats", type=int, default=10_000, help="how often an envelope names one device")
    bench = Bench(parser.parse_args())
    play(bench)
    for finding in bench.findings:
        print("FOUND", finding)
    sys.exit(1 if bench.findings else 0)


main()
