/// Devices that Apple has had too many notifications for (429 TooManyRequests), for a while each. By the hash of the
/// device queue: a device with the same hash waits with it, which harms nobody.
struct SlowedDevices: ~Copyable {
    /// More are not remembered.
    static let limit = 10_000

    // Not private: Swift 6.3.1 crashes on a private type inside a ~Copyable one.
    struct Entry {
        var hash: UInt32
        var untilNs: Int64
    }

    private var untilByHash: [UInt32: Int64] = [:]
    /// In the order of their times.
    private var order = RingBuffer<Entry>()

    init() {}

    var isEmpty: Bool { untilByHash.isEmpty }

    func contains(_ hash: UInt32) -> Bool { untilByHash[hash] != nil }

    /// - Parameter untilNs: not before any given before.
    mutating func slow(_ hash: UInt32, untilNs: Int64) {
        guard order.count < Self.limit else { return }
        untilByHash[hash] = untilNs
        order.append(Entry(hash: hash, untilNs: untilNs))
    }

    mutating func expire(_ nowNs: Int64) {
        while !order.isEmpty {
            let first = order[order.head]
            guard first.untilNs <= nowNs else { return }
            order.removeFirst()
            if let untilNs = untilByHash[first.hash], untilNs <= nowNs { untilByHash[first.hash] = nil }
        }
    }
}
