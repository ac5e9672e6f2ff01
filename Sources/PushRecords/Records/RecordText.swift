import JSON

// What several writers write alike.

extension ByteWriter {
    /// Appends an id's text.
    @inline(__always)
    mutating func append(_ id: NotificationUUID) {
        withUnsafeTemporaryAllocation(byteCount: NotificationUUID.textCount, alignment: 8) { text in
            id.writeText(to: text.baseAddress!)
            append(bytes: UnsafeRawBufferPointer(text))
        }
    }
}

extension JSONWriter {
    /// A member with at most `limit` bytes between its value's quotes; nothing when there is nothing to say.
    ///
    /// - Parameter opening: `,"name":"`, up to the value's first quote.
    @inline(__always)
    mutating func string(_ opening: StaticString, _ bytes: UnsafeRawBufferPointer, limit: Int) {
        guard bytes.count > 0 else { return }
        out.append(opening)
        text(bytes, limit: limit)
        out.append("\"")
    }

    /// The inside of a string, cut so that it takes at most `limit` bytes when escaped, and ends with a whole
    /// character.
    @inline(__always)
    mutating func text(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        // Escaping never makes it shorter.
        escaped(bytes.cutText(limit), limit: limit)
    }

    /// A member; nothing when the number is 0.
    ///
    /// - Parameter opening: `,"name":`.
    @inline(__always)
    mutating func number(_ opening: StaticString, _ number: Int64) {
        guard number != 0 else { return }
        out.append(opening)
        out.append(integer: number)
    }

    /// `text: subject`, the inside of a string, of at most `RecordLimits.detail` bytes.
    mutating func detail(_ detail: borrowing Detail) {
        let start = out.count
        text(detail.text.lentBytes, limit: RecordLimits.detail)
        let left = RecordLimits.detail - (out.count - start) - 2
        if detail.subject.count > 0, left > 0 {
            out.append(": ")
            text(detail.subject.cutText(Detail.subjectLimit), limit: left)
        }
    }
}

extension Ending {
    /// The reason's text, cut at its limit; empty when there is none.
    var reasonBytes: UnsafeRawBufferPointer {
        if reason == .other { return reasonText.cutText(RecordLimits.reason) }
        return reason.text?.lentBytes ?? .nothing
    }
}

extension Outcome {
    /// Its word in records.
    package var text: StaticString {
        switch self {
        case .accepted: "accepted"
        case .unregistered: "unregistered"
        case .rejected: "rejected"
        case .invalid: "invalid"
        case .expired: "expired"
        case .abandoned: "abandoned"
        }
    }
}
