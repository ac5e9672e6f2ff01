internal import EventLoop
internal import HTTPServer
internal import JSON
package import PushRecords

/// The requests that the simulator received, with their outcomes. Thread-safe.
///
/// Without a file, the event loop holds the lock for less than a microsecond per request. A dump holds it for one chunk
/// at a time.
package final class Books: Sendable {
    private let state: Guarded<State>

    struct State {
        var book: NotificationBook
        var totals = Totals()
        /// The number of resets, by which a dump in progress detects that the requests were cleared.
        var generation = 0
        /// The file that preserves the requests after the process ends, if one is set.
        var file: BookFile?

        /// Records the outcome of a request. `index` is the token's index, as returned by `NotificationBook.arrive`.
        @inline(__always)
        mutating func note(_ outcome: RequestOutcome, id: NotificationUUID, token: UnsafeRawBufferPointer, index: Int?)
        {
            if file?.append(BookFile.Entry(outcome: outcome, id: id, token: token)) == false { fileOverflow += 1 }
            if outcome == .notProcessed {
                totals.notProcessed += 1
                return
            }
            totals.requests += 1
            if !token.isEmpty { book.record(id: id, token: index, isAccepted: outcome == .accepted) }
            switch outcome {
            case .accepted: totals.accepted += 1
            case .refused(let reason):
                totals.refused += 1
                totals.byReason[Int(reason.rawValue)] += 1
            case .unanswered: totals.unanswered += 1
            case .notProcessed: break
            }
        }

        /// The number of requests that could not be written to the file.
        var fileOverflow = 0
    }

    /// - Parameter limit: The maximum number of distinct pairs of apns-id and token. Requests with further pairs count
    ///   as overflow. A pair takes about 110 bytes, and each distinct token about 150 more (measured with a million of
    ///   each).
    package init(limit: Int = 64_000_000) {
        state = Guarded(State(book: NotificationBook(limit: limit)))
    }

    /// Restores the requests from a file, if the file exists, and appends all further requests to the file.
    ///
    /// The file survives `kill -9`. Counts of connections, GOAWAYs and cuts are not stored.
    ///
    /// - Throws: A one-line error that names the file.
    package convenience init(path: String) throws(SimulatorError) {
        self.init()
        let file = try BookFile(path: path)
        try file.forEach { entry in
            write { state in
                let index = state.book.arrive(token: entry.token).index
                state.note(entry.outcome, id: entry.id, token: entry.token, index: index)
            }
        }
        write { $0.file = file }
    }

    func write<R>(_ body: (inout State) -> R) -> R { state.withLock(body) }

    package var totals: Totals {
        write { state in
            var totals = state.totals
            totals.acceptedDistinct = state.book.acceptedRows
            totals.acceptedAgain = state.book.acceptedAgain
            totals.tokens = state.book.tokens.count
            totals.overflow = state.book.overflow + state.fileOverflow
            return totals
        }
    }

    /// Clears all recorded requests and counts, except the count of open connections.
    package func reset() {
        write { state in
            let open = state.totals.openConnections
            state.book = NotificationBook(limit: state.book.limit)
            state.totals = Totals()
            state.file?.reset()
            state.fileOverflow = 0
            state.totals.openConnections = open
            state.totals.connections = open
            state.generation += 1
        }
    }

    /// Passes every pair of apns-id and token with its counts to `body`, in the order of first arrival. Holds the lock
    /// during the whole call, so the event loop must wait.
    package func forEach(
        _ body: (_ id: NotificationUUID, _ token: String, _ received: Int, _ accepted: Int) -> Void
    ) {
        write { state in
            for row in state.book.rows {
                body(
                    row.id, hexText(state.book.tokens[row.token].bytes), Int(row.received), Int(row.accepted))
            }
        }
    }

    /// Returns how many requests for a token (hex) arrived and how many were accepted.
    package func counts(ofToken wanted: String) -> (arrived: Int, accepted: Int) {
        guard let bytes = (try? DeviceToken(hex: wanted))?.bytes else { return (0, 0) }
        return write { $0.book.counts(of: bytes) }
    }

    /// Returns how many broadcasts on a channel arrived and how many were accepted.
    package func counts(ofChannel id: String) -> (arrived: Int, accepted: Int) {
        let bytes = Array(id.utf8).withUnsafeBytes { channelBytes($0) } ?? []
        return write { $0.book.counts(of: bytes) }
    }

    /// The content of a dump.
    enum Listing {
        /// A line `apns-id token count` for each accepted notification.
        case accepted
        /// A line `apns-id token count` for each notification that was or may have been processed.
        case received
        /// A line `token arrived accepted` for each device token. `arrived` includes requests that were not processed.
        case tokens
    }

    /// The position up to which a dump has been written.
    struct Cursor {
        var listing: Listing
        /// The index of the next device token (for `tokens`), or of the next notification, accepted or not (for
        /// `accepted` and `received`).
        var index = 0
        var generation: Int?
    }

    /// The maximum length of a line: an id, 200 digits, two counts, separators.
    static let longestLine = 36 + 1 + 200 + 1 + 10 + 1 + 10 + 1

    /// Writes as many whole lines as fit into `buffer`, which must have at least 300 bytes. Returns `.failed` if
    /// `reset` was called since the dump began.
    func dump(_ cursor: inout Cursor, into buffer: UnsafeMutableRawBufferPointer) -> HTTPResponse.Step {
        write { state in
            if let generation = cursor.generation, generation != state.generation { return .failed }
            cursor.generation = state.generation
            var lines = ByteWriter(capacity: buffer.count)
            let book = state.book
            let count = cursor.listing == .tokens ? book.tokens.count : book.rows.count
            while cursor.index < count, buffer.count - lines.count >= Self.longestLine {
                switch cursor.listing {
                case .tokens:
                    let token = book.tokens[cursor.index]
                    lines.append(text: "\(hexText(token.bytes)) \(token.arrived) \(token.accepted)\n")
                case .accepted, .received:
                    let row = book.rows[cursor.index]
                    let number = cursor.listing == .accepted ? row.accepted : row.received
                    let token = book.tokens[row.token].bytes
                    if number > 0 { lines.append(text: "\(row.id) \(hexText(token)) \(number)\n") }
                }
                cursor.index += 1
            }
            buffer.copyMemory(from: lines.bytes)
            return lines.count == 0 ? .end : .wrote(lines.count)
        }
    }
}

func hexText(_ bytes: [UInt8]) -> String {
    String(unsafeUninitializedCapacity: bytes.count * 2) { text in
        for index in text.indices {
            let digit = index % 2 == 0 ? bytes[index / 2] >> 4 : bytes[index / 2] & 15
            text[index] = digit < 10 ? 0x30 + digit : 0x57 + digit
        }
        return bytes.count * 2
    }
}

/// Counts since the start or the last reset.
package struct Totals: Sendable, Equatable {
    /// Complete requests that were accepted, rejected, or left unanswered by a fault.
    package var requests = 0
    /// Accepted requests, including those whose answer was lost because a fault cut the connection.
    package var accepted = 0
    /// Distinct pairs of apns-id and device token among the accepted requests.
    package var acceptedDistinct = 0
    /// Duplicates: accepted requests beyond the first for the same pair of apns-id and device token.
    package var acceptedAgain = 0
    /// Requests rejected with a reason.
    package var refused = 0
    /// Requests left unanswered by a fault.
    package var unanswered = 0
    /// Requests that the simulator reported to the client as not processed: on a stream above a GOAWAY's last stream
    /// id, rejected with REFUSED_STREAM, or sent after the notification that ended a gateway connection. `requests`
    /// does not include them.
    package var notProcessed = 0
    package var connections = 0
    package var openConnections = 0
    package var goAways = 0
    /// Connections that the simulator cut because of a fault.
    package var cuts = 0
    /// Distinct device tokens and channel ids of the received requests.
    package var tokens = 0
    /// Requests that were not recorded: in memory, because the limit of recorded notifications was reached, or in the
    /// file, because it could not be written.
    package var overflow = 0
    /// The number of distinct provider tokens with each RFC violation that APNs tolerates, by the violation's name.
    package var leniencies: [String: Int] = [:]
    /// Rejected requests, indexed by `ReasonCode.rawValue`.
    package var byReason = [Int](repeating: 0, count: 256)

    /// The number of requests rejected with a reason.
    package subscript(reason: ReasonCode) -> Int { byReason[Int(reason.rawValue)] }

    package var json: String {
        var text = "{\"requests\":\(requests),\"accepted\":\(accepted),\"accepted_distinct\":\(acceptedDistinct)"
        text += ",\"accepted_again\":\(acceptedAgain),\"refused\":\(refused),\"unanswered\":\(unanswered)"
        text += ",\"not_processed\":\(notProcessed),\"connections\":\(connections)"
        text += ",\"open_connections\":\(openConnections),\"goaways\":\(goAways),\"cuts\":\(cuts)"
        text += ",\"tokens\":\(tokens),\"overflow\":\(overflow)"
        let reasons = ReasonCode.allCases.map { ($0.text?.description ?? "other", self[$0]) }
        text += ",\"leniencies\":\(Self.object(leniencies.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }))"
        return text + ",\"reasons\":\(Self.object(reasons))}\n"
    }

    private static func object(_ counts: [(name: String, count: Int)]) -> String {
        "{\(counts.filter { $0.count > 0 }.map { "\"\($0.name)\":\($0.count)" }.joined(separator: ","))}"
    }
}
