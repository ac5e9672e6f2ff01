/// The faults of every gateway connection, as set by `--gateway-fault` or the control endpoint. If two faults set the
/// same property, the later one applies.
package struct GatewayFaults: Sendable {
    /// The names of the faults, as the user gave them.
    package private(set) var names: [String] = []
    /// The delay of error answers. The gateway discards frames that arrive during the delay.
    private(set) var errorDelayNs: Int64 = 0
    /// The number of accepted notifications after which the gateway closes the connection without an answer.
    private(set) var closeAfter = Int.max
    /// The number of accepted notifications after which the gateway sends status 10.
    private(set) var shutdownAfter = Int.max
    /// Whether the gateway sends error answers byte by byte.
    private(set) var isSplit = false
    /// The number of bytes that the gateway reads from each connection per second. With 0 it reads nothing.
    private(set) var bytesPerSecond = Int.max

    /// The pause between two bytes of a split answer.
    static let splitPauseNs: Int64 = 20_000_000

    /// The names and effects of all gateway faults, in the order of the help.
    static let all: [(name: String, help: String)] = [
        ("error-delay=TIME", "delays error answers (error-delay=200ms); frames received meanwhile are discarded"),
        ("close@N", "closes without an answer after N accepted notifications of a connection"),
        ("shutdown@N", "sends status 10, which names the last notification, after N accepted notifications"),
        ("split", "sends error answers byte by byte, with pauses"),
        ("slow", "reads 32 KiB a second; slow=N reads N bytes a second"),
        ("silent", "reads nothing"),
    ]

    package init() {}

    /// Parses fault names. Throws a one-line error that contains the invalid name.
    package init(_ names: [String]) throws(SimulatorError) { for name in names { try add(name) } }

    /// Adds a fault by name. Throws a one-line error if the name is invalid.
    package mutating func add(_ name: String) throws(SimulatorError) {
        let kind = name.prefix { $0 != "=" && $0 != "@" }
        let value = name.dropFirst(kind.count + 1)
        func number() throws(SimulatorError) -> Int {
            if let number = Int(value), number > 0 { return number }
            throw SimulatorError("gateway fault '\(name)': '\(value)' is not a number above 0")
        }
        switch name.dropLast(value.count) {
        case "split": isSplit = true
        case "slow": bytesPerSecond = 32 * 1024
        case "silent": bytesPerSecond = 0
        case "slow=": bytesPerSecond = try number()
        case "close@": closeAfter = try number()
        case "shutdown@": shutdownAfter = try number()
        case "error-delay=":
            guard let ns = durationNs(value) else {
                throw SimulatorError("gateway fault '\(name)': write a time such as error-delay=200ms")
            }
            errorDelayNs = ns
        default:
            let known = Self.all.map(\.name).joined(separator: ", ")
            throw SimulatorError("gateway fault '\(name)': there is no such fault; use one of \(known)")
        }
        names.append(name)
    }
}
