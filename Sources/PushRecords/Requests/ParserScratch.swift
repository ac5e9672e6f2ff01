import JSON

/// Memory that the parser reuses: members of objects, unescaped strings, and subjects of details.
struct ParserScratch: ~Copyable {
    /// The maximum number of members that the parser stores, both for a record's value and for an envelope's `headers`.
    /// Valid envelopes have fewer members.
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

    /// Discards the texts of the previous record.
    mutating func removeTexts() { used = 0 }

    /// Returns the text of a JSON string, given its contents. Returns `inside` itself if it has no escapes, or if the
    /// text does not fit into the scratch memory. A string that does not fit is longer than any valid field.
    mutating func resolve(_ inside: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let string = JSONText(checked: inside)
        guard string.hasEscapes else { return inside }
        let free = UnsafeMutableRawBufferPointer(rebasing: text[used...])
        guard let count = string.resolve(into: free) else { return inside }
        used += count
        return UnsafeRawBufferPointer(rebasing: free[..<count])
    }

    /// Stores a text until `removeTexts` is called. Returns `nil` if the text does not fit into the scratch memory.
    mutating func add(_ string: String) -> UnsafeRawBufferPointer? {
        let free = UnsafeMutableRawBufferPointer(rebasing: text[used...])
        guard string.utf8.count <= free.count else { return nil }
        free.copyBytes(from: string.utf8)
        used += string.utf8.count
        return UnsafeRawBufferPointer(rebasing: free[..<string.utf8.count])
    }
}
