/// Apple's optional headers whose value is a text that nobody but Apple and the device looks into.
///
/// A case, its row and its place in `HeaderTexts` are all that the way from a request to Apple needs, and the compiler
/// asks for each: parser, the record's block, request, retry record, schemas and the option of `send` go over this
/// table. `PushNotification` has a property of each, and the simulator a check of its own.
package enum TextHeader: UInt8, CaseIterable, Sendable {
    case collapseID

    /// What is to be known of one. A value is 1 to `limit` bytes of printable ASCII, without a space at either end;
    /// there is no default: what was not given is not sent.
    package struct Row: Sendable {
        /// As Apple spells it.
        package let name: StaticString
        /// Most bytes. Source: "Sending notification requests to APNs".
        package let limit: Int
        /// Apple's word for any other value.
        package let reason: ReasonCode
        /// What is wrong with any other value, for people.
        package let complaint: StaticString
        /// What stands for its value in the help of `send`.
        package let placeholder: StaticString
    }

    package var row: Row {
        switch self {
        case .collapseID:
            Row(
                name: "apns-collapse-id", limit: 64, reason: .badCollapseId,
                complaint: "apns-collapse-id must be printable ASCII of 1 to 64 bytes", placeholder: "ID")
        }
    }
}

/// The values of a notification's text headers, each beside the others, so that copies allocate nothing. Lent; owns
/// nothing.
package struct HeaderTexts {
    @usableFromInline var collapseID = UnsafeRawBufferPointer.nothing

    /// Those that are there.
    @inlinable package var present: TextHeaders { there }
    @usableFromInline var there = TextHeaders()

    @inlinable package init() {}

    /// Its value; empty: the header is not there.
    @inlinable package subscript(_ header: TextHeader) -> UnsafeRawBufferPointer {
        get {
            switch header {
            case .collapseID: collapseID
            }
        }
        set {
            switch header {
            case .collapseID: collapseID = newValue
            }
            there.remove(header)
            if !newValue.isEmpty { there.insert(header) }
        }
    }
}

/// A set of text headers, one bit each by their numbers. Goes over them in the order of the table, and allocates
/// nothing, which `allCases` does.
package struct TextHeaders: Sequence, IteratorProtocol, Sendable {
    @usableFromInline var bits: UInt32

    package static var all: TextHeaders { TextHeaders(bits: .max) }

    @inlinable package init() { bits = 0 }

    @inlinable init(bits: UInt32) { self.bits = bits }

    /// Whether it was not there before.
    @discardableResult
    @inlinable package mutating func insert(_ header: TextHeader) -> Bool {
        let before = bits
        bits |= Self.bit(header)
        return bits != before
    }

    @inlinable package mutating func remove(_ header: TextHeader) { bits &= ~Self.bit(header) }

    @inlinable package mutating func next() -> TextHeader? {
        guard bits != 0 else { return nil }
        let number = UInt8(truncatingIfNeeded: bits.trailingZeroBitCount)
        bits &= bits &- 1
        // A bit behind the last one's, of `all`, is nobody's.
        return TextHeader(rawValue: number)
    }

    @inlinable static func bit(_ header: TextHeader) -> UInt32 { 1 &<< UInt32(header.rawValue) }
}
