// The name that a producer most likely meant by one that there is not: what differs from it, but for the case of its
// letters, by at most a third. It runs only for a request that is refused, and allocates nothing: whoever floods the
// topic with such gains nothing.

extension KnownHeader {
    /// `nil`: none is near. A third of what follows the names' common start counts, which a name in an envelope may
    /// lack.
    init?(nearest name: UnsafeRawBufferPointer, inEnvelope: Bool) {
        var nearest = Nearest(name)
        let hasStart = HeaderName.isOwn(name)
        for index in 0..<Self.count {
            guard let header = KnownHeader(index: index), !header.isRetry, !inEnvelope || header.isOfEnvelope else {
                continue
            }
            let text = header.text.lentBytes
            // "apns-", "push-"
            let rest = text.part(5, text.count)
            nearest.look(at: text, index, limit: (rest.count + 2) / 3)
            if inEnvelope, !hasStart { nearest.look(at: rest, index, limit: (rest.count + 2) / 3) }
        }
        guard let index = nearest.index else { return nil }
        self.init(index: index)
    }
}

extension EnvelopeTable.Name {
    /// `nil`: none is near.
    init?(nearest name: UnsafeRawBufferPointer) {
        var nearest = Nearest(name)
        for index in 0..<Self.aps.rawValue {
            guard let text = Self(rawValue: index)?.text.lentBytes else { continue }
            nearest.look(at: text, index, limit: (text.count + 2) / 3)
        }
        guard let index = nearest.index else { return nil }
        self.init(rawValue: index)
    }
}

extension PushType {
    /// `nil`: none is near.
    init?(nearest name: UnsafeRawBufferPointer) {
        var nearest = Nearest(name)
        for index in 0..<UInt8(Self.allCases.count) {
            guard let text = Self(rawValue: index)?.text.lentBytes else { continue }
            nearest.look(at: text, index, limit: (text.count + 2) / 3)
        }
        guard let index = nearest.index else { return nil }
        self.init(rawValue: index)
    }
}

/// The nearest of several names to one, by their places in a table.
private struct Nearest {
    private let name: UnsafeRawBufferPointer
    private var distance = Int.max
    /// `nil`: none was near enough.
    private(set) var index: UInt8?

    /// Names with more bytes than this are near to none.
    private static let longest = 31

    init(_ name: UnsafeRawBufferPointer) { self.name = name }

    /// - Parameter limit: how much it may differ; one letter always may.
    mutating func look(at text: UnsafeRawBufferPointer, _ index: UInt8, limit: Int) {
        guard name.count <= Self.longest else { return }
        let distance = Self.distance(name, text)
        guard distance <= max(1, limit), distance < self.distance else { return }
        self.distance = distance
        self.index = index
    }

    /// Letters to insert, delete or replace, whatever their case (Levenshtein's distance).
    private static func distance(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
        withUnsafeTemporaryAllocation(of: Int.self, capacity: b.count + 1) { row in
            for j in 0...b.count { row[j] = j }
            for i in 0..<a.count {
                var diagonal = row[0]
                row[0] = i + 1
                for j in 0..<b.count {
                    let replaced = diagonal + (a[i] | 0x20 == b[j] | 0x20 ? 0 : 1)
                    diagonal = row[j + 1]
                    row[j + 1] = min(replaced, min(row[j], diagonal) + 1)
                }
            }
            return row[b.count]
        }
    }
}
