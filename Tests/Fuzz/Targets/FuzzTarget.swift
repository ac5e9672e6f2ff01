import PushRecords

/// An entry point for external bytes. It must not trap, read beyond the bytes, or violate a rule that `require` checks.
package struct FuzzTarget: CustomStringConvertible, Sendable {
    package let name: String
    package let run: @Sendable (UnsafeRawBufferPointer) -> Void

    package var description: String { name }

    private init(_ name: String, _ run: @escaping @Sendable (UnsafeRawBufferPointer) -> Void) {
        self.name = name
        self.run = run
    }

    package static let all = [
        // A record of a request topic, in the form of `Pieces.record`.
        FuzzTarget("request") { fuzzRecord($0, role: .request) },
        // The value of an envelope.
        FuzzTarget("envelope", fuzzEnvelope),
        // A record of a retry topic, in the form of `request`.
        FuzzTarget("retry") { fuzzRecord($0, role: .retry) },
        // Commit metadata: the committed offset, then the bytes before and after base64url.
        FuzzTarget("commit-map", fuzzCommitMap),
        // A commit map that is built from the bytes, written and read back.
        FuzzTarget("commit-map-writer", fuzzCommitMapWriter),
        FuzzTarget("base64url", fuzzBase64URL), FuzzTarget("result", fuzzResult),
        FuzzTarget("dead-token", fuzzDeadToken),
        // A record in the form of `request`.
        FuzzTarget("dead-letter", fuzzDeadLetter),
        // Frames of APNs, after a byte for the size of the chunks in which they arrive.
        FuzzTarget("http2-client", fuzzHTTP2Client),
        // Frames of a client of the simulator, after a byte as in `http2-client`.
        FuzzTarget("http2-server", fuzzHTTP2Server),
        FuzzTarget("error-body", fuzzErrorBody), FuzzTarget("proxy", fuzzProxy), FuzzTarget("yaml", fuzzYAML),
        FuzzTarget("configuration", fuzzConfiguration),
        // A duration in one line and a size in the next, as values of a configuration.
        FuzzTarget("quantity", fuzzQuantity),
        // A time in eight bytes.
        FuzzTarget("timestamp", fuzzTimestamp), FuzzTarget("json", fuzzJSON),
        // `DeliveryMachine`: a byte for each event of Kafka, APNs or the clock, and its details.
        FuzzTarget("machine", fuzzMachine),
    ]
}

/// Ends the process with the text of the rule if the rule does not hold, in every build.
func require(_ holds: Bool, _ rule: @autoclosure () -> String) {
    if !holds { fatalError(rule()) }
}
