import Network
import TLS

@testable import APNsSimulator

/// Encodes frames of the binary protocol, independently of the worker's encoder.
enum Wire {
    static func number(_ value: Int, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: value >> ((size - 1 - $0) * 8)) }
    }

    static func sized(_ bytes: [UInt8]) -> [UInt8] { number(bytes.count, 2) + bytes }

    static func simple(_ token: [UInt8], _ payload: String = body) -> [UInt8] {
        [0] + sized(token) + sized(Array(payload.utf8))
    }

    static func enhanced(_ identifier: Int, _ token: [UInt8], _ payload: String = body, expiry: Int = 0) -> [UInt8] {
        [1] + number(identifier, 4) + number(expiry, 4) + sized(token) + sized(Array(payload.utf8))
    }

    static func item(_ id: UInt8, _ data: [UInt8]) -> [UInt8] { [id] + sized(data) }

    static func framed(_ items: [UInt8]) -> [UInt8] { [2] + number(items.count, 4) + items }

    /// Command 2 with all five items.
    static func frame(_ identifier: Int, _ token: [UInt8], _ payload: String = body, priority: UInt8 = 10) -> [UInt8] {
        framed(
            item(1, token) + item(2, Array(payload.utf8)) + item(3, number(identifier, 4)) + item(4, number(0, 4))
                + item(5, [priority]))
    }

    static func error(_ status: UInt8, _ identifier: Int) -> [UInt8] { [8, status] + number(identifier, 4) }

    static let body = #"{"aps":{"alert":"Hi"}}"#
}

/// The bytes of a token of 64 digits that consists of `prefix`, zeros and `number`.
func tokenBytes(_ prefix: String, _ number: Int = 0) -> [UInt8] {
    let digits = token(prefix, number).utf8.map { hexDigit($0)! }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

/// A client that sends and receives bytes.
final class RawClient: Client {
    private var unsent: [UInt8] = []
    private var sentCount = 0
    private(set) var received: [UInt8] = []
    var isReading = true { didSet { isReading ? channel?.resumeReading() : channel?.pauseReading() } }

    init(_ simulator: Simulator, port: UInt16?, hasCertificate: Bool = true) throws {
        let credentials = simulator.credentials
        let identity =
            hasCertificate
            ? try Identity(certificatePEM: credentials.clientCertificatePEM, keyPEM: credentials.clientKeyPEM) : nil
        try super.init(simulator, port: port, identity: identity, alpn: [])
    }

    func open() -> Bool { run { isOpen || end != nil } && isOpen }

    /// Waits for the end of the connection. Returns the bytes received before it, or `nil` if it did not end.
    func receivedAtEnd() -> [UInt8]? { run { end != nil } ? received : nil }

    func send(_ bytes: [UInt8]) {
        unsent = Array(unsent[sentCount...]) + bytes
        sentCount = 0
        flush()
    }

    /// Whether the kernel has accepted all bytes.
    var isSent: Bool { sentCount == unsent.count && channel?.writtenBytes == channel?.sentBytes }

    override func flush() {
        guard let channel else { return }
        while sentCount < unsent.count {
            let taken = unsent[sentCount...].withUnsafeBytes { channel.send($0) }
            if taken == 0 { return }
            sentCount += taken
        }
        channel.flush()
    }

    override func receive(_ bytes: UnsafeRawBufferPointer) { received += bytes }
}

extension Simulator {
    /// A simulator with a gateway and a feedback service.
    static func withGateway(change: (inout SimulatorOptions) throws -> Void = { _ in }) throws -> Simulator {
        try with {
            ($0.controlPort, $0.gatewayPort, $0.feedbackPort) = (nil, 0, 0)
            try change(&$0)
        }
    }

    /// A simulator with a gateway and a feedback service, and a client of the gateway.
    static func gatewayAndClient(_ faults: [String] = []) throws -> (Simulator, RawClient) {
        let simulator = try withGateway { $0.gatewayFaults = try GatewayFaults(faults) }
        return (simulator, try simulator.gatewayClient())
    }

    func gatewayClient() throws -> RawClient { try RawClient(self, port: gatewayPort) }
    func feedbackClient() throws -> RawClient { try RawClient(self, port: feedbackPort) }
}
