"""The producer of a chaos run, a process of its own: `chaos_load.py SERVERS TOPIC PARTITIONS RATE SEED BOOK`.

It writes so many notifications a second until it is told to stop, most of them in payload form, a tenth in envelopes, and
keeps one bit for each record that Kafka acknowledged. Told on its standard input: `hold`, `go`, `stop`; once a second it
says how far it is, as a line of JSON.
"""

import json
import os
import pickle
import random
import sys
import threading
import time
from collections import deque
from functools import partial

from confluent_kafka import KafkaException, Producer

from chaos_book import DEAD_PREFIX, LATER_PREFIX, Bits

DEVICES = 50_000
SIZES = (2, 5, 20, 100, 800)  # device tokens of an envelope
SHARE = 0.1  # of the notifications are in envelopes
SPECIAL = 0.001  # of the records go to a token that is dead, and as many to one that is answered 429 once
HEADERS = [("apns-push-type", b"alert"), ("apns-priority", b"5"), ("apns-collapse-id", b"chaos")]


def token(source, size=0, prefix=""):
    """64 hex digits; the last four say how many tokens its envelope has, 0: it stands alone."""
    return prefix + source.randbytes(30).hex()[len(prefix):] + "%04x" % size


class Records:
    """Draws (key, value, headers, notifications) from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.devices = [token(self.random).encode() for _ in range(DEVICES)]
        self.payloads = [b'{"aps":{"alert":"Chaos %d","sound":"default"},"pad":"%s"}' % (n, b"x" * (n % 60))
                         for n in range(240)]
        self.envelopes = [self.envelope(size) for size in SIZES for _ in range(12)]
        mean = sum(SIZES) / len(SIZES)
        self.share = SHARE / (SHARE + (1 - SHARE) * mean)  # of the records

    def envelope(self, size):
        tokens = [token(self.random, size) for _ in range(size)]
        value = json.dumps({"device_tokens": tokens, "payload": {"aps": {"alert": f"To {size}"}}}).encode()
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
        return key, self.payloads[int(drawn * 1e7) % 240], HEADERS if drawn > 0.75 else None, 1


class Load:
    def __init__(self, servers, topic, partitions, rate, seed):
        self.servers, self.topic, self.rate = servers, topic, rate
        self.records = Records(seed)
        self.acknowledged = [Bits() for _ in range(partitions)]
        self.notifications = self.count = self.failures = self.producers = 0
        self.again = deque()  # what was not acknowledged
        self.fatal = None
        self.orders = deque()
        self.holding = self.stopping = False

    def producer(self):
        self.producers += 1
        self.fatal = None
        return Producer({
            "bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": True, "linger.ms": 20,
            "queue.buffering.max.messages": 200_000, "compression.type": "lz4", "error_cb": self.failed,
            "log_level": 0,
        })

    def failed(self, error):
        if error.fatal():
            self.fatal = error

    def delivered(self, record, error, message):
        if error is not None:
            self.failures += 1
            self.again.append(record)
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
        print(json.dumps({"records": self.count, "notifications": self.notifications, "failures": self.failures,
                          "producers": self.producers}), flush=True)

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
            producer.poll(0.005)
        while self.again or len(producer):
            if self.fatal:
                producer = self.anew(producer)
            while self.again and self.write(producer, self.again[0]):
                self.again.popleft()
            producer.flush(1)
            self.say()

    def write(self, producer, record):
        key, value, headers, _ = record
        try:
            producer.produce(self.topic, value=value, key=key, headers=headers,
                             on_delivery=partial(self.delivered, record))
            return True
        except BufferError:
            producer.poll(0.05)
        except KafkaException as error:
            self.fatal = error
        return False

    def anew(self, old):
        """After a fatal error (librdkafka 2.0.2 has them after some disconnects): what it held is written again."""
        old.purge()
        old.flush(5)
        return self.producer()


def main():
    servers, topic, partitions, rate, seed, book = sys.argv[1:]
    load = Load(servers, topic, int(partitions), float(rate), int(seed))
    load.run()
    with open(book, "wb") as file:
        pickle.dump([bytes(bits.data) for bits in load.acknowledged], file)
    load.say()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
