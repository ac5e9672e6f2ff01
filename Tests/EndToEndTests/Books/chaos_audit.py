"""The audit of a chaos run, a process of its own that reads the topics while they are written:
`chaos_audit.py OPTIONS`, a JSON text with servers, topics, group, partitions, simulator, calm and withhold.

Told on its standard input, a line of JSON each: `{"do": "silent", …}` while the gateway reads nothing, and
`{"do": "finish", "book": FILE}` at the end. It answers, and says twice a second how far it is, in lines of JSON.
"""

import http.client
import json
import os
import pickle
import re
import sys
import threading
import time
import urllib.request
from collections import deque

from confluent_kafka import TopicPartition

import topics
from audit import derived_place
from chaos_bits import Bits
from chaos_book import ChaosBook
import chaos_gateway
from chaos_poison import RETRIED_TOPIC

PLACE = re.compile(rb'"request":\{"topic":"([^"]*)","partition":(\d+),"offset":(\d+),"index":(\d+)')
ID = re.compile(rb'"apns_id":"([^"]+)"')
OUTCOME = re.compile(rb'"outcome":"(\w+)"')
WHOLE_ROW = re.compile(rb"^(\S+) (\S+) (\d+)\n", re.MULTILINE)


def place(id):
    """(partition, offset, index) that a derived apns-id spells; None: it is one of its own (chaos_beside, poison)."""
    found = derived_place(id.decode())
    return found and (found[2], found[0], found[1])


class Tail:
    """Follows a topic from its first record, or from its end; knows how far it is."""

    def __init__(self, servers, topic, at_end=False):
        self.topic = topic
        self.consumer = topics.reader(servers, "chaos")
        numbers = topics.partitions(self.consumer, topic)
        ends = topics.ends(self.consumer, topic) if at_end else {}
        self.next = {p: ends.get(p, 0) for p in numbers}
        self.consumer.assign([TopicPartition(topic, p, at) for p, at in self.next.items()])
        self.errors = 0

    def read(self, limit, timeout):
        for message in self.consumer.consume(limit, timeout=timeout):
            if message.error():
                self.errors += 1  # the broker is away
                continue
            self.next[message.partition()] = message.offset() + 1
            yield message

    def ends(self):
        return {p: self.consumer.get_watermark_offsets(TopicPartition(self.topic, p), timeout=5)[1] for p in self.next}

    def is_past(self, ends):
        return all(self.next[p] >= end for p, end in ends.items())


class ChaosAudit:
    def __init__(self, options):
        self.options = options
        self.simulator = options["simulator"]
        self.book = ChaosBook(options["partitions"], options["calm"], options["once"])
        self.gateways = chaos_gateway.GatewayBook(options["calm"], options["once"])
        servers = options["servers"]
        self.results = Tail(servers, options["results"])
        self.expected = {}  # partition of the result topic -> offset of its next record
        self.orders = deque()
        self.totals = {}

    # What comes from the topics.

    def read_results(self):
        book, match, withhold = self.book, PLACE.match, self.options["withhold"]
        main = self.options["requests"].encode()
        messages = list(self.results.read(5_000, 0.02))
        for message in messages:
            number = message.partition()
            wanted = self.expected.get(number, 0)
            if message.offset() != wanted:
                book.found("the audit was too slow for the topic's retention",
                           f"{number}: {message.offset()}, not {wanted}", message.offset() - wanted)
            self.expected[number] = message.offset() + 1
            value = message.value()
            found = match(value, value.rfind(b'"request":'))
            if not found:
                book.found("result that cannot be read", value[:300])
                continue
            topic, *at = found.groups()
            if topic != main:
                book.beside_result(ID.search(value).group(1).decode(), b'"in_doubt":0' not in value)
                continue
            partition, offset, index = [int(number) for number in at]
            outcome = b"accepted" if b'"outcome":"accepted"' in value else OUTCOME.search(value).group(1)
            # One that the server's book has: a gateway's has words of its own, and the dead have no row there.
            if withhold and outcome == b"accepted" and not chaos_gateway.is_one(message.key()):
                withhold = self.options["withhold"] = withhold - 1
                if withhold == 0:
                    continue
            in_doubt = b'"in_doubt":0' not in value
            book.result(partition, offset, index, message.key(), outcome, in_doubt)
            if chaos_gateway.is_one(message.key()):
                self.gateways.result(chaos_gateway.number_of(message.key()), outcome, in_doubt, value)
        return len(messages)

    # The end.

    def finish(self, order):
        """Everything is settled and the workers have ended."""
        ends = self.results.ends()
        deadline = time.monotonic() + 120
        while not self.results.is_past(ends) and time.monotonic() < deadline:
            self.read_results()
        if not self.results.is_past(ends):
            self.book.found("the result topic cannot be read to its end", f"{self.results.next} of {ends}")
        with open(order["book"], "rb") as file:
            load = pickle.load(file)
        produced = [self.counted(data) for data in load["acknowledged"]]
        letters = self.read_letters()
        requests = topics.ends(self.results.consumer, self.options["requests"])
        self.book.complete([requests[p] for p in sorted(requests)], produced)
        # Of a topic that was deleted: what it held then, and what was written to it while it went.
        dead = order["dead_gone"] + sum(topics.ends(self.results.consumer, self.options["unregistered"]).values())
        if dead + order["dead_slack"] < self.book.outcomes[b"unregistered"]:
            self.book.found("LOST: dead-token records", f"{dead} of {self.book.outcomes[b'unregistered']}",
                            self.book.outcomes[b"unregistered"] - dead)
        besides = []
        if order["beside"]:
            with open(order["beside"]) as file:
                besides = json.load(file)
        self.book.complete_beside(besides, load["retried"], letters)
        self.read_totals()
        self.others = 0  # accepted, and not of the request topic
        again = list(self.accepted_again())
        self.book.server(self.totals["accepted_distinct"] - self.others, again)
        self.gateways.complete(*order["told"])
        if self.totals["overflow"]:
            self.book.found("the server's book is full", self.totals["overflow"])
        book = self.book
        self.say({"finished": True, "findings": book.report() + self.gateways.report(), "summary": self.summary() | {
            "records": sum(requests.values()), "records whose acknowledgement got lost": book.outside,
            "envelopes": len(book.envelopes), "outcomes": {k.decode(): v for k, v in book.outcomes.items()},
            "dead-token records": dead,
            "poison": {k.decode(): v for k, v in book.poison.items()}, "stray retry records": len(load["retried"]),
            "topics beside": [f"{sum(id in book.beside for id in ids)} of {len(ids)}" for ids in besides],
            "gateways": self.gateways.summary(), "read errors of the audit": self.results.errors}})

    @staticmethod
    def counted(data):
        bits = Bits(data)
        bits.count = int.from_bytes(data, "little").bit_count()
        bits.end = int.from_bytes(data, "little").bit_length()
        return bits

    def read_letters(self):
        """Notes the dead letters; returns the numbers of retry records that nobody wrote among them."""
        numbers = set()
        for message in topics.read(self.options["servers"], self.options["dead_letters"]):
            names = {name: value for name, value in message.headers() or () if value is not None}
            said = [names.get("push-dlq-" + name, b"").decode() for name in ("topic", "partition", "offset")]
            if said[0] == self.options["requests"]:
                self.book.letter(int(said[1]), int(said[2]), message.key())
            elif "push-retry-request" in names:
                topic, _, number, _ = names["push-retry-request"].decode().rsplit("/", 3)
                if topic == RETRIED_TOPIC:
                    numbers.add(int(number))
                else:
                    self.book.found("dead letter of a good record", said)
            else:
                self.book.found("dead letter of a good record", said)
        return numbers

    def accepted_again(self):
        """Streams the server's whole book: (place, count) of what it accepted more than once."""
        rest = b""
        with urllib.request.urlopen(f"{self.simulator}/accepted", timeout=120) as answer:
            while piece := answer.read(1 << 20):
                piece = rest + piece
                end = piece.rfind(b"\n") + 1
                rest = piece[end:]
                for id, token, count in WHOLE_ROW.findall(piece[:end]):
                    if id == chaos_gateway.NO_ID:
                        self.others += 1
                        self.gateways.server(token, int(count))
                        continue
                    at = place(id)
                    self.others += at is None
                    if count == b"1":
                        continue
                    if at is not None:
                        yield at, int(count)
                    else:
                        self.book.beside_again(id.decode(), int(count))

    # Its parent.

    def say(self, what):
        print(json.dumps(what), flush=True)

    def listen(self):
        for line in sys.stdin:
            self.orders.append(json.loads(line))
        os._exit(1)

    def read_totals(self):
        with urllib.request.urlopen(f"{self.simulator}/totals", timeout=10) as answer:
            self.totals = json.load(answer)

    def follow_totals(self):
        while True:
            time.sleep(0.5)
            try:
                self.read_totals()
            except (OSError, http.client.HTTPException):
                pass  # it is stopped or killed, for some seconds

    def summary(self):
        book = self.book
        return {"results": book.results, "distinct": book.distinct, "duplicates": book.results - book.distinct,
                "in_doubt": book.in_doubt, "found": {kind: [count, book.examples[kind][0]] for kind, count in book.findings.items()},
                "sent": self.totals.get("requests", 0),
                "accepted again": self.totals.get("accepted_again", 0)}

    def run(self):
        for task in (self.listen, self.follow_totals):
            threading.Thread(target=task, daemon=True).start()
        said = 0.0
        while True:
            if self.orders:
                order = self.orders.popleft()
                if order["do"] == "finish":
                    return self.finish(order)
                self.gateways.is_silent = order["is_silent"]
            self.read_results()
            if time.monotonic() - said > 0.5:
                said = time.monotonic()
                self.say(self.summary())


def main():
    ChaosAudit(json.loads(sys.argv[1])).run()
    sys.stdout.flush()
    os._exit(0)  # see books.py


if __name__ == "__main__":
    main()
