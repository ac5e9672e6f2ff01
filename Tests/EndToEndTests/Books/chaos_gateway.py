"""Notifications of a chaos run that go to a gateway of the binary protocol, and their part of the audit.

They stand in the request topic among the others, for an app of `transport: binary`. The protocol has no apns-id: each has a
device token of its own, which says its number, and by which the server's book is compared. Some are bad (status 8); what the
server is asked for by a poison's token is to close the connection without a word and not to take it.
"""

import re
import urllib.request
from collections import Counter, defaultdict

from chaos_bits import Bits

APPS = ("kiosk", "till")  # formats framed and enhanced
PER_SECOND = 400  # notifications, of all these apps
BAD_EVERY = 400
MARK = "b1a7b1a7b1a7"
BAD_MARK = "fa1740010" + MARK
CLOSES = b"fa1700000" + MARK.encode()  # of a poison
NO_ID = b"00000000-0000-0000-0000-000000000000"
FENCE = b"0" * 64
STARTS = (MARK.encode(), BAD_MARK.encode())
SHOWN = 5


def token(number):
    """64 hex digits, the last four of which say that it stands alone."""
    mark = BAD_MARK if is_bad(number) else MARK
    return (mark + "%016x" % number).ljust(60, "c") + "0000"


def is_bad(number):
    return number % BAD_EVERY == BAD_EVERY - 1


def is_one(token):
    return token.startswith(STARTS)


def number_of(token):
    """Of a token's bytes."""
    first = token.index(MARK.encode()) + len(MARK)
    return int(token[first:first + 16], 16)


class GatewayBook:
    """`calm`: nothing was killed and no fault happened; `once`: the one worker lived on: nothing may be sent twice."""

    def __init__(self, calm=False, once=False):
        self.calm, self.once = calm, once
        self.accepted, self.doubtful, self.taken = Bits(), Bits(), Bits()  # by number
        self.unread = Bits()  # presumed while the gateway read nothing: its kernel took them, and nobody is to know
        self.is_silent = False
        self.presumed = self.results = self.again = self.lost = self.lost_unread = self.bad_accepted = 0
        self.outcomes = Counter()
        self.repeated = {}  # number -> how often the server accepted it
        self.findings = Counter()
        self.examples = defaultdict(list)

    def found(self, kind, example, count=1):
        self.findings[kind] += count
        if len(self.examples[kind]) < SHOWN:
            self.examples[kind].append(str(example))

    def result(self, number, outcome, in_doubt, value):
        """Of one notification, the first or a later one."""
        self.results += 1
        self.outcomes[outcome] += 1
        is_presumed = b'"detail":"presumed"' in value
        self.presumed += is_presumed
        if is_presumed and self.is_silent:
            self.unread.add(number)
        if in_doubt:
            self.doubtful.add(number)
            if self.calm:
                self.found("gateway: in doubt without a fault", number)
        if outcome == b"accepted":
            # A bad one that silence accepted: its error came too late, and is told.
            self.bad_accepted += self.accepted.add(number) and is_bad(number) and number not in self.unread
        elif outcome != b"rejected" or not is_bad(number) or b'"reason":"BadDeviceToken"' not in value:
            self.found("gateway: result other than expected", value[:400])

    def server(self, token, count):
        """It accepted so many of them."""
        if not is_one(token):
            self.found("gateway: the server accepted what nobody wrote", token)
            return
        number = number_of(token)
        self.taken.add(number)
        if is_bad(number):
            self.found("gateway: a bad token was accepted", number)
        if count > 1:
            self.repeated[number] = count

    def complete(self, errors, lost_at_most):
        """`errors`: those that came too late, and what they cost at most, as the workers told."""
        for number, count in self.repeated.items():
            self.again += count - 1
            if self.once or self.calm:
                self.found("gateway: sent twice", f"{number}: accepted {count} times")
            elif number not in self.doubtful:
                self.found("gateway: accepted again, and no result says in_doubt", f"{number}: accepted {count} times")
        lost = [number for number in self.accepted.numbers() if number not in self.taken and not is_bad(number)]
        self.lost_unread = sum(number in self.unread for number in lost)
        lost = [number for number in lost if number not in self.unread]
        self.lost = len(lost)
        if self.lost + self.bad_accepted > lost_at_most + errors:
            self.found("LOST: accepted, says its result, and the gateway never took it",
                       f"{lost[:9]}, and {self.bad_accepted} bad ones; told were {lost_at_most} and {errors}", self.lost)
        for number in self.taken.numbers():
            if number not in self.accepted:
                self.found("gateway: taken, and no result says accepted", number)

    def report(self):
        return [f"FOUND {count} x {kind}: " + "; ".join(self.examples[kind])
                for kind, count in self.findings.most_common()]

    def summary(self):
        outcomes = ", ".join(f"{name.decode()} {count}" for name, count in self.outcomes.items())
        return (f"{self.results} results ({outcomes}), presumed {self.presumed}, in doubt {self.doubtful.count}, taken "
                f"{self.taken.count}, again {self.again}, lost {self.lost}, taken by the kernel of one that read nothing "
                f"{self.lost_unread}, bad ones accepted {self.bad_accepted}")


class Told:
    """What workers say of errors that came too late, by their metrics: a process that ends takes its counts with it, but for
    the lines it wrote since."""

    LINE = re.compile(r"an error came after its window had closed.* lost_at_most=(\d+)")

    def __init__(self):
        self.seen = {}  # (worker, when it was started) -> (errors, lost at most, where its log ended)

    def look(self, worker):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{worker.admin}/metrics", timeout=1) as page:
                text = page.read().decode()
        except OSError:
            return
        counts = [sum(int(n) for n in re.findall(rf"^apns_worker_window_{what}_total{{.*}} (\d+)$", text, re.M))
                  for what in ("too_short", "lost_at_most")]
        if any(counts):
            self.seen[worker.name, worker.started] = counts

    def at_most(self, workers):
        """(errors, notifications), of all processes there were."""
        logged = {}
        for worker in workers:
            if worker.process is None:
                continue
            text, starts = worker.text(), sorted(worker.starts)
            for start, end in zip(starts, [*starts[1:], None]):
                lost = [int(count) for count in self.LINE.findall(text[start:end])]
                logged[worker.name, start] = (len(lost), sum(lost))
        return [sum(max(self.seen.get(key, (0, 0))[n], logged.get(key, (0, 0))[n]) for key in {*self.seen, *logged})
                for n in range(2)]
