/// The faults of every connection of the gateway, as `--gateway-fault` names them. Of two of a kind the last one
/// counts.
package struct GatewayFaults: Sendable {
    /// The faults as they were named.
    package private(set) var names: [String] = []
    /// Error answers are delayed; frames that come meanwhile are discarded.
    private(set) var errorDelayNs: Int64 = 0
    /// Closes without an answer after this number of accepted notifications.
    private(set) var closeAfter = Int.max
    /// Sends status 10 after this number.
    private(set) var shutdownAfter = Int.max
    /// Error answers go out byte by byte.
    private(set) var isSplit = false
    /// The number of bytes that are read a second. 0 reads nothing.
    private(set) var bytesPerSecond = Int.max

    /// Between two bytes of a split answer.
    static let splitPauseNs: Int64 = 20_000_000

    /// Names and effects, in the order of the help.
    static let all: [(name: String, help: String)] = [
        ("error-delay=TIME", "error answers come so much later (200ms); what comes meanwhile is discarded"),
        ("close@N", "closes without a word after every N accepted notifications of a connection"),
        ("shutdown@N", "status 10 after N of a connection, which names the last one accepted"),
        ("split", "error answers go out byte by byte, with pauses"),
        ("slow", "reads 32 KiB a second; slow=N: N bytes"),
        ("silent", "reads nothing at all"),
    ]

    package init() {}

    /// Throws one line that says what is wrong with a name.
    package init(_ names: [String]) throws(SimulatorError) { for name in names { try add(name) } }

    /// Adds a fault by name. Throws one line that says what is wrong.
    package mutating func add(_ name: String) throws(SimulatorError) {
        let kind = name.prefix { $0 != "=" && $0 != "@" }
        let value = name.dropFirst(kind.count + 1)
        func number() throws(SimulatorError) -> Int {
            if let number = Int(value), number > 0 { return number }
            throw SimulatorError("gateway fault '\(name)': '\(value)' is no number above 0")
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
            throw SimulatorError("gateway fault '\(name)': there is no such fault, only \(known)")
        }
        names.append(name)
    }
}
