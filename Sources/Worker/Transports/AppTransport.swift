internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// An app's transport. If a reload changes the app's protocol, another transport replaces the current one. The former
/// transport finishes its requests, and only its completions and notes are forwarded. Net thread.
final class AppTransport {
    /// What the transports of all apps use. Apps with the same key share a provider token.
    struct Shared {
        let settings: TransportSettings
        let loop: Loop
        let dialer: Dialer
        let tokens = ProviderTokens()
        let events: Mailbox<TransportEvent>
    }

    private enum Transport {
        case http2(APNsTransport)
        case binary(BinaryTransport)

        func handle(_ command: TransportCommand) {
            switch self {
            case .http2(let transport): transport.handle(command)
            case .binary(let transport): transport.handle(command)
            }
        }
    }

    private let index: AppIndex
    private let shared: Shared
    /// The number of the current transport.
    private var number = 0
    /// The current and former transports by their numbers, until they are closed.
    private var transports: [Int: Transport] = [:]
    /// Whether the app's credential failed to load.
    private var lacksCredential = false

    init(_ index: AppIndex, _ shared: Shared) {
        self.index = index
        self.shared = shared
    }

    func handle(_ command: TransportCommand) {
        switch command {
        // A recall is passed to all transports, because each transport ignores requests that it does not have.
        case .recall: for transport in transports.values { transport.handle(command) }
        case .close where transports.isEmpty: shared.events.post(.closed(app: index))
        case .send, .close: transports[number]?.handle(command)
        }
    }

    func connect(as app: LoadedApp) {
        apply(app)
        let nowMs = shared.loop.now.wallMs
        let lines = app.certificateFaults(nowMs: nowMs) + [app.certificateWarning(nowMs: nowMs)].compactMap(\.self)
        shared.events.post(contentsOf: lines.map { .note(app: index, .certificate($0)) })
    }

    private func apply(_ app: LoadedApp) {
        guard app.faults.isEmpty else {
            lacksCredential = true
            shared.events.post(.reachable(app: index, false))
            return
        }
        if lacksCredential {
            lacksCredential = false
            shared.events.post(.reachable(app: index, true))
        }
        let former = transports[number]
        switch former {
        case .http2(let transport) where app.settings.binary == nil:
            return transport.replace(configuration: http2(app), token: shared.tokens.token(of: app))
        case .binary(let transport) where app.settings.binary != nil:
            return transport.replace(configuration: app.binaryConfiguration(shared.settings.longestWindowNs))
        case .http2, .binary:
            number += 1
            // These events replace the former transport's reports. As for a new app, the host counts as reachable until
            // the first dial fails.
            shared.events.post(contentsOf: [
                .capacity(app: index, requests: 0), .connections(app: index, ConnectionCounts()),
                .unanswered(app: index, nil), .reachable(app: index, true),
            ])
        case nil: break
        }
        transports[number] = make(app)
        former?.handle(.close)
    }

    private func make(_ app: LoadedApp) -> Transport {
        let emit: ([TransportEvent]) -> Void = { [weak self, number] in self?.take($0, from: number) }
        guard app.settings.binary == nil else {
            return .binary(
                BinaryTransport(
                    app: index, configuration: app.binaryConfiguration(shared.settings.longestWindowNs),
                    loop: shared.loop, dialer: shared.dialer, emit: emit))
        }
        return .http2(
            APNsTransport(
                app: index, configuration: http2(app), token: shared.tokens.token(of: app), loop: shared.loop,
                dialer: shared.dialer, emit: emit))
    }

    private func http2(_ app: LoadedApp) -> APNsConfiguration {
        var configuration = app.transportConfiguration(shared.settings.responseTimeoutNs)
        configuration.tracesFrames = shared.settings.tracesFrames
        return configuration
    }

    private func take(_ said: [TransportEvent], from source: Int) {
        var told: [TransportEvent] = []
        for event in said {
            switch event {
            case .completions, .note: told.append(event)
            case .capacity, .reachable, .credentialRefused, .unanswered, .connections:
                if source == number { told.append(event) }
            case .closed:
                transports[source] = nil
                if transports.isEmpty { told.append(event) }
            }
        }
        shared.events.post(contentsOf: told)
    }
}
