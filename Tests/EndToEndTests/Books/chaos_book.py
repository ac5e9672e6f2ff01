"""The audit's book of a chaos run: one bit for each notification and question, never a line, so that it can go on for
hours. It reads nothing itself; `selftest` shows that each kind of fault is found."""

from collections import Counter, defaultdict

import chaos_gateway
from chaos_bits import Bits
from chaos_poison import CLOSED, is_poison

SHOWN = 5  # examples of each kind of finding

DEAD_PREFIX = "fa1741010"  # the simulator answers 410 Unregistered, always
DEAD_TOKEN = DEAD_PREFIX.encode()
LATER_PREFIX = "fa1742911"  # 429 TooManyRequests, to the token's first request


class Envelope:
    """What the results say of one fan-out: a bit for each index."""

    __slots__ = ("size", "answered", "doubtful")

    def __init__(self, size):
        self.size = size
        self.answered = 0
        self.doubtful = 0


class ChaosBook:
    """A place is (partition, offset, index) of the request topic. `calm`: nothing was killed and no fault happened.
    `once`: whatever happened, the one worker lived on, and nothing may be sent twice."""

    def __init__(self, partitions, calm=False, once=False):
        self.calm, self.once = calm, once
        self.letters = [Bits() for _ in range(partitions)]  # by offset: it has a dead letter
        self.beside = {}  # apns-id -> [results, says in_doubt]: requests of the topic that is deleted, and strays
        self.poison = Counter()  # outcomes
        self.answered = [Bits() for _ in range(partitions)]  # by offset: index 0 has a result
        self.doubtful = [Bits() for _ in range(partitions)]  # ... that says in_doubt
        self.envelopes = {}  # (partition, offset) -> Envelope
        self.results = self.distinct = self.in_doubt = self.outside = 0
        self.outcomes = Counter()  # of first results
        self.findings = Counter()
        self.examples = defaultdict(list)

    def found(self, kind, example, count=1):
        self.findings[kind] += count
        if len(self.examples[kind]) < SHOWN:
            self.examples[kind].append(str(example))

    # The topics' book.

    def result(self, partition, offset, index, token, outcome, in_doubt):
        """Of one result; token and outcome as bytes."""
        self.results += 1
        size = 0 if token.endswith(b"0000") else int(token[-4:], 16)
        if in_doubt:
            self.in_doubt += 1
            if self.calm:
                self.found("in doubt without a fault", (partition, offset, index))
        if index == 0:
            is_new = self.answered[partition].add(offset)
            if in_doubt:
                self.doubtful[partition].add(offset)
        if size:
            envelope = self.envelopes.get((partition, offset))
            if envelope is None:
                envelope = self.envelopes[partition, offset] = Envelope(size)
            bit = 1 << index
            is_new = not envelope.answered & bit
            envelope.answered |= bit
            if in_doubt:
                envelope.doubtful |= bit
            if index >= size:
                self.found("result of an index that there is not", (partition, offset, index, size))
        elif index:
            is_new = False
            self.found("result of an index that there is not", (partition, offset, index))
        if not is_new:
            if self.calm:
                self.found("more than one result without a fault", (partition, offset, index))
            return
        self.distinct += 1
        if chaos_gateway.is_one(token):
            return  # has a book of its own
        if token.startswith(CLOSED):
            self.poison[b"gateway: " + outcome] += 1  # the server takes none
            return
        self.outcomes[outcome] += 1
        if is_poison(token):
            self.poison[outcome] += 1  # any will do
            return
        wanted = b"unregistered" if token.startswith(DEAD_TOKEN) else b"accepted"
        if outcome != wanted:
            self.found("result other than expected", f"{(partition, offset, index)}: {outcome}, not {wanted}")

    def beside_result(self, id, in_doubt):
        """Of a request that is known by its id only."""
        entry = self.beside.setdefault(id, [0, False])
        entry[0] += 1
        entry[1] |= in_doubt

    def letter(self, partition, offset, key):
        """A dead letter of a record of the request topic; `key`: its first bytes at least."""
        self.letters[partition].add(offset)
        self.poison[b"dead letter"] += 1
        if not is_poison(key):
            self.found("dead letter of a good record", f"{partition}/{offset}")

    def says_doubt(self, partition, offset, index):
        if (envelope := self.envelopes.get((partition, offset))) is not None:
            return bool(envelope.doubtful >> index & 1)
        return index == 0 and offset in self.doubtful[partition]

    # The ends.

    def complete(self, ends, produced):
        """`ends`: what each partition holds by the broker; `produced`: the producer's Bits of each."""
        for partition, end in enumerate(ends):
            # A record that was acknowledged late, or never, is a record too: whoever reads it cannot know.
            self.outside += end - produced[partition].count
            if produced[partition].end > end:
                self.found("the broker lost what it acknowledged", f"partition {partition} ends at {end}")
            if self.answered[partition].end > end:
                self.found("result of something never produced", f"partition {partition} ends at {end}")
            for offset in self.answered[partition].missing(end):
                if offset in self.letters[partition]:
                    continue
                self.found("LOST: no result", f"{partition}/{offset}")
        for (partition, offset), envelope in self.envelopes.items():
            missing = envelope.size - envelope.answered.bit_count()
            if missing > 0:
                self.found("LOST: no result for some of an envelope", f"{partition}/{offset}", missing)

    def complete_beside(self, topics, retried, letters):
        """`topics`: of each topic that there was beside, the ids that it acknowledged; what is open when a topic is deleted
        is lost with it. `retried`: ids of retry records that nobody wrote; `letters`: numbers of those that are dead
        letters."""
        for id in topics[-1] if topics else ():
            if id not in self.beside:
                self.found("LOST: no result of a topic that was made anew", id)
        for number, id in retried.items():
            if id not in self.beside and number not in letters:
                self.found("LOST: a retry record that nobody wrote has neither result nor dead letter", number)

    def beside_again(self, id, count):
        """The server accepted a request that is known by its id so often."""
        if self.once or self.calm:
            self.found("sent twice", f"{id}: accepted {count} times")
        elif not self.beside.get(id, (0, False))[1]:
            self.found("accepted again, and no result says in_doubt", f"{id}: accepted {count} times")

    def server(self, distinct, again):
        """`distinct`: notifications that the server accepted; `again`: places it accepted more than once, and how often."""
        accepted = self.outcomes[b"accepted"]
        if distinct != accepted:
            self.found("the server accepted another number than the results say", f"{distinct}, not {accepted}",
                       abs(distinct - accepted))
        for place, count in again:
            if self.once:
                self.found("sent twice by a worker that lived on", f"{place}: accepted {count} times")
            elif self.calm:
                self.found("sent twice without a fault", f"{place}: accepted {count} times")
            elif not self.says_doubt(*place):
                self.found("accepted again, and no result says in_doubt", f"{place}: accepted {count} times")

    def report(self):
        return [f"FOUND {count} x {kind}: " + "; ".join(self.examples[kind])
                for kind, count in self.findings.most_common()]
