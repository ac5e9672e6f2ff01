import Glibc
package import PushRecords

/// What the simulator saw, readable from any thread while it runs: the second of an audit's three books.
///
/// Loops write one request at a time under a lock that is held for well under a microsecond; readers hold it for one
/// piece of a dump at a time. The lock is what `@unchecked Sendable` stands for.
package final class Books: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var state: State

    struct State: ~Copyable {
        var book: NotificationBook
        var totals = Totals()
        /// Changes with every reset, so that a dump under way notices.
        var generation = 0
        /// Where they are kept beyond the end of the process; `nil`: nowhere.
        var file: BookFile?

        /// What became of a request whose arrival the book knows; `token` are its bytes, `place` the token's.
        @inline(__always)
        mutating func note(_ outcome: RequestOutcome, id: NotificationUUID, token: UnsafeRawBufferPointer, index: Int?)
        {
            if file?.append(BookFile.Entry(outcome: outcome, id: id, token: token)) == false { fileOverflow += 1 }
            if outcome == .notProcessed {
                totals.notProcessed += 1
                return
            }
            totals.requests += 1
            let row = token.isEmpty ? nil : book.receive(id: id, token: index)
            switch outcome {
            case .accepted:
                totals.accepted += 1
                if let row { book.accept(row: row) }
            case .refused(let reason):
                totals.refused += 1
                totals.byReason[Int(reason.rawValue)] += 1
            case .unanswered: totals.unanswered += 1
            case .notProcessed: break
            }
        }

        /// Requests that the file has no room for.
        var fileOverflow = 0
    }

    /// At most so many distinct pairs of apns-id and token are kept; what comes beyond is counted as overflow.
    package init(limit: Int = 64_000_000) {
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        state = State(book: NotificationBook(limit: limit))
    }

    /// The same, kept in a file: read from it, if it is there, and noted in it from now on. What was noted of requests
    /// is there again, also after a kill -9; counts of connections, GOAWAYs and cuts begin anew.
    ///
    /// - Throws: one line that names the file.
    package convenience init(limit: Int = 64_000_000, path: String) throws(SimulatorError) {
        self.init(limit: limit)
        let file = try BookFile(path: path)
        try file.forEach { entry in
            let index = entry.token.isEmpty ? nil : state.book.arrive(token: entry.token).index
            state.note(entry.outcome, id: entry.id, token: entry.token, index: index)
        }
        state.file = file
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @inline(__always)
    func write<R>(_ body: (inout State) -> R) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&state)
    }

    package var totals: Totals {
        write { state in
            var totals = state.totals
            totals.acceptedDistinct = state.book.acceptedRows
            totals.acceptedAgain = state.book.acceptedAgain
            totals.tokens = state.book.tokenCount
            totals.overflow = state.book.overflow + state.fileOverflow
            return totals
        }
    }

    /// Forgets all rows and counts; open connections stay counted.
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

    /// Every pair with what was counted of it, in the order of first arrival; not while the loops should run fast: it
    /// holds the lock to the end. For tests.
    package func forEach(
        _ body: (_ id: NotificationUUID, _ token: String, _ received: Int, _ accepted: Int) -> Void
    ) {
        write { state in
            for index in 0..<state.book.rowCount {
                let row = state.book.row(index)
                let token = hexText(state.book.bytes(ofToken: Int(row.token)))
                body(NotificationUUID(high: row.high, low: row.low), token, Int(row.received), Int(row.accepted))
            }
        }
    }

    /// How often requests for a token (lower-case hex) came, and were accepted.
    package func counts(ofToken wanted: String) -> (arrived: Int, accepted: Int) {
        write { state in
            for index in 0..<state.book.tokenCount where hexText(state.book.bytes(ofToken: index)) == wanted {
                let token = state.book.token(index)
                return (Int(token.arrived), Int(token.accepted))
            }
            return (0, 0)
        }
    }
}

extension Books {
    /// How often broadcasts on a channel came, and were accepted.
    package func counts(ofChannel id: String) -> (arrived: Int, accepted: Int) {
        let bytes = Array(id.utf8).withUnsafeBytes { channelBytes($0) } ?? []
        return counts(ofToken: bytes.withUnsafeBytes { hexText($0) })
    }

    /// What a dump lists.
    package enum Listing: Sendable {
        /// `apns-id token count` for what was accepted.
        case accepted
        /// `apns-id token count` for all that came, whatever became of it.
        case received
        /// `token arrived accepted`: how many requests for it came at all, those not processed included.
        case tokens
    }

    /// Where a dump stands; a value, so that a streamed page can keep it.
    package struct Cursor: Sendable {
        package var listing: Listing
        var index = 0
        var generation: Int?

        /// - Parameter first: how many rows (of tokens or of notifications, accepted or not) to leave out.
        package init(_ listing: Listing, from first: Int = 0) {
            self.listing = listing
            index = first
        }
    }

    package enum Piece: Equatable, Sendable {
        case wrote(Int)
        case end
        /// The books were reset since the dump began.
        case reset
    }

    /// A line at its longest: an id, 200 digits, two counts, separators.
    static let longestLine = 36 + 1 + 200 + 1 + 10 + 1 + 10 + 1

    /// Writes whole lines into the buffer, as many as fit; it must have room for 300 bytes.
    package func dump(_ cursor: inout Cursor, into buffer: UnsafeMutableRawBufferPointer) -> Piece {
        write { state in
            if let generation = cursor.generation, generation != state.generation { return .reset }
            cursor.generation = state.generation
            var writer = LineWriter(buffer)
            let count = cursor.listing == .tokens ? state.book.tokenCount : state.book.rowCount
            while cursor.index < count, writer.room >= Self.longestLine {
                switch cursor.listing {
                case .tokens:
                    let token = state.book.token(cursor.index)
                    writer.hex(state.book.bytes(ofToken: cursor.index))
                    writer.number(token.arrived)
                    writer.number(token.accepted)
                    writer.endLine()
                case .accepted, .received:
                    let row = state.book.row(cursor.index)
                    let number = cursor.listing == .accepted ? row.accepted : row.received
                    if number > 0 {
                        writer.uuid(high: row.high, low: row.low)
                        writer.space()
                        writer.hex(state.book.bytes(ofToken: Int(row.token)))
                        writer.number(number)
                        writer.endLine()
                    }
                }
                cursor.index += 1
            }
            return writer.used == 0 ? .end : .wrote(writer.used)
        }
    }
}
