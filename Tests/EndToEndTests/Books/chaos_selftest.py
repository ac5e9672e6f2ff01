"""Books of a chaos run and of gateways that agree, and one fault for each kind of finding."""

import gateway
from chaos_book import DEAD_PREFIX, ChaosBook
from chaos_poison import MARK

RECORDS = 40
PLAIN, DEAD = "ab" * 30 + "0000", DEAD_PREFIX + "0" * 51 + "0000"
OF_THREE, POISON = "ab" * 30 + "0003", MARK + "0" * 55 + "0000"


class Chaos:
    """Two partitions of forty records. The 7th of each is an envelope of three, the 9th goes to a dead token, the 11th
    is poison with a result, the 12th poison with a dead letter. Beside them were two topics, of which the second is
    left."""

    def __init__(self, calm=False, once=False):
        self.book = ChaosBook(2, calm, once)
        self.letters = [(partition, 12, MARK + "7") for partition in range(2)]
        self.beside = {"a": False, "b": False, "forged": False}
        self.results = {
            (partition, offset, index): [
                {7: OF_THREE, 9: DEAD, 11: POISON}.get(offset, PLAIN),
                {9: "unregistered", 11: "invalid"}.get(offset, "accepted"), False]
            for offset in range(RECORDS) for partition in range(2)
            for index in range(3 if offset == 7 else 0 if offset == 12 else 1)}
        self.repeats = []  # results, and whether they say in_doubt
        self.again = []  # places and ids that the server accepted twice
        self.end, self.distinct = RECORDS, 2 * (RECORDS - 1)

    def findings(self):
        book = self.book
        for place, result in self.results.items():
            book.result(place, *result)
        for place, in_doubt in self.repeats:
            book.result(place, PLAIN, "accepted", in_doubt)
        for letter in self.letters:
            book.letter(*letter)
        for id, in_doubt in self.beside.items():
            book.beside_result(id, in_doubt)
        book.complete([self.end] * 2, [(RECORDS, RECORDS - 1)] * 2)
        book.complete_beside([["lost with its topic"], ["a", "b"]], {"7": "forged"}, set())
        for place in self.again:
            book.accepted_again(place, 2, self.beside[place] if place in self.beside else book.says_doubt(*place))
        book.server(self.distinct)
        return book.findings


class Gateway:
    """1,000 notifications over the binary protocol, two of which are bad."""

    def __init__(self, calm=False, once=False):
        self.book = gateway.GatewayBook(500, "none" if calm or once else "crashed", calm=calm)
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


def repeat(scene, in_doubt):
    scene.repeats.append(((1, 35, 0), in_doubt))
    scene.again.append((1, 35, 0))


# Scene, calm, once, what is done to it, and a word of the finding (None: no finding).
FAULTS = [
    (Chaos, 0, 0, lambda s: repeat(s, True), None),
    (Chaos, 0, 0, lambda s: repeat(s, False), "no result says in_doubt"),
    (Chaos, 0, 0, lambda s: s.results.pop((1, 39, 0)), "LOST: no result"),
    (Chaos, 0, 0, lambda s: s.results.pop((0, 7, 2)), "LOST: no result for some"),
    (Chaos, 0, 0, lambda s: s.letters.pop(), "LOST: no result"),
    (Chaos, 0, 0, lambda s: s.beside.pop("b"), "LOST: no result of a recreated topic"),
    (Chaos, 0, 0, lambda s: s.beside.pop("forged"), "LOST: a forged"),
    (Chaos, 0, 0, lambda s: s.again.append("a"), "no result says in_doubt"),
    (Chaos, 0, 0, lambda s: s.results.update({(1, 40, 0): [PLAIN, "accepted", False]}), "never produced"),
    (Chaos, 0, 0, lambda s: s.results.update({(1, 8, 1): [PLAIN, "accepted", False]}), "unknown index"),
    (Chaos, 0, 0, lambda s: s.results.update({(1, 20, 0): [PLAIN, "abandoned", False]}), "other than expected"),
    (Chaos, 0, 0, lambda s: s.letters.append((1, 20, PLAIN)), "dead letter of a good record"),
    (Chaos, 0, 0, lambda s: setattr(s, "end", 30), "the broker lost"),
    (Chaos, 0, 0, lambda s: setattr(s, "distinct", 2), "accepted another number"),
    (Chaos, 1, 0, lambda s: s.repeats.append(((1, 35, 0), False)), "more than one result"),
    (Chaos, 1, 0, lambda s: s.results.update({(1, 20, 0): [PLAIN, "accepted", True]}), "in doubt without a fault"),
    (Chaos, 0, 1, lambda s: repeat(s, True), "sent twice"),
    (Gateway, 0, 0, lambda s: (s.taken.pop(7), s.taken.pop(8), setattr(s, "lost_at_most", 2)), None),
    (Gateway, 0, 0, lambda s: (s.taken.pop(7), s.taken.pop(8), setattr(s, "lost_at_most", 1)), "LOST: more than"),
    (Gateway, 0, 0, lambda s: (s.results[7].update(detail=""), s.taken.pop(7)), "LOST: answered as accepted"),
    (Gateway, 0, 0, lambda s: s.results[499].update(outcome="accepted"), "LOST: more than"),
    (Gateway, 0, 0, lambda s: s.results.pop(499), "LOST: no result"),
    (Gateway, 0, 0, lambda s: s.results.pop(7), "no result says accepted"),
    (Gateway, 0, 0, lambda s: s.taken.update({499: 1}), "a bad token was accepted"),
    (Gateway, 0, 0, lambda s: s.results[7].update(outcome="abandoned"), "other than expected"),
    (Gateway, 0, 0, lambda s: s.taken.update({7: 2}), "no result says in_doubt"),
    (Gateway, 0, 0, lambda s: (s.taken.update({7: 2}), s.results[7].update(in_doubt=1)), None),
    (Gateway, 0, 1, lambda s: (s.taken.update({7: 2}), s.results[7].update(in_doubt=1)), "accepted again"),
    (Gateway, 1, 0, lambda s: s.results[7].update(in_doubt=1), "in doubt without a fault"),
]


def failures():
    for number, (scene_of, calm, once, alter, word) in enumerate(FAULTS):
        scene = scene_of(bool(calm), bool(once))
        alter(scene)
        kinds = scene.findings()
        if not any(word in kind for kind in kinds) if word else kinds:
            yield f"{scene_of.__name__} {number}: {word or 'no finding'} expected, found {dict(kinds)}"
