internal import CLinux
internal import Glibc

/// The crashes of earlier worker processes, with the records that were being processed at each crash. Read from the
/// memory page that this process shares with its supervisor (`crash.h`).
package struct CrashHistory: Sendable, Equatable {
    /// The number of crashes after which a record becomes a dead letter.
    package static let deathsOfRecord = 2

    package struct Place: Hashable, Sendable, CustomStringConvertible {
        package var topic: String
        package var partition: Int32
        package var offset: Int64

        package var description: String { "\(topic)/\(partition)/\(offset)" }
    }

    package struct Death: Sendable, Equatable {
        package var signal: Int32
        /// The records that the worker's threads were processing. Only one thread crashed, but the supervisor cannot
        /// tell which.
        package var places: [Place]

        package var signalName: String {
            linux_signal_name(signal).map { "SIG" + String(cString: $0) } ?? "signal \(signal)"
        }

        package var record: String {
            places.isEmpty ? "no known record" : places.map(\.description).joined(separator: ", ")
        }
    }

    package let total: Int
    package let deaths: [Death]

    package init(total: Int = 0, deaths: [Death] = []) {
        self.total = total
        self.deaths = deaths
    }

    /// The records that become dead letters without being parsed.
    package var condemned: Set<Place> {
        var counts: [Place: Int] = [:]
        // In one crash, two threads may have been processing the same record, which counts once.
        for place in deaths.flatMap({ Set($0.places) }) { counts[place, default: 0] += 1 }
        return Set(counts.filter { $0.value >= Self.deathsOfRecord }.keys)
    }

    /// Removes a partition's records from the crash history on the shared page, for example after the topic was
    /// recreated.
    static func forgetOffsets(topic: String, partition: Int32) {
        var topic = topic
        topic.withUTF8 { crash_forget($0.baseAddress, Int32($0.count), partition) }
    }

    /// The history read from the shared page, or an empty one without a supervisor.
    package static var ofPage: CrashHistory {
        let total = crash_death_count()
        return CrashHistory(
            total: Int(total),
            deaths: (max(0, total - Int64(CRASH_DEATH_LIMIT))..<total).map { number in
                let death = crash_death(number)
                return Death(
                    signal: death.signal,
                    places: [death.places.0, death.places.1].compactMap { place in
                        crash_topic_name(place.topic).map {
                            Place(topic: String(cString: $0), partition: place.partition, offset: place.offset)
                        }
                    })
            })
    }
}
