internal import CLinux
internal import Glibc

/// How earlier workers died, and at which records, from the page that this process shares with its supervisor
/// (`crash.h`).
package struct CrashHistory: Sendable, Equatable {
    /// A record with this many deaths becomes a dead letter.
    package static let deathsOfRecord = 2

    package struct Place: Hashable, Sendable, CustomStringConvertible {
        package var topic: String
        package var partition: Int32
        package var offset: Int64

        package var description: String { "\(topic)/\(partition)/\(offset)" }
    }

    package struct Death: Sendable, Equatable {
        package var signal: Int32
        /// The records that the worker's threads were working on. A signal does not tell which thread caused it.
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

    /// The records that go to the dead letters unparsed.
    package var condemned: Set<Place> {
        var counts: [Place: Int] = [:]
        // Two threads may have been working on one record when the process died once.
        for place in deaths.flatMap({ Set($0.places) }) { counts[place, default: 0] += 1 }
        return Set(counts.filter { $0.value >= Self.deathsOfRecord }.keys)
    }

    /// Removes the deaths at a partition's records from the shared page.
    static func forgetOffsets(topic: String, partition: Int32) {
        var topic = topic
        topic.withUTF8 { crash_forget($0.baseAddress, Int32($0.count), partition) }
    }

    /// The history in the shared page, which is empty without a supervisor.
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
