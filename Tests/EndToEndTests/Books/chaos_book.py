"""The book of a chaos run's audit. It needs one byte per request record, so that runs of hours are possible. It reads
no topics itself."""

from collections import Counter
from dataclasses import dataclass

import gateway
from chaos_poison import CLOSED, is_poison
from findings import Findings, Marks

DEAD_PREFIX = "fa1741010"  # the simulator answers 410 Unregistered, always
LATER_PREFIX = "fa1742911"  # 429 TooManyRequests, to the token's first request
ANSWERED, DOUBTFUL, LETTER = 1, 2, 4


@dataclass
class Envelope:
    """The results of one fan-out, with a bit for each index."""

    size: int
    answered: int = 0
    doubtful: int = 0


class ChaosBook(Findings):
    """A place is (partition, offset, index) of the request topic. `calm`: nothing was killed and no fault happened.
    `once`: the one worker was never killed, so nothing may be sent twice."""

    def __init__(self, partitions, calm=False, once=False):
        super().__init__()
        self.calm, self.once = calm, once
        self.marks = [Marks() for _ in range(partitions)]  # by offset, for the notification with index 0
        self.envelopes = {}  # (partition, offset) -> Envelope
        self.beside = {}  # apns-id -> [results, whether one is in doubt], for requests outside of the request topic
        self.poison = Counter()  # outcomes
        self.outcomes = Counter()  # outcomes of the first results
        self.results = self.distinct = self.in_doubt = self.outside = 0

    def result(self, place, token, outcome, in_doubt):
        partition, offset, index = place
        self.results += 1
        self.in_doubt += in_doubt
        if in_doubt and self.calm:
            self.found("in doubt without a fault", place)
        is_new = False
        if index == 0:
            is_new = not self.marks[partition].mark(offset, ANSWERED + DOUBTFUL * in_doubt) & ANSWERED
        size = int(token[-4:], 16) if len(token) >= 4 and token[-4:] != "0000" else 0
        if size:
            envelope = self.envelopes.setdefault((partition, offset), Envelope(size))
            is_new = not envelope.answered >> index & 1
            envelope.answered |= 1 << index
            envelope.doubtful |= in_doubt << index
        if index >= max(size, 1):
            self.found("result of an unknown index", place)
        if not is_new:
            if self.calm:
                self.found("more than one result without a fault", place)
            return
        self.distinct += 1
        if gateway.is_one(token):
            return  # GatewayBook
        if token.startswith(CLOSED):
            self.poison["gateway: " + outcome] += 1
            return
        self.outcomes[outcome] += 1
        if is_poison(token):
            self.poison[outcome] += 1  # any outcome
        elif outcome != ("unregistered" if token.startswith(DEAD_PREFIX) else "accepted"):
            self.found("result other than expected", f"{place}: {outcome}")

    def beside_result(self, id, in_doubt):
        """Records the result of a request that is identified by its apns-id."""
        entry = self.beside.setdefault(id, [0, False])
        entry[0] += 1
        entry[1] |= in_doubt

    def letter(self, partition, offset, key):
        """Records a dead letter of a record of the request topic."""
        self.marks[partition].mark(offset, LETTER)
        self.poison["dead letter"] += 1
        if not is_poison(key):
            self.found("dead letter of a good record", f"{partition}/{offset}")

    def says_doubt(self, partition, offset, index):
        if envelope := self.envelopes.get((partition, offset)):
            return envelope.doubtful >> index & 1
        return index == 0 and self.marks[partition].at(offset) & DOUBTFUL

    def complete(self, ends, acknowledged):
        """`ends`: of each partition, by the broker. `acknowledged`: to the producer, of each (count, highest
        offset)."""
        for partition, (end, (count, highest)) in enumerate(zip(ends, acknowledged)):
            marks = self.marks[partition]
            # A record that was acknowledged late or never counts too, because the worker cannot distinguish it.
            self.outside += end - count
            if highest >= end:
                self.found("the broker lost what it acknowledged", f"partition {partition} ends at {end}")
            if any(marks[end:]):
                self.found("result of something never produced", f"partition {partition} ends at {end}")
            for offset in range(end):
                if not marks.at(offset) & (ANSWERED | LETTER):
                    self.found("LOST: no result", f"{partition}/{offset}")
        for place, envelope in self.envelopes.items():
            if missing := envelope.size - envelope.answered.bit_count():
                self.found("LOST: no result for some of an envelope", place, missing)

    def complete_beside(self, topics, retried, letters):
        """`topics`: the acknowledged ids of each topic beside; requests in a deleted topic are lost with it. `retried`:
        number -> id of forged retry records; `letters`: the numbers of those that are dead letters."""
        for id in topics[-1] if topics else ():
            if id not in self.beside:
                self.found("LOST: no result of a recreated topic", id)
        for number, id in retried.items():
            if id not in self.beside and int(number) not in letters:
                self.found("LOST: a forged retry record has neither result nor dead letter", number)

    def accepted_again(self, place, count, in_doubt):
        """Records a request that the server accepted more than once."""
        if self.once or self.calm:
            self.found("sent twice", f"{place}: accepted {count} times")
        elif not in_doubt:
            self.found("accepted again, and no result says in_doubt", f"{place}: accepted {count} times")

    def server(self, distinct):
        """Compares the counts. `distinct` is the number of notifications of the request topic that the server accepted."""
        accepted = self.outcomes["accepted"]
        if distinct != accepted:
            self.found("the server accepted another number than the results say", f"{distinct}, not {accepted}",
                       abs(distinct - accepted))
