internal import Kafka

/// What librdkafka has unpacked of a topic, and nobody has read.
struct UnreadRecords: Equatable {
    var records = 0
    /// Roughly: librdkafka takes more for each, and a batch is freed as a whole.
    var bytes = 0

    mutating func add(_ count: Int, ofBytes bytes: Int) {
        records += count
        self.bytes += count * (bytes + Unpacking.recordBytes)
    }

    /// What is to be said while batches of `victims` wait for memory: of those that hold it, the largest first.
    static func faults(_ unread: [String: UnreadRecords], victims: Set<String>) -> [Fault] {
        guard !victims.isEmpty else { return [] }
        let names = victims.sorted().prefix(namesLimit).joined(separator: ", ")
        let waiting = victims.count > namesLimit ? "\(names), …" : names
        let largest = unread.sorted { ($0.value.bytes, $1.key) > ($1.value.bytes, $0.key) }.prefix(namesLimit)
        guard let most = largest.first?.value.bytes else {
            return [
                Fault(
                    "kafka.unpack_memory", .memory, "more than that is in use: large batches of \(waiting) wait",
                    "raise kafka.unpack_memory")
            ]
        }
        return largest.filter { $0.value.bytes >= most / 4 }.map { topic, held in
            Fault(
                "topic \(topic)", .memory,
                "\(held.records) records of it lie unread in memory (kafka.unpack_memory): large batches of \(waiting) wait",
                "look why topic \(topic) is read no faster; raise kafka.unpack_memory, or limit what producers write to it"
            )
        }
    }

    private static let namesLimit = 3
}
