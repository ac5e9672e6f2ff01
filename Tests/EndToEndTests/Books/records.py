"""What a producer writes, and what must become of it: a stream of request records, each with its line for the book.

Everything is drawn from a seed, so one command line always writes the same records. The rules come from the contract
alone (README.md of the project), never from the worker's code.
"""

import json
import random
import re
import time
import zlib
from dataclasses import dataclass

BUNDLE = "com.example.shop"

# Apple's page "Handling notification responses from APNs": status, reason, and the outcome the worker promises for it.
# `retried` ends as `abandoned` once retry.max_attempts are used up.
REASONS = {
    "BadCollapseId": (400, "rejected"),
    "BadDeviceToken": (400, "rejected"),
    "BadExpirationDate": (400, "rejected"),
    "BadMessageId": (400, "rejected"),
    "BadPriority": (400, "rejected"),
    "BadTopic": (400, "rejected"),
    "DeviceTokenNotForTopic": (400, "rejected"),
    "DuplicateHeaders": (400, "rejected"),
    "IdleTimeout": (400, "abandoned"),
    "InvalidPushType": (400, "rejected"),
    "MissingDeviceToken": (400, "rejected"),
    "MissingTopic": (400, "rejected"),
    "PayloadEmpty": (400, "rejected"),
    "TopicDisallowed": (400, "abandoned"),
    "BadCertificate": (403, "abandoned"),
    "BadCertificateEnvironment": (403, "abandoned"),
    "ExpiredProviderToken": (403, "abandoned"),
    "Forbidden": (403, "rejected"),
    "InvalidProviderToken": (403, "abandoned"),
    "MissingProviderToken": (403, "abandoned"),
    "UnrelatedKeyIdInToken": (403, "abandoned"),
    "BadEnvironmentKeyIdInToken": (403, "abandoned"),
    "BadPath": (404, "rejected"),
    "MethodNotAllowed": (405, "rejected"),
    "ExpiredToken": (410, "unregistered"),
    "Unregistered": (410, "unregistered"),
    "PayloadTooLarge": (413, "rejected"),
    "TooManyProviderTokenUpdates": (429, "abandoned"),
    "TooManyRequests": (429, "abandoned"),
    "InternalServerError": (500, "abandoned"),
    "ServiceUnavailable": (503, "abandoned"),
    "Shutdown": (503, "abandoned"),
}



def read_prefixes(help_text):
    """Reason -> the token prefix that provokes it always, from what `apns-worker simulate --help` prints.

    Raises ValueError where the table and Apple's page differ.
    """
    table = re.findall(r"^ *(fa17[0-9a-f]{4}) +(\d{3}) (\w+) *$", help_text, re.MULTILINE)
    prefixes = {reason: code + "0" for code, status, reason in table if REASONS.get(reason, (0,))[0] == int(status)}
    if missing := REASONS.keys() - prefixes.keys():
        raise ValueError("no token prefix, or another status than Apple's, for " + ", ".join(sorted(missing)))
    return prefixes


# What a server may do to a connection instead of answering: the names in the simulator's table. All of them must end in
# a resend that is accepted; what a connection carried besides is resent with it.
FAULTS = ["no-answer", "reset-stream", "refuse-stream", "goaway", "goaway-twice", "goaway-below", "goaway-now",
          "cut-before", "cut-inside", "cut-after", "tcp-reset"]


def read_faults(help_text):
    """Name -> the prefix of a token whose first request meets that fault, from `apns-worker simulate --help`."""
    table = dict((name, code) for code, name in re.findall(r"^ *(fa17[0-9a-f]{4}) +([a-z-]+): ", help_text, re.MULTILINE))
    if missing := set(FAULTS) - table.keys():
        raise ValueError("no token prefix for " + ", ".join(sorted(missing)))
    return {name: table[name] + "1" for name in FAULTS}


def request_of(value):
    """topic/partition/offset/index of the request that a result's value names."""
    request = value["request"]
    return f"{request['topic']}/{request['partition']}/{request['offset']}/{request['index']}"


def apples_time(token):
    """When the simulator says that a token died, in milliseconds; as `apns-worker simulate --help` has it."""
    return 1_600_000_000_000 + int(token[-9:], 16)


# Answers that cost a connection or stop a whole app for a while: a handful each, whatever the number of records.
DISTURBING = {
    reason
    for reason, (status, outcome) in REASONS.items()
    if outcome == "abandoned" and reason not in ("TooManyRequests", "InternalServerError", "ServiceUnavailable")
}


@dataclass
class Record:
    """One record, and its line in the producer's book but for where Kafka put it."""

    key: bytes | None
    value: bytes | None
    headers: list
    line: dict


def fingerprint(key, value, headers):
    """Of what a dead letter must keep untouched; the worker's own `push-dlq-*` headers apart."""
    text = repr((key, value, [(n, v) for n, v in headers or [] if not n.startswith("push-dlq-")]))
    return zlib.crc32(text.encode())


def payload(number, pad=0):
    return ('{"aps":{"alert":"Hi %d","sound":"default"},"n":%d%s}' % (
        number, number, ',"pad":"%s"' % ("x" * pad) if pad else "")).encode()


class Generator:
    """Draws `count` records in both forms; `prefixes` maps a reason to the token prefix the server answers it to.
    `envelopes`: how many of the records are fan-outs, and to how many tokens; there are no others. They are among the
    first, and keyed, so that they are spread over the partitions."""

    def __init__(self, count, seed, prefixes, plain=False, malformed=0.01, fan_out=0.03, faults=None, envelopes=(0, 0)):
        self.count = count
        self.random = random.Random(seed)
        self.prefixes = prefixes
        self.plain = plain
        self.malformed = 0 if plain else malformed
        self.fan_out = 0 if envelopes[0] else fan_out
        self.faults = faults or {}
        # Devices that get many notifications, so that device queues have something to order.
        self.favourites = ["00" + "%062x" % self.random.getrandbits(248) for _ in range(max(1, count // 200))]
        self.common = [r for r in REASONS if r in prefixes and r not in DISTURBING]
        self.specials = {}
        if not plain:
            self.place_specials()
        self.keyed = 1.0 if envelopes[0] else 0.3
        for number in self.random.sample(range(min(count, envelopes[0] * 5)), envelopes[0]):
            self.specials[number] = ("fan-out", envelopes[1])

    def place_specials(self):
        """Rare kinds get fixed numbers at random places, so that every one of them is in every run."""
        rare = []
        for reason in REASONS:
            if reason in self.prefixes:
                rare += [("reason", reason)] * (1 if reason in DISTURBING else 3)
        rare += [("fault", prefix) for prefix in self.faults.values()] * 3
        rare += [("invalid", maker) for maker in INVALID] + [("dead", maker) for maker in DEAD]
        if self.count >= 50_000:
            rare += [("fan-out", 10_000), ("dead", too_many_tokens)]
        if len(rare) > self.count // 2:
            rare = self.random.sample(rare, self.count // 2)
        self.specials = dict(zip(self.random.sample(range(self.count), len(rare)), rare))

    def __iter__(self):
        draw = self.random.random
        for number in range(self.count):
            kind, detail = self.specials.get(number, (None, None))
            if kind is None and self.malformed and draw() < self.malformed:
                kind, detail = ("dead", self.random.choice(DEAD)) if draw() < 0.5 else (
                    "invalid", self.random.choice(INVALID))
            if kind == "dead":
                key, value, headers = detail(self, number)
                yield Record(key, value, headers, {"dead": fingerprint(key, value, headers)})
            elif kind == "invalid":
                yield detail(self, number)
            elif kind == "fan-out":
                yield self.envelope(number, [self.notification() for _ in range(detail)])
            elif kind == "fault":
                token = detail + "%055x" % self.random.getrandbits(220)
                yield self.single(number, [token, "accepted", None])
            elif kind == "reason":
                yield self.single(number, self.token_for(detail))
            elif draw() < self.fan_out:
                yield self.envelope(number, [self.notification() for _ in range(self.random.randint(2, 12))])
            else:
                yield self.single(number, self.notification())

    # Tokens. A notification of the book: [token, outcome, reason or None].

    def token(self):
        return "00" + "%062x" % self.random.getrandbits(248)

    def token_for(self, reason):
        prefix = self.prefixes[reason]
        digits = 64 - len(prefix)
        return [prefix + "%0*x" % (digits, self.random.getrandbits(4 * digits)), REASONS[reason][1], reason]

    def notification(self):
        draw = self.random.random()
        if draw < 0.10:
            return [self.random.choice(self.favourites), "accepted", None]
        if draw < 0.94 or not self.common:
            return [self.token(), "accepted", None]
        if draw < 0.97 and "Unregistered" in self.prefixes:
            return self.token_for("Unregistered")
        return self.token_for(self.random.choice(self.common))

    # Forms.

    def single(self, number, notification):
        token = notification[0]
        line = {"n": [notification]}
        draw = self.random.random()
        if draw < 0.55:
            if draw < 0.05:
                return Record(token.upper().encode(), payload(number), [], line)
            return Record(token.encode(), payload(number), [], line)
        if draw < 0.80:
            key = b"user-%d" % number
            headers = [("push-device-token", token.encode())]
            line["key"] = key.decode()
            self.some_headers(headers, line)
            return Record(key, payload(number), headers, line)
        if draw < 0.85:
            headers = []
            self.some_headers(headers, line)
            return Record(token.encode(), payload(number, self.random.randint(0, 3000)), headers, line)
        return self.envelope(number, [notification], fan_out=False)

    def some_headers(self, headers, line):
        choice = self.random.randrange(6)
        if choice == 0:
            headers += [("apns-push-type", b"background"), ("apns-priority", b"5"), ("apns-topic", BUNDLE.encode())]
        elif choice == 1:
            headers += [("apns-push-type", b"voip"), ("apns-topic", (BUNDLE + ".voip").encode())]
            line["topic"] = BUNDLE + ".voip"
        elif choice == 2:
            headers += [("apns-expiration", b"4000000000"), ("apns-collapse-id", b"game-%d" % self.random.randrange(99))]
        elif choice == 3:
            bits = self.random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | (4 << 76) | (2 << 62)
            text = "%032x" % bits
            line["id"] = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
            headers.append(("apns-id", line["id"].encode()))
        elif choice == 4:
            trace = "00-%032x-%016x-01" % (self.random.getrandbits(128), self.random.getrandbits(64))
            line["trace"] = trace
            headers += [("traceparent", trace.encode()), ("content-type", b"application/json")]
        else:
            headers += [("push-app", b"shop"), ("push-environment", b"production"), ("apns-priority", b"10")]

    def envelope(self, number, notifications, fan_out=True, **members):
        body = {}
        if fan_out:
            body["device_tokens"] = [n[0] for n in notifications]
        else:
            body["device_token"] = notifications[0][0]
        if self.random.random() < 0.5:
            body["app"] = "shop"
        if self.random.random() < 0.5:
            body["headers"] = {"apns-topic": BUNDLE, "apns-push-type": "alert", "apns-priority": 10}
        body.update(members)
        value = json.dumps(body).encode()[:-1] + b', "payload": ' + payload(number) + b"}"
        line = {"n": notifications}
        key = None
        if self.random.random() < self.keyed:
            key = b"campaign-%d" % number
            line["key"] = key.decode()
        return Record(key, value, [], line)


# Records whose notifications can be read but must not be sent: `invalid` (or `expired`), with the reason where the
# contract names one; None: any.


def refused_header(reason, *headers, outcome="invalid"):
    def make(generator, number):
        token = generator.token()
        return Record(
            token.encode(), payload(number), [(n, v) for n, v in headers], {"n": [[token, outcome, reason]]})

    return make


def refused_token(text):
    def make(generator, number):
        line = {"n": [[text, "invalid", "BadDeviceToken"]], "key": "user-%d" % number}
        return Record(b"user-%d" % number, payload(number), [("push-device-token", text.encode())], line)

    return make


def payload_too_large(generator, number):
    token = generator.token()
    return Record(token.encode(), payload(number, 4200), [], {"n": [[token, "invalid", "PayloadTooLarge"]]})


def payload_not_an_object(generator, number):
    token = generator.token()
    return Record(token.encode(), b'["not an object"]', [], {"n": [[token, "invalid", None]]})


def unknown_member(generator, number):
    notifications = [[generator.token(), "invalid", None] for _ in range(3)]
    return generator.envelope(number, notifications, priority=10)


def fan_out_with_id(generator, number):
    notifications = [[generator.token(), "invalid", None] for _ in range(2)]
    return generator.envelope(number, notifications, headers={"apns-id": "b6ee4bd0-56d8-4a23-a4c1-0d1a9e2a0c11"})


def header_on_envelope(generator, number):
    record = generator.envelope(number, [[generator.token(), "invalid", None]])
    record.headers = [("apns-priority", b"10")]
    return record


INVALID = [
    refused_header("BadPriority", ("apns-priority", b"7")),
    refused_header("BadPriority", ("apns-push-type", b"background"), ("apns-priority", b"10")),
    refused_header("InvalidPushType", ("apns-push-type", b"alarm")),
    refused_header("BadExpirationDate", ("apns-expiration", b"soon")),
    refused_header(None, ("apns-expiration", b"1500000000"), outcome="expired"),
    refused_header("BadCollapseId", ("apns-collapse-id", b"c" * 65)),
    refused_header("BadMessageId", ("apns-id", b"not-a-uuid")),
    refused_header(None, ("apns-topic", b"com.example.other")),
    refused_header(None, ("push-app", b"nobody")),
    refused_header(None, ("apns-collapse-id", b"two\nlines")),
    refused_token("abc"),
    refused_token("zz" * 32),
    payload_too_large,
    payload_not_an_object,
    unknown_member,
    fan_out_with_id,
    header_on_envelope,
]

# Records from which no notification can be read: key, value, headers.


def tombstone(generator, number):
    return generator.token().encode(), None, []


def not_json(generator, number):
    return generator.token().encode(), b'{"aps":{"alert":"cut off', [("trace", b"kept")]


def no_token(generator, number):
    return b"user-%d" % number, payload(number), [("apns-priority", b"10")]


def no_key(generator, number):
    return None, payload(number), []


def garbage(generator, number):
    return None, bytes([0, 255, 254]) + b"%d" % number, [("empty", b""), ("null", None)]


def tokens_not_a_list(generator, number):
    return None, b'{"device_tokens": "%s", "payload": {"aps": {}}}' % generator.token().encode(), []


def no_tokens(generator, number):
    return None, b'{"device_tokens": [], "payload": {"aps": {}}}', []


def too_many_tokens(generator, number):
    tokens = ",".join('"%s"' % generator.token() for _ in range(10_001))
    return None, b'{"device_tokens": [%s], "payload": {"aps": {}}}' % tokens.encode(), []


DEAD = [tombstone, not_json, no_token, no_key, garbage, tokens_not_a_list, no_tokens]


class Apps:
    """Plain notifications to as many apps in turn: `shop`, `app1`, `app2` …"""

    def __init__(self, count, seed, apps):
        self.count = count
        self.random = random.Random(seed)
        self.bundles = [BUNDLE] + ["com.example.app%d" % number for number in range(1, apps)]

    def __iter__(self):
        for number in range(self.count):
            token = "00" + "%062x" % self.random.getrandbits(248)
            topic = self.bundles[number % len(self.bundles)]
            yield Record(token.encode(), payload(number), [("apns-topic", topic.encode())], {
                "n": [[token, "accepted", None]], "topic": topic})


class Known:
    """Plain notifications to `known` device tokens (a file's lines) and, one in ten, to others: for a foreign server,
    which answers 404 to what it does not know."""

    def __init__(self, count, seed, known):
        self.count = count
        self.random = random.Random(seed)
        self.known = known

    def __iter__(self):
        forms = Generator(0, self.random.getrandbits(32), {}, plain=True)
        for number in range(self.count):
            size = self.random.randint(2, 12) if self.random.random() < 0.02 else 1
            notifications = [self.notification() for _ in range(size)]
            yield forms.envelope(number, notifications) if size > 1 else forms.single(number, notifications[0])

    def notification(self):
        if self.random.random() < 0.9:
            return [self.random.choice(self.known), "accepted", None]
        return ["ff%062x" % self.random.getrandbits(248), "abandoned", "HTTP 404"]


class Scheduled:
    """Plain notifications in both forms, each to be sent at a time of its own, within `seconds` from now; of the envelopes one
    has 1,000 tokens. The book has the time as `at`."""

    def __init__(self, count, seed, seconds):
        self.count = count
        self.random = random.Random(seed)
        self.seconds = seconds

    def __iter__(self):
        forms = Generator(0, self.random.getrandbits(32), {}, plain=True)
        for number in range(self.count):
            at = int(time.time() + 1 + self.random.random() * self.seconds)
            size = 1_000 if number == self.count // 2 else 1 if self.random.random() < 0.9 else self.random.randint(2, 12)
            tokens = ["00" + "%062x" % self.random.getrandbits(248) for _ in range(size)]
            notifications = [[token, "accepted", None] for token in tokens]
            if size > 1:
                record = forms.envelope(number, notifications, not_before=at)
            else:
                record = Record(
                    tokens[0].encode(), payload(number), [("push-not-before", b"%d" % at)], {"n": notifications})
            record.line["at"] = at
            yield record
