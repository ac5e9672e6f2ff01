import Delivery
import EventLoop
import PushRecords
import PushTransport
import TestSupport
import Testing

@testable import APNs

/// A loop with the events of its transport and the requests that a test sends. `World` and `GatewayWorld` add the
/// transport and its server.
class TransportScene {
    let loop: Loop
    /// The simulated time, or `nil` if real time is used.
    let time: TestTime?
    private(set) var completions: [Completion] = []
    private(set) var completionOf: [UInt32: Completion] = [:]
    private(set) var capacity = 0
    private(set) var connections = ConnectionCounts()
    private(set) var capacities: [Int] = []
    private(set) var notes: [TransportNote] = []
    private(set) var isClosed = false
    private(set) var reachable: [Bool] = []
    private(set) var unanswered: [Unanswered?] = []
    private(set) var refusals: [ReasonCode] = []
    /// The text of each completion, resolved at once.
    private(set) var reasonText: [UInt32: String] = [:]
    private(set) var uniqueID: [UInt32: String] = [:]
    private var lent: [Lent] = []

    init(_ loop: Loop, _ time: TestTime?) {
        self.loop = loop
        self.time = time
    }

    /// Whether this completion must be the notification's last one.
    func isFinal(_ completion: Completion) -> Bool { true }

    func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .completions(let batch):
                for completion in batch.completions {
                    let number = completion.id.slot.number
                    completions.append(completion)
                    guard isFinal(completion) else { continue }
                    #expect(completionOf[number] == nil, "Notification \(number) has two final completions")
                    completionOf[number] = completion
                    if completion.reasonText >= 0 { reasonText[number] = batch.texts[Int(completion.reasonText)] }
                    if completion.uniqueIDText >= 0 { uniqueID[number] = batch.texts[Int(completion.uniqueIDText)] }
                }
            case .capacity(_, let requests):
                capacity = requests
                capacities.append(requests)
            case .credentialRefused(_, let reason):
                #expect(
                    !events.prefix(while: { if case .credentialRefused = $0 { false } else { true } }).contains {
                        if case .completions = $0 { true } else { false }
                    })
                refusals.append(reason)
            case .connections(_, let counts): connections = counts
            case .unanswered(_, let how): unanswered.append(how)
            case .reachable(_, let isReachable): reachable.append(isReachable)
            case .note(_, let note): notes.append(note)
            case .closed: isClosed = true
            }
        }
    }

    /// Runs turns until `condition` is true, or records an issue after the time limit.
    func run(
        _ what: String = "", seconds: Double = 60, sourceLocation: SourceLocation = #_sourceLocation,
        until condition: () -> Bool
    ) {
        let deadlineNs = loop.clock().monotonicNs + Int64(seconds * 1e9)
        while !condition() {
            if loop.clock().monotonicNs > deadlineNs {
                Issue.record("This did not happen within \(seconds) s: \(what)", sourceLocation: sourceLocation)
                return
            }
            turn(limitNs: deadlineNs)
        }
    }

    /// Runs turns for a while, to show that something does not happen.
    func runFor(seconds: Double) {
        let deadlineNs = loop.clock().monotonicNs + Int64(seconds * 1e9)
        while loop.clock().monotonicNs < deadlineNs { turn(limitNs: deadlineNs) }
    }

    func turn(limitNs: Int64) {
        if let time { time.turn(limitNs: limitNs) } else { loop.runOnce(timeoutNs: 5_000_000) }
    }

    /// Returns bytes that stay valid as long as the scene.
    func bytes(_ text: String) -> UnsafeRawBufferPointer {
        let bytes = Lent(text)
        lent.append(bytes)
        return bytes.bytes
    }

    /// Passes a command to the transport.
    func handle(_ command: TransportCommand) { preconditionFailure("A subclass must override handle(_:)") }

    func request(_ number: UInt32) -> OutgoingRequest { preconditionFailure("A subclass must override request(_:)") }

    func sendSuspects(_ numbers: some Sequence<UInt32>) {
        let requests = numbers.map { number in
            var suspect = request(number)
            suspect.isSuspect = true
            return suspect
        }
        handle(.send(requests))
    }

    func recall(_ numbers: some Sequence<UInt32>) {
        handle(.recall(numbers.map { NotificationID(slot: NotificationSlot($0), generation: 3) }))
    }

    func close() {
        handle(.close)
        run("closed") { isClosed }
    }

    func request(_ number: UInt32, token: String, payload: String) -> OutgoingRequest {
        OutgoingRequest(
            id: NotificationID(slot: NotificationSlot(number), generation: 3), token: bytes(token),
            payload: bytes(payload), headers: ParsedRequest.Headers(topic: bytes("com.example.shop")))
    }

    /// Waits until each of these notifications has its final completion.
    func awaitCompletions(_ numbers: Range<UInt32>, sourceLocation: SourceLocation) {
        run("completions of \(numbers)", sourceLocation: sourceLocation) {
            numbers.allSatisfy { completionOf[$0] != nil }
        }
    }

    /// Whether the text of a single note contains all of these words.
    func noted(_ words: String...) -> Bool {
        notes.contains { note in words.allSatisfy { "\(note)".contains($0) } }
    }

    /// Returns the number of notes of this case.
    func notes(of kind: String) -> Int { notes.count { "\($0)".hasPrefix(kind) } }

    /// Lets a notification without a final outcome be sent again.
    func forgetCompletion(_ number: UInt32) {
        completionOf[number] = nil
        completions.removeAll { $0.id.slot.number == number }
    }
}
