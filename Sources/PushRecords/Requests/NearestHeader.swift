extension KnownHeader {
    /// The header that a producer most likely meant by a name that there is not; `nil`: none is near.
    ///
    /// Near is what differs, but for the case of its letters, by at most a third of what follows the names' common start. It
    /// runs only for a request that is refused, and allocates nothing: whoever floods the topic with such gains nothing.
    init?(nearest name: UnsafeRawBufferPointer, inEnvelope: Bool) {
        guard name.count <= Self.longest else { return nil }
        var best: (header: KnownHeader, distance: Int)?
        for place in 0..<Self.count {
            guard let header = KnownHeader(place: place), !header.isRetry, !inEnvelope || header.isOfEnvelope else {
                continue
            }
            let text = header.text.lentBytes
            let distance = Self.distance(name, text)
            // "apns-", "push-"
            guard distance <= max(1, (text.count - 5 + 2) / 3), distance < best?.distance ?? .max else { continue }
            best = (header, distance)
        }
        guard let best else { return nil }
        self = best.header
    }

    /// Names with more bytes than this are near to none.
    private static let longest = 31

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
