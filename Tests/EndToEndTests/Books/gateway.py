"""Requests for a gateway of the binary protocol, and their audit.

The protocol has no apns-id, so each notification has a unique device token that contains its number. The server's book
is compared by this token.
"""

import json

import simulator
import topics
from findings import Findings, Marks
from records import Record

MARK = "b1a7b1a7b1a7"
BAD = "fa174001"  # answered with status 8
RESULT, ACCEPTED, DOUBTFUL, PRESUMED, TAKEN, UNREAD = 1, 2, 4, 8, 16, 32


def token(number, is_bad=False):
    """Returns a token of 64 hex digits. The last four are those of a token without an envelope (`chaos_load`)."""
    return ((BAD + "0" if is_bad else "") + MARK + "%016x" % number).ljust(60, "c") + "0000"


def is_one(token):
    return token.startswith(MARK) or token[9:].startswith(MARK) and token.startswith("fa17")


def number_of(token):
    first = token.index(MARK) + len(MARK)
    return int(token[first:first + 16], 16)


class GatewayBook(Findings):
    """`repeats` is which notifications may be accepted again: `none`, `doubtful` (those whose result says in_doubt), or
    `crashed` (the same, and results may be repeated). With `calm`, nothing may be in doubt."""

    def __init__(self, bad_every, repeats="crashed", calm=False):
        super().__init__()
        self.bad_every, self.repeats, self.calm = bad_every, repeats, calm
        self.marks = Marks()  # by a notification's number
        self.is_silent = False  # the gateway reads nothing, but its kernel accepts bytes
        self.results = self.again = self.lost = self.bad_accepted = 0
        self.repeated = {}  # number -> how often the server accepted it

    def is_bad(self, number):
        return self.bad_every > 0 and number % self.bad_every == self.bad_every - 1

    def result(self, value):
        number = number_of(value["device_token"])
        self.results += 1
        is_accepted = value["outcome"] == "accepted"
        is_presumed = value.get("detail") == "presumed"
        old = self.marks.mark(
            number, RESULT + ACCEPTED * is_accepted + DOUBTFUL * (value["in_doubt"] > 0) + PRESUMED * is_presumed
            + UNREAD * (is_presumed and self.is_silent))
        if value["in_doubt"] and self.calm:
            self.found("gateway: in doubt without a fault", number)
        if old & RESULT and self.repeats != "crashed":
            self.found("gateway: more than one result", number)
        found = value["outcome"], value.get("reason"), value.get("status")
        if is_accepted and self.is_bad(number):
            self.bad_accepted += not old & ACCEPTED and not self.is_silent  # the gateway's error came too late
        elif found != (("rejected", "BadDeviceToken", 8) if self.is_bad(number) else ("accepted", None, 200)):
            self.found("gateway: result other than expected", value)

    def server(self, token, count):
        """Records that the server accepted a token `count` times."""
        if not is_one(token):
            return self.found("gateway: the server accepted an unknown token", token)
        number = number_of(token)
        self.marks.mark(number, TAKEN)
        if self.is_bad(number):
            self.found("gateway: a bad token was accepted", number)
        if count > 1:
            self.repeated[number] = count

    def complete(self, lost_at_most=0, count=None):
        """`lost_at_most`: what the workers reported as lost. `count`: the number of notifications, where it is
        known."""
        for number, times in self.repeated.items():
            self.again += times - 1
            if self.repeats == "none" or not self.marks[number] & DOUBTFUL:
                self.found("gateway: accepted again, and no result says in_doubt", f"{number}: {times} times")
        for number, marks in enumerate(self.marks):
            if marks & TAKEN and not marks & ACCEPTED:
                self.found("gateway: taken, and no result says accepted", number)
            if marks & ACCEPTED and not marks & (TAKEN | UNREAD) and not self.is_bad(number):
                self.lost += 1
                if not marks & PRESUMED:
                    self.found("LOST: answered as accepted, and the gateway never took it", number)
        if self.lost + self.bad_accepted > lost_at_most:
            self.found("LOST: more than the workers reported", f"{self.lost} and {self.bad_accepted} of {lost_at_most}")
        for number in range(count or 0):
            if not self.marks.at(number) & RESULT:
                self.found("LOST: no result", number)

    def summary(self):
        def count(flag):
            return sum(1 for marks in self.marks if marks & flag)

        return (f"{self.results} results, presumed {count(PRESUMED)}, in doubt {count(DOUBTFUL)}, taken {count(TAKEN)}, "
                f"again {self.again}, lost {self.lost}, bad ones accepted {self.bad_accepted}")


def records(options):
    """Yields the requests that `books.py produce --gateway` writes."""
    book = GatewayBook(options.bad_every)
    headers = [("push-app", options.app.encode())] if options.app else []
    for number in range(options.first, options.first + options.count):
        yield Record(token(number, book.is_bad(number)), b'{"aps":{"alert":"Hi %d"}}' % number, headers, {})


def gateway_audit(options):
    book = GatewayBook(options.bad_every, options.repeats)
    for message in topics.read(options.servers, options.results):
        book.result(json.loads(message.value()))
    for _, name, count in simulator.rows(options.simulator, "accepted"):
        book.server(name, count)
    book.complete(options.lost_at_most, options.count)
    print(book.summary(), *book.report(), sep="\n")
    return not book.findings
