package import PushTransport

/// One request over a connection of its own, without Kafka and without a worker.
///
/// Runs a loop on the calling thread, so it is not for a thread that has one.
package enum SingleRequest {
    package typealias Answer = Exchange.Answer
    package typealias Failure = Exchange.Failure

    /// - Parameters:
    ///   - request: its bytes stay until this returns.
    ///   - isPatient, onDelay: as of `Exchange.send`.
    package static func send(
        _ request: OutgoingRequest, _ configuration: APNsConfiguration, token: ProviderToken?, isPatient: Bool,
        timeoutNs: Int64, onDelay: (Exchange.Delay) -> Void = { _ in }
    ) throws(Failure) -> Answer {
        let exchange = try Exchange(configuration, token: token)
        defer { exchange.close() }
        return try exchange.send(request, isPatient: isPatient, timeoutNs: timeoutNs, onDelay: onDelay)
    }
}
