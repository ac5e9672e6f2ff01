import APNsSimulator
@testable import Configuration
import Delivery
import EventLoop
import Foundation
import PushRecords
import TLS
import TestSupport
import Testing

@testable import Worker

/// A simulator, transports to it, and a core that counts the events of the transports.
final class SimulatorScene {
    let simulator: Simulator
    private let folder: TemporaryFolder
    private let loop: Loop
    private var transports: AppTransports?
    private(set) var completions: [Int: [Completion]] = [:]
    private(set) var capacity: [Int: Int] = [:]
    private(set) var reachable: [Int: [Bool]] = [:]
    private(set) var warnings: [String] = []
    private(set) var connected = 0
    private(set) var renewals = 0
    private var lent: [Lent] = []
    private var nextSlot: UInt32 = 0

    init(prepare: (inout SimulatorOptions) -> Void = { _ in }) throws {
        var options = SimulatorOptions()
        prepare(&options)
        simulator = try Simulator(options)
        folder = try TemporaryFolder()
        loop = try Loop()
        try folder.write(simulator.credentials.caPEM, "ca.pem")
    }

    deinit {
        transports?.stop()
        simulator.stop()
    }

    private func app(_ name: String, _ credential: AppSettings.Credential) -> AppSettings {
        var app = AppSettings(
            name: name, bundleIDs: [SimulatorCredentials.bundleID], credential: credential, host: simulator.host)
        app.port = Int(simulator.port)
        app.authorities = .file(folder.path("ca.pem"))
        return app
    }

    /// An app with the simulator's own key.
    func tokenApp(_ name: String) throws -> AppSettings {
        app(
            name,
            .token(
                TokenCredential(
                    key: .text(simulator.credentials.providerKeyPEM), keyID: SimulatorCredentials.keyID,
                    teamID: SimulatorCredentials.teamID)))
    }

    /// An app with a certificate for this bundle id.
    func certificateApp(
        _ name: String, bundleID: String = SimulatorCredentials.bundleID, validForDays: Int = 395
    ) throws -> AppSettings {
        let issued = try simulator.credentials.authority.issueClient(bundleID: bundleID, validForDays: validForDays)
        return app(
            name,
            .certificate(
                CertificateCredential(form: .pem(certificate: .text(issued.certificatePEM), key: .text(issued.keyPEM))))
        )
    }

    func start(_ apps: [AppSettings], allowingFaults: Bool = false) throws -> AppTransports {
        let transports = try AppTransports(
            try LoadedApp.load(apps) { _ in allowingFaults },
            TransportSettings(
                responseTimeoutNs: 10_000_000_000, longestWindowNs: 30_000_000_000, tracesFrames: { false }),
            loop: loop, onNote: { _, _ in })
        self.transports = transports
        return transports
    }

    private func take(_ event: TransportEvent) {
        switch event {
        case .completions(let batch): completions[batch.app.value, default: []] += batch.completions
        case .capacity(let app, let requests): capacity[app.value] = requests
        case .connections, .credentialRefused, .unanswered: break
        case .reachable(let app, let isReachable): reachable[app.value, default: []].append(isReachable)
        case .note(_, .certificate(let text)): warnings.append(text)
        case .note(_, .connected): connected += 1
        case .note(_, .providerTokenRenewed): renewals += 1
        case .note, .closed: break
        }
    }

    /// Runs the loop until `condition` holds. Records a failure after 180 s.
    func run(_ what: String, sourceLocation: SourceLocation = #_sourceLocation, until condition: () throws -> Bool)
        rethrows
    {
        let deadlineNs = LoopTime.read().monotonicNs + 180_000_000_000
        while try !condition() {
            guard LoopTime.read().monotonicNs < deadlineNs else {
                Issue.record("not within 180 s: \(what)", sourceLocation: sourceLocation)
                return
            }
            loop.runOnce(timeoutNs: 10_000_000)
            transports?.inbox.events.forEach(take)
            transports?.inbox.events.removeAll()
        }
    }

    /// Sends this many requests of an app, each after the completion of the previous one.
    func expectAnswers(
        _ transports: AppTransports, app: Int, count: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for _ in 0..<count {
            run("room", sourceLocation: sourceLocation) { capacity[app, default: 0] > 0 }
            let known = completions[app]?.count ?? 0
            transports.post(AppIndex(app), .send([request()]))
            run("an answer", sourceLocation: sourceLocation) { (completions[app]?.count ?? 0) > known }
        }
    }

    /// Sends this many requests of an app, as many at once as the capacity allows, until each is answered with 200.
    /// Requests with another completion are sent again. Calls `between` with the number of answers after new ones.
    func pump(_ transports: AppTransports, app: Int, count: Int, between: (Int) throws -> Void) throws {
        var waiting = (1...UInt32(count)).map { nextSlot + $0 }
        nextSlot += UInt32(count)
        var unanswered = 0
        var answered = 0
        var seen = completions[app]?.count ?? 0
        try run("\(count) answers") {
            for completion in completions[app, default: []].dropFirst(seen) {
                unanswered -= 1
                if completion.status == 200 { answered += 1 } else { waiting.append(completion.id.slot.number) }
                #expect(completion.kind != .inDoubt)
            }
            if (completions[app]?.count ?? 0) > seen { try between(answered) }
            seen = completions[app]?.count ?? 0
            let room = min(waiting.count, max(0, capacity[app, default: 0] - unanswered))
            if room > 0 {
                transports.post(AppIndex(app), .send(waiting.prefix(room).map { request(slot: $0) }))
                waiting.removeFirst(room)
                unanswered += room
            }
            return answered == count
        }
    }

    private func request() -> OutgoingRequest {
        nextSlot += 1
        return request(slot: nextSlot)
    }

    private func request(slot: UInt32) -> OutgoingRequest {
        OutgoingRequest(
            id: NotificationID(slot: NotificationSlot(slot), generation: 1),
            token: bytes(String(format: "%064x", slot)),
            payload: bytes(#"{"aps":{"alert":"Hi"}}"#),
            headers: ParsedRequest.Headers(
                topic: bytes(SimulatorCredentials.bundleID), priority: 10,
                apnsID: NotificationUUID(high: 1, low: UInt64(slot))))
    }

    private func bytes(_ text: String) -> UnsafeRawBufferPointer {
        let text = Lent(text)
        lent.append(text)
        return text.bytes
    }
}

extension AppSettings {
    /// An app that authenticates with a provider token.
    static func withToken(_ name: String = "shop", key: Secret = .text("")) -> AppSettings {
        AppSettings(
            name: name, bundleIDs: ["com.example.\(name)"],
            credential: .token(TokenCredential(key: key, keyID: "KEYKEYKEY1", teamID: "TEAMTEAM12")))
    }

    /// An app that authenticates with a certificate.
    static func withCertificate(
        _ form: CertificateCredential.Form, name: String = "shop", passphrase: Secret? = nil
    ) -> AppSettings {
        AppSettings(
            name: name, bundleIDs: ["com.example.shop"],
            credential: .certificate(CertificateCredential(form: form, passphrase: passphrase)))
    }
}
