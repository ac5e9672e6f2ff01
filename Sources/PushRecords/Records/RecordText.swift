import JSON

// What several writers write alike.

extension ByteWriter {
    /// Appends an id's text and returns it, lent: there must be room already, so that nothing moves.
    @inline(__always)
    mutating func appendLent(_ id: NotificationUUID) -> UnsafeRawBufferPointer {
        withUnsafeTemporaryAllocation(byteCount: NotificationUUID.textCount, alignment: 8) { text in
            id.writeText(to: text.baseAddress!)
            append(bytes: UnsafeRawBufferPointer(text))
        }
        return bytes(from: count - NotificationUUID.textCount, to: count)
    }

    /// Appends a number and returns its text, lent: there must be room already, so that nothing moves.
    mutating func appendLent(_ number: Int64) -> UnsafeRawBufferPointer {
        let start = count
        append(integer: number)
        return bytes(from: start, to: count)
    }
}

extension JSONWriter {
    /// `"…"`, or `null` when there is nothing.
    mutating func stringOrNull(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 0 else {
            out.append("null")
            return
        }
        out.append("\"")
        escaped(bytes)
        out.append("\"")
    }

    /// The number, or `null` when it is 0.
    mutating func numberOrNull(_ number: Int64) {
        if number == 0 { out.append("null") } else { out.append(integer: number) }
    }

    /// `"text: subject"`, or `null`.
    mutating func detail(_ detail: borrowing Detail) {
        guard !detail.isEmpty else {
            out.append("null")
            return
        }
        out.append("\"")
        escaped(detail.text.lentBytes)
        if detail.subject.count > 0 {
            out.append(": ")
            escaped(detail.subject.cut(Detail.subjectLimit))
        }
        out.append("\"")
    }
}

extension UnsafeRawBufferPointer {
    /// At most the first `limit` bytes.
    func cut(_ limit: Int) -> UnsafeRawBufferPointer {
        count <= limit ? self : UnsafeRawBufferPointer(rebasing: self[..<limit])
    }
}

extension Ending {
    /// The reason's text; empty when there is none.
    var reasonBytes: UnsafeRawBufferPointer {
        if reason == .other { return reasonText }
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
