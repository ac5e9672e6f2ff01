"""The producer of a chaos run, a process of its own:
`chaos_load.py SERVERS TOPIC PARTITIONS RATE SEED BOOK POISON RETRY APPS GATEWAYS`.

It writes so many notifications a second until it is told to stop, most of them in payload form, a tenth in envelopes, and
keeps one bit for each record that Kafka acknowledged. One in POISON records (0: none) is one of `chaos_poison`, and as many
go to the topic RETRY; with APPS 1 some are for the apps that are limited and paused, with GATEWAYS 1 for those of
`chaos_gateway`. Told on its standard input: `hold`, `go`, `stop`; once a second it
says how far it is, as a line of JSON.
"""

import json
import os
import pickle
import random
import sys
import threading
import time
import uuid
from collections import deque
from functools import partial

from confluent_kafka import KafkaException, Producer

import chaos_gateway
import chaos_poison
from chaos_bits import Bits
from chaos_book import DEAD_PREFIX, LATER_PREFIX

DEVICES = 50_000
SIZES = (2, 5, 20, 100, 800)  # device tokens of an envelope
SHARE = 0.1  # of the notifications are in envelopes
SPECIAL = 0.001  # of the records go to a token that is dead, and as many to one that is answered 429 once
LIMITED_PER_SECOND = 20  # notifications for the app that may get 50
PAUSED_PER_SECOND = 5
APP = [("push-app", b"shop")]
HEADERS = [("apns-push-type", b"alert"), ("apns-priority", b"5"), ("apns-collapse-id", b"chaos")]


def token(source, size=0, prefix=""):
    """64 hex digits; the last four say how many tokens its envelope has, 0: it stands alone."""
    return prefix + source.randbytes(30).hex()[len(prefix):] + "%04x" % size


class Records:
    """Draws (key, value, headers, notifications) from a seed. `apps`: name -> share of the records that is for it."""

    def __init__(self, seed, apps=()):
        self.random = random.Random(seed)
        self.apps = [(name, share, HEADERS + [("apns-topic", f"com.example.{name}".encode())])
                     for name, share in dict(apps).items()]
        self.gateway_count = 0
        self.devices = [token(self.random).encode() for _ in range(DEVICES)]
        self.payloads = [b'{"aps":{"alert":"Chaos %d","sound":"default"},"pad":"%s"}' % (n, b"x" * (n % 60))
                         for n in range(240)]
        self.envelopes = [self.envelope(size) for size in SIZES for _ in range(12)]
        mean = sum(SIZES) / len(SIZES)
        self.share = SHARE / (SHARE + (1 - SHARE) * mean)  # of the records

    def envelope(self, size):
        tokens = [token(self.random, size) for _ in range(size)]
        value = json.dumps({"device_tokens": tokens, "app": "shop", "payload": {"aps": {"alert": f"To {size}"}}}).encode()
        return value, size

    def next(self):
        drawn = self.random.random()
        if drawn < self.share:
            value, size = self.random.choice(self.envelopes)
            return None, value, None, size
        if drawn < self.share + 2 * SPECIAL:
            prefix = DEAD_PREFIX if drawn < self.share + SPECIAL else LATER_PREFIX
            key = token(self.random, 0, prefix).encode()
        else:
            key = self.devices[int(drawn * 1e9) % DEVICES]
            if self.apps:
                other = self.random.random()
                for name, share, headers in self.apps:
                    if other < share:
                        if name in chaos_gateway.APPS:
                            key = self.next_of_gateway()
                        return key, self.payloads[int(drawn * 1e7) % 240], headers, 1
                    other -= share
        return key, self.payloads[int(drawn * 1e7) % 240], HEADERS + APP if drawn > 0.75 else APP, 1


    def next_of_gateway(self):
        self.gateway_count += 1
        return chaos_gateway.token(self.gateway_count - 1).encode()

    def again(self, record):
        """It may have been written, or not. What is known by its token alone gets another one."""
        if record[0] is None or not chaos_gateway.is_one(record[0]):
            return record
        return self.next_of_gateway(), *record[1:]


class Poison:
    """Writes one poison record for each `every` of the others, and one to the retry topic; what Kafka refuses is none."""

    def __init__(self, servers, topic, retry, every, seed, acknowledged, has_gateways=False):
        self.kinds = chaos_poison.KINDS + [chaos_poison.closed_gateway] * has_gateways
        self.topic, self.retry, self.every, self.acknowledged = topic, retry, every, acknowledged
        self.random = random.Random(seed)
        self.count = self.notifications = 0
        self.written, self.refused, self.retried_ids = {}, {}, {}
        # What is large is easily compressed, and the broker looks at it compressed.
        self.producer = Producer({
            "bootstrap.servers": servers, "acks": "all", "linger.ms": 5, "compression.type": "lz4",
            "message.max.bytes": 8_000_000, "message.timeout.ms": 120_000, "log_level": 0})

    def delivered(self, kind, error, message):
        if error is not None:
            self.refused[kind] = self.refused.get(kind, 0) + 1
            return
        self.written[kind] = self.written.get(kind, 0) + 1
        self.notifications += chaos_poison.SIZES.get(kind, 1)
        self.acknowledged[message.partition()].add(message.offset())

    def retry_delivered(self, number, id, error, message):
        if error is None:
            self.retried_ids[number] = id

    def follow(self, records):
        """So many others were written."""
        while self.every and self.count < records // self.every:
            self.write(self.kinds[self.count % len(self.kinds)])
            self.count += 1

    def write(self, make):
        now_ms = int(time.time() * 1000)
        key, value, headers, at_ms = make(self.random, now_ms)
        self.produce(self.topic, key, value, headers, at_ms or now_ms, partial(self.delivered, make.__name__))
        id = str(uuid.UUID(bytes=self.random.randbytes(16), version=4))
        self.produce(self.retry, self.random.randbytes(8).hex(), chaos_poison.PAYLOAD,
                     chaos_poison.retry_headers(self.count, id, now_ms), now_ms,
                     partial(self.retry_delivered, self.count, id))
        self.producer.poll(0)

    def produce(self, topic, key, value, headers, at_ms, delivered):
        try:
            self.producer.produce(topic, key=key, value=value, headers=headers, timestamp=at_ms, on_delivery=delivered)
        except (BufferError, KafkaException):
            pass  # the next one will do


class Load:
    def __init__(self, servers, topic, partitions, rate, seed, poison=0, retry="", has_apps=False, has_gateways=False):
        self.servers, self.topic, self.rate = servers, topic, rate
        apps = {"limited": LIMITED_PER_SECOND / rate, "paused": PAUSED_PER_SECOND / rate} if has_apps else {}
        if has_gateways:
            apps |= {name: chaos_gateway.PER_SECOND / len(chaos_gateway.APPS) / rate for name in chaos_gateway.APPS}
        self.records = Records(seed, apps)
        self.acknowledged = [Bits() for _ in range(partitions)]
        self.notifications = self.count = self.failures = self.producers = 0
        self.again = deque()  # what was not acknowledged
        self.fatal = None
        self.orders = deque()
        self.holding = self.stopping = False
        self.poison = Poison(servers, topic, retry, poison, seed, self.acknowledged, has_gateways)

    def producer(self):
        self.producers += 1
        self.fatal = None
        # With several requests in flight a killed broker brings librdkafka 2.0.2 to sequence errors that are fatal.
        return Producer({
            "bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": True, "linger.ms": 20,
            "max.in.flight.requests.per.connection": 1,
            "queue.buffering.max.messages": 200_000, "compression.type": "lz4", "error_cb": self.failed,
            "log_level": 0,
        })

    def failed(self, error):
        if error.fatal():
            self.fatal = error

    def delivered(self, record, error, message):
        if error is not None:
            self.failures += 1
            self.again.append(self.records.again(record))
            return
        self.acknowledged[message.partition()].add(message.offset())
        self.count += 1
        self.notifications += record[3]

    def listen(self):
        for line in sys.stdin:
            self.orders.append(line.strip())
        self.orders.append("stop")

    def obey(self):
        while self.orders:
            order = self.orders.popleft()
            self.holding = order == "hold"
            self.stopping = self.stopping or order == "stop"

    def say(self):
        print(json.dumps({"records": self.count, "notifications": self.notifications + self.poison.notifications,
                          "failures": self.failures,
                          "producers": self.producers, "poison": self.poison.written,
                          "poison refused": self.poison.refused}), flush=True)

    def run(self):
        threading.Thread(target=self.listen, daemon=True).start()
        producer = self.producer()
        at = said = time.monotonic()
        due = 0.0  # notifications that may be written now
        while not self.stopping:
            self.obey()
            now = time.monotonic()
            due = min(due + (now - at) * self.rate, self.rate / 2)
            at = now
            if now - said >= 1:
                said = now
                self.say()
            if self.fatal:
                producer = self.anew(producer)
            if self.holding:
                due = 0.0
            while due > 0 and not self.fatal:
                record = self.again.popleft() if self.again else self.records.next()
                if not self.write(producer, record):
                    self.again.appendleft(record)
                    break
                due -= record[3]
            self.poison.follow(self.count)
            self.poison.producer.poll(0)
            self.serve(producer.poll, 0.005)
        while self.again or len(producer):
            if self.fatal:
                producer = self.anew(producer)
            while self.again and self.write(producer, self.again[0]):
                self.again.popleft()
            self.serve(producer.flush, 1)
            self.say()
        self.poison.producer.flush(120)

    def write(self, producer, record):
        key, value, headers, _ = record
        try:
            producer.produce(self.topic, value=value, key=key, headers=headers,
                             on_delivery=partial(self.delivered, record))
            return True
        except BufferError:
            self.serve(producer.poll, 0.05)
        except KafkaException as error:
            self.fatal = error
        return False

    def serve(self, call, seconds):
        """`poll` and `flush` raise a fatal error, too, in some versions of confluent-kafka."""
        try:
            call(seconds)
        except KafkaException as error:
            self.fatal = error

    def anew(self, old):
        """After a fatal error (librdkafka 2.0.2 has them after some disconnects): what it held is written again."""
        old.purge()
        self.serve(old.flush, 5)
        return self.producer()


def main():
    servers, topic, partitions, rate, seed, book, poison, retry, apps, gateways = sys.argv[1:]
    load = Load(servers, topic, int(partitions), float(rate), int(seed), int(poison), retry, apps == "1", gateways == "1")
    load.run()
    with open(book, "wb") as file:
        pickle.dump({"acknowledged": [bytes(bits.data) for bits in load.acknowledged],
                     "retried": load.poison.retried_ids}, file)
    load.say()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
