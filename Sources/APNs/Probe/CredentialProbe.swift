internal import Delivery
package import Network
package import PushRecords

/// Sends one request for a device token of zeros, as an app would: what APNs answers proves the credential or names its
/// fault, and no device gets anything.
package enum CredentialProbe {
    package struct Answer: Sendable, Equatable {
        package var status: UInt16
        package var reason: ReasonCode
        /// Apple's word, known or not; `nil`: none came.
        package var text: String?
    }

    /// Runs a loop on the calling thread, so it is not for a thread that has one.
    ///
    /// - Parameter topic: a bundle id of the app's.
    /// - Throws: `ChannelEnd`, whose text names host and cause: no connection, or none that gave an answer.
    package static func run(
        _ configuration: APNsConfiguration, token: ProviderToken?, topic: String, timeoutNs: Int64 = 15_000_000_000
    ) throws(ChannelEnd) -> Answer {
        // Lent to the request, until its completion.
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 + 10 + topic.utf8.count, alignment: 1)
        defer { bytes.deallocate() }
        do {
            let answer = try SingleRequest.send(
                request(topic: topic, in: bytes), configuration, token: token, isPatient: false, timeoutNs: timeoutNs)
            return Answer(
                status: answer.completion.status, reason: answer.completion.reason,
                text: answer.reasonText ?? answer.completion.reason.text?.description)
        } catch {
            let name = "\(configuration.host):\(configuration.port)"
            switch error {
            case .notSent(let reason): throw ChannelEnd(.unreachable, reason ?? "\(name): no connection in time")
            case .lost(let reason): throw ChannelEnd(.lost, "\(name): no answer\(reason.map { ": \($0)" } ?? "")")
            case .unanswered(let reason):
                let time = "within \(timeoutNs / 1_000_000) ms"
                throw ChannelEnd(.lost, "\(name): no answer \(time)\(reason.map { ": \($0)" } ?? "")")
            }
        }
    }

    private static func request(topic: String, in bytes: UnsafeMutableRawBufferPointer) -> OutgoingRequest {
        bytes.copyBytes(from: Array((String(repeating: "0", count: 64) + #"{"aps":{}}"# + topic).utf8))
        func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes)[range])
        }
        return OutgoingRequest(
            id: NotificationID(slot: 0, generation: 0), token: part(0..<64), payload: part(64..<74),
            headers: NotificationHeaders(topic: part(74..<bytes.count), expiration: 0))
    }
}
