/// The deaths of this process so far: each replaced it by itself and left a note in the environment
/// (`crash_contain`). A value; what is not a note is not one, whoever wrote it.
package struct CrashHistory: Sendable, Equatable {
    /// Where the notes stand.
    package static let variable = "APNS_WORKER_CRASHES"
    /// So many notes are kept; of more, the oldest are forgotten.
    package static let noteLimit = 64
    /// Within `windowMs`, this many deaths end it, and this many at no record that is known: those help nobody.
    package static let deathLimit = 10
    package static let unknownLimit = 3
    package static let windowMs: Int64 = 60_000
    /// So many deaths at one record make it a dead letter.
    package static let deathsOfRecord = 2

    /// A record as it was read.
    package struct Place: Hashable, Sendable, CustomStringConvertible {
        package var topic: String
        package var partition: Int32
        package var offset: Int64

        package init(topic: String, partition: Int32, offset: Int64) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
        }

        package var description: String {
            "\(topic)/\(partition)/\(offset == CrashHistory.goneOffset ? "gone" : "\(offset)")"
        }
    }

    package struct Death: Sendable, Equatable {
        package var signal: Int32
        /// Monotonic.
        package var atMs: Int64
        /// `nil`: at no record that is known.
        package var place: Place?

        package init(signal: Int32, atMs: Int64, place: Place?) {
            self.signal = signal
            self.atMs = atMs
            self.place = place
        }
    }

    /// Since the process was started from outside.
    package private(set) var total = 0
    /// The last ones, oldest first.
    package private(set) var deaths: [Death] = []
    /// The records that are not to be looked at any more.
    package private(set) var condemned: Set<Place> = []

    /// In the place of an offset whose log is gone: no record's.
    package static let goneOffset: Int64 = -1

    package init() {}

    /// The log of this partition is another one: other records stand at its offsets. The deaths still count as deaths
    /// at a record. False: there were none.
    package mutating func forgetOffsets(topic: String, partition: Int32) -> Bool {
        var isAny = false
        for index in deaths.indices {
            guard let place = deaths[index].place, place.topic == topic, place.partition == partition,
                place.offset != Self.goneOffset
            else { continue }
            deaths[index].place?.offset = Self.goneOffset
            isAny = true
        }
        if isAny { condemned = Self.condemned(by: deaths) }
        return isAny
    }

    private static func condemned(by deaths: [Death]) -> Set<Place> {
        var counts: [Place: Int] = [:]
        for place in deaths.compactMap(\.place) where place.offset != goneOffset { counts[place, default: 0] += 1 }
        return Set(counts.filter { $0.value >= deathsOfRecord }.keys)
    }

    /// From the variable's text: `TOTAL;SIGNAL,MS,PARTITION,OFFSET,TOPIC;…`, in which the total does not count the last
    /// note. `nil`: there is none.
    package init(text: String?) {
        guard let text else { return }
        let parts = text.split(separator: ";")
        guard let first = parts.first, let before = Int(first), before >= 0, before < Int.max else { return }
        deaths = parts.dropFirst().suffix(Self.noteLimit).compactMap { Death(note: $0) }
        total = before + (deaths.isEmpty ? 0 : 1)
        condemned = Self.condemned(by: deaths)
    }

    /// The text to which the next death appends its note.
    package var text: String {
        deaths.suffix(Self.noteLimit - 1).reduce("\(total)") { $0 + ";" + $1.note }
    }

    /// Why it is to end for whoever started it to see; `nil`: it may go on.
    package func excess(nowMs: Int64) -> String? {
        let recent = deaths.filter { nowMs - Self.windowMs <= $0.atMs && $0.atMs <= nowMs }
        if recent.count >= Self.deathLimit {
            return "died \(recent.count) times within \(Self.windowMs / 1_000) s"
        }
        let unknown = recent.count { $0.place == nil }
        if unknown >= Self.unknownLimit {
            return "died \(unknown) times within \(Self.windowMs / 1_000) s at no record that is known"
        }
        return nil
    }
}

extension CrashHistory.Death {
    fileprivate init?(note: Substring) {
        let words = note.split(separator: ",", omittingEmptySubsequences: false)
        guard words.count == 5, let signal = Int32(words[0]), let atMs = Int64(words[1]), atMs >= 0 else { return nil }
        self.init(signal: signal, atMs: atMs, place: nil)
        guard words[2] != "-" else { return }
        guard let partition = Int32(words[2]), let offset = Int64(words[3]), !words[4].isEmpty else { return nil }
        place = CrashHistory.Place(topic: String(words[4]), partition: partition, offset: offset)
    }

    fileprivate var note: String {
        guard let place else { return "\(signal),\(atMs),-,-,-" }
        return "\(signal),\(atMs),\(place.partition),\(place.offset),\(place.topic)"
    }

    /// `SIGILL` and the like.
    package var signalName: String {
        switch signal {
        case 4: "SIGILL"
        case 5: "SIGTRAP"
        case 6: "SIGABRT"
        case 7: "SIGBUS"
        case 11: "SIGSEGV"
        default: "signal \(signal)"
        }
    }
}
