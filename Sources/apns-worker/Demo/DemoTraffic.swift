import Bytes
import PushRecords

/// What the demo's producer writes: notifications by number, each with a device token that holds its number, and what
/// is to become of each. The same count makes the same traffic.
struct DemoTraffic {
    /// What becomes of a notification.
    enum Completion: UInt8, CaseIterable {
        case accepted
        /// 429 at first, accepted at the second try.
        case retried
        case unregistered
        case rejected
        /// A priority that Apple does not know.
        case invalid
        case expired
        /// A record from which no notification can be read.
        case deadLetter

        /// What its result has to say; `nil`: it has none but a dead letter.
        var outcome: Outcome? {
            switch self {
            case .accepted, .retried: .accepted
            case .unregistered: .unregistered
            case .rejected: .rejected
            case .invalid: .invalid
            case .expired: .expired
            case .deadLetter: nil
            }
        }

        /// What a device token begins with, to ask the simulator for it (`simulate --help`); `nil`: anything.
        var tokenPrefix: String? {
            switch self {
            case .accepted, .invalid, .expired, .deadLetter: nil
            case .retried: "fa1742911"
            case .unregistered: "fa1741010"
            case .rejected: "fa1740010"
            }
        }
    }

    /// One record: the notifications from `first` on.
    struct Record {
        var first: Int
        /// More than one: an envelope with a list of device tokens.
        var count: Int
        var completion: Completion
    }

    static let bundleID = "com.example.demo"
    private static let fanOut = 10

    let count: Int
    private var next = 0
    private var random = SplitMix64(seed: 1)

    init(count: Int) {
        self.count = count
    }

    /// The next record; `nil`: all are made.
    mutating func record() -> Record? {
        guard next < count else { return nil }
        let first = next
        // Of 1,000 records: 30 envelopes of ten (a quarter of all notifications), 50 that are not simply accepted.
        let roll = random.below(1_000)
        if roll < 30, first + Self.fanOut <= count {
            next += Self.fanOut
            return Record(first: first, count: Self.fanOut, completion: .accepted)
        }
        next += 1
        let completion: Completion =
            switch roll {
            case 950..<965: .unregistered
            case 965..<975: .rejected
            case 975..<985: .retried
            case 985..<990: .invalid
            case 990..<995: .expired
            case 995...: .deadLetter
            default: .accepted
            }
        return Record(first: first, count: 1, completion: completion)
    }

    /// 64 hex digits: what the simulator is asked for, filler, the number.
    static func token(_ number: Int, _ completion: Completion) -> String {
        var random = SplitMix64(seed: UInt64(number))
        // A token that asks for nothing must not begin with `fa17`.
        let start = completion.tokenPrefix ?? "0"
        let filler = (0..<4).map { _ in hexDigits(random.next(), 16) }.joined()
        return start + filler.prefix(52 - start.count) + hexDigits(UInt64(number), 12)
    }

    /// The number in a token; `nil`: it is none of ours.
    static func number(inToken token: some StringProtocol) -> Int? {
        token.count == 64 ? Int(token.suffix(12), radix: 16) : nil
    }

    /// The value of a record that nobody can read.
    static func unreadableValue(_ number: Int) -> String { "no push at all: \(number)" }

    static func number(inUnreadableValue text: some StringProtocol) -> Int? {
        text.lastIndex(of: " ").flatMap { Int(text[text.index(after: $0)...]) }
    }

    static func payload(_ number: Int) -> String {
        "{\"aps\":{\"alert\":{\"title\":\"Order \(number)\",\"body\":\"Your order is on its way.\"},\"sound\":\"default\"}}"
    }
}

private func hexDigits(_ number: UInt64, _ digits: Int) -> String {
    let text = String(number, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text.suffix(digits)
}
