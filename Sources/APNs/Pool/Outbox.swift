internal import EventLoop
internal import PushTransport

/// The completions, texts and events of one turn, for the transport's owner. Used on the loop's thread only.
///
/// Connections and the transport write to the outbox. The transport sends and empties it at the end of the turn
/// (`send`).
final class Outbox {
    let app: AppIndex
    private let loop: Loop
    private let emit: ([TransportEvent]) -> Void
    /// The transport whose `turnEnded` is requested after a write to the outbox.
    unowned var transport: (any TurnEnder)?
    /// Accesses are not checked at run time, because a check would cost time on each completion. Accesses cannot
    /// overlap, because each one only appends to the batch or takes it.
    @exclusivity(unchecked) private var batch: CompletionBatch
    private var events: [TransportEvent] = []
    /// Whether a turn's end was requested. Accesses are not checked at run time, because a check would cost time on
    /// each completion, and accesses cannot overlap.
    @exclusivity(unchecked) private var asksForTurnEnd = false

    init(app: AppIndex, loop: Loop, emit: @escaping ([TransportEvent]) -> Void) {
        self.app = app
        self.loop = loop
        self.emit = emit
        batch = CompletionBatch(app: app)
    }

    func complete(_ completion: Completion) {
        askForTurnEnd()
        batch.completions.append(completion)
    }

    /// Completes as `notProcessed` the requests with these ids, which were on no connection.
    func giveBack(_ ids: [NotificationID]) {
        for id in ids { complete(Completion(id: id, kind: .notProcessed)) }
    }

    /// Stores a text for a completion of this turn, and returns the text's index in `CompletionBatch.texts`.
    func text(_ text: String) -> Int32 {
        batch.texts.append(text)
        return Int32(batch.texts.count - 1)
    }

    func note(_ note: TransportNote) { append(.note(app: app, note)) }

    func append(_ event: TransportEvent) {
        askForTurnEnd()
        events.append(event)
    }

    func askForTurnEnd() {
        guard !asksForTurnEnd, let transport else { return }
        asksForTurnEnd = true
        loop.atTurnEnd(transport)
    }

    /// Marks the end of the turn. Later writes request another turn's end.
    func turnEnds() { asksForTurnEnd = false }

    /// Sends the events of the turn in this order: `first`, completions, the other events, `last`.
    func send(first: [TransportEvent] = [], last: [TransportEvent]) {
        var all = first
        if !batch.completions.isEmpty {
            let count = batch.completions.count
            all.append(.completions(batch))
            batch = CompletionBatch(app: app)
            batch.completions.reserveCapacity(count)
        }
        all += events
        all += last
        events.removeAll(keepingCapacity: true)
        if !all.isEmpty { emit(all) }
    }
}
