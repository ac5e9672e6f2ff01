"""The audit of a chaos run, a separate process that reads the topics while they are written: `chaos_audit.py OPTIONS`.
The options are a JSON text with servers, topics, group, partitions, simulator, calm, once and withhold.

It reads orders as lines of JSON from its standard input: `{"do": "silent", …}` while the gateway does not read, and
`{"do": "finish", …}` at the end. Twice a second it prints its progress as a line of JSON.
"""

import http.client
import json
import os
import sys
import threading
import time
from collections import deque

import gateway
import simulator
import topics
from audit import derived_place
from chaos_book import ChaosBook
from chaos_load import BAD_EVERY
from chaos_poison import RETRIED_TOPIC

NO_ID = "00000000-0000-0000-0000-000000000000"  # marks a notification over the binary protocol in the server's book


class ChaosAudit:
    def __init__(self, options):
        self.options = options
        self.book = ChaosBook(options["partitions"], options["calm"], options["once"])
        self.gateways = gateway.GatewayBook(
            BAD_EVERY, "none" if options["calm"] or options["once"] else "crashed", calm=options["calm"])
        self.results = topics.Tail(options["servers"], options["results"])
        self.expected = {}  # partition of the result topic -> offset of its next record
        self.orders = deque()
        self.totals = {}

    def read_results(self):
        for message in self.results.read(5_000, 0.02):
            wanted = self.expected.get(message.partition(), 0)
            if message.offset() != wanted:
                self.book.found("the audit was too slow for the topic's retention", f"{message.offset()}, not {wanted}",
                                message.offset() - wanted)
            self.expected[message.partition()] = message.offset() + 1
            value = json.loads(message.value())
            request, token = value["request"], (message.key() or b"").decode("latin1")
            if request["topic"] != self.options["requests"]:
                self.book.beside_result(value["apns_id"], value["in_doubt"] > 0)
                continue
            is_gateways = gateway.is_one(token)
            if self.options["withhold"] and value["outcome"] == "accepted" and not is_gateways:
                self.options["withhold"] -= 1
                if self.options["withhold"] == 0:
                    continue
            place = request["partition"], request["offset"], request["index"]
            self.book.result(place, token, value["outcome"], value["in_doubt"] > 0)
            if is_gateways:
                self.gateways.result(value)

    def finish(self, order):
        """Completes the audit after everything is settled and the workers have ended."""
        book, servers = self.book, self.options["servers"]
        ends = topics.ends(self.results.consumer, self.options["results"])
        deadline = time.monotonic() + 120
        while not self.results.is_past(ends) and time.monotonic() < deadline:
            self.read_results()
        if not self.results.is_past(ends):
            book.found("the result topic cannot be read to its end", f"{self.results.next} of {ends}")
        with open(order["book"]) as file:
            load = json.load(file)
        letters = self.read_letters()
        requests = topics.ends(self.results.consumer, self.options["requests"])
        book.complete([requests[p] for p in sorted(requests)], load["acknowledged"])
        # Records of a deleted topic count too, including those written while it was being deleted.
        dead = order["dead_gone"] + topics.written(servers, self.options["unregistered"])
        unregistered = book.outcomes["unregistered"]
        if dead + order["dead_slack"] < unregistered:
            book.found("LOST: dead-token records", f"{dead} of {unregistered}", unregistered - dead)
        book.complete_beside(load["beside"], load["retried"], letters)
        self.read_accepted()
        self.gateways.complete(order["lost_at_most"])
        if self.totals["overflow"]:
            book.found("the server's book is full", self.totals["overflow"])
        self.say({"finished": True, "findings": book.report() + self.gateways.report(), "summary": self.summary() | {
            "records": sum(requests.values()), "records whose acknowledgement got lost": book.outside,
            "envelopes": len(book.envelopes), "outcomes": book.outcomes, "dead-token records": dead,
            "poison": book.poison, "forged retry records": len(load["retried"]),
            "topics beside": [f"{sum(id in book.beside for id in ids)} of {len(ids)}" for ids in load["beside"]],
            "gateways": self.gateways.summary(), "read errors of the audit": self.results.errors}})

    def read_letters(self):
        """Records the dead letters, and returns the numbers of the forged retry records among them."""
        numbers = set()
        for message in topics.read(self.options["servers"], self.options["dead_letters"]):
            names = {name: value for name, value in message.headers() or () if value is not None}
            topic, partition, offset = (names["push-dlq-" + part].decode() for part in ("topic", "partition", "offset"))
            retried = names.get("push-retry-request", b"").decode().rsplit("/", 3)
            if topic == self.options["requests"]:
                self.book.letter(int(partition), int(offset), (message.key() or b"").decode("latin1"))
            elif retried[0] == RETRIED_TOPIC:
                numbers.add(int(retried[2]))
            else:
                self.book.found("dead letter of a good record", f"{topic}/{partition}/{offset}")
        return numbers

    def read_accepted(self):
        """Compares the server's whole book."""
        distinct = 0
        for id, token, count in simulator.rows(self.options["simulator"], "accepted"):
            if id == NO_ID:
                self.gateways.server(token, count)
                continue
            derived = derived_place(id)
            distinct += derived is not None
            if count > 1 and derived:
                offset, index, partition = derived
                place = partition, offset, index
                self.book.accepted_again(place, count, self.book.says_doubt(*place))
            elif count > 1:
                self.book.accepted_again(id, count, self.book.beside.get(id, (0, False))[1])
        self.totals = simulator.totals(self.options["simulator"])
        self.book.server(distinct)

    # MARK: The parent

    def say(self, what):
        print(json.dumps(what), flush=True)

    def listen(self):
        for line in sys.stdin:
            self.orders.append(json.loads(line))
        os._exit(1)

    def follow_totals(self):
        while True:
            time.sleep(0.5)
            try:
                self.totals = simulator.totals(self.options["simulator"])
            except (OSError, http.client.HTTPException):
                pass  # the simulator is stopped or killed

    def summary(self):
        book = self.book
        return {"results": book.results, "distinct": book.distinct, "duplicates": book.results - book.distinct,
                "in_doubt": book.in_doubt,
                "found": {kind: [count, book.examples[kind][0]] for kind, count in book.findings.items()},
                "sent": self.totals.get("requests", 0), "accepted again": self.totals.get("accepted_again", 0)}

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


if __name__ == "__main__":
    topics.run(ChaosAudit(json.loads(sys.argv[1])).run)
