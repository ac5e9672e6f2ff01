"""The producers of a chaos run, a separate process: `chaos_load.py OPTIONS`. The options are a JSON text.

Most notifications are in payload form, a tenth in envelopes. One in `poison` records (0: none) is one of
`chaos_poison`, and as many forged records go to the topic `retry`. Some notifications are for gateways of the binary
protocol and, but in a run that `is_plain`, for the apps that are limited and paused. The topic `beside` is deleted and
recreated during the run.

It reads orders from its standard input: `hold`, `go`, `on` (the topic beside is new), `off` (it will be deleted),
`stop`. Once a second it prints its progress as a line of JSON. At its end it writes a book of the acknowledged records.
"""

import json
import random
import sys
import threading
import time
import uuid
from collections import Counter, deque
from functools import partial

from confluent_kafka import KafkaException, Producer

import chaos_poison
import gateway
import topics
from chaos_book import DEAD_PREFIX, LATER_PREFIX

DEVICES = 50_000
SIZES = (2, 5, 20, 100, 800)  # device tokens of an envelope
SHARE = 0.1  # the share of notifications that are in envelopes
SPECIAL = 0.001  # the share of records to a dead token, and to a token that is answered 429 once
BESIDE_RATE = 20
APPS_PER_SECOND = {"limited": 20, "paused": 5}  # the limit of the first app is 50
GATEWAYS_PER_SECOND = {"kiosk": 200, "till": 200}
BAD_EVERY = 400  # one in this many tokens of the gateways is bad
APP = [("push-app", b"shop")]
HEADERS = [("apns-push-type", b"alert"), ("apns-priority", b"5"), ("apns-collapse-id", b"chaos")]


def token(source, size=0, prefix=""):
    """Returns a token of 64 hex digits. The last four are the size of its envelope, or 0 without one."""
    return prefix + source.randbytes(30).hex()[len(prefix):] + "%04x" % size


def new_id(source):
    return str(uuid.UUID(bytes=source.randbytes(16), version=4))


class Records:
    """Generates (key, value, headers, notifications) from a seed. `apps` maps a name to its share of the records."""

    def __init__(self, seed, apps):
        self.random = random.Random(seed)
        self.apps = [(name, share, HEADERS + [("apns-topic", f"com.example.{name}".encode())])
                     for name, share in apps.items()]
        self.gateway_count = 0
        self.devices = [token(self.random).encode() for _ in range(DEVICES)]
        self.payloads = [b'{"aps":{"alert":"Chaos %d","sound":"default"},"pad":"%s"}' % (n, b"x" * (n % 60))
                         for n in range(240)]
        self.envelopes = [self.envelope(size) for size in SIZES for _ in range(12)]
        mean = sum(SIZES) / len(SIZES)
        self.share = SHARE / (SHARE + (1 - SHARE) * mean)  # the share of records that are envelopes

    def envelope(self, size):
        tokens = [token(self.random, size) for _ in range(size)]
        value = json.dumps({"device_tokens": tokens, "app": "shop", "payload": {"aps": {"alert": f"To {size}"}}}).encode()
        return value, size

    def next(self):
        drawn = self.random.random()
        payload = self.payloads[int(drawn * 1e7) % 240]
        if drawn < self.share:
            value, size = self.random.choice(self.envelopes)
            return None, value, None, size
        if drawn < self.share + 2 * SPECIAL:
            prefix = DEAD_PREFIX if drawn < self.share + SPECIAL else LATER_PREFIX
            return token(self.random, 0, prefix).encode(), payload, APP, 1
        key = self.devices[int(drawn * 1e9) % DEVICES]
        other = self.random.random()
        for name, share, headers in self.apps:
            if other < share:
                return self.next_of_gateway() if name in GATEWAYS_PER_SECOND else key, payload, headers, 1
            other -= share
        return key, payload, HEADERS + APP if drawn > 0.75 else APP, 1

    def next_of_gateway(self):
        self.gateway_count += 1
        number = self.gateway_count - 1
        return gateway.token(number, number % BAD_EVERY == BAD_EVERY - 1).encode()

    def again(self, record):
        """Prepares a record for another write if it is unknown whether the first one succeeded. A record that is
        identified by its token gets another token."""
        if record[0] is None or not gateway.is_one(record[0].decode()):
            return record
        return self.next_of_gateway(), *record[1:]


class Load:
    def __init__(self, options):
        self.options = options
        self.topic, self.rate = options["requests"], options["rate"]
        apps = GATEWAYS_PER_SECOND | ({} if options["is_plain"] else APPS_PER_SECOND)
        self.records = Records(options["seed"], {name: count / self.rate for name, count in apps.items()})
        self.random = random.Random(options["seed"])
        self.acknowledged = [[0, -1] for _ in range(options["partitions"])]  # count and highest offset
        self.notifications = self.count = self.failures = self.producers = self.poisons = 0
        self.poison, self.refused, self.retried = Counter(), Counter(), {}
        self.beside, self.beside_client = [], None  # the acknowledged ids of each topic beside
        self.again = deque()  # records that were not acknowledged
        self.fatal = None
        self.orders = deque()
        self.is_holding = self.is_stopping = False
        # Large records compress well, and the broker's limit is for compressed ones.
        self.poison_client = Producer({
            "bootstrap.servers": options["servers"], "acks": "all", "linger.ms": 5, "compression.type": "lz4",
            "message.max.bytes": 8_000_000, "message.timeout.ms": 120_000, "log_level": 0})

    def client(self):
        self.producers += 1
        self.fatal = None
        # With more requests in flight, a killed broker causes fatal sequence errors in librdkafka 2.0.2.
        return Producer({
            "bootstrap.servers": self.options["servers"], "acks": "all", "enable.idempotence": True, "linger.ms": 20,
            "max.in.flight.requests.per.connection": 1, "queue.buffering.max.messages": 200_000,
            "compression.type": "lz4", "error_cb": self.failed, "log_level": 0})

    def failed(self, error):
        if error.fatal():
            self.fatal = error

    def note(self, message, notifications):
        entry = self.acknowledged[message.partition()]
        entry[0] += 1
        entry[1] = max(entry[1], message.offset())
        self.notifications += notifications

    def delivered(self, record, error, message):
        if error is not None:
            self.failures += 1
            self.again.append(self.records.again(record))
            return
        self.note(message, record[3])
        self.count += 1

    # Poison, and the topic beside. Records that Kafka refuses do not count.

    def poison_delivered(self, kind, error, message):
        (self.poison if error is None else self.refused)[kind] += 1
        if error is None:
            self.note(message, chaos_poison.SIZES.get(kind, 1))

    def retry_delivered(self, number, id, error, message):
        if error is None:
            self.retried[number] = id

    def beside_delivered(self, ids, id, error, message):
        if error is None:
            ids.append(id)

    def write_poison(self):
        kind = list(chaos_poison.KINDS)[self.poisons % len(chaos_poison.KINDS)]
        now_ms = int(time.time() * 1000)
        key, value, headers, at_ms = chaos_poison.KINDS[kind](self.random, now_ms)
        self.try_to(self.poison_client, self.topic, key=key, value=value, headers=headers, timestamp=at_ms or now_ms,
                    on_delivery=partial(self.poison_delivered, kind))
        id = new_id(self.random)
        self.try_to(self.poison_client, self.options["retry"], key=self.random.randbytes(8).hex(),
                    value=chaos_poison.PAYLOAD, headers=chaos_poison.retry_headers(self.poisons, id, now_ms),
                    on_delivery=partial(self.retry_delivered, self.poisons, id))
        self.poisons += 1

    def write_beside(self):
        # Each record has its own apns-id, because a new topic repeats offsets.
        id = new_id(self.random)
        self.try_to(self.beside_client, self.options["beside"], key=token(self.random).encode(),
                    value=b'{"aps":{"alert":"Beside"}}', headers=[("apns-id", id.encode()), ("push-app", b"shop")],
                    on_delivery=partial(self.beside_delivered, self.beside[-1], id))

    def try_to(self, client, topic, **record):
        try:
            client.produce(topic, **record)
        except (BufferError, KafkaException):
            pass

    # MARK: Orders

    def listen(self):
        for line in sys.stdin:
            self.orders.append(line.strip())
        self.orders.append("stop")

    def obey(self, order):
        self.is_holding = order == "hold" or self.is_holding and order != "go"
        self.is_stopping = self.is_stopping or order == "stop"
        if order in ("on", "off"):
            if self.beside_client is not None:  # a client without records counts as false
                self.beside_client.flush(10)
            self.beside_client = None
            if order == "on":
                self.beside.append([])
                # A new client, because the old one knows the old topic.
                self.beside_client = Producer({"bootstrap.servers": self.options["servers"], "acks": "all", "linger.ms": 5,
                                               "message.timeout.ms": 60_000, "log_level": 0})
            print(json.dumps({"done": order}), flush=True)

    def say(self):
        print(json.dumps({
            "records": self.count, "notifications": self.notifications, "failures": self.failures,
            "producers": self.producers, "poison": self.poison, "poison refused": self.refused}), flush=True)

    def run(self):
        threading.Thread(target=self.listen, daemon=True).start()
        client = self.client()
        at = said = time.monotonic()
        due = due_beside = 0.0  # notifications that may be written now
        every = self.options["poison"]
        while not self.is_stopping:
            while self.orders:
                self.obey(self.orders.popleft())
            now = time.monotonic()
            due = 0.0 if self.is_holding else min(due + (now - at) * self.rate, self.rate / 2)
            due_beside = min(due_beside + (now - at) * BESIDE_RATE, BESIDE_RATE)
            at = now
            if now - said >= 1:
                said = now
                self.say()
            if self.fatal:
                client = self.replace(client)
            while due > 0 and not self.fatal:
                record = self.again.popleft() if self.again else self.records.next()
                if not self.write(client, record):
                    self.again.appendleft(record)
                    break
                due -= record[3]
            while every and self.poisons < self.count // every:
                self.write_poison()
            self.poison_client.poll(0)
            while self.beside_client is not None and due_beside >= 1:
                due_beside -= 1
                self.write_beside()
            if self.beside_client is not None:
                self.beside_client.poll(0)
            self.serve(client.poll, 0.005)
        while self.again or len(client):
            if self.fatal:
                client = self.replace(client)
            while self.again and self.write(client, self.again[0]):
                self.again.popleft()
            self.serve(client.flush, 1)
            self.say()
        for other in (self.poison_client, self.beside_client):
            if other is not None:
                other.flush(120)
        with open(self.options["book"], "w") as file:
            json.dump({"acknowledged": self.acknowledged, "retried": self.retried, "beside": self.beside}, file)
        self.say()

    def write(self, client, record):
        key, value, headers, _ = record
        try:
            client.produce(self.topic, value=value, key=key, headers=headers, on_delivery=partial(self.delivered, record))
            return True
        except BufferError:
            self.serve(client.poll, 0.05)
        except KafkaException as error:
            self.fatal = error
        return False

    def serve(self, call, seconds):
        """Calls `poll` or `flush`. In some versions of confluent-kafka they raise fatal errors too."""
        try:
            call(seconds)
        except KafkaException as error:
            self.fatal = error

    def replace(self, old):
        """Replaces the producer after a fatal error, as librdkafka 2.0.2 has after some disconnects. Its unacknowledged
        records are written again."""
        old.purge()
        self.serve(old.flush, 5)
        return self.client()


if __name__ == "__main__":
    topics.run(Load(json.loads(sys.argv[1])).run)
