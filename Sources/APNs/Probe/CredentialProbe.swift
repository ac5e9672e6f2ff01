package import Network
internal import PushRecords
internal import PushTransport

/// Sends requests for a device token of zeros with an app's credential. The answer shows whether the credential is
/// valid for a topic, or what is wrong. No device receives anything.
package enum CredentialProbe {
    private static let timeoutNs: Int64 = 15_000_000_000

    /// Sends one request for each topic, one at a time. Usually all use one connection, because Apple treats frequent
    /// reconnects as an attack. If the connection ends after an answer, the unanswered request is sent once more over
    /// the next connection.
    ///
    /// - Parameter take: receives each answer, or the reason why there is none, with host and cause. Returns `false` to
    ///   stop.
    package static func run(
        _ configuration: APNsConfiguration, token: ProviderToken?, topics: [String],
        take: (_ topic: String, Result<Exchange.Answer, ChannelEnd>) -> Bool
    ) {
        let lent = LentBytes()
        let deviceToken = lent.lend(String(repeating: "0", count: 64).utf8)
        let payload = lent.lend(#"{"aps":{}}"#.utf8)
        defer { withExtendedLifetime(lent) {} }
        let exchange: Exchange
        do throws(Exchange.Failure) {
            exchange = try Exchange(configuration, token: token)
        } catch {
            if let first = topics.first { _ = take(first, .failure(end(error, of: configuration))) }
            return
        }
        defer { exchange.close() }
        var number: UInt32 = 0
        for topic in topics {
            let headers = ParsedRequest.Headers(topic: lent.lend(topic.utf8), expiration: 0)
            func send() -> Result<Exchange.Answer, Exchange.Failure> {
                number += 1
                let request = OutgoingRequest(
                    id: NotificationID(number: number, generation: 0), token: deviceToken, payload: payload,
                    headers: headers)
                return Result { () throws(Exchange.Failure) in
                    try exchange.send(request, isPatient: false, timeoutNs: timeoutNs)
                }
            }
            var result = send()
            if case .failure(.lost) = result, topic != topics.first { result = send() }
            guard take(topic, result.mapError { end($0, of: configuration) }) else { return }
        }
    }

    private static func end(_ failure: Exchange.Failure, of configuration: APNsConfiguration) -> ChannelEnd {
        let name = DialTarget.text(configuration.host, configuration.port)
        switch failure {
        case .notSent(let reason): return ChannelEnd(reason ?? "\(name): no connection in time")
        case .lost(let reason): return ChannelEnd("\(name): no answer\(reason.map { ": \($0)" } ?? "")")
        case .unanswered(let reason):
            let time = "within \(timeoutNs / 1_000_000) ms"
            return ChannelEnd("\(name): no answer \(time)\(reason.map { ": \($0)" } ?? "")")
        }
    }
}
