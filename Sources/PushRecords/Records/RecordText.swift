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
    /// `"…"` with at most `limit` bytes between the quotes, or `null` when there is nothing.
    mutating func stringOrNull(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        guard bytes.count > 0 else {
            out.append("null")
            return
        }
        out.append("\"")
        text(bytes, limit: limit)
        out.append("\"")
    }

    /// The inside of a string, cut so that it takes at most `limit` bytes when escaped, and ends with a whole character.
    @inline(__always)
    mutating func text(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        // Escaping never makes it shorter.
        escaped(bytes.cutText(limit), limit: limit)
    }

    /// The number, or `null` when it is 0.
    mutating func numberOrNull(_ number: Int64) {
        if number == 0 { out.append("null") } else { out.append(integer: number) }
    }

    /// `"text: subject"` with at most `RecordLimits.detail` bytes between the quotes, or `null`.
    mutating func detail(_ detail: borrowing Detail) {
        guard !detail.isEmpty else {
            out.append("null")
            return
        }
        out.append("\"")
        let start = out.count
        text(detail.text.lentBytes, limit: RecordLimits.detail)
        let left = RecordLimits.detail - (out.count - start) - 2
        if detail.subject.count > 0, left > 0 {
            out.append(": ")
            text(detail.subject.cutText(Detail.subjectLimit), limit: left)
        }
        out.append("\"")
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
