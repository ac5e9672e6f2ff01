/// A fault of every connection of the gateway, as `--gateway-fault` names it.
package enum GatewayFault: Hashable, Sendable {
    /// Error answers are delayed; frames that come meanwhile are discarded.
    case errorDelay(ns: Int64)
    /// Closes without an answer after this number of accepted notifications.
    case close(after: Int)
    /// Sends status 10 after this number.
    case shutdown(after: Int)
    /// Error answers go out byte by byte.
    case split
    /// Reads this number of bytes a second.
    case slow(bytesPerSecond: Int)
    /// Reads nothing.
    case silent

    /// Names and effects, in the order of the help.
    static let all: [(name: String, help: String)] = [
        ("error-delay=TIME", "error answers come so much later (200ms); what comes meanwhile is discarded"),
        ("close@N", "closes without a word after every N accepted notifications of a connection"),
        ("shutdown@N", "status 10 after N of a connection, which names the last one accepted"),
        ("split", "error answers go out byte by byte, with pauses"),
        ("slow", "reads 32 KiB a second; slow=N: N bytes"),
        ("silent", "reads nothing at all"),
    ]

    /// Throws one line that says what is wrong.
    package init(text: String) throws(SimulatorError) {
        switch text {
        case "split": self = .split
        case "slow": self = .slow(bytesPerSecond: GatewayManner.slowBytesPerSecond)
        case "silent": self = .silent
        default: self = try Self.measured(text)
        }
    }

    /// As `init(text:)` takes it.
    var text: String {
        switch self {
        case .errorDelay(let ns): "error-delay=\(ns / 1_000_000)ms"
        case .close(let count): "close@\(count)"
        case .shutdown(let count): "shutdown@\(count)"
        case .split: "split"
        case .slow(let count): "slow=\(count)"
        case .silent: "silent"
        }
    }

    private static func measured(_ text: String) throws(SimulatorError) -> GatewayFault {
        if text.hasPrefix("error-delay=") {
            guard let ns = durationNs(text.dropFirst("error-delay=".count)) else {
                throw SimulatorError("gateway fault '\(text)': write a time such as error-delay=200ms")
            }
            return .errorDelay(ns: ns)
        }
        if text.hasPrefix("slow=") {
            guard let count = Int(text.dropFirst("slow=".count)), count > 0 else {
                throw SimulatorError("gateway fault '\(text)': write bytes a second such as slow=1000")
            }
            return .slow(bytesPerSecond: count)
        }
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0] == "close" || parts[0] == "shutdown" else {
            let names = all.map(\.name).joined(separator: ", ")
            throw SimulatorError("gateway fault '\(text)': there is no such fault, only \(names)")
        }
        guard let count = Int(parts[1]), count > 0 else {
            throw SimulatorError("gateway fault '\(text)': '\(parts[1])' is no number of notifications")
        }
        return parts[0] == "close" ? .close(after: count) : .shutdown(after: count)
    }
}

/// The combined faults of a gateway. Of two of a kind the last one counts.
struct GatewayManner: Sendable {
    var errorDelayNs: Int64 = 0
    var closeAfter = Int.max
    var shutdownAfter = Int.max
    var isSplit = false
    var reading = Reading.fast

    enum Reading: Sendable, Equatable {
        case fast
        case slow(bytesPerSecond: Int)
        case never
    }

    static let slowBytesPerSecond = 32 * 1024
    /// Between two bytes of a split answer.
    static let splitPauseNs: Int64 = 20_000_000

    init(_ faults: [GatewayFault] = []) {
        for fault in faults {
            switch fault {
            case .errorDelay(let ns): errorDelayNs = ns
            case .close(let count): closeAfter = count
            case .shutdown(let count): shutdownAfter = count
            case .split: isSplit = true
            case .slow(let count): reading = .slow(bytesPerSecond: count)
            case .silent: reading = .never
            }
        }
    }
}
