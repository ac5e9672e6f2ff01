"""Compares every member and header of every record that the worker writes with the contract.

A few records of each kind are produced. Each has a complete description of the records that the worker must write. The
rules come from the contract alone (README.md of the project), never from the worker's code.
"""

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field

from records import apples_time, request_of

COPIED = [  # x-tenant is in results.copy_headers
    ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", b"a=b,c=d"),
    ("x-tenant", b"blue \xc3\xa4")]
IDS = "b6ee4bd0-56d8-4a23-a4c1-%012x"
FUTURE = 4_000_000_000
TOPIC = ("apns-topic", b"com.example.shop")  # two apps are configured: a request has to name one
# The requested delays in ms. All other reasons have 15 minutes.
ASKED = {"TooManyRequests": 30_000}
# The number of bytes of key and value that the reduced form of a dead letter keeps.
REDUCED_BYTES = 128
# The maximum delay between a decision and its record on a busy machine.
SLACK_MS = 60_000


@dataclass
class Retry:
    """A retry record in a tier, with its reason and the counts of sends and doubts."""

    reason: str
    sends: int
    in_doubt: int = 0


@dataclass
class Ending:
    """The expected result of one notification, and its other records."""

    token: str
    outcome: str
    status: int | None = None
    reason: str | None = None
    attempts: int = 1
    in_doubt: int = 0
    detail: bool = False
    dead_token: bool = False
    retries: list = field(default_factory=list)
    id: str | None = None
    topic: str | None = "com.example.shop"
    app: str | None = "shop"
    is_published: bool = True
    not_before: int = 0  # seconds; before then it may be in any tier any number of times, without an attempt
    held: bool = False  # it may be in the shortest tier any number of times, without an attempt

    def __post_init__(self):
        self.detail = self.detail or self.outcome == "expired"


@dataclass
class Case:
    name: str
    key: bytes | None
    value: bytes | None
    headers: list
    endings: list
    timestamp: int = 0
    is_alone: bool = False  # it costs a connection, on which no other notification may be
    dead: str | None = None
    sent: dict = field(default_factory=dict)  # the apns-* headers of a retry record
    topic: str | None = None  # None for the request topic
    payload: bytes | None = None  # None if it is the value
    place: tuple = ()
    partition: int = -1

    def written(self, message):
        self.place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])


class Maker:
    def __init__(self):
        self.cases = []
        self.number = 0
        self.now = int(time.time() * 1000)

    def token(self, prefix="00"):
        self.number += 1
        return prefix + "%0*x" % (64 - len(prefix), 0xC0DE_0000 + self.number)

    def id(self):
        self.number += 1
        return IDS % self.number

    def payload(self):
        self.number += 1
        return b'{"aps":{"alert":"case %d"}, "spaced" :1}' % self.number

    def add(self, name, prefix="00", outcome="accepted", headers=(), age=0, sent=None, key=None, is_alone=False,
            **ending):
        """Adds a record in payload form for a new token, with copied headers."""
        token = self.token(prefix)
        if ending.get("topic", "") == "com.example.shop" or "topic" not in ending:
            headers = [TOPIC] + list(headers)
        if outcome == "accepted":
            ending = {"status": 200} | ending
        own = [("push-device-token", token.upper().encode())] if key else []
        self.cases.append(Case(
            name, key or token.encode(), self.payload(), own + list(headers) + COPIED + [("x-other", b"stays")],
            [Ending(token, outcome, **ending)], timestamp=self.now - age if age else 0, is_alone=is_alone,
            sent={"apns-topic": "com.example.shop", "apns-push-type": "alert"} | (sent or {})))

    def bury(self, name, reason, key, value, topic=None):
        headers = COPIED + [("null", None), ("empty", b""), ("x-other", b"stays"), ("x-other", b"twice")]
        self.cases.append(Case(name, key, value, headers, [], dead=reason, topic=topic))


def main_cases(tiers):
    """The cases for a worker with `max_attempts: 2, resend_max: 1, response_timeout: 1s, max_age: 240s` and a second
    app, annex."""
    make = Maker()
    id, collapse = make.id(), "game-7"
    everything = [
        ("apns-topic", b"com.example.shop.voip"), ("apns-push-type", b"voip"), ("apns-priority", b"10"),
        ("apns-expiration", b"%d" % FUTURE), ("apns-collapse-id", collapse.encode()), ("push-app", b"shop"),
        ("push-environment", b"production")]
    spelled = {
        "apns-topic": "com.example.shop.voip", "apns-push-type": "voip", "apns-priority": "10",
        "apns-expiration": str(FUTURE), "apns-collapse-id": collapse}

    make.add("the smallest")
    make.add("every header", headers=everything + [("apns-id", id.encode())], id=id, key=b"user-1",
             topic="com.example.shop.voip")
    make.add("another app", headers=[("apns-topic", b"com.example.annex")], topic="com.example.annex", app="annex")
    make.add("dead", "fa1741010", "unregistered", status=410, reason="Unregistered", dead_token=True, key=b"user-2")
    make.add("expired token", "fa1741000", "unregistered", status=410, reason="ExpiredToken", dead_token=True)
    make.add("bad token", "fa1740010", "rejected", status=400, reason="BadDeviceToken")
    make.add("a reason nobody knows", "fa17e4180", "rejected", status=418, reason="ReasonOfTomorrow")
    make.add("names no app", outcome="invalid", reason="MissingTopic", attempts=0, detail=True, topic=None, app=None)
    make.add("a bad priority", outcome="invalid", reason="BadPriority", attempts=0, detail=True,
             headers=[("apns-priority", b"7")])

    # The worker compares its clock with the broker's before anything expires.
    make.add("expiration passed", outcome="expired", attempts=0, held=True,
             headers=[("apns-expiration", b"1500000000")])
    make.add("too old", outcome="expired", attempts=0, held=True, age=300_000)
    make.add("now or never, read late", outcome="expired", attempts=0, age=40_000, headers=[("apns-expiration", b"0")])
    make.add("now or never, refused", "fa1750300", "expired", status=503, reason="ServiceUnavailable",
             headers=[("apns-expiration", b"0")])
    make.add("now or never, in doubt", "fa17f0211", "expired", in_doubt=1, headers=[("apns-expiration", b"0")],
             is_alone=True)
    make.add("now or never, not processed", "fa17f0031", headers=[("apns-expiration", b"0")])

    make.add("refused once", "fa1750301", attempts=2, key=b"user-3", retries=[Retry("ServiceUnavailable", 1)])
    make.add("refused once, with every header", "fa1742911", attempts=2, headers=everything + [
        ("apns-id", (id := make.id()).encode())], id=id, topic="com.example.shop.voip", sent=spelled,
        retries=[Retry("TooManyRequests", 1)])
    make.add("background", "fa1750001", attempts=2, headers=[("apns-push-type", b"background")],
             sent={"apns-push-type": "background", "apns-priority": "5"}, retries=[Retry("InternalServerError", 1)])
    make.add("refused always", "fa1750000", "abandoned", status=500, reason="InternalServerError", attempts=3,
             key=b"user-4", retries=[Retry("InternalServerError", 1), Retry("InternalServerError", 2)])
    make.add("a refusal without a reason", "fa17b4180", "abandoned", status=418, reason="HTTP 418", attempts=3,
             retries=[Retry("HTTP 418", 1), Retry("HTTP 418", 2)])
    make.add("one tier after the other", "fa1742910", "abandoned", status=429, reason="TooManyRequests", attempts=3,
             retries=[Retry("TooManyRequests", 1), Retry("TooManyRequests", 2)])
    make.add("lost once", "fa17f0211", attempts=2, in_doubt=1, is_alone=True)
    make.add("reset always", "fa17f0020", "abandoned", attempts=6, in_doubt=6,
             retries=[Retry(None, 2, 2), Retry(None, 4, 4)])
    make.add("answered too late", "fa17d3001", attempts=2, in_doubt=1, is_alone=True)

    make.add("to be sent in the past", headers=[("push-not-before", b"1")], sent={"push-not-before": "1"})
    make.add("to be sent at a wrong time", outcome="invalid", attempts=0, detail=True,
             headers=[("push-not-before", b"%d" % make.now)])
    make.add("to be sent next year", outcome="invalid", attempts=0, detail=True,
             headers=[("push-not-before", b"%d" % (make.now // 1000 + 31_536_000))])
    make.add("expires before it is to be sent", outcome="invalid", reason="BadExpirationDate", attempts=0, detail=True,
             headers=[("push-not-before", b"2000000000"), ("apns-expiration", b"2000000000")])
    at = make.now // 1000 + 12
    make.add("to be sent later", headers=everything + [
        ("apns-id", (id := make.id()).encode()), ("push-not-before", b"%d" % at)], id=id, topic="com.example.shop.voip",
        sent=spelled | {"push-not-before": str(at)}, not_before=at)
    make.add("to be sent later, refused once", "fa1750301", attempts=2, headers=[("push-not-before", b"%d" % at)],
             sent={"push-not-before": str(at)}, retries=[Retry("ServiceUnavailable", 1)], not_before=at, key=b"user-8")
    make.add("to be sent later, now or never", headers=[("push-not-before", b"%d" % at), ("apns-expiration", b"0")],
             sent={"push-not-before": str(at), "apns-expiration": "0"}, not_before=at)

    tokens = [make.token(), make.token("fa1741010"), "xyz", make.token("fa1750301")]
    payload = make.payload()
    value = b'{"device_tokens":%s,"app":"shop","environment":"production","headers":{"apns-priority":5},"payload":%s}' % (
        json.dumps(tokens).encode(), payload)
    make.cases.append(Case(
        "an envelope", b"campaign", value, COPIED + [("x-other", b"stays")], [
            Ending(tokens[0], "accepted", 200),
            Ending(tokens[1], "unregistered", 410, "Unregistered", dead_token=True),
            Ending(tokens[2], "invalid", None, "BadDeviceToken", attempts=0, detail=True),
            Ending(tokens[3], "accepted", 200, attempts=2, retries=[Retry("ServiceUnavailable", 1)])],
        sent={"apns-topic": "com.example.shop", "apns-push-type": "alert", "apns-priority": "5"}, payload=payload))

    many = make.token("fa17d002")  # answered after 20 ms, one after the other: their device queue overflows
    for _ in range(160):
        make.cases.append(Case(
            "a device with too many", many.encode(), make.payload(), [TOPIC] + COPIED, [Ending(many, "accepted", 200, held=True)],
            sent={"apns-topic": "com.example.shop", "apns-push-type": "alert"}))

    make.bury("a tombstone", "tombstone", b"user-5", None)
    make.bury("not JSON", "not-json", b"user-6", b'{"aps":')
    make.bury("no token", "no-device-token", b"user-7", b'{"aps":{}}')
    make.bury("no key", "no-device-token", None, b'{"aps":{}}')
    make.bury("no list", "bad-envelope", b"k", b'{"device_tokens":7,"payload":{"aps":{}}}')
    make.bury("too many tokens", "too-many-tokens", b"k", b'{"device_tokens":[%s],"payload":{"aps":{}}}' % b",".join(
        [b'"%064x"' % n for n in range(10_001)]))
    make.bury("not ours in a tier", "bad-retry-headers", make.token().encode(), b'{"aps":{}}', topic=tiers[0][1])
    return make.cases


def other_cases(tiers):
    """The cases for a worker with `publish: failures, include_bad_tokens: true, in_doubt: abandon, apns_id: apple`."""
    make = Maker()
    make.add("accepted, only counted", is_published=False)
    make.add("bad token", "fa1740010", "rejected", status=400, reason="BadDeviceToken", dead_token=True, id="apple")
    make.add("other topic's", "fa1740060", "rejected", status=400, reason="DeviceTokenNotForTopic", dead_token=True,
             id="apple")
    make.add("given up in doubt", "fa17f0211", "abandoned", in_doubt=1, id="none", is_alone=True)
    make.add("refused once", "fa1750301", is_published=False, retries=[Retry("ServiceUnavailable", 1)], id="apple")
    return make.cases


class Evidence:
    """The contents of the topics by request."""

    def __init__(self, results, unregistered, dead_letters, retries):
        self.results, self.retries = defaultdict(list), defaultdict(list)
        self.dead_letters, self.dead_tokens = defaultdict(list), defaultdict(list)
        for message in results:
            self.results[request_of(json.loads(message.value()))].append(message)
        for tier, message in retries:
            request = dict(message.headers() or []).get("push-retry-request")
            if request is not None:
                self.retries[request.decode()].append((tier, message))
        for message in dead_letters:
            headers = dict(message.headers())
            self.dead_letters["/".join(
                headers["push-dlq-" + n].decode() for n in ("topic", "partition", "offset"))].append(message)
        for message in unregistered:
            self.dead_tokens[message.key().decode()].append(json.loads(message.value()))


class Check:
    def __init__(self, evidence, tiers, max_message=None):
        self.evidence = evidence
        self.tiers = tiers  # (delay in ms, topic), shortest first
        self.max_message = max_message
        self.findings = []
        self.counts = defaultdict(int)

    def equal(self, what, found, wanted):
        self.counts["comparisons"] += 1
        if found != wanted:
            self.findings.append(f"{what}: found {found!r}, not {wanted!r}")

    def case(self, case):
        if case.dead:
            return self.dead_letter(case)
        for index, ending in enumerate(case.endings):
            self.counts[ending.outcome] += 1
            self.ending(case, index, ending)

    # MARK: Results and dead tokens

    def ending(self, case, index, ending):
        topic, partition, offset, timestamp = case.place
        request = f"{topic}/{partition}/{offset}/{index}"
        what = f"{case.name} ({request})"
        retries = sorted(self.evidence.retries.pop(request, []), key=lambda r: int(dict(r[1].headers())[
            "push-retry-sends"]) * 10**15 + r[1].timestamp()[1])
        found = self.evidence.results.pop(request, [])
        self.retries(case, ending, what, request, [
            r for r in retries if not self.is_held(ending, r, what) and not self.is_scheduled(case, ending, r, what)])
        self.equal(f"{what}: results", len(found), int(ending.is_published))
        if not found or not ending.is_published:
            return
        message, value = found[0], json.loads(found[0].value())
        id = value.get("apns_id")
        if ending.id not in (None, "apple", "none"):
            self.equal(f"{what}: apns-id", id, ending.id)
        self.equal(f"{what}: apns-id", id is None, ending.id == "none")
        headers = [("outcome", ending.outcome.encode())]
        headers += [("reason", ending.reason.encode())] if ending.reason else []
        headers += [h for h in case.headers if h in COPIED]
        self.equal(f"{what}: headers", message.headers(), headers)
        self.equal(f"{what}: key", message.key(), ending.token.encode())
        place = {"topic": topic, "partition": partition, "offset": offset, "index": index}
        if case.key and case.key != ending.token.encode():
            place["key"] = case.key.decode()
        # These three may have any value. Only their presence is compared.
        any_text, sent, settled = value.get("detail"), value.get("sent_at_ms"), value.get("settled_at_ms")
        wanted = {
            "outcome": ending.outcome, "status": ending.status, "reason": ending.reason,
            "detail": any_text or "a text" if ending.detail else None,
            "unregistered_at_ms": apples_time(ending.token) if ending.outcome == "unregistered" else
            sent if ending.dead_token else None,
            "apns_id": None if ending.id == "none" else id, "device_token": ending.token, "apns_topic": ending.topic,
            "app": ending.app, "environment": ending.app and "production", "attempts": ending.attempts,
            "in_doubt": ending.in_doubt, "requested_at_ms": timestamp, "sent_at_ms": (sent or "a time") if ending.attempts else None,
            "settled_at_ms": settled or "a time", "request": place}
        self.equal(f"{what}: members", value, {name: found for name, found in wanted.items() if found is not None})
        last = max([int(dict(m.headers())["push-retry-due-ms"]) for _, m in retries], default=timestamp)
        last = max(last, ending.not_before * 1000)
        if ending.not_before and not retries:
            self.findings.append(f"{what}: in no tier before it was to be sent")
        if ending.outcome == "accepted" and ending.in_doubt == 0 and sent < last:
            self.findings.append(f"{what}: sent {last - sent} ms before it was due")
        if not (sent or timestamp) <= settled <= time.time() * 1000 + 1000:
            self.findings.append(f"{what}: impossible times {value}")
        dead = self.evidence.dead_tokens.pop(ending.token, [])
        self.equal(f"{what}: dead tokens", len(dead), int(ending.dead_token))
        if dead:
            observed = dead[0].pop("observed_at_ms")
            self.equal(f"{what}: dead token", dead[0], {
                "device_token": ending.token, "apns_topic": ending.topic, "app": ending.app,
                "environment": "production", "reason": ending.reason,
                "unregistered_at_ms": value["unregistered_at_ms"]})
            if not sent <= observed <= settled + SLACK_MS:
                self.findings.append(f"{what}: observed at {observed}, settled at {settled}")

    # MARK: Retries

    def is_held(self, ending, retry, what):
        """Checks the record of a deferred notification. It has no attempt and is in the shortest tier. If its device has
        too many notifications, it is in the longest tier that is not longer than their turn (three times the shortest
        delay, at least 5 s)."""
        tier, message = retry
        headers = dict(message.headers())
        if headers.get("push-retry-reason") != b"held":
            return False
        self.counts["held"] += 1
        turn = max(3 * self.tiers[0][0], 5_000)
        fitting = [place for place, (delay, _) in enumerate(self.tiers) if delay <= turn]
        if not ending.held or tier not in (0, fitting[-1]) or headers["push-retry-attempt"] != b"0":
            self.findings.append(f"{what}: held in {tier}: {headers}")
        return True

    def is_scheduled(self, case, ending, retry, what):
        """Checks the record of a scheduled notification. It has no attempt, a header with the time, and is in the
        longest tier that ends by then or within the shortest delay after it."""
        tier, message = retry
        headers = dict(message.headers())
        if headers.get("push-retry-reason") != b"scheduled":
            return False
        self.counts["scheduled"] += 1
        due, at = int(headers["push-retry-due-ms"]), ending.not_before * 1000
        delay, shortest = self.tiers[tier][0], self.tiers[0][0]
        left = at - message.timestamp()[1]
        longer = [other for other, _ in self.tiers[tier + 1:]]
        self.equal(f"{what}: scheduled, time", headers.get("push-not-before"), b"%d" % ending.not_before)
        self.equal(f"{what}: scheduled, attempt", headers["push-retry-attempt"] + headers["push-retry-sends"], b"00")
        self.equal(f"{what}: scheduled, key and payload", (message.key(), message.value()), (
            ending.token.encode(), case.payload or case.value))
        # The decision was made before the record was written, and the machine may be busy.
        if due > min(at, message.timestamp()[1] + delay) or delay - shortest > left + SLACK_MS or (
                longer and longer[0] - shortest <= left):
            self.findings.append(f"{what}: scheduled in {delay} ms, {left} ms before its time, due at {due}: {headers}")
        return True

    def retries(self, case, ending, what, request, found):
        self.equal(f"{what}: retry records", len(found), len(ending.retries))
        timestamp, previous = case.place[3], 0
        for number, ((tier, message), wanted) in enumerate(zip(found, ending.retries)):
            self.counts["retry records"] += 1
            label = f"{what}: retry {number + 1}"
            headers = dict(message.headers())
            self.equal(f"{label}: a header twice", len(headers), len(message.headers()))
            self.equal(f"{label}: key", message.key(), ending.token.encode())
            self.equal(f"{label}: payload", message.value(), case.payload or case.value)
            asked = ASKED.get(wanted.reason, 900_000)
            fitting = [delay for delay, _ in self.tiers if delay >= asked and delay > previous]
            delay = previous = fitting[0] if fitting else self.tiers[-1][0]
            self.equal(f"{label}: tier", self.tiers[tier][0], delay)
            due = int(headers.pop("push-retry-due-ms", b"0"))
            if not message.timestamp()[1] - SLACK_MS <= due - delay <= message.timestamp()[1]:
                self.findings.append(f"{label}: due {due}, written {message.timestamp()[1]}, delay {delay}")
            group = headers.pop("push-retry-group", b"").decode()
            self.equal(f"{label}: group", group, request.split("/")[0].removesuffix("requests") + "worker")
            id = headers.pop("apns-id", b"").decode()
            if ending.id == "apple" or len(id) != 36:
                self.equal(f"{label}: apns-id", len(id), 36)
            elif ending.id:
                self.equal(f"{label}: apns-id", id, ending.id)
            else:  # the result has the same reason
                results = self.evidence.results.get(request)
                self.equal(f"{label}: apns-id", id, json.loads(results[0].value()).get("apns_id") if results else id)
            expected = {n: v.encode() for n, v in case.sent.items()} | {
                "push-app": ending.app.encode(),
                "push-environment": b"production", "push-retry-request": request.encode(),
                "push-retry-attempt": b"%d" % (number + 1),
                "push-retry-first-ms": b"%d" % timestamp, "push-retry-sends": b"%d" % wanted.sends,
                "push-retry-in-doubt": b"%d" % wanted.in_doubt} | {n: v for n, v in case.headers if (n, v) in COPIED}
            if len(ending.token) < 64:  # a longer token is in the key
                expected["push-device-token"] = ending.token.encode()
            if wanted.reason:
                expected["push-retry-reason"] = wanted.reason.encode()
            if case.key != ending.token.encode():
                expected["push-retry-key"] = case.key
            self.equal(f"{label}: headers", headers, expected)

    # MARK: Dead letters

    def dead_letter(self, case):
        self.counts["dead letters"] += 1
        topic, partition, offset, timestamp = case.place
        found = self.evidence.dead_letters.pop(f"{topic}/{partition}/{offset}", [])
        self.equal(f"{case.name}: dead letters", len(found), 1)
        if not found:
            return
        message = found[0]
        is_cut = case.value is not None and self.max_message is not None and len(case.value) > self.max_message
        detail = dict(message.headers()).get("push-dlq-detail", b"")
        self.equal(f"{case.name}: detail ({detail.decode()})", len(detail) > 0, True)
        self.equal(f"{case.name}: key", message.key(), case.key)
        self.equal(f"{case.name}: value", message.value(), case.value[:REDUCED_BYTES] if is_cut else case.value)
        # The reduced form omits the original record's headers.
        wanted = ([] if is_cut else case.headers) + [
            ("push-dlq-reason", case.dead.encode()), ("push-dlq-detail", detail), ("push-dlq-topic", topic.encode()),
            ("push-dlq-partition", b"%d" % partition), ("push-dlq-offset", b"%d" % offset),
            ("push-dlq-timestamp", b"%d" % timestamp)]
        if is_cut:
            self.counts["cut dead letters"] += 1
            wanted.append(("push-dlq-truncated", b"%d" % len(case.value)))
        self.equal(f"{case.name}: headers", message.headers(), wanted)

    def finish(self):
        """Reports records that belong to no case."""
        for name in ("results", "dead_letters", "dead_tokens", "retries"):
            for place in getattr(self.evidence, name):
                self.findings.append(f"{name} of nothing that was written: {place}")
        print(", ".join(f"{name} {count}" for name, count in sorted(self.counts.items())))
        for finding in self.findings[:50]:
            print("FOUND " + finding)
        print("as the contract says" if not self.findings else f"{len(self.findings)} DIFFERENCES")
        return not self.findings
