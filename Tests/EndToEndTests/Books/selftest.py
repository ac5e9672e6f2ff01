"""Shows that the audits detect each kind of fault, by altering correct books in one way at a time."""

import copy
import json

import gateway
from audit import Audit
from records import REASONS, Generator, apples_time

TOPIC = "requests"


def derived_id(partition, offset, index):
    bits = offset << 74 | index << 60 | partition << 40 | 0xABCDE12345
    uuid = (bits >> 74) << 80 | 8 << 76 | ((bits >> 62) & 0xFFF) << 64 | 2 << 62 | bits & ((1 << 62) - 1)
    text = "%032x" % uuid
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Books:
    """The books of a perfect run."""

    def __init__(self):
        prefixes = {reason: "fa17%04x0" % number for number, reason in enumerate(REASONS)}
        self.lines, self.results, self.dead_tokens, self.dead_letters = [], [], [], []
        self.seen, self.lag = {}, 0
        for number, record in enumerate(Generator(1_000, 7, prefixes)):
            place = {"p": number % 4, "o": number // 4}
            self.lines.append(record.line | place)
            if "dead" in record.line:
                headers = list(record.headers) + [
                    ("push-dlq-reason", b"r"), ("push-dlq-detail", b"d"), ("push-dlq-timestamp", b"1"),
                    ("push-dlq-topic", TOPIC.encode()), ("push-dlq-partition", b"%d" % place["p"]),
                    ("push-dlq-offset", b"%d" % place["o"])]
                self.dead_letters.append([record.key, headers, record.value])
                continue
            for index, notification in enumerate(record.line["n"]):
                self.settle(record.line, place, index, *notification)

    def settle(self, line, place, index, token, outcome, reason):
        token = token.lower()
        id = line.get("id") or derived_id(place["p"], place["o"], index)
        sends = 0 if outcome in ("invalid", "expired") else 2 if outcome == "abandoned" else 1
        status = 200 if outcome == "accepted" else REASONS[reason][0] if sends and reason in REASONS else None
        at = apples_time(token) if outcome == "unregistered" else None
        request = {"topic": TOPIC, "partition": place["p"], "offset": place["o"], "index": index}
        if "key" in line:
            request["key"] = line["key"]
        value = {
            "outcome": outcome, "status": status, "reason": reason, "unregistered_at_ms": at, "apns_id": id,
            "device_token": token, "apns_topic": line.get("topic", "com.example.shop"), "app": "shop",
            "environment": "production", "attempts": sends, "in_doubt": 0, "requested_at_ms": 1,
            "sent_at_ms": 2 if sends else None, "settled_at_ms": 3, "request": request}
        value = {member: found for member, found in value.items() if found is not None}
        headers = [("outcome", outcome.encode())]
        if reason:
            headers.append(("reason", reason.encode()))
        if "trace" in line:
            headers.append(("traceparent", line["trace"].encode()))
        self.results.append([token.encode(), headers, value])
        if sends:
            self.seen[id] = (token, sends, int(outcome == "accepted"))
        if outcome == "unregistered":
            self.dead_tokens.append([token.encode(), {
                "device_token": token, "apns_topic": "com.example.shop", "app": "shop", "environment": "production",
                "reason": reason, "unregistered_at_ms": at, "observed_at_ms": 4}])

    def audit(self, *crashed):
        audit = Audit(TOPIC, *crashed)
        for line in self.lines:
            audit.produced(line)
        for key, headers, value in self.results:
            audit.result(key, headers, json.dumps(value))
        for key, value in self.dead_tokens:
            audit.dead_token(key, json.dumps(value))
        for key, headers, value in self.dead_letters:
            audit.dead_letter(key, headers, value)
        audit.lag("group", TOPIC, self.lag)
        audit.complete()
        audit.server(self.seen)
        return audit

    def of(self, outcome):
        return next(value for _, _, value in self.results if value["outcome"] == outcome)


def resend(books):
    id = books.of("accepted")["apns_id"]
    token, _, _ = books.seen[id]
    books.seen[id] = (token, 2, 2)


def swap_order(books):
    """Exchanges two results of one device in one partition."""
    places = {}
    for number, (key, _, value) in enumerate(books.results):
        device = (key, value["request"]["partition"])
        if device in places and value["outcome"] == "accepted":
            first = places[device]
            books.results[first], books.results[number] = books.results[number], books.results[first]
            return
        places[device] = number
    raise AssertionError("no device with two results")


def withhold(books, outcome):
    books.results.remove(next(r for r in books.results if r[2]["outcome"] == outcome))


def change(books, which, **members):
    books.of(which).update(members)


# Each fault, the change that causes it, and words of the finding that must follow.
FAULTS = [
    ("an accepted result is withheld", lambda b: withhold(b, "accepted"), "LOST: no result"),
    ("an invalid result is withheld", lambda b: withhold(b, "invalid"), "LOST: no result"),
    ("a dead letter is withheld", lambda b: b.dead_letters.pop(), "LOST: no dead letter"),
    ("a dead token is withheld", lambda b: b.dead_tokens.pop(), "LOST: no dead-token"),
    ("a result stands twice", lambda b: b.results.append(copy.deepcopy(b.results[9])), "more than one result"),
    ("a dead letter stands twice", lambda b: b.dead_letters.append(b.dead_letters[0]), "more than one dead letter"),
    ("a dead token stands twice", lambda b: b.dead_tokens.append(b.dead_tokens[0]), "of no 410"),
    ("a dead token too many", lambda b: b.dead_tokens.append(
        [b"ab", b.dead_tokens[0][1] | {"device_token": "ab"}]), "of no 410"),
    ("a dead token has our time", lambda b: b.dead_tokens[0][1].update(unregistered_at_ms=5), "reason and time"),
    ("a 410 has another time", lambda b: change(b, "unregistered", unregistered_at_ms=6), "not Apple's"),
    ("a rejected one is called accepted", lambda b: change(b, "rejected", outcome="accepted"), "other than expected"),
    ("an accepted one is called rejected", lambda b: change(b, "accepted", outcome="rejected"), "other than expected"),
    ("a reason is another", lambda b: change(b, "rejected", reason="Unregistered"), "other than expected"),
    ("a status is another", lambda b: change(b, "unregistered", status=400), "other than Apple's"),
    ("a token is another", lambda b: change(b, "accepted", device_token="00" * 32), "another token"),
    ("a member is missing", lambda b: b.of("accepted").pop("attempts"), "without a member"),
    ("a member is null", lambda b: change(b, "accepted", reason=None), "is null"),
    ("a dead token's member is null", lambda b: b.dead_tokens[0][1].update(reason=None), "is null"),
    ("a header says something else", lambda b: b.results[0][1].pop(0), "headers say"),
    ("a key is another", lambda b: b.results[0].__setitem__(0, b"x"), "key is not its token"),
    ("an apns-id is another", lambda b: [r[2].update(apns_id=derived_id(1, 2, 3)) for r in b.results[:9]], "spell"),
    ("a result of nothing", lambda b: b.of("accepted")["request"].update(offset=99_999), "never produced"),
    ("two results change places", swap_order, "out of order"),
    ("a dead letter is altered", lambda b: b.dead_letters[0].__setitem__(2, b"other"), "altered"),
    ("a dead letter of a good record", lambda b: b.dead_letters[0][1].__setitem__(
        -1, ("push-dlq-offset", b"777777")), "of something else"),
    ("the server never saw one", lambda b: b.seen.pop(b.of("accepted")["apns_id"]), "server's verdict"),
    ("the server saw one twice", resend, "sent twice"),
    ("the server saw one that was never written", lambda b: b.seen.update({"x": ("ab", 1, 1)}), "has no result"),
    ("a send is not in attempts", lambda b: change(b, "rejected", attempts=2), "number of requests"),
    ("a result is in doubt without a fault", lambda b: change(b, "accepted", in_doubt=1), "in doubt"),
    ("offsets are not committed", lambda b: setattr(b, "lag", 3), "lag of the group"),
]


# The same after a kill, after which one request may be repeated, and no other one may be in doubt.
CRASHED = [
    (lambda b: repeat(b, in_doubt=1), None), (lambda b: repeat(b, in_doubt=0), "no result says in_doubt"),
    (lambda b: (repeat(b, in_doubt=1), withhold(b, "rejected")), "LOST: no result"),
    (lambda b: change(b, "accepted", in_doubt=1), "in doubt beyond"),
]


def repeat(books, in_doubt):
    resend(books)
    result = copy.deepcopy(next(result for result in books.results if result[2] is books.of("accepted")))
    result[2].update(attempts=1 + in_doubt, in_doubt=in_doubt)
    books.results.append(result)


class Gateway:
    """The books of 1,000 notifications over the binary protocol, two of which have bad tokens."""

    def __init__(self, repeats):
        self.book = gateway.GatewayBook(500, repeats)
        self.results = {number: {
            "device_token": gateway.token(number, self.book.is_bad(number)), "in_doubt": 0, "outcome": "accepted",
            "status": 200, "detail": "presumed"} for number in range(1_000)}
        for number in (499, 999):
            self.results[number] |= {"outcome": "rejected", "reason": "BadDeviceToken", "status": 8}
        self.taken = {number: 1 for number in self.results if not self.book.is_bad(number)}
        self.lost_at_most = 0

    def findings(self):
        for result in self.results.values():
            self.book.result(result)
        for number, count in self.taken.items():
            self.book.server(gateway.token(number, self.book.is_bad(number)), count)
        self.book.complete(self.lost_at_most, 1_000)
        return self.book.findings


# Which notifications may be accepted again, the change, and words of the expected finding (None for no finding).
OF_GATEWAY = [
    ("crashed", lambda s: (s.taken.pop(7), s.taken.pop(8), setattr(s, "lost_at_most", 2)), None),
    ("crashed", lambda s: (s.taken.pop(7), s.taken.pop(8), setattr(s, "lost_at_most", 1)), "LOST: more than"),
    ("crashed", lambda s: (s.results[7].update(detail=""), s.taken.pop(7)), "LOST: answered as accepted"),
    ("crashed", lambda s: s.results[499].update(outcome="accepted"), "LOST: more than"),
    ("crashed", lambda s: s.results.pop(499), "LOST: no result"),
    ("crashed", lambda s: s.results.pop(7), "no result says accepted"),
    ("crashed", lambda s: s.taken.update({499: 1}), "a bad token was accepted"),
    ("crashed", lambda s: s.results[7].update(outcome="abandoned"), "other than expected"),
    ("crashed", lambda s: s.taken.update({7: 2}), "no result says in_doubt"),
    ("crashed", lambda s: (s.taken.update({7: 2}), s.results[7].update(in_doubt=1)), None),
    ("none", lambda s: (s.taken.update({7: 2}), s.results[7].update(in_doubt=1)), "accepted again"),
]


def selftest(_options):
    """Prints the failures, and returns whether there are none."""
    perfect = Books()
    cases = [(alter, word, ()) for _, alter, word in FAULTS] + [(lambda b: None, None, ())]
    cases += [(alter, word, (True, 1, 0)) for alter, word in CRASHED]
    cases += [(lambda b: repeat(b, in_doubt=1), "sent again beyond", (True, 0))]
    failures = []
    for number, (alter, word, options) in enumerate(cases):
        books = copy.deepcopy(perfect)
        alter(books)
        audit = books.audit(*options)
        if not any(word in kind for kind in audit.findings) if word else audit.findings:
            failures.append(f"audit {number}: {word or 'no finding'} expected, found:\n{audit.report()}")
    for number, (repeats, alter, word) in enumerate(OF_GATEWAY):
        scene = Gateway(repeats)
        alter(scene)
        kinds = scene.findings()
        if not any(word in kind for kind in kinds) if word else kinds:
            failures.append(f"gateway {number}: {word or 'no finding'} expected, found {dict(kinds)}")
    print("\n".join(failures) or f"{len(cases) + len(OF_GATEWAY)} cases, each as expected")
    return not failures
