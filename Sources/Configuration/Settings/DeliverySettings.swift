package import PushRecords

package struct DeliverySettings: Hashable, Sendable {
    package enum Ordering: String, CaseIterable, Sendable {
        /// The worker sends a device's notifications one at a time, in the order of the request partition.
        case device
        case none
    }

    package enum IDSource: String, CaseIterable, Sendable {
        /// The apns-id encodes the request's partition and offset, the notification's index, and a hash of the topic.
        case derived
        case apple
    }

    /// Where to start consuming request topics for which the group has no committed offset. With `fail`, the worker
    /// does not start.
    package enum Start: String, CaseIterable, Sendable { case earliest, latest, fail }

    /// `balanced` collects requests for up to 40 ms and results for up to 50 ms, which needs less CPU at most rates.
    /// `low` sends each notification as soon as its request arrives.
    package enum Latency: String, CaseIterable, Sendable { case balanced, low }

    package enum InDoubt: String, CaseIterable, Sendable { case resend, abandon }

    /// The consequence of an answer from APNs, as named in `verdicts`.
    package enum Verdict: String, CaseIterable, Sendable {
        case accept, unregister, reject, resend, retry
        case credentialFault = "credential_fault"

        /// Whether the worker sends a notification with this verdict again, although APNs has processed the
        /// notification. False for a credential fault, because APNs does not process a notification whose credential it
        /// rejects.
        var repeats: Bool { self == .resend || self == .retry }
    }

    package var start = Start.earliest
    package var ordering = Ordering.device
    package var apnsID = IDSource.derived
    package var responseTimeout = Duration.seconds(30)
    package var inDoubt = InDoubt.resend
    package var resendMax = 5
    /// The maximum age of a request, or `nil` for no limit.
    package var maxAge: Duration? = .seconds(86_400)
    /// How far in the future the `push-not-before` of a request may be when the worker reads the request.
    package var maxAhead = Duration.seconds(7 * 86_400)
    /// The maximum number of notifications in memory.
    package var maxOpen = 20_000
    package var maxOpenBytes = 16 << 20
    package var latency = Latency.balanced
    package var commitInterval = Duration.milliseconds(200)
    /// The verdicts by reason that override the worker's defaults, from `verdicts` and `verdicts_unsafe`.
    package var verdicts: [Reason: Verdict] = [:]
}

extension DeliverySettings {
    mutating func read(_ section: inout Section) {
        section.read("start", into: &start) { $0.choice() }
        section.read("ordering", into: &ordering) { $0.choice() }
        section.read("apns_id", into: &apnsID) { $0.choice() }
        section.read("response_timeout", into: &responseTimeout) {
            $0.duration(.milliseconds(10)...(.seconds(600)))
        }
        section.read("in_doubt", into: &inDoubt) { $0.choice() }
        section.read("resend_max", into: &resendMax) { $0.integer(1...100) }
        section.read("max_age", into: &maxAge) { value in
            value.duration(.seconds(1)...(.seconds(365 * 86_400)), orZero: true).map { $0 == .zero ? nil : $0 }
        }
        section.read("max_ahead", into: &maxAhead) { $0.duration(.seconds(1)...(.seconds(365 * 86_400))) }
        section.read("max_open", into: &maxOpen) { $0.integer(1...1_000_000) }
        section.read("max_open_bytes", into: &maxOpenBytes) { $0.size(64 << 10...64 << 30) }
        section.read("latency", into: &latency) { $0.choice() }
        if latency == .low { commitInterval = .milliseconds(20) }
        section.read("commit_interval", into: &commitInterval) { $0.duration(.milliseconds(1)...(.seconds(60))) }
        section.read("verdicts", into: &verdicts) { Self.verdicts(reading: $0, mayRepeatFinal: false) }
        var unsafeVerdicts: [Reason: Verdict] = [:]
        section.read("verdicts_unsafe", into: &unsafeVerdicts) { Self.verdicts(reading: $0, mayRepeatFinal: true) }
        verdicts.merge(unsafeVerdicts) { $1 }
    }

    /// Reads verdicts by reason. Accepts unknown reasons, which Apple may add, unless one resembles a known reason.
    ///
    /// - Parameter mayRepeatFinal: Whether to allow resending notifications that Apple says not to send again.
    private static func verdicts(reading value: Value, mayRepeatFinal: Bool) -> [Reason: Verdict]? {
        guard let section = value.section() else { return nil }
        let known = ReasonCode.allCases.compactMap { $0.text?.description }
        let final = ReasonCode.allCases.filter(\.isFinal).compactMap { $0.text?.description }
        var verdicts: [Reason: Verdict] = [:]
        for (name, mark, value) in section.pairs {
            if !known.contains(name), let near = nearest(to: name, among: known) {
                value.reading.refuse(value.path, "unknown reason; did you mean \(near)?", at: mark)
            } else if !name.unicodeScalars.allSatisfy({ $0.isASCIIWord || $0 == " " }) || name.isEmpty {
                value.reading.refuse(value.path, "expected one of Apple's reasons, such as Shutdown", at: mark)
            } else if let verdict: Verdict = value.choice() {
                if !mayRepeatFinal, final.contains(name), verdict.repeats {
                    value.reading.refuse(
                        value.path,
                        "Apple says not to send a notification again after this reason; "
                            + "to send it anyway, use delivery.verdicts_unsafe", at: mark)
                    continue
                }
                verdicts[Reason(rawValue: name)] = verdict
            }
        }
        return verdicts
    }
}
