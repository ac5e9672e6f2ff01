"""Shows that the audit of a chaos run finds each kind of fault: books that agree are altered, one fault at a time."""

import chaos_gateway
from chaos_bits import Bits
from chaos_book import DEAD_PREFIX, ChaosBook
from chaos_poison import MARK

RECORDS = 40
PLAIN = b"ab" * 30 + b"0000"
DEAD = DEAD_PREFIX.encode() + b"0" * 51 + b"0000"
OF_THREE = b"ab" * 30 + b"0003"
POISON = MARK + b"0" * 55 + b"0000"


class Scene:
    """Two partitions of forty records; the 7th of each is an envelope of three, the 9th goes to a dead token, the 11th is
    poison with a result, the 12th poison with a dead letter. Beside them were two topics, of which the second is there, and a
    retry record that nobody wrote."""

    def __init__(self, calm=False, once=False):
        self.book = ChaosBook(2, calm, once)
        self.letters = [(partition, 12, MARK + b"7") for partition in range(2)]
        self.besides = [["lost-with-its-topic"], ["a", "b"]]
        self.answered_beside = {"a": False, "b": False, "stray": False}
        self.again_beside = []
        self.lines = []
        for offset in range(RECORDS):
            for partition in range(2):
                for index in range(3 if offset == 7 else 0 if offset == 12 else 1):
                    token = {7: OF_THREE, 9: DEAD, 11: POISON}.get(offset, PLAIN)
                    outcome = {9: b"unregistered", 11: b"invalid"}.get(offset, b"accepted")
                    self.lines.append([partition, offset, index, token, outcome, False])
        self.ends = [RECORDS, RECORDS]
        self.distinct = 2 * (RECORDS - 1)
        self.again = []

    def line(self, *place):
        return next(line for line in self.lines if tuple(line[:3]) == place)

    def findings(self):
        for line in self.lines:
            self.book.result(*line)
        for letter in self.letters:
            self.book.letter(*letter)
        for id, in_doubt in self.answered_beside.items():
            self.book.beside_result(id, in_doubt)
        for id in self.again_beside:
            self.book.beside_again(id, 2)
        produced = [Bits(), Bits()]
        for bits in produced:
            for offset in range(RECORDS):
                bits.add(offset)
        self.book.complete(self.ends, produced)
        self.book.complete_beside(self.besides, {7: "stray"}, set())
        self.book.server(self.distinct, self.again)
        return self.book.findings


class GatewayScene:
    """1,000 notifications over the binary protocol, of which two are bad."""

    def __init__(self, calm=False, once=False):
        self.book = chaos_gateway.GatewayBook(calm, once)
        good = [number for number in range(1_000) if not chaos_gateway.is_bad(number)]
        self.results = {number: (b"accepted", False) for number in good}
        self.results |= {number: (b"rejected", False) for number in range(1_000) if number not in self.results}
        self.rows = {chaos_gateway.token(number).encode(): 1 for number in good}
        self.told = (0, 0)

    def lose(self, count):
        """The gateway never took the last ones."""
        for token in list(self.rows)[-count:]:
            del self.rows[token]

    def findings(self):
        for number, (outcome, in_doubt) in self.results.items():
            self.book.result(number, outcome, in_doubt, b'"reason":"BadDeviceToken"')
        for token, count in self.rows.items():
            self.book.server(token, count)
        self.book.complete(*self.told)
        return self.book.findings


def repeat(scene, says):
    """The notification 1/35 is sent again, and its second result may say so."""
    scene.lines.append(scene.line(1, 35, 0)[:5] + [says])
    scene.again.append(((1, 35, 0), 2))


FAULTS = [
    ("a result is withheld", lambda s: s.lines.remove(s.line(1, 20, 0)), "LOST: no result"),
    ("the last result is withheld", lambda s: s.lines.remove(s.line(1, 39, 0)), "LOST: no result"),
    ("one of an envelope is withheld", lambda s: s.lines.remove(s.line(0, 7, 2)), "LOST: no result for some"),
    ("the first of an envelope is withheld", lambda s: s.lines.remove(s.line(0, 7, 0)), "LOST: no result"),
    ("a result too many", lambda s: s.lines.append([1, 40, 0, PLAIN, b"accepted", False]), "never produced"),
    ("an index too many", lambda s: s.lines.append([1, 7, 3, OF_THREE, b"accepted", False]), "index that there is not"),
    ("an index of no envelope", lambda s: s.lines.append([1, 8, 1, PLAIN, b"accepted", False]), "index that there is not"),
    ("another outcome", lambda s: s.line(1, 20, 0).__setitem__(4, b"abandoned"), "other than expected"),
    ("a poison record has nothing", lambda s: s.letters.pop(), "LOST: no result"),
    ("a good record has a dead letter", lambda s: s.letters.append((1, 20, PLAIN)), "dead letter of a good record"),
    ("a topic that was made anew is not read", lambda s: s.answered_beside.pop("b"), "LOST: no result of a topic"),
    ("a stray retry record has nothing", lambda s: s.answered_beside.pop("stray"), "LOST: a retry record"),
    ("sent again beside, and nothing says so", lambda s: s.again_beside.append("a"), "no result says in_doubt"),
    ("the broker lost records", lambda s: s.ends.__setitem__(0, 30), "the broker lost"),
    ("the server accepted fewer", lambda s: setattr(s, "distinct", 2), "accepted another number"),
    ("sent again, and nothing says so", lambda s: repeat(s, False), "no result says in_doubt"),
]
CALM_FAULTS = [
    ("a result stands twice", lambda s: s.lines.append(s.lines[5]), "more than one result"),
    ("one is in doubt", lambda s: s.line(0, 3, 0).__setitem__(5, True), "in doubt without a fault"),
    ("one is sent twice", lambda s: s.again.append(((0, 3, 0), 2)), "sent twice"),
]
ONCE_FAULTS = [
    ("one is sent twice, and says so", lambda s: repeat(s, True), "sent twice by a worker that lived on"),
    ("one is sent twice beside", lambda s: s.again_beside.append("a"), "sent twice"),
]


BAD = chaos_gateway.BAD_EVERY - 1
GATEWAY_FAULTS = [
    ("one that silence accepted is lost", lambda s: s.lose(1), "LOST: accepted, says its result"),
    ("more are lost than was told", lambda s: (setattr(s, "told", (1, 3)), s.lose(5)), "LOST: accepted, says its result"),
    ("a bad one is accepted, and no error was late", lambda s: s.results.__setitem__(BAD, (b"accepted", False)), "LOST"),
    ("one has no result", lambda s: s.results.pop(7), "taken, and no result says accepted"),
    ("a bad one was taken", lambda s: s.rows.__setitem__(chaos_gateway.token(BAD).encode(), 1), "a bad token was accepted"),
    ("another outcome", lambda s: s.results.__setitem__(7, (b"abandoned", False)), "result other than expected"),
    ("taken, and nobody wrote it", lambda s: s.rows.__setitem__(b"ab" * 32, 1), "what nobody wrote"),
    ("taken again, and nothing says so", lambda s: s.rows.__setitem__(chaos_gateway.token(7).encode(), 2),
     "no result says in_doubt"),
]
CALM_GATEWAY_FAULTS = [
    ("one is in doubt", lambda s: s.results.__setitem__(7, (b"accepted", True)), "in doubt without a fault"),
    ("one is taken twice", lambda s: s.rows.__setitem__(chaos_gateway.token(7).encode(), 2), "sent twice"),
]


def run():
    """Prints what fails; returns whether nothing does."""
    failures = []
    count = 0
    for scene_of, calm, once, faults in (
            (Scene, False, False, FAULTS), (Scene, True, False, CALM_FAULTS), (Scene, False, True, ONCE_FAULTS),
            (GatewayScene, False, False, GATEWAY_FAULTS), (GatewayScene, True, False, CALM_GATEWAY_FAULTS)):
        if found := scene_of(calm, once).findings():
            failures.append(f"books that agree: {dict(found)}")
        count += len(faults)
        for name, alter, word in faults:
            scene = scene_of(calm, once)
            alter(scene)
            kinds = scene.findings()
            if not any(word in kind for kind in kinds):
                failures.append(f"{name}: not found ({', '.join(kinds) or 'no finding'})")
    # After a kill something may be sent again, and says so.
    scene = Scene()
    repeat(scene, True)
    scene.answered_beside["b"] = True
    scene.again_beside.append("b")
    if found := scene.findings():
        failures.append(f"a repeat that may be is called a fault: {dict(found)}")
    # What was told to be lost may be, and what says that it was in doubt may be taken again.
    scene = GatewayScene()
    scene.told = (1, 5)
    scene.lose(6)
    scene.results[7] = (b"accepted", True)
    scene.rows[chaos_gateway.token(7).encode()] = 2
    # Nor is what its kernel took while it read nothing; what it took is not told.
    scene.book.is_silent = True
    scene.book.result(999_999, b"accepted", False, b'"detail":"presumed"')
    scene.book.is_silent = False
    if found := scene.findings():
        failures.append(f"what may be of a gateway is called a fault: {dict(found)}")
    print("\n".join(failures) or f"{count} faults, each found; books that agree pass")
    return not failures
