"""The audit of a chaos run, a process of its own that reads the topics while they are written:
`chaos_audit.py OPTIONS`, a JSON text with servers, topics, group, partitions, simulator, calm and withhold.

Told on its standard input, a line of JSON each: `{"do": "killed", …}` right after a kill (it notes what is there, and says
so), `{"do": "started", …}` when the next worker was started, `{"do": "close"}` some seconds later, and
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
from chaos_book import ChaosBook, Kill
import chaos_gateway
from chaos_poison import RETRIED_TOPIC
from commits import Committed, commit_content, commit_place

PLACE = re.compile(rb'"request":\{"topic":"([^"]*)","partition":(\d+),"offset":(\d+),"index":(\d+)')
ID = re.compile(rb'"apns_id":"([^"]+)"')
OUTCOME = re.compile(rb'"outcome":"(\w+)"')
WHOLE_ROW = re.compile(rb"^(\S+) (\S+) (\d+)\n", re.MULTILINE)
AGAIN = re.compile(rb"^(\S+) \S+ (?!1\n)(\d+)\n", re.MULTILINE)
ROW = re.compile(rb"^(\S+) \S+ (\d+)\n", re.MULTILINE)
OFFSETS = "__consumer_offsets"


def place(id):
    """(partition, offset, index) that a derived apns-id spells; None: it is one of its own (chaos_beside, poison)."""
    found = derived_place(id.decode())
    return found and (found[2], found[0], found[1])


def places(rows):
    """place -> count, of rows (id, count) with derived ids."""
    return {at: int(count) for id, count in rows if (at := place(id)) is not None}


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


class Window:
    """What is awaited after a kill."""

    def __init__(self, kill, told, ends, commit_ends, retry_ends, start, before):
        self.kill = kill
        self.killed_ms, self.started_ms = told["killed_ms"], None
        self.ends, self.commit_ends, self.retry_ends = ends, commit_ends, retry_ends
        self.start = start  # the row of the server's book from which it is read
        self.before = before
        self.first_ms = self.first_written_ms = None

    def result(self, message, place, is_new, is_moved, now_ms):
        """Of the killed worker's partitions, since the kill was told: before that nobody had taken over."""
        if message.offset() < self.ends[message.partition()]:
            return
        if is_new:
            self.kill.later.add(place)
        if self.first_ms is None and not is_moved:  # another worker may have had it from a retry topic
            self.first_ms, self.first_written_ms = now_ms, message.timestamp()[1]


class ChaosAudit:
    def __init__(self, options):
        self.options = options
        self.simulator = options["simulator"]
        self.book = ChaosBook(options["partitions"], options["calm"], options["once"])
        self.gateways = chaos_gateway.GatewayBook(options["calm"], options["once"])
        servers = options["servers"]
        self.results = Tail(servers, options["results"])
        self.retries = Tail(servers, options["retry"])
        self.offsets = Tail(servers, OFFSETS)
        self.commits = {}  # partition -> (offset, metadata, time)
        self.expected = {}  # partition of the result topic -> offset of its next record
        self.window = None
        self.orders = deque()
        self.accepted = deque()  # (time, rows that the server had then at least)
        self.totals = {}

    # What comes from the topics.

    def read_results(self):
        book, match, withhold, window = self.book, PLACE.match, self.options["withhold"], self.window
        main = self.options["requests"].encode()
        messages = list(self.results.read(5_000, 0.02))
        now_ms = time.time() * 1000
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
            at = partition, offset, index = [int(number) for number in at]
            outcome = b"accepted" if b'"outcome":"accepted"' in value else OUTCOME.search(value).group(1)
            # One that the server's book has: a gateway's has words of its own, and the dead have no row there.
            if withhold and outcome == b"accepted" and not chaos_gateway.is_one(message.key()):
                withhold = self.options["withhold"] = withhold - 1
                if withhold == 0:
                    continue
            in_doubt = b'"in_doubt":0' not in value
            is_new = book.result(partition, offset, index, message.key(), outcome, in_doubt)
            if chaos_gateway.is_one(message.key()):
                self.gateways.result(chaos_gateway.number_of(message.key()), outcome, in_doubt, value)
            if window and partition in window.kill.partitions:
                window.result(message, tuple(at), is_new, offset in book.moved[partition], now_ms)
        return len(messages)

    def read_retries(self):
        for message in self.retries.read(2_000, 0):
            names = dict(message.headers())
            topic, partition, offset, _ = names["push-retry-request"].decode().rsplit("/", 3)
            if topic != self.options["requests"]:
                continue
            self.book.moved[int(partition)].add(int(offset))

    def read_offsets(self):
        for message in self.offsets.read(2_000, 0):
            if not message.value() or not message.key():
                continue
            group_place = commit_place(message.key())
            if not group_place or group_place[:2] != (self.options["group"], self.options["requests"]):
                continue
            commit = commit_content(message.value())
            self.commits[group_place[2]] = commit
            window = self.window
            if window and group_place[2] in window.kill.partitions and (
                    message.offset() < window.commit_ends[message.partition()]):
                window.kill.commits[group_place[2]] = commit

    # Kills.

    def fetch(self, start):
        """The server's book from a row on; the server may just have been killed, and comes back with its book."""
        deadline = time.monotonic() + 240  # it reads the whole book first: 8 s for 6 million requests, more under load
        while True:
            try:
                with urllib.request.urlopen(f"{self.simulator}/accepted?from={start}", timeout=60) as answer:
                    return answer.read()
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def killed(self, order):
        """Nobody has taken over, and what the worker wrote has arrived."""
        try:
            ends, commit_ends, retry_ends = self.results.ends(), self.offsets.ends(), self.retries.ends()
        except Exception as error:  # the broker is away
            self.say({"kill": order["number"], "unmeasured": str(error)})
            return
        while len(self.accepted) > 1 and self.accepted[1][0] < time.monotonic() - 2.5:
            self.accepted.popleft()
        start = self.accepted[0][1] if self.accepted else 0
        before = self.fetch(start)
        kill = Kill(self.book, order["number"], order["name"], set(order["partitions"]),
                    {p: self.commits[p] for p in order["partitions"] if p in self.commits}, order["is_exact"])
        self.window = Window(kill, order, ends, commit_ends, retry_ends, start, before)
        self.say({"frozen": order["number"]})

    def close(self):
        window, self.window = self.window, None
        if window is None:
            return
        kill = window.kill
        # What goes through a retry topic is repeated by that: tens of thousands wait there when the server was away.
        if not (self.results.is_past(window.ends) and self.offsets.is_past(window.commit_ends)
                and self.retries.is_past(window.retry_ends)):
            self.say({"kill": kill.number, "unmeasured": "the audit is behind"})
            return
        try:
            kill.commits = {p: Committed(*commit) for p, commit in kill.commits.items()}
        except ValueError as error:
            self.book.found("commit metadata that is damaged", error)
            return
        before = places(ROW.findall(window.before))
        after = places(AGAIN.findall(self.fetch(window.start)))
        kill.evaluate(before, after)
        age = [window.killed_ms - commit.at_ms for commit in kill.commits.values()]
        self.say({
            "kill": kill.number, "name": kill.name, "partitions": len(kill.partitions), "in_flight": kill.in_flight,
            "uncommitted": kill.uncommitted, "repeats": kill.repeats, "through_retries": kill.through_retries,
            "is_exact": kill.is_exact, "commit_age_ms": min(age, default=None),
            "first_ms": window.first_ms and round(window.first_ms - window.started_ms),
            "first_written_ms": window.first_written_ms and round(window.first_written_ms - window.started_ms),
        })

    # The end.

    def finish(self, order):
        """Everything is settled and the workers have ended."""
        ends = self.results.ends()
        deadline = time.monotonic() + 120
        while not self.results.is_past(ends) and time.monotonic() < deadline:
            self.read_results()
            self.read_retries()
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
        self.accepted.append((time.monotonic(), self.totals["accepted_distinct"]))

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
                "retries": sum(self.retries.next.values()), "sent": self.totals.get("requests", 0),
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
                if order["do"] == "killed":
                    self.killed(order)
                elif order["do"] == "silent":
                    self.gateways.is_silent = order["is_silent"]
                elif order["do"] == "started":
                    if self.window:
                        self.window.started_ms = order["at_ms"]
                        self.window.kill.is_exact &= order["is_noted"]
                else:
                    self.close()
            self.read_results()
            self.read_retries()
            self.read_offsets()
            if time.monotonic() - said > 0.5:
                said = time.monotonic()
                self.say(self.summary())


def main():
    ChaosAudit(json.loads(sys.argv[1])).run()
    sys.stdout.flush()
    os._exit(0)  # see books.py


if __name__ == "__main__":
    main()
