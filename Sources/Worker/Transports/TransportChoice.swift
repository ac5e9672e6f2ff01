internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// Transports as each app says which: HTTP/2, or the binary protocol. Net thread.
final class TransportChoice: TransportMaker {
    private let http2: HTTP2Transports
    private let binary: BinaryTransports

    init(loop: Loop, times: TransportTimes, tracesFrames: @escaping @Sendable () -> Bool) throws {
        let dialer = Dialer(loop: loop)
        http2 = HTTP2Transports(
            loop: loop, dialer: dialer, responseTimeoutNs: times.responseTimeoutNs, tracesFrames: tracesFrames)
        binary = BinaryTransports(loop: loop, dialer: dialer, longestWindowNs: times.longestWindowNs)
    }

    func make(
        _ app: LoadedApp, _ index: AppIndex, emit: @escaping ([TransportEvent]) -> Void
    ) -> any AppTransport {
        ChosenTransport(app, index, emit: emit) { [self] app, emit in
            app.settings.binary == nil ? http2.make(app, index, emit: emit) : binary.make(app, index, emit: emit)
        }
    }
}

extension TransportLink {
    /// `tracesFrames`: whether an HTTP/2 connection that is made now tells the heads of its frames. Net thread.
    convenience init(
        _ apps: [LoadedApp], times: TransportTimes, tracesFrames: @escaping @Sendable () -> Bool,
        events: Mailbox<TransportEvent>
    ) throws {
        try self.init(apps, events: events) { loop in
            try TransportChoice(loop: loop, times: times, tracesFrames: tracesFrames)
        }
    }
}

/// What is the same for all apps of a worker.
package struct TransportTimes: Sendable {
    /// A request that has no response so long is in doubt.
    package var responseTimeoutNs: Int64
    /// What the window of the binary protocol may be lengthened to.
    package var longestWindowNs: Int64

    package init(responseTimeoutNs: Int64, longestWindowNs: Int64 = 30_000_000_000) {
        self.responseTimeoutNs = responseTimeoutNs
        self.longestWindowNs = longestWindowNs
    }
}

/// An app's transport, which is another one after a reload that says so: the one before finishes what is on its
/// connections, and is heard of that alone.
private final class ChosenTransport: AppTransport {
    typealias Emit = ([TransportEvent]) -> Void

    private let index: AppIndex
    private let make: (LoadedApp, @escaping Emit) -> any AppTransport
    private let emit: Emit
    private var isBinary: Bool
    private var current: any AppTransport
    /// Each until it is closed.
    private var leaving: [Int: any AppTransport] = [:]
    /// The current one's.
    private var number = 0
    private var gone: (any AppTransport)?
    /// What the current one said at its end, while others have not come to theirs.
    private var closed: TransportEvent?

    init(
        _ app: LoadedApp, _ index: AppIndex, emit: @escaping Emit,
        make: @escaping (LoadedApp, @escaping Emit) -> any AppTransport
    ) {
        self.index = index
        self.make = make
        self.emit = emit
        isBinary = app.settings.binary != nil
        let first = First()
        current = make(app) { first.owner?.take($0, from: 0) }
        first.owner = self
    }

    /// A transport tells nothing before the turn after it was made.
    private final class First { weak var owner: ChosenTransport? }

    func handle(_ command: TransportCommand) {
        // Which one has what is asked back, they know themselves.
        if case .recall = command { for transport in leaving.values { transport.handle(command) } }
        current.handle(command)
    }

    func replace(with app: LoadedApp) {
        guard isBinary != (app.settings.binary != nil) else { return current.replace(with: app) }
        isBinary.toggle()
        let last = current
        leaving[number] = last
        number += 1
        let number = number
        // What the one before said of its host is no more; the next one says nothing as long as it takes no request,
        // and nothing of its reach before it dials. As of a new app, its host counts as within reach until it does.
        emit([
            .capacity(app: index, requests: 0), .connections(app: index, ConnectionCounts()),
            .unanswered(app: index, nil), .reachable(app: index, true),
        ])
        current = make(app) { [weak self] in self?.take($0, from: number) }
        last.handle(.close)
    }

    private func take(_ events: [TransportEvent], from source: Int) {
        var told: [TransportEvent] = []
        for event in events {
            switch event {
            case .completions, .note: told.append(event)
            case .capacity, .reachable, .credentialRefused, .unanswered, .connections:
                if source == number { told.append(event) }
            case .closed:
                if source == number { closed = event }
                // It is telling: it goes when the next one does.
                gone = leaving.removeValue(forKey: source)
            }
        }
        // It is closed when those before it are.
        if leaving.isEmpty, let closed {
            self.closed = nil
            told.append(closed)
        }
        if !told.isEmpty { emit(told) }
    }
}
