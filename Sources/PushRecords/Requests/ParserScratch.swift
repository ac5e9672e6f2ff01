import JSON

/// Room that the parser reuses: members of objects, strings whose escapes were resolved, numbers for details.
struct ParserScratch: ~Copyable {
    /// Members of the value and, beyond them, of an envelope's headers. More than an envelope may have.
    static let memberLimit = 16
    static let textLimit = 4_096

    private let room: UnsafeMutablePointer<JSONMember>
    private let text: UnsafeMutableRawBufferPointer
    private var used = 0

    init() {
        room = .allocate(capacity: 2 * Self.memberLimit)
        room.initialize(repeating: JSONMember(), count: 2 * Self.memberLimit)
        text = .allocate(byteCount: Self.textLimit, alignment: 16)
    }

    deinit {
        room.deallocate()
        text.deallocate()
    }

    var members: UnsafeMutableBufferPointer<JSONMember> {
        UnsafeMutableBufferPointer(start: room, count: Self.memberLimit)
    }

    var headerMembers: UnsafeMutableBufferPointer<JSONMember> {
        UnsafeMutableBufferPointer(start: room + Self.memberLimit, count: Self.memberLimit)
    }

    /// Forgets the texts of the record before.
    mutating func removeTexts() { used = 0 }

    /// What a JSON string (its inside) spells: the lent bytes themselves when nothing is escaped, else a copy here.
    /// What finds no room is longer than any field may be, and comes back as it is.
    mutating func resolve(_ inside: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let string = JSONText(checked: inside)
        guard string.hasEscapes else { return inside }
        let free = UnsafeMutableRawBufferPointer(rebasing: text[used...])
        guard let count = string.resolve(into: free) else { return inside }
        used += count
        return UnsafeRawBufferPointer(rebasing: free[..<count])
    }

    /// `NAME (did you mean MEANT?)`; where no room is left for it, the name alone.
    ///
    /// - Parameter member: of which what is meant is a member; empty: none.
    mutating func suggestion(
        _ meant: StaticString, of member: StaticString = "", for name: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        let opening: StaticString = " (did you mean "
        let closing: StaticString = "?)"
        let size =
            name.count + opening.utf8CodeUnitCount + member.utf8CodeUnitCount + meant.utf8CodeUnitCount
            + closing.utf8CodeUnitCount
        guard used + size <= Self.textLimit else { return name }
        let start = used
        append(name)
        append(opening.lentBytes)
        append(member.lentBytes)
        append(meant.lentBytes)
        append(closing.lentBytes)
        return UnsafeRawBufferPointer(rebasing: text[start..<used])
    }

    private mutating func append(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: text[used...]).copyMemory(from: bytes)
        used += bytes.count
    }

    /// `opening`, a number and `closing`, as text; nothing where no room is left for it.
    mutating func decimal(
        _ opening: StaticString, _ number: Int, _ closing: StaticString = ""
    ) -> UnsafeRawBufferPointer {
        let digitLimit = 20
        guard used + opening.utf8CodeUnitCount + digitLimit + closing.utf8CodeUnitCount <= Self.textLimit else {
            return .nothing
        }
        let start = used
        append(opening.lentBytes)
        withUnsafeTemporaryAllocation(byteCount: digitLimit, alignment: 1) { digits in
            var rest = number
            var index = digitLimit
            repeat {
                index -= 1
                digits[index] = UInt8(rest % 10) + 0x30
                rest /= 10
            } while rest > 0
            append(UnsafeRawBufferPointer(rebasing: digits[index...]))
        }
        append(closing.lentBytes)
        return UnsafeRawBufferPointer(rebasing: text[start..<used])
    }
}
