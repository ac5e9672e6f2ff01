"""Compares three books: the produced requests, the requests at the server, and the records in the topics. The worker's
own counters are not used.

`Audit` reads no topics itself, so that `selftest` can show that it detects each kind of fault.
"""

import json
from collections import Counter, defaultdict

from findings import Findings
from records import BUNDLE, REASONS, apples_time, fingerprint, request_of

OUTCOMES = {"accepted", "unregistered", "rejected", "invalid", "expired", "abandoned"}
# The members that every result has. Other members are optional.
MEMBERS = {"outcome", "attempts", "in_doubt", "requested_at_ms", "settled_at_ms", "request"}


class Result:
    """The first result of a notification, and the number of its results."""

    __slots__ = ("count", "token", "id", "outcome", "reason", "status", "attempts", "in_doubt", "unregistered_at")

    def __init__(self, value):
        self.count = 1
        self.token = value.get("device_token") or ""
        self.id = value.get("apns_id")
        self.outcome = value["outcome"]
        self.reason = value.get("reason")
        self.status = value.get("status")
        self.attempts = value["attempts"]
        self.in_doubt = value["in_doubt"]
        self.unregistered_at = value.get("unregistered_at_ms")


class Audit(Findings):
    """`crashed`: a worker was killed, so notifications may have been sent and their results written more than once. The
    server may have accepted up to `repeatable` of them again. At most three times those that it received again, and
    `margin` more, may be in doubt. `doubtful`: the server cut connections, so notifications may be in doubt, and those
    in doubt may have been accepted again. `restarted`: workers were stopped in order, and the next worker does not know
    of earlier answers that required a resend."""

    def __init__(self, topic, crashed=False, repeatable=None, margin=None, doubtful=False, restarted=False):
        super().__init__()
        self.topic = topic
        self.crashed = crashed
        self.repeatable = repeatable
        self.margin = margin
        self.doubtful = doubtful
        self.restarted = restarted
        self.counts = Counter()
        self.records = 0
        self.expected = {}  # request -> [token, outcome, reason]
        self.lines = {}  # topic/partition/offset -> the record's line, if it has more than the notifications
        self.dead = {}  # topic/partition/offset -> fingerprint
        self.results = {}  # request -> Result
        self.dead_letters = Counter()
        self.dead_tokens = defaultdict(list)  # token -> [(reason, unregistered at)]
        self.moved = set()  # requests that went through a retry topic, where order is not kept
        self.order = {}  # (token, request partition) -> place of its last first send

    # MARK: The producer's book

    def produced(self, line):
        place = f"{self.topic}/{line['p']}/{line['o']}"
        self.records += 1
        if "dead" in line:
            self.dead[place] = line["dead"]
            return
        for index, notification in enumerate(line["n"]):
            self.expected[f"{place}/{index}"] = notification
        if len(line) > 3:  # more than n, p and o
            self.lines[place] = line

    # MARK: The topics' book

    def retry(self, headers):
        """Records a retry record. Must be called before `result`."""
        self.moved.add((dict(headers or []).get("push-retry-request") or b"").decode())

    def result(self, key, headers, text):
        try:
            value = json.loads(text)
            headers = {name: (content or b"").decode() for name, content in headers or []}
            request, name = value["request"], request_of(value)
            place = name.rsplit("/", 1)[0]
            if not MEMBERS <= value.keys():
                self.found("result without a member", f"{name}: {', '.join(sorted(MEMBERS - value.keys()))}")
                return
            if None in value.values():
                self.found("result with a member that is null", f"{name}: {value}")
        except (ValueError, KeyError, TypeError) as error:
            self.found("result that cannot be read", f"{error!r}: {bytes(text or b'')[:200]}")
            return
        known = self.results.get(name)
        if known is not None:
            known.count += 1
            known.in_doubt = max(known.in_doubt, value["in_doubt"])  # a repeated send must be in doubt
            if not self.crashed:
                self.found("more than one result", name)
            return
        result = self.results[name] = Result(value)
        self.counts[result.outcome] += 1
        expected = self.expected.get(name)
        if expected is None:
            self.found("result of something never produced", name)
            return
        token, outcome, reason = expected
        if result.outcome != outcome or (reason is not None and result.reason != reason):
            self.found("result other than expected", f"{name}: {outcome} {reason or ''}, not {result.outcome} "
                       f"{result.reason or ''} {result.status} {value.get('detail', '')}")
        if outcome != "invalid" and reason in REASONS and result.status != REASONS[reason][0]:
            self.found("status other than Apple's", f"{name}: {reason} {result.status}")
        if outcome == "accepted" and (result.status != 200 or result.reason is not None):
            self.found("accepted without a 200", f"{name}: {result.status} {result.reason}")
        shown = token.lower()
        if result.token.lower() != shown or (outcome != "invalid" and result.token != shown):
            self.found("result with another token", f"{name}: {result.token}")
        if (key or b"").decode() != result.token:
            self.found("result whose key is not its token", f"{name}: {key}")
        if headers.get("outcome") != result.outcome or headers.get("reason") != result.reason:
            self.found("result whose headers say something else", f"{name}: {headers}")
        self.details(place, name, result, value, headers, request)
        if not self.crashed and outcome == "accepted" and result.attempts == 1 and name not in self.moved:
            device, now = (result.token, request["partition"]), (request["offset"], request["index"])
            if self.order.get(device, (-1, 0)) > now:
                self.found("results of a device out of order", f"{name} after offset {self.order[device]}")
            self.order[device] = now

    def details(self, place, name, result, value, headers, request):
        line = self.lines.get(place, {})
        if request.get("key") != line.get("key"):
            self.found("result with another key of its request", f"{name}: {request.get('key')}")
        if headers.get("traceparent") != line.get("trace"):
            self.found("result without its traceparent", f"{name}: {headers.get('traceparent')}")
        if result.outcome in ("invalid", "expired"):
            return
        if value.get("apns_topic") != line.get("topic", BUNDLE):
            self.found("result with another topic", f"{name}: {value.get('apns_topic')}")
        if value.get("app") != "shop" or value.get("environment") != "production":
            self.found("result with another app", f"{name}: {value.get('app')} {value.get('environment')}")
        if not value["requested_at_ms"] or value["settled_at_ms"] < value["requested_at_ms"]:
            self.found("result with impossible times", f"{name}: {value['requested_at_ms']} {value['settled_at_ms']}")
        if result.outcome == "unregistered" and result.unregistered_at != apples_time(result.token):
            self.found("time of a 410 is not Apple's", f"{name}: {result.unregistered_at}")
        if "id" in line:
            if result.id != line["id"]:
                self.found("result with another apns-id", f"{name}: {result.id}, not {line['id']}")
        elif derived_place(result.id) != (request["offset"], request["index"], request["partition"]):
            self.found("apns-id that does not spell its request", f"{name}: {result.id}")

    def dead_token(self, key, text):
        try:
            value = json.loads(text)
            token, reason, at = value["device_token"], value.get("reason"), value.get("unregistered_at_ms")
        except (ValueError, KeyError, TypeError) as error:
            self.found("dead-token record that cannot be read", f"{error!r}: {bytes(text or b'')[:200]}")
            return
        if (key or b"").decode() != token or value.get("app") != "shop" or value.get("apns_topic") is None:
            self.found("dead-token record with another key, app or topic", f"{key}: {text}")
        if None in value.values():
            self.found("dead-token record with a member that is null", f"{key}: {text}")
        self.dead_tokens[token].append((reason, at))

    def dead_letter(self, key, headers, value):
        ours = {name: (content or b"").decode() for name, content in headers or [] if name.startswith("push-dlq-")}
        place = "/".join(ours.get("push-dlq-" + part, "?") for part in ("topic", "partition", "offset"))
        self.dead_letters[place] += 1
        if place not in self.dead:
            self.found("dead letter of something else", f"{place}: {ours.get('push-dlq-reason')} "
                       f"{ours.get('push-dlq-detail')}")
        elif "push-dlq-truncated" not in ours and fingerprint(key, value, headers) != self.dead[place]:
            self.found("dead letter that was altered", place)
        for part in ("reason", "detail", "timestamp"):
            if not ours.get("push-dlq-" + part):
                self.found("dead letter without its " + part, place)

    # MARK: The ends

    def lag(self, group, topic, count):
        if count:
            self.found("lag of the group", f"{group} on {topic}: {count}", count)

    def complete(self):
        """Finds missing and repeated results after the topics were read."""
        for name in self.expected.keys() - self.results.keys():
            self.found("LOST: no result", f"{name}: {self.expected[name]}")
        for place in self.dead:
            count = self.dead_letters[place]
            if count == 0:
                self.found("LOST: no dead letter", place)
            elif count > 1 and not self.crashed:
                self.found("more than one dead letter", place)
        wanted = Counter()
        for name, result in self.results.items():
            if result.outcome == "unregistered":
                wanted[result.token] += 1
                if (result.reason, result.unregistered_at) not in self.dead_tokens.get(result.token, ()):
                    self.found("LOST: no dead-token record with the reason and time of a 410", name)
        for token, records in self.dead_tokens.items():
            if not wanted[token] or (len(records) > wanted[token] and not self.crashed):
                self.found("dead-token record of no 410", token)

    # MARK: The server's book: apns-id -> (token, requests, accepted).

    def server(self, seen):
        self.counts["requests the server saw"] = sum(requests for _, requests, _ in seen.values())
        self.counts["accepted by the server"] = sum(accepted for _, _, accepted in seen.values())
        ids = set()
        for name, result in self.results.items():
            token, requests, accepted = seen.get(result.id, ("", 0, 0)) if result.id else ("", 0, 0)
            ids.add(result.id)
            if token and token != result.token:
                self.found("server saw another token", name)
            again = accepted - (result.outcome == "accepted")
            if again and not (again > 0 and (self.crashed or again <= result.in_doubt)):
                kind = "sent twice" if accepted > 1 else "server's verdict is not the result's"
                self.found(kind, f"{name}: {result.outcome}, accepted {accepted} times")
            exact = not (self.crashed or self.doubtful or self.restarted)
            if requests < result.attempts - result.in_doubt or (exact and requests != result.attempts):
                self.found("server saw another number of requests",
                           f"{name}: {requests}, attempts {result.attempts}, {result.outcome} {result.reason or ''}")
            if result.in_doubt:
                self.counts["in doubt"] += 1
                self.counts["in doubt and received again"] += requests > 1
                if not (self.crashed or self.doubtful):
                    self.found("in doubt, though no connection was cut", name)
            if accepted > 1:
                self.counts["accepted again"] += accepted - 1
                if not result.in_doubt:
                    self.found("accepted again, and no result says in_doubt", name)
        if self.repeatable is not None and self.counts["accepted again"] > self.repeatable:
            self.found("sent again beyond what was in flight", f"{self.repeatable} may be",
                       self.counts["accepted again"] - self.repeatable)
        again = self.counts["in doubt and received again"]
        if self.margin is not None and self.counts["in doubt"] > 3 * again + self.margin:
            self.found("in doubt beyond the send horizon", f"{self.margin} and three times {again} may be")
        for unknown in seen.keys() - ids:
            self.found("server saw what has no result", f"{unknown} {seen[unknown]}")

    def report(self):
        notifications = len(self.expected)
        lines = [
            f"produced: {self.records} records, {notifications} notifications, {len(self.dead)} unreadable records",
            f"topics: {sum(r.count for r in self.results.values())} results of {len(self.results)} notifications ("
            + ", ".join(f"{name} {self.counts[name]}" for name in sorted(OUTCOMES) if self.counts[name])
            + f"), {sum(self.dead_letters.values())} dead letters, "
            f"{sum(len(r) for r in self.dead_tokens.values())} dead tokens",
        ]
        rest = {n: c for n, c in self.counts.items() if n not in OUTCOMES}
        if rest:
            lines.append("server: " + ", ".join(f"{name} {count}" for name, count in rest.items()))
        repeated = sum(r.count - 1 for r in self.results.values())
        if self.crashed:
            lines.append(f"repeated after the crash: {repeated} results")
        lines += super().report() + ["the books agree" if not self.findings else "THE BOOKS DO NOT AGREE"]
        return "\n".join(lines)


def derived_place(text):
    """Returns (offset, index, partition) of a derived apns-id, a UUIDv8 with 48, 14 and 20 bits of them and a topic hash."""
    try:
        bits = int(text.replace("-", ""), 16)
    except (AttributeError, ValueError):
        return None
    if (bits >> 76) & 0xF != 8 or (bits >> 62) & 3 != 2:
        return None
    plain = (bits >> 80) << 74 | ((bits >> 64) & 0xFFF) << 62 | bits & ((1 << 62) - 1)
    return plain >> 74, (plain >> 60) & 0x3FFF, (plain >> 40) & 0xFFFFF
