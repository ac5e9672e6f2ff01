"""A set of numbers in little memory, so that a chaos run can go on for hours."""

import re


class Bits:
    """A set of small numbers."""

    def __init__(self, data=b""):
        self.data = bytearray(data)
        self.count = 0
        self.end = 0  # one past the highest

    def add(self, number):
        """Returns whether it is new."""
        place, bit = number >> 3, 1 << (number & 7)
        try:
            old = self.data[place]
        except IndexError:
            self.data.extend(bytes(max(4096, place + 1 - len(self.data))))
            old = 0
        if old & bit:
            return False
        self.data[place] = old | bit
        self.count += 1
        if number >= self.end:
            self.end = number + 1
        return True

    def __contains__(self, number):
        place = number >> 3
        return place < len(self.data) and bool(self.data[place] >> (number & 7) & 1)

    def missing(self, end):
        """Which numbers below `end` are not in it."""
        data = bytes(self.data[:(end + 7) // 8]).ljust((end + 7) // 8, b"\0")
        for found in re.finditer(rb"[^\xff]", data, re.DOTALL):
            value = found.group()[0]
            for bit in range(8):
                if not value >> bit & 1 and found.start() * 8 + bit < end:
                    yield found.start() * 8 + bit

    def numbers(self, first=0):
        for number in range(first, self.end):
            if number in self:
                yield number
