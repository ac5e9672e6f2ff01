"""The findings of an audit, counted by kind, with some examples of each."""

from collections import Counter, defaultdict

SHOWN = 5


class Findings:
    def __init__(self):
        self.findings = Counter()
        self.examples = defaultdict(list)

    def found(self, kind, example, count=1):
        self.findings[kind] += count
        if len(self.examples[kind]) < SHOWN:
            self.examples[kind].append(str(example))

    def report(self):
        return [f"FOUND {count} x {kind}: " + "; ".join(self.examples[kind])
                for kind, count in self.findings.most_common()]


class Marks(bytearray):
    """A byte of flags for each number, so that a run of hours fits into memory."""

    def mark(self, number, flags):
        """Adds flags to a number, and returns its previous flags."""
        old = self.at(number)
        if number >= len(self):
            self.extend(bytes(number + 4_096 - len(self)))
        self[number] = old | flags
        return old

    def at(self, number):
        return self[number] if number < len(self) else 0
