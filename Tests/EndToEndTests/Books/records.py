"""Generates request records, each with a line for the book that contains its expected outcomes.

Everything depends on a seed, so a command line always writes the same records. The rules come from the contract
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
REASONS = {
    reason: (status, outcome)
    for status, outcome, reasons in [
        (400, "rejected", "BadCollapseId BadDeviceToken BadExpirationDate BadMessageId BadPriority BadTopic "
         "DeviceTokenNotForTopic DuplicateHeaders InvalidPushType MissingDeviceToken MissingTopic PayloadEmpty"),
        (400, "abandoned", "IdleTimeout TopicDisallowed"),
        (403, "abandoned", "BadCertificate BadCertificateEnvironment ExpiredProviderToken InvalidProviderToken "
         "MissingProviderToken UnrelatedKeyIdInToken BadEnvironmentKeyIdInToken"),
        (403, "rejected", "Forbidden"), (404, "rejected", "BadPath"), (405, "rejected", "MethodNotAllowed"),
        (410, "unregistered", "ExpiredToken Unregistered"), (413, "rejected", "PayloadTooLarge"),
        (429, "abandoned", "TooManyProviderTokenUpdates TooManyRequests"), (500, "abandoned", "InternalServerError"),
        (503, "abandoned", "ServiceUnavailable Shutdown"),
    ] for reason in reasons.split()
}


def read_prefixes(help_text):
    """Returns the token prefix that always causes a reason, by reason, from the output of `apns-worker simulate --help`.

    Raises ValueError if the table and Apple's page differ.
    """
    table = re.findall(r"^ *(fa17[0-9a-f]{4}) +(\d{3}) (\w+) *$", help_text, re.MULTILINE)
    prefixes = {reason: code + "0" for code, status, reason in table if REASONS.get(reason, (0,))[0] == int(status)}
    if missing := REASONS.keys() - prefixes.keys():
        raise ValueError("no token prefix, or another status than Apple's, for " + ", ".join(sorted(missing)))
    return prefixes


# Faults of a connection, by their names in the simulator's table. All of them must end in a resend that is accepted.
FAULTS = ["no-answer", "reset-stream", "refuse-stream", "goaway", "goaway-twice", "goaway-below", "goaway-now",
          "cut-before", "cut-inside", "cut-after", "tcp-reset"]


def read_faults(help_text):
    """Returns the token prefixes whose first request causes a fault, by name, from `apns-worker simulate --help`."""
    table = dict((name, code) for code, name in re.findall(r"^ *(fa17[0-9a-f]{4}) +([a-z-]+): ", help_text, re.MULTILINE))
    if missing := set(FAULTS) - table.keys():
        raise ValueError("no token prefix for " + ", ".join(sorted(missing)))
    return {name: table[name] + "1" for name in FAULTS}


def request_of(value):
    """Returns topic/partition/offset/index of the request that a result's value names."""
    request = value["request"]
    return f"{request['topic']}/{request['partition']}/{request['offset']}/{request['index']}"


def apples_time(token):
    """Returns the time of a token's death according to the simulator, in milliseconds (`apns-worker simulate --help`)."""
    return 1_600_000_000_000 + int(token[-9:], 16)


# Answers that end a connection or stop a whole app for a while. Each run has only a handful of them.
DISTURBING = {
    reason
    for reason, (status, outcome) in REASONS.items()
    if outcome == "abandoned" and reason not in ("TooManyRequests", "InternalServerError", "ServiceUnavailable")
}


@dataclass
class Record:
    """A record and its line in the producer's book, without its partition and offset."""

    key: bytes | None
    value: bytes | None
    headers: list | None = None
    line: dict = None
    partition: int = -1  # chosen by the producer
    timestamp: int = 0  # the current time


def fingerprint(key, value, headers):
    """Returns a hash of the parts that a dead letter must keep unchanged, without the worker's own `push-dlq-*` headers."""
    text = repr((key, value, [(n, v) for n, v in headers or [] if not n.startswith("push-dlq-")]))
    return zlib.crc32(text.encode())


def payload(number, pad=0):
    return ('{"aps":{"alert":"Hi %d","sound":"default"},"n":%d%s}' % (
        number, number, ',"pad":"%s"' % ("x" * pad) if pad else "")).encode()


class Generator:
    """Generates `count` records in both forms. `prefixes` maps a reason to the token prefix that causes it. `envelopes`
    is the number of large fan-outs and of their tokens. They are among the first records, and have keys, so that they
    are spread over the partitions."""

    def __init__(self, count, seed, prefixes, plain=False, faults=None, envelopes=(0, 0)):
        self.count = count
        self.random = random.Random(seed)
        self.prefixes = prefixes
        self.malformed = 0 if plain else 0.01
        self.fan_out = 0 if envelopes[0] else 0.03
        self.faults = faults or {}
        # Devices that get many notifications, so that device queues are used.
        self.favourites = ["00" + "%062x" % self.random.getrandbits(248) for _ in range(max(1, count // 200))]
        self.common = [r for r in REASONS if r in prefixes and r not in DISTURBING]
        self.specials = {}
        if not plain:
            self.place_specials()
        self.keyed = 1.0 if envelopes[0] else 0.3
        for number in self.random.sample(range(min(count, envelopes[0] * 5)), envelopes[0]):
            self.specials[number] = ("fan-out", envelopes[1])

    def place_specials(self):
        """Puts a fixed number of each rare kind at random places, so that every run contains all of them."""
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

    # MARK: Tokens

    # A notification in the book is [token, outcome, reason or None].

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

    # MARK: Forms

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


# Records whose notifications can be parsed but must not be sent. They are `invalid` (or `expired`), with the reason if
# the contract names one, or None for any reason.


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
]

# Records from which no notification can be parsed: key, value, headers.

DEAD = [
    lambda generator, number: (generator.token().encode(), None, []),
    lambda generator, number: (generator.token().encode(), b'{"aps":{"alert":"cut off', [("trace", b"kept")]),
    lambda generator, number: (b"user-%d" % number, payload(number), [("apns-priority", b"10")]),
    lambda generator, number: (None, payload(number), []),
    lambda generator, number: (None, b"\0\xff\xfe%d" % number, [("empty", b""), ("null", None)]),
    lambda generator, number: (None, b'{"device_tokens": "%064x", "payload": {"aps": {}}}' % number, []),
    lambda generator, number: (None, b'{"device_tokens": [], "payload": {"aps": {}}}', []),
]


def too_many_tokens(generator, number):
    tokens = ",".join('"%s"' % generator.token() for _ in range(10_001))
    return None, b'{"device_tokens": [%s], "payload": {"aps": {}}}' % tokens.encode(), []


def apps(count, seed, number_of_apps):
    """Generates plain notifications to the apps `shop`, `app1`, `app2` … in turn."""
    source = random.Random(seed)
    bundles = [BUNDLE] + ["com.example.app%d" % number for number in range(1, number_of_apps)]
    for number in range(count):
        token = "00" + "%062x" % source.getrandbits(248)
        topic = bundles[number % len(bundles)]
        yield Record(token.encode(), payload(number), [("apns-topic", topic.encode())], {
            "n": [[token, "accepted", None]], "topic": topic})


def scheduled(count, seed, seconds):
    """Generates plain notifications in both forms, each scheduled at another time within this number of seconds. One
    envelope has 1,000 tokens. The book contains the time as `at`."""
    source = random.Random(seed)
    forms = Generator(0, source.getrandbits(32), {}, plain=True)
    for number in range(count):
        at = int(time.time() + 1 + source.random() * seconds)
        size = 1_000 if number == count // 2 else 1 if source.random() < 0.9 else source.randint(2, 12)
        notifications = [["00" + "%062x" % source.getrandbits(248), "accepted", None] for _ in range(size)]
        if size > 1:
            record = forms.envelope(number, notifications, not_before=at)
        else:
            record = Record(notifications[0][0].encode(), payload(number), [("push-not-before", b"%d" % at)],
                            {"n": notifications})
        record.line["at"] = at
        yield record
