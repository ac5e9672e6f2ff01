internal import EventLoop
internal import PushTransport

/// The report of one turn of a transport to its owner: completions, their texts, and events. Loop's thread.
///
/// Connections and transport both write to it; the transport empties it at the end of the turn (`send`).
final class Outbox {
    let app: AppIndex
    private let loop: Loop
    private let emit: ([TransportEvent]) -> Void
    /// Whose turn ends where something was written.
    unowned var transport: (any TurnEnder)?
    /// Unchecked: it is appended to and taken, nothing else, and the run-time check costs each completion.
    @exclusivity(unchecked) private var batch: CompletionBatch
    private var events: [TransportEvent] = []
    /// Unchecked for the same reason.
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

    /// Requests that were on no connection come back unprocessed.
    func giveBack(_ ids: [NotificationID]) {
        for id in ids { complete(Completion(id: id, kind: .notProcessed)) }
    }

    /// Stores a rare text beside the completions of this turn.
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

    /// Called as the turn ends: what is written from now on asks for another one.
    func turnEnds() { asksForTurnEnd = false }

    /// Hands over what the turn brought: `first`, then completions, then the other events, then `last`.
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
