import Bytes
import PushRecords

/// The requests of the demo: numbered notifications whose device tokens contain the notification's number. Two runs
/// with the same count produce the same requests.
struct DemoTraffic {
    enum Completion {
        case accepted
        /// The simulator answers the first send with 429, and accepts the second send.
        case retried
        case unregistered
        case rejected
        case invalid
        case expired
        /// The record contains no readable notification, so it becomes a dead letter.
        case deadLetter

        /// The expected outcome in the result (`nil` for a dead letter, which has no result), and the prefix of the
        /// device token, which selects the simulator's answer (`simulate --help`). For tokens that begin with `fa17`,
        /// the simulator gives the answer that the following digits encode.
        var expected: (outcome: Outcome?, tokenPrefix: String) {
            switch self {
            case .accepted: (.accepted, "0")
            case .retried: (.accepted, "fa1742911")
            case .unregistered: (.unregistered, "fa1741010")
            case .rejected: (.rejected, "fa1740010")
            case .invalid: (.invalid, "0")
            case .expired: (.expired, "0")
            case .deadLetter: (nil, "0")
            }
        }
    }

    /// A record of `count` notifications, starting with number `first`. With more than one notification, it is an
    /// envelope.
    struct Record {
        var first: Int
        var count = 1
        var completion = Completion.accepted

        var request: OwnedRecord {
            let payload =
                #"{"aps":{"alert":{"title":"Order \#(first)","body":"Your order is on its way."},"sound":"default"}}"#
            if count > 1 {
                let tokens = (first..<first + count).map { "\"\(DemoTraffic.token($0, completion))\"" }
                return Self.record(
                    nil,
                    "{\"device_tokens\":[\(tokens.joined(separator: ","))],\"headers\":{\"apns-priority\":5},\"payload\":\(payload)}"
                )
            }
            let token = DemoTraffic.token(first, completion)
            switch completion {
            case .accepted, .retried, .unregistered, .rejected: return Self.record(token, payload)
            case .invalid: return Self.record(token, payload, ("apns-priority", "7"))
            case .expired: return Self.record(token, payload, ("apns-expiration", "1600000000"))
            case .deadLetter: return Self.record(nil, "no push at all: \(first)")
            }
        }

        private static func record(_ key: String?, _ value: String, _ headers: (String, String)...) -> OwnedRecord {
            OwnedRecord(
                key: key.map { Array($0.utf8) }, value: Array(value.utf8),
                headers: headers.map { OwnedRecord.Header(Array($0.0.utf8), Array($0.1.utf8)) })
        }
    }

    static let bundleID = "com.example.demo"
    private static let fanOut = 10

    private let count: Int
    private var next = 0
    private var random = SplitMix64(seed: 1)

    init(count: Int) { self.count = count }

    /// Returns the next record to produce, or `nil` at the end.
    mutating func record() -> Record? {
        guard next < count else { return nil }
        var record = Record(first: next)
        // Of 1,000 records, 30 are envelopes of ten notifications (a quarter of all notifications), and 50 are not
        // accepted at the first send.
        let roll = random.below(1_000)
        if roll < 30, next + Self.fanOut <= count { record.count = Self.fanOut }
        switch roll {
        case 950..<965: record.completion = .unregistered
        case 965..<975: record.completion = .rejected
        case 975..<985: record.completion = .retried
        case 985..<990: record.completion = .invalid
        case 990..<995: record.completion = .expired
        case 995...: record.completion = .deadLetter
        default: break
        }
        next += record.count
        return record
    }

    /// Returns a device token of 64 hex digits: the prefix that requests the outcome, zeros, and the number.
    private static func token(_ number: Int, _ completion: Completion) -> String {
        let digits = String(number, radix: 16)
        let start = completion.expected.tokenPrefix
        return start + String(repeating: "0", count: 64 - start.count - digits.count) + digits
    }

    /// Returns the notification's number, which is in the last 12 digits of the token, or `nil` if the token does not
    /// have the 64 digits of the demo's tokens.
    static func number(inToken token: some StringProtocol) -> Int? {
        token.count == 64 ? Int(token.suffix(12), radix: 16) : nil
    }
}
